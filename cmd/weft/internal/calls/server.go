package calls

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/nn"
	"weft/tensor"
	"weft/tensor/offload"
	"weft/train"
	"weft/train/setting"
	"weft/train/worker"
)

// server is the program's side of the socket.
type server struct {
	show    io.Writer // progress
	nets    map[int]*model
	memory  map[int][]byte
	divided map[int]*divided
}

// model is a model on a graph.
type model struct {
	*train.Passes
	opened   *divided
	lacking  []train.Lacking
	state    nn.State
	floats   []string // the tensors in values, parameters first
	trained  int      // how many of these are parameters
	counters []string
}

// serve answers requests until the process closes its end. The program then ends, whatever it is doing: what
// it has belongs to the process.
func serve(ctx context.Context, c *net.UnixConn, show io.Writer) error {
	s := &server{show: show, nets: map[int]*model{}, memory: map[int][]byte{}, divided: map[int]*divided{}}
	requests := make(chan request)
	go func() {
		for {
			r, err := receive(c)
			if err != nil {
				if errors.Is(err, io.EOF) {
					os.Exit(cli.ExitDone)
				}
				cli.SayError(os.Stderr, err)
				os.Exit(cli.ExitFailed)
			}
			requests <- r
		}
	}()
	for r := range requests {
		a, err := s.answer(ctx, &r)
		switch {
		case err == nil:
		case refusal.Is(err):
			a = answer{Refused: ui.OneLine(err)}
		default:
			a = answer{Failed: ui.OneLine(err)}
		}
		a.ID = r.ID
		if err := send(c, a); err != nil {
			return err
		}
	}
	return nil
}

// answer does what is asked.
func (s *server) answer(ctx context.Context, r *request) (a answer, err error) {
	for _, of := range r.Drop {
		if m := s.nets[of[0]]; m != nil {
			_ = m.Drop(of[1]) // where it fails, the model's next request tells it
		}
	}
	switch r.Ask {
	case "drop":
		return a, nil
	case "open":
		return s.open(ctx, r)
	case "plan":
		return s.plan(ctx, r)
	case "map":
		return a, s.mapMemory(r)
	case "unmap":
		of := s.memory[r.Memory]
		delete(s.memory, r.Memory)
		return a, unix.Munmap(of)
	}
	m := s.nets[r.Net]
	if m == nil {
		return a, refusal.Errorf("there is no model %d", r.Net)
	}
	switch r.Ask {
	case "forward":
		return s.forward(m, r)
	case "backward":
		return a, s.backward(m, r)
	case "usage":
		t, err := m.Totals()
		return answer{Usage: &usage{t.Usage, t.LiveBytes, tensor.KindNames(), t.Kinds, t.Layers}}, err
	case "trace":
		return a, m.trace(r.Path)
	case "close":
		delete(s.nets, r.Net)
		defer s.leave(m.opened)
		return a, m.Close()
	}
	return a, refusal.Errorf("%q is no request", r.Ask)
}

// settings are those of weft train that a model is opened with.
var settings = []string{
	"program", "init", "seed", "device", "threads", "recompute", "precision", "parallel", "aggregation-order",
	"comm-timeout", "partitions", "partition", "balance", "prefetch", "keep-halo", "halo",
	"aggregation-chunks", "chunks", "chunk-method", "offload", "memory-limit",
}

// divided is a graph in partitions, which several models may have in common.
type divided struct {
	*session.Session
	number int // 0: one model alone has it
	models int // that have it
}

// divide divides a graph for a model, unless it has been divided for another. warnings are about settings.
func (s *server) divide(ctx context.Context, r *request) (d *divided, warnings []string, err error) {
	resolved, graph, warnings, err := resolve(r)
	if err != nil {
		return nil, nil, err
	}
	if d = s.divided[r.Divided]; d == nil {
		d = &divided{number: r.Divided}
		d.Session, err = session.Open(ctx, cli.Alone(), graph, resolved, s.show, session.Opening{})
		if err != nil {
			return nil, nil, err
		}
		if err := session.DivideOnce(ctx, resolved, d.Job); err != nil {
			d.Close()
			return nil, nil, err
		}
		if d.number > 0 {
			s.divided[d.number] = d
		}
	}
	d.models++
	d.Job.Options = resolved.Options
	return d, warnings, nil
}

// leave closes a graph when the last model has left it.
func (s *server) leave(d *divided) {
	if d.models--; d.models == 0 {
		delete(s.divided, d.number)
		d.Close()
	}
}

// resolve reads the words of a model's command line: its settings, and its graph.
func resolve(r *request) (resolved *setting.Resolved, graph data.Source, warnings []string, err error) {
	if r.Version != version {
		return nil, graph, nil, refusal.Errorf("the package of Python and the program are of different " +
			"versions: install both anew")
	}
	var given cli.SettingFlags
	flags := pflag.NewFlagSet("open", pflag.ContinueOnError)
	given.AddThose(flags, func(one setting.Setting) bool { return slices.Contains(settings, one.Name) })
	if err := flags.Parse(r.Arguments); err != nil || flags.NArg() != 1 {
		return nil, graph, nil, refusal.Errorf("%w", cmp.Or(err, fmt.Errorf("a model is of one graph, not of %d",
			flags.NArg())))
	}
	o, err := given.Merge()
	if err == nil {
		err = o.Exactly()
	}
	if err != nil {
		return nil, graph, nil, err
	}
	if resolved, err = cli.Resolved(&o, given.GivenNames()...); err != nil {
		return nil, graph, nil, err
	}
	if folder := resolved.OffloadFolder(); folder != "" {
		if err := offload.Check(folder); err != nil {
			return nil, graph, nil, err
		}
	}
	var said bytes.Buffer
	cli.WarnUnused(&said, resolved)
	if lines := strings.TrimSpace(said.String()); lines != "" {
		warnings = strings.Split(lines, "\n")
	}
	return resolved, data.Source{Name: flags.Arg(0)}, warnings, nil
}

// plan plans the passes of a loop.
func (s *server) plan(ctx context.Context, r *request) (a answer, err error) {
	resolved, graph, warnings, err := resolve(r)
	if err != nil {
		return a, err
	}
	opened, err := session.Open(ctx, cli.Alone(), graph, resolved, s.show, session.Opening{Dry: true})
	if err != nil {
		return a, err
	}
	defer opened.Close()
	p, err := opened.Job.PlanPasses(ctx, r.Loop)
	if err != nil {
		return a, err
	}
	planned := planned{
		PeakTensorBytes: p.PeakTensorBytes, GraphBytes: p.GraphBytes, Kinds: tensor.KindNames(),
		Communication: worker.SumOf(p.Sent), EdgeColumns: p.EdgeColumns,
		DiskBytes: p.DiskBytes(), Recompute: p.Recompute,
	}
	for _, of := range opened.Job.Counts().Types {
		a.Types = append(a.Types, vertexType{of.Type, of.Vertices, of.FeatureColumns})
	}
	for k := range p.Workers {
		planned.Peaks = append(planned.Peaks, append(p.Workers[k].Kinds, p.Workers[k].Graph))
	}
	a.Warnings, a.Planned = warnings, &planned
	return a, nil
}

// open opens a graph for a model.
func (s *server) open(ctx context.Context, r *request) (a answer, err error) {
	opened, warnings, err := s.divide(ctx, r)
	if err != nil {
		return a, err
	}
	var absent []train.Lacking
	for _, l := range r.Lacking {
		absent = append(absent, train.Lacking{
			Vertices: l.Of == "vertices", Number: l.Type, Features: l.Features, Weights: l.Weights,
		})
	}
	passes, err := opened.Job.Passes(ctx, absent...)
	if err != nil {
		s.leave(opened)
		return a, err
	}
	m := &model{Passes: passes, opened: opened, lacking: absent}
	s.nets[r.Net] = m
	a = answer{Warnings: warnings}
	for _, t := range passes.Types {
		a.Types = append(a.Types, vertexType(t))
	}
	for _, of := range passes.Outputs {
		a.Outputs = append(a.Outputs, output(of))
	}
	m.describe(&a)
	return a, nil
}

// describe says which tensors the model has.
func (m *model) describe(a *answer) {
	var parameters []string
	m.state, parameters = m.State()
	for _, name := range parameters {
		a.Parameters = append(a.Parameters, named{name, m.state[name].Shape})
	}
	m.floats, m.trained = slices.Clone(parameters), len(parameters)
	var others []string
	for name := range m.state {
		if !slices.Contains(parameters, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	for _, name := range others {
		if m.state[name].Int64 != nil {
			m.counters = append(m.counters, name)
			continue
		}
		m.floats = append(m.floats, name)
		a.Buffers = append(a.Buffers, named{name, m.state[name].Shape})
	}
	a.Counts = m.counters
}

// mapMemory maps the file that came with a request.
func (s *server) mapMemory(r *request) error {
	if r.file < 0 {
		return refusal.Errorf("no file came with the request")
	}
	defer unix.Close(r.file)
	var file unix.Stat_t
	if err := unix.Fstat(r.file, &file); err != nil {
		return err
	}
	if s.memory[r.Memory] != nil || r.Bytes <= 0 || r.Bytes > file.Size {
		return refusal.Errorf("memory %d of %d bytes: it is mapped already, or its file is shorter", r.Memory,
			r.Bytes)
	}
	of, err := unix.Mmap(r.file, 0, int(r.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping memory of %d bytes: %w", r.Bytes, err)
	}
	s.memory[r.Memory] = of
	return nil
}

// numbers are the first count of a memory.
func (s *server) numbers(memory, count int) ([]float32, error) {
	of := s.memory[memory]
	if count < 0 || len(of)/4 < count {
		return nil, refusal.Errorf("memory %d has %d bytes, and %d numbers are asked of it", memory, len(of), count)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(of))), count), nil
}

// tensors are the first count of the model's floats, as they stand in memory, and its counters.
func (s *server) tensors(m *model, memory, count int, counters []int64) (nn.State, error) {
	total := 0
	for _, name := range m.floats[:count] {
		total += sizeOf(m.state[name].Shape)
	}
	values, err := s.numbers(memory, total)
	if err != nil {
		return nil, err
	}
	state := nn.State{}
	for _, name := range m.floats[:count] {
		shape := m.state[name].Shape
		n := sizeOf(shape)
		state[name] = nn.Tensor{Shape: shape, Float32: values[:n:n]}
		values = values[n:]
	}
	for k, name := range m.counters[:min(len(counters), len(m.counters))] {
		state[name] = nn.Tensor{Shape: []int{}, Int64: counters[k : k+1]}
	}
	return state, nil
}

// blocks are those of the outputs in memory, by output.
func (s *server) blocks(m *model, r *request) ([][]worker.Block, error) {
	total, columns := 0, make([]int, len(m.Outputs))
	for _, b := range r.Blocks {
		k := m.outputOf(b)
		if k < 0 || b.Columns < 0 || columns[k]+b.Columns > m.Outputs[k].Columns {
			return nil, refusal.Errorf("there are no %d columns of an output of type %d", b.Columns, b.Type)
		}
		columns[k] += b.Columns
		total += m.size(b, r)
	}
	for k, of := range m.Outputs {
		if columns[k] != of.Columns {
			return nil, refusal.Errorf("blocks of %d columns of an output that has %d", columns[k], of.Columns)
		}
	}
	values, err := s.numbers(r.Output, total)
	if err != nil {
		return nil, err
	}
	blocks := make([][]worker.Block, len(m.Outputs))
	for _, b := range r.Blocks {
		k, n := m.outputOf(b), m.size(b, r)
		blocks[k] = append(blocks[k], worker.Block{Columns: b.Columns, Whole: b.Whole, Values: values[:n]})
		values = values[n:]
	}
	return blocks, nil
}

// outputOf is the number of the output that a block is of; −1: there is none.
func (m *model) outputOf(b block) int {
	return slices.IndexFunc(m.Outputs, func(of train.Output) bool { return of.Type == b.Type })
}

// size is the number of a block's values in a request.
func (m *model) size(b block, r *request) int {
	switch {
	case b.Whole:
		return b.Columns
	case r.Rows > 0:
		return r.Listed * b.Columns
	}
	return m.Types[b.Type].Vertices * b.Columns
}

// inputs are what a request gives in place of the graph's: features by vertex type, nil if there are none,
// and what is given of relations.
func (s *server) inputs(m *model, r *request) (features []worker.Given, edges []worker.Edges, err error) {
	for _, in := range r.Inputs {
		if in.Of != "features" {
			if edges, err = s.edges(m, edges, in); err != nil {
				return nil, nil, err
			}
			continue
		}
		if in.Type < 0 || in.Type >= len(m.Types) {
			return nil, nil, refusal.Errorf("there is no vertex type %d", in.Type)
		}
		if features == nil {
			features = make([]worker.Given, len(m.Types))
		}
		of := m.Types[in.Type]
		if features[in.Type], err = s.given(in, of.Vertices*of.Features); err != nil {
			return nil, nil, err
		}
	}
	return features, edges, nil
}

// edges adds an input to what is given of relations.
func (s *server) edges(m *model, given []worker.Edges, in input) ([]worker.Edges, error) {
	g, err := m.opened.Graph()
	if err != nil {
		return nil, err
	}
	if in.Type < 0 || in.Type >= len(g.Relations) {
		return nil, refusal.Errorf("there is no relation %d", in.Type)
	}
	k := slices.IndexFunc(given, func(e worker.Edges) bool { return e.Number == in.Type })
	if k < 0 {
		k = len(given)
		given = append(given, worker.Edges{Number: in.Type, Relation: &g.Relations[in.Type]})
	}
	e := &given[k]
	n, columns := len(e.Relation.Sources), e.Relation.EdgeColumns
	for _, l := range m.lacking {
		if !l.Vertices && l.Number == in.Type && l.Features > 0 {
			columns = l.Features
		}
	}
	switch in.Of {
	case "edges":
		e.Kept, err = s.numbers(in.Memory, n)
	case "edge_weights":
		e.Weights, err = s.given(in, n)
	case "edge_features":
		e.Features, err = s.given(in, n*columns)
	default:
		err = refusal.Errorf("there is no input %q", in.Of)
	}
	return given, err
}

// rows are the vertices whose rows are asked for; nil: all.
func (s *server) rows(m *model, r *request) ([]int32, error) {
	if r.Rows == 0 {
		return nil, nil
	}
	if len(m.Types) > 1 {
		return nil, refusal.Errorf("rows: the graph has %d vertex types, and rows are of graphs of one", len(m.Types))
	}
	words, err := s.numbers(r.Rows, r.Listed)
	if err != nil {
		return nil, err
	}
	rows := slices.Clone(unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(words))), len(words)))
	for k, v := range rows {
		if v < 0 || int(v) >= m.Types[0].Vertices || k > 0 && v <= rows[k-1] {
			return nil, refusal.Errorf("rows: entry %d, vertex %d, is none of %d, or not above the one before", k, v,
				m.Types[0].Vertices)
		}
	}
	return rows, nil
}

// given is an input of so many numbers.
func (s *server) given(in input, count int) (worker.Given, error) {
	values, err := s.numbers(in.Memory, count)
	return worker.Given{Values: values, Differentiable: in.Differentiable}, err
}

func sizeOf(shape []int) int {
	n := 1
	for _, of := range shape {
		n *= of
	}
	return n
}

// trace records the passes from now on, or writes those that it has recorded.
func (m *model) trace(path string) error {
	if path == "" {
		return m.StartTrace()
	}
	recorded, err := m.StopTrace()
	if err != nil {
		return err
	}
	of := m.opened.Job
	recorded.About = map[string]string{"dataset": of.Dataset, "parallel": of.Options.Parallel}
	return atomicfile.Write(path, recorded.Write)
}

func (s *server) forward(m *model, r *request) (a answer, err error) {
	if len(r.Counters) != len(m.counters) {
		return a, refusal.Errorf("%d counters for a model of %d", len(r.Counters), len(m.counters))
	}
	f := worker.Forward{
		Pass: r.Pass, Seed: r.Seed, Training: r.Training, Recording: r.Recording,
	}
	if f.Values, err = s.tensors(m, r.Values, len(m.floats), r.Counters); err != nil {
		return a, err
	}
	if f.Outputs, err = s.blocks(m, r); err != nil {
		return a, err
	}
	if f.Rows, err = s.rows(m, r); err != nil {
		return a, err
	}
	if f.Features, f.Edges, err = s.inputs(m, r); err != nil {
		return a, err
	}
	return answer{Counters: r.Counters}, m.Forward(f)
}

func (s *server) backward(m *model, r *request) (err error) {
	b := worker.Backward{Pass: r.Pass, Again: r.Again}
	if b.Outputs, err = s.blocks(m, r); err != nil {
		return err
	}
	if b.Gradients, err = s.tensors(m, r.Values, m.trained, nil); err != nil {
		return err
	}
	if b.Features, b.Edges, err = s.inputs(m, r); err != nil {
		return err
	}
	return m.Backward(b)
}
