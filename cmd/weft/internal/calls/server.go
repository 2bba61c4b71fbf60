package calls

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/planning"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/comm/mpi"
	"weft/graph"
	"weft/internal/refusal"
	"weft/tensor/offload"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// server is the program's side of the socket.
type server struct {
	cmd     *cobra.Command
	ranks   cli.Ranks   // the processes of a launcher that have joined; before that, this process alone
	joined  atomic.Bool // whether processes have joined
	show    io.Writer   // progress
	nets    int         // how many models the processes have opened together
	models  map[int]*model
	last    *model // the model of the last forward pass, if it is open
	memory  map[int][]byte
	divided map[int]*divided
	before  map[int]*assignment // the last one of a graph in memory, by the number of parts
}

// serve answers requests until the process closes its end. The program then ends, whatever it is doing: what
// it has belongs to the process. If it has joined other processes and not left them, a launcher ends these.
func serve(cmd *cobra.Command, c *net.UnixConn) error {
	s := &server{
		cmd: cmd, ranks: cli.Alone(), show: cmd.ErrOrStderr(),
		models: map[int]*model{}, memory: map[int][]byte{}, divided: map[int]*divided{},
		before: map[int]*assignment{},
	}
	requests := make(chan request)
	go func() {
		for {
			r, err := receive(c)
			if err != nil {
				if errors.Is(err, io.EOF) && !s.joined.Load() {
					os.Exit(cli.ExitDone)
				}
				cli.SayError(os.Stderr, err)
				os.Exit(cli.ExitFailed)
			}
			requests <- r
		}
	}()
	for r := range requests {
		if err := send(c, s.reply(cmd.Context(), &r)); err != nil {
			return err
		}
	}
	return nil
}

// reply is the answer to a request, or says why there is none.
func (s *server) reply(ctx context.Context, r *request) answer {
	a, err := s.answer(ctx, r)
	switch {
	case err == nil:
	case refusal.Is(err):
		a = answer{Refused: ui.OneLine(err)}
	default:
		a = answer{Failed: ui.OneLine(err)}
	}
	a.ID = r.ID
	return a
}

// join joins the processes of the launcher that has started this one, if the mesh is one of several workers,
// and begins their call, which opens a model. It refuses modules and settings that differ.
func (s *server) join(o *setting.Resolved, r *openRequest) error {
	if o.Workers == 1 || mpi.Launched() && mpi.Ranks() == 1 {
		return nil
	}
	if !s.joined.Load() {
		ranks, err := cli.Connect(s.cmd, o, "", nil)
		if ranks.Comm.Size() > 1 { // this happens only once, even if the mesh is refused
			s.ranks, s.show = ranks, s.cmd.ErrOrStderr()
			s.joined.Store(true)
		}
		if err != nil {
			return err
		}
	}
	s.ranks.Comm.SetTimeout(o.CommTimeout)
	call := launch.Call{Says: r.Call, Unlike: "compiles otherwise than rank 0: all processes compile the same " +
		"modules, with the same settings, in the same order"}
	settings := o.Texts()
	settings["apart"] = fmt.Sprint(r.Apart)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		called := "--" + name
		switch name {
		case "init", "threads", "memory-limit": // each process has its own
			continue
		case "program":
			called = "module"
		case "apart":
			called = "data"
		}
		sum := crc32.ChecksumIEEE([]byte(settings[name]))
		call.Alike = append(call.Alike, launch.Alike{Name: called, Sum: sum})
	}
	if r.Graph != nil {
		name, err := s.nameOf(r.Graph)
		if err != nil {
			return s.ranks.Begin(&call, err)
		}
		call.Says += name
	}
	err := s.ranks.Begin(&call, nil)
	if err == nil {
		s.nets++
	}
	return err
}

// joinOthers joins the processes with which models without a graph will be opened, and tells the number of
// this one.
func (s *server) joinOthers(_ context.Context, r *openRequest) (a answer, err error) {
	resolved, _, warnings, err := resolve(&r.checkRequest, nil)
	if err != nil {
		return a, s.refuse(r.Call, r.Arguments, err)
	}
	if err := s.join(resolved, r); err != nil {
		return a, err
	}
	a = answer{Warnings: warnings, Processes: 1, Groups: resolved.SampleGroups}
	if resolved.Workers > 1 && s.ranks.Comm.Size() > 1 {
		a.Process, a.Processes = s.ranks.Rank(), s.ranks.Comm.Size()
		a.Group = a.Process / resolved.Mesh.Workers()
	}
	return a, nil
}

// refuse returns why this process does not make a call that opens a model. Processes that have joined, and
// make the call together, refuse it by the same line.
func (s *server) refuse(call string, arguments []string, err error) error {
	divides := func(word string) bool { return strings.HasPrefix(word, "--parallel") }
	if !s.joined.Load() || !slices.ContainsFunc(arguments, divides) {
		return err
	}
	return s.ranks.Begin(&launch.Call{Says: call}, err)
}

// leave takes leave of the processes that have joined, however long they are at work. Until all leave, it
// refuses their calls.
func (s *server) leave(*struct{}) (err error) {
	for number, m := range s.models {
		err = errors.Join(err, m.close())
		delete(s.models, number)
	}
	s.ranks.Comm.SetTimeout(0)
	end := launch.Call{Says: "nothing more, as its Python ends"}
	unlike := s.ranks.Begin(&end, nil)
	for errors.As(unlike, new(*launch.Common)) {
		unlike = s.ranks.Begin(&end, nil)
	}
	err = s.ranks.End(errors.Join(err, unlike), func(error) {})
	s.joined.Store(false)
	return err
}

// handler answers requests of an ask, whose own struct it decodes.
type handler func(ctx context.Context, s *server, r *request) (answer, error)

// handlers are the handlers by ask.
var handlers = map[string]handler{
	"check":    done((*server).check),
	"join":     decoded((*server).joinOthers),
	"open":     decoded((*server).open),
	"refuse":   done((*server).refuseReason),
	"plan":     decoded((*server).plan),
	"map":      mapFile,
	"unmap":    done((*server).unmap),
	"leave":    done((*server).leave),
	"forward":  ofModel((*server).forward),
	"backward": collective((*server).backward),
	"vertices": collective((*server).vertices),
	"edges":    collective((*server).edgesInto),
	"sum":      collective((*server).sum),
	"first":    collective((*server).first),
	"fetch":    exchange((*model).FetchRows),
	"return":   exchange((*model).ReturnRows),
	"usage":    ofModel((*server).usage),
	"trace":    ofModel((*server).trace),
	"close":    ofModel((*server).close),
}

// decoded handles requests that are R.
func decoded[R any](do func(*server, context.Context, *R) (answer, error)) handler {
	return func(ctx context.Context, s *server, r *request) (a answer, err error) {
		var own R
		if err := json.Unmarshal(r.text, &own); err != nil {
			return a, err
		}
		return do(s, ctx, &own)
	}
}

// done handles requests to which the answer says nothing.
func done[R any](do func(*server, *R) error) handler {
	return decoded(func(s *server, _ context.Context, r *R) (a answer, err error) { return a, do(s, r) })
}

// ofModel handles requests of a model.
func ofModel[R any](do func(*server, *model, *R) (answer, error)) handler {
	return func(ctx context.Context, s *server, r *request) (a answer, err error) {
		var which modelRequest
		if err := json.Unmarshal(r.text, &which); err != nil {
			return a, err
		}
		m := s.models[which.Model]
		if m == nil {
			return a, refusal.Errorf("there is no model %d", which.Model)
		}
		s.ranks.Comm.SetTimeout(m.opened.Job.Options.CommTimeout)
		own := func(s *server, _ context.Context, r *R) (answer, error) { return do(s, m, r) }
		return decoded(own)(ctx, s, r)
	}
}

// answer does what the request asks.
func (s *server) answer(ctx context.Context, r *request) (answer, error) {
	for _, dropped := range r.Drop {
		if m := s.models[dropped[0]]; m != nil {
			_ = m.Drop(dropped[1]) // if it fails, the model's next request says so
		}
	}
	handle := handlers[r.Ask]
	if handle == nil {
		handle = ofModel(func(*server, *model, *modelRequest) (a answer, err error) {
			return a, refusal.Errorf("%q is no request", r.Ask)
		})
	}
	return handle(ctx, s, r)
}

// check refuses settings that make no sense.
func (s *server) check(r *checkRequest) error {
	_, operands, _, err := resolve(r, nil)
	if err == nil && len(operands) > 0 {
		err = oneGraph(operands)
	}
	return err
}

// oneGraph refuses operands that are not those of one graph.
func oneGraph(operands []string) error {
	if len(operands) == 1 {
		return nil
	}
	return refusal.Errorf("a model is of one graph, not of %d", len(operands))
}

// refuseReason tells the other processes why this one opens no model.
func (s *server) refuseReason(r *refuseRequest) error {
	return s.refuse(r.Call, r.Arguments, refusal.Errorf("%s", r.Reason))
}

// unmap ends a memory.
func (s *server) unmap(r *unmapRequest) error {
	mapped := s.memory[r.Memory]
	delete(s.memory, r.Memory)
	return unix.Munmap(mapped)
}

// settings are the settings of weft train with which a model is opened.
var settings = []string{
	"program", "init", "seed", "device", "threads", "recompute", "keep-edge-states", "precision",
	"parallel", "aggregation-order", "comm-timeout", "partitions", "partition", "balance", "prefetch",
	"keep-halo", "halo", "aggregation-chunks", "chunks", "chunk-method", "offload", "memory-limit",
}

// asked is what a request asks to open.
type asked struct {
	settings *setting.Resolved
	memory   *netMemory
	operands []string // the graph, where none stands in memory
	warnings []string // about settings
}

// asked reads the settings of a request, or takes those of a model that is open.
func (s *server) asked(r *openRequest) (a asked, err error) {
	if r.Like != 0 {
		m := s.models[r.Like]
		if m == nil || r.Graph == nil {
			return a, refusal.Errorf("a model like %d: there is no such model, or no graph comes with the request", r.Like)
		}
		alike := *m.settings
		alike.Init = "" // its file may be gone, and passes bring their values
		return asked{settings: &alike, memory: m.memory}, nil
	}
	a.memory = &netMemory{}
	a.settings, a.operands, a.warnings, err = resolve(&r.checkRequest, nil)
	if err == nil && r.Graph == nil {
		err = oneGraph(a.operands)
	}
	return a, err
}

// resolve reads the words of a model's command line: its settings, and its operands, which name the graph,
// or, if counts is not nil, the counts of a graph.
func resolve(r *checkRequest, counts *planning.CountsGiven) (resolved *setting.Resolved, operands []string,
	warnings []string, err error,
) {
	if r.Version != Version {
		return nil, nil, nil, refusal.Errorf("the package of Python and the program are of different " +
			"versions: install both anew")
	}
	var values cli.SettingFlags
	flags := pflag.NewFlagSet("open", pflag.ContinueOnError)
	values.AddThose(flags, func(option setting.Setting) bool {
		return slices.Contains(settings, option.Name)
	})
	if counts != nil {
		counts.Add(flags)
	}
	var invalid *pflag.InvalidValueError
	switch err := flags.Parse(r.Arguments); {
	case errors.As(err, &invalid):
		return nil, nil, nil, cli.InvalidValue(invalid)
	case err != nil:
		return nil, nil, nil, refusal.Errorf("%w", err)
	case counts != nil && counts.Given() && flags.NArg() > 0:
		return nil, nil, nil, oneGraph(append(flags.Args(), "counts"))
	}
	o, err := values.Merge()
	if err == nil {
		err = o.ForLoop()
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if resolved, err = cli.Resolved(&o, values.GivenNames()...); err != nil {
		return nil, nil, nil, err
	}
	if folder := resolved.OffloadFolder(); folder != "" {
		if err := offload.Check(folder); err != nil {
			return nil, nil, nil, err
		}
	}
	var messages bytes.Buffer
	cli.WarnUnused(&messages, resolved)
	if lines := strings.TrimSpace(messages.String()); lines != "" {
		warnings = strings.Split(lines, "\n")
	}
	return resolved, flags.Args(), warnings, nil
}

// plan plans the passes of a loop.
func (s *server) plan(ctx context.Context, r *planRequest) (a answer, err error) {
	var counts planning.CountsGiven
	resolved, operands, warnings, err := resolve(&r.checkRequest, &counts)
	if err == nil && r.Graph == nil && !counts.Given() {
		err = oneGraph(operands)
	}
	if err != nil {
		return a, err
	}
	a.Warnings, a.Groups = warnings, resolved.SampleGroups
	if counts.Given() {
		err := planByCounts(ctx, &a, r, resolved, &counts)
		return a, err
	}
	opened, err := s.openDry(ctx, r, operands, resolved)
	if err != nil {
		return a, err
	}
	defer opened.Close()
	for _, t := range opened.Job.Counts().Types {
		a.Types = append(a.Types, train.VertexType{
			Name: t.Type, Vertices: t.Vertices, Features: t.FeatureColumns,
		})
	}
	loop := plan.Loop{Passes: r.Loop.Passes}
	inputs := inputsOf{a.Types, opened.Graph, nil, r.Lacking, nowhere}
	if loop.Features, loop.Edges, err = inputs.read(r.Loop.Inputs); err != nil {
		return a, err
	}
	p, err := opened.Job.PlanPasses(ctx, plan.Asks{Loop: &loop}, r.Lacking...)
	if err != nil {
		return a, err
	}
	planned := planning.LoopOf(&p)
	a.Planned = &planned
	return a, nil
}

// openDry opens the graph of a plan: a store, or one in memory.
func (s *server) openDry(ctx context.Context, r *planRequest, operands []string, on *setting.Resolved,
) (*session.Session, error) {
	if r.Graph == nil {
		return session.Open(ctx, cli.Alone(), data.Source{Name: operands[0]}, on, s.show,
			session.Opening{Dry: true})
	}
	opened, _, err := s.inMemory(ctx, cli.Alone(), r.Graph, on)
	if err != nil {
		return nil, err
	}
	if err := session.DivideOnce(ctx, on, opened.Job); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// planByCounts plans the passes of a loop on a graph that is known by counts alone.
func planByCounts(ctx context.Context, a *answer, r *planRequest, on *setting.Resolved,
	counts *planning.CountsGiven,
) error {
	a.Types = []train.VertexType{counts.Type()}
	inputs := inputsOf{a.Types, func() (*graph.Graph, error) {
		return nil, refusal.Errorf("counts tell what a loop takes whose passes have the graph's edges: leave inputs of " +
			"edges out, or give a graph")
	}, nil, nil, nowhere}
	features, _, err := inputs.read(r.Loop.Inputs)
	if err != nil {
		return err
	}
	var each *worker.InputValues
	if features != nil {
		each = &features[0]
	}
	planned, err := counts.LoopByCounts(ctx, on, r.Loop.Passes, each)
	a.Planned = &planned
	return err
}

// open opens a graph for a model.
func (s *server) open(ctx context.Context, r *openRequest) (a answer, err error) {
	opened, asked, err := s.divide(ctx, r)
	if err != nil {
		return a, err
	}
	opened.Job.Memory = &asked.memory.PassMemory
	passes, err := s.passes(ctx, opened, r)
	if err != nil {
		err = s.wayOut(ctx, opened, r.Lacking, err)
		asked.memory.end()
		s.closed(opened)
		return a, err
	}
	m := &model{
		Passes: passes, opened: opened, memory: asked.memory, settings: asked.settings, lacking: r.Lacking,
	}
	m.memory.models++
	m.Net = s.nets
	for _, t := range opened.Counts().Types {
		m.all = append(m.all, t.Vertices)
	}
	if r.Graph != nil && passes.Processes > 1 {
		m.Graph, err = s.nameOf(r.Graph)
	}
	if err := errors.Join(err, m.readRelations()); err != nil {
		err = errors.Join(err, m.close())
		s.closed(opened)
		return a, err
	}
	s.models[r.Model] = m
	a = answer{
		Warnings: asked.warnings, Types: passes.Types, Process: passes.Process, Processes: passes.Processes,
		Group: passes.Group, Groups: passes.Groups,
	}
	m.describe(&a)
	return a, nil
}

// passes begins the passes of a model on a divided graph.
func (s *server) passes(ctx context.Context, opened *divided, r *openRequest) (*train.Passes, error) {
	if r.Graph == nil && len(r.Lacking) > 0 && opened.Comm.Size() > 1 {
		return nil, refusal.Errorf("over processes the graph has features of all vertices and edges, in place of which " +
			"a call gives others: give it some, as zeros, call the net with edge_index, or start one process")
	}
	return opened.Job.Passes(ctx, r.Lacking...)
}

// wayOut adds to the refusal of passes for which there is no room a number of partitions with which there is,
// if one is found soon.
func (s *server) wayOut(ctx context.Context, opened *divided, lacking []train.Lacking, refused error) error {
	const mostEdges, mostTurns = 20_000_000, 16
	job, err := *opened.Job, error(nil)
	job.Assignment = nil // which has as many parts as do not fit
	if job.Graph == nil {
		job.Graph, err = opened.Graph()
	}
	settings, unresolved := job.Options.Resolve()
	if !errors.As(refused, new(plan.Exceeds)) || errors.Join(err, unresolved) != nil ||
		job.Graph.Edges() > mostEdges || opened.Comm.Size() > 1 {
		return refused
	}
	wanted := planning.Wanted{
		Job: &job, Settings: settings, Plan: func(ctx context.Context, j *train.Job) (plan.Plan, error) {
			return j.PlanPasses(ctx, plan.Asks{}, lacking...)
		},
	}
	folder := cmp.Or(settings.Offload, "DIR")
	fit, err := planning.Fitting(ctx, wanted, settings.MemoryLimit, folder, mostTurns, ui.NewPhases(s.show))
	if fit == nil || err != nil { // the refusal is right without a way out
		return refused
	}
	return refusal.Errorf("%w; %s fits, with %s for a worker", refused, fit.Flags(), fit.Memory())
}

// mapFile maps the file that came with a request.
func mapFile(ctx context.Context, s *server, r *request) (answer, error) {
	if r.file < 0 {
		return answer{}, refusal.Errorf("no file came with the request")
	}
	defer unix.Close(r.file)
	return done(func(s *server, m *mapRequest) error { return s.mapMemory(m, r.file) })(ctx, s, r)
}

// mapMemory maps a file.
func (s *server) mapMemory(r *mapRequest, descriptor int) error {
	var file unix.Stat_t
	if err := unix.Fstat(descriptor, &file); err != nil {
		return err
	}
	if s.memory[r.Memory] != nil || r.Bytes <= 0 || r.Bytes > file.Size {
		return refusal.Errorf("memory %d of %d bytes: it is mapped already, or its file is shorter", r.Memory,
			r.Bytes)
	}
	mapped, err := unix.Mmap(descriptor, 0, int(r.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping memory of %d bytes: %w", r.Bytes, err)
	}
	s.memory[r.Memory] = mapped
	return nil
}

// numbers are the first count numbers of a memory.
func (s *server) numbers(memory, count int) ([]float32, error) {
	mapped := s.memory[memory]
	if count < 0 || len(mapped)/4 < count {
		return nil, refusal.Errorf("memory %d has %d bytes, and %d numbers are asked of it", memory, len(mapped), count)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(mapped))), count), nil
}
