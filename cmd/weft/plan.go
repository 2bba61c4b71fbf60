package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weft/comm"
	"weft/comm/mpi"
	"weft/graph"
	"weft/internal/cores"
	"weft/internal/datasets"
	"weft/internal/document"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/parallel/mesh"
	"weft/train"
	"weft/train/planner"
	"weft/train/setting"
)

type planCommand struct {
	settings settingFlags
	tables   tablesGiven
	workers  int
	at       int
	sharers  int
	link     string
	json     bool
}

func newPlan() *cobra.Command {
	p := &planCommand{}
	cmd := &cobra.Command{
		Use:   "plan DATASET|STORE --workers N",
		Short: "predict how long an epoch takes on each mesh of workers",
		Long: `plan predicts an epoch on each mesh of N workers, before any run: its time, the memory of the worker that takes most, the bytes that
all workers send, and what limits it. The fastest mesh comes first. Bytes and memory are those of a run. Times come from the kernel calls
and messages of each worker, from the rates of kernels, which are measured on this machine, and from the links: those of --link, or
those between the processes that a launcher started, which are measured.

An epoch is limited by compute (kernels), link (messages on their way), imbalance (waiting for the worker with most to compute), bubble
(waiting while a pipeline fills and drains) or wait (other waiting for workers).

Flags stay on each mesh: one without the axis that a flag such as --halo is for is left out, as train refuses it. Settings of --config have
their defaults there.`,
		Example: `  weft plan stores/sbm --workers 4 --link 1gbit
  weft plan stores/sbm --workers 4 --link 100mbit --model gcnii --layers 16 --json
  mpirun --map-by ppr:1:node --bind-to none weft plan stores/sbm --json > plan.json
  weft plan stores/sbm --workers 16 --link plan.json`,
		Annotations:       map[string]string{joinsRanks: ""},
		ValidArgsFunction: completeInOrder(completeGraph),
		Args:              arguments(1, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	p.settings.add(flags)
	p.tables.add(flags, false)
	flags.Lookup("parallel").Hidden = true // refused: all meshes are compared
	flags.IntVar(&p.workers, "workers", 0, "number of workers (default: the processes that a "+
		"launcher started)")
	flags.IntVar(&p.at, "at", 0, "predict for so `many` workers instead: their partitions are made in "+
		"memory and not kept, and the rates are those of --workers")
	flags.StringVar(&p.link, "link", "", "`rate` at which a worker sends and receives, as in 100mbit or "+
		"1gbit, or a file that plan --json wrote, whose links are taken (default: the links between the "+
		"processes that a launcher started, which are measured, else this machine's memory)")
	flags.IntVar(&p.sharers, "per-machine", 0, "workers that share the cores of a machine like this one "+
		"(default: as the launcher's processes do, else 1 with --link, else all)")
	flags.BoolVar(&p.json, "json", false, "print one JSON object")
	return cmd
}

// run predicts and prints. Processes that a launcher started measure the links between them, and the first
// one predicts.
func (p *planCommand) run(cmd *cobra.Command, dataset string) error {
	o, settings, links, err := p.understand()
	return asRank(cmd, settings, err, func(r ranks) error {
		machine, err := p.machine(r, links)
		if err := r.Together(err); err != nil {
			return err
		}
		return r.OnFirst(func() error { return p.predict(cmd, dataset, o, machine) })
	})
}

// machine is what the workers run on, with the given links; nil: those between the ranks. All ranks call it
// together.
func (p *planCommand) machine(r ranks, links *planner.Links) (planner.Machine, error) {
	sharers := p.workers
	if links != nil { // of other machines
		sharers = 1
	}
	m, err := r.machine(sharers, links)
	m.Sharers = cmp.Or(p.sharers, min(m.Sharers, p.workers))
	return m, err
}

// machine is this machine, with the given links; nil: those between the ranks, which are measured. One
// process stands for so many workers of it. All ranks call it together.
func (r ranks) machine(workers int, links *planner.Links) (m planner.Machine, err error) {
	m.Cores, m.Sharers = cores.Count(), workers
	if r.Comm.Size() > 1 {
		n, err := r.neighbours()
		if err != nil {
			return m, err
		}
		m.Sharers = n.Sharers[r.Rank()]
	}
	switch {
	case links != nil:
		m.Links = *links
	case r.Comm.Size() > 1:
		m.Links, err = planner.Measure(r.Comm)
	default:
		m.Links = planner.InMemory()
	}
	return m, err
}

// predict predicts and prints.
func (p *planCommand) predict(cmd *cobra.Command, dataset string, o setting.Options,
	machine planner.Machine,
) error {
	of := p.tables.of(dataset)
	g, store, err := openDataset(cmd.Context(), of, cmd.ErrOrStderr(), nil)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := o.Divide(g); err != nil {
		return about(of, err)
	}
	plans := graphPlanner(o, p.settings.givenNames(), g, dataset, store, cmd.ErrOrStderr())
	plans.Machine = machine
	workers := cmp.Or(p.at, p.workers)
	if p.at > 0 {
		plans.Open = plans.inMemory
	}
	meshes, refused, err := plans.Meshes(cmd.Context(), workers)
	plans.shown.erase()
	if err != nil {
		return about(of, err)
	}
	if len(meshes) == 0 {
		return noMesh(workers, refused)
	}
	if p.json {
		return printJSON(cmd.OutOrStdout(), planForPrograms(meshes, machine.Links, p.at > 0))
	}
	printMeshes(cmd.OutOrStdout(), meshes, refused)
	if p.at > 0 {
		note(cmd.OutOrStdout(), fmt.Sprintf("extrapolated from %s to %s: kernels were measured on fewer",
			counted(p.workers, "worker", "workers"), count(p.at)))
	}
	note(cmd.OutOrStdout(), plans.assumed(meshes))
	for _, line := range approximations(meshes) {
		note(cmd.OutOrStdout(), line)
	}
	return nil
}

// understand are the options, the settings of one of the meshes, and the given links; nil: none are.
func (p *planCommand) understand() (o setting.Options, r *setting.Resolved, links *planner.Links, err error) {
	if o, err = p.settings.merge(); err != nil {
		return o, nil, nil, err
	}
	one := ""
	if mpi.Launched() {
		p.workers = cmp.Or(p.workers, mpi.Ranks())
		one = fmt.Sprintf("graph=%d", mpi.Ranks())
	}
	r, err = p.settings.onAnyMesh(one)
	switch {
	case p.workers < 1 || p.workers > mesh.MaxWorkers:
		err = refusal.Errorf("--workers %d: say for how many workers, 1 to %d", p.workers, mesh.MaxWorkers)
	case p.at < 0 || p.at > mesh.MaxWorkers || p.at > 0 && p.at < p.workers:
		err = refusal.Errorf("--at %d: from the %d workers of --workers to %d", p.at,
			p.workers, mesh.MaxWorkers)
	case o.Parallel != "":
		err = refusal.Errorf("--parallel %s: plan compares all meshes of --workers N; leave it out",
			o.Parallel)
	case p.sharers < 0 || p.sharers > p.workers:
		err = refusal.Errorf("--per-machine %d: from 1 to the %d workers", p.sharers, p.workers)
	case p.link != "" && err == nil:
		links, err = linksOf(p.link)
	}
	return o, r, links, err
}

// payload is the share of TCP's bytes that are not headers, in frames of 1514 bytes.
const payload = 1448.0 / 1514

var linkRate = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(kbit|mbit|gbit)$`)

// linksOf reads what --link says: a rate, or a file with the links that an earlier plan printed as JSON.
func linksOf(text string) (*planner.Links, error) {
	m := linkRate.FindStringSubmatch(text)
	if m == nil {
		return linksIn(text)
	}
	bits, err := strconv.ParseFloat(m[1], 64)
	if bits *= map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}[m[2]]; err != nil || bits == 0 {
		return nil, refusal.Errorf("--link %s: no rate; write it as in 100mbit or 10gbit", text)
	}
	links := planner.OfRate(payload * bits / 8)
	return &links, nil
}

// linksIn reads the links in a file that weft plan --json has written.
func linksIn(path string) (*planner.Links, error) {
	const most = 16 << 20
	text, err := document.Read(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("--link %s: neither a rate, as in 100mbit or 10gbit, nor a file that "+
			"weft plan --json has written", path)
	} else if err != nil {
		return nil, refusal.Errorf("--link %w", err)
	}
	var written struct{ Links *planner.Links }
	err = json.Unmarshal(text, &written)
	if l := written.Links; err != nil || l == nil || min(l.Sends, l.Receives) <= 0 ||
		min(l.Latency, l.Handling, float64(l.Eager)) < 0 {
		return nil, refusal.Errorf("--link %s: the file has no links; weft plan --json writes them", path)
	}
	return written.Links, nil
}

// meshPlanner is a planner, in words.
type meshPlanner struct {
	planner.Planner
	shown *stages // how far it is; whoever asks for meshes erases it
}

// graphPlanner is the planner for a graph and its store, without a machine. given names the settings that the
// caller gave.
func graphPlanner(o setting.Options, given []string, g *graph.Graph, dataset, store string,
	show io.Writer,
) meshPlanner {
	p := planner.Planner{
		Options: o, Given: given, Graph: g,
		On: fmt.Sprintf("weft %s on %s, %s", version,
			procEntry("/proc/cpuinfo", "model name"), kernel.SIMD()),
	}
	if root := datasets.CacheRoot(); root != "" {
		p.Cache = planner.Cache(filepath.Join(root, "rates-3"))
	}
	shown := newStages(show)
	p.Progress = shown.show
	alone := ranks{launch.Ranks{Comm: comm.Alone()}}
	p.Open = func(ctx context.Context, r *setting.Resolved) (job *train.Job, err error) {
		shown.erase() // opening says what it does
		s := &session{
			ranks: alone, store: store,
			job: &train.Job{Dataset: dataset, Options: r.Options, Graph: g},
		}
		if r.Mesh.Partitions > 1 {
			if s, err = alone.open(ctx, source{name: store}, r, show, nil, r.CheckGraph); err != nil {
				return nil, err
			}
		}
		return s.job, s.openValidation(ctx, r, show)
	}
	return meshPlanner{p, shown}
}

// inMemory opens the graph for a mesh, with partitions that nobody keeps.
func (p *meshPlanner) inMemory(ctx context.Context, r *setting.Resolved) (*train.Job, error) {
	job := &train.Job{Options: r.Options, Graph: p.Graph}
	if r.Validate == "" {
		return job, nil
	}
	g, _, err := openDataset(ctx, source{name: r.Validate}, io.Discard, nil)
	job.Validate = &train.Job{Dataset: r.Validate, Graph: g}
	return job, err
}

// assumed says what predictions rest on.
func (p *meshPlanner) assumed(meshes []planner.Mesh) string {
	r := meshes[0].Rates
	kept := "kept in " + filepath.Dir(r.Path)
	switch {
	case r.Unkept != nil:
		kept = "not kept: " + r.Unkept.Error()
	case r.Path == "":
		kept = "not kept, as there is no WEFT_CACHE"
	}
	m := p.Machine
	return fmt.Sprintf("links that send %s/s and receive %s/s, %.2g ms for each message, %.2g ns of a "+
		"core for each byte at each end; %s on %s; kernels measured here on %s (%s)",
		megabytes(int64(m.Sends)), megabytes(int64(m.Receives)), 1e3*m.Latency, 1e9*m.Handling,
		counted(m.Sharers, "worker", "workers"), counted(m.Cores, "core", "cores"),
		r.Measured.Format("2006-01-02 15:04"), printable(kept))
}

// noMesh is the refusal if no mesh is possible. A reason that several meshes have stands once, after all of
// them.
func noMesh(workers int, refused []planner.Refused) error {
	meshes := map[string]string{} // by reason
	var reasons []string
	for _, r := range refused {
		mesh, reason := reason(&r)
		if meshes[reason] == "" {
			reasons = append(reasons, reason)
		} else {
			mesh = meshes[reason] + ", " + mesh
		}
		meshes[reason] = mesh
	}
	var all []error
	for _, reason := range reasons {
		all = append(all, errors.New(meshes[reason]+": "+reason))
	}
	return refusal.Errorf("no mesh of %s is possible: %w", counted(workers, "worker", "workers"),
		errors.Join(all...))
}

// reason says why a mesh is not possible.
func reason(r *planner.Refused) (mesh, why string) {
	mesh = "--parallel " + r.Parallel
	return mesh, printable(strings.TrimPrefix(r.Reason.Error(), mesh+": "))
}

// plannedMesh is a mesh as plan prints it as JSON.
type plannedMesh struct {
	Parallel        string  `json:"parallel"`
	EpochSeconds    float64 `json:"epoch_seconds"`
	PeakTensorBytes int64   `json:"peak_tensor_bytes"` // of the worker with most
	SentBytes       int64   `json:"sent_bytes"`        // by all workers in an epoch
	LimitedBy       string  `json:"limited_by"`
	// training on it gives the results of one worker, but for rounding
	Exact        bool   `json:"exact"`
	Extrapolated bool   `json:"extrapolated"`      // from fewer workers
	Balance      string `json:"balance,omitempty"` // of partitions
}

// planForPrograms is a plan as --json prints it.
func planForPrograms(meshes []planner.Mesh, links planner.Links, extrapolated bool) any {
	var list []plannedMesh
	for _, m := range meshes {
		exact := m.Exact && len(approximations([]planner.Mesh{m})) == 0
		list = append(list, plannedMesh{
			m.Parallel, m.Times.Epoch, m.PeakTensorBytes(), m.SentBytes(),
			m.Times.LimitedBy(), exact, extrapolated, m.Balance,
		})
	}
	return struct {
		Meshes []plannedMesh `json:"meshes"`
		Links  planner.Links `json:"links"`
	}{list, links}
}

// approximations says how what workers send makes training approximate on some of the meshes.
func approximations(meshes []planner.Mesh) (lines []string) {
	for _, m := range meshes {
		for _, line := range append(narrowed(m.Settings), scheduled(&m.Settings.Options)...) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func printMeshes(out io.Writer, meshes []planner.Mesh, refused []planner.Refused) {
	rows := [][]string{{
		"mesh", "epoch", "compute", "link", "others", "memory", "sent",
		"limited by", "balance",
	}}
	var approximate []string
	for _, m := range meshes {
		t := &m.Times
		if !m.Exact {
			approximate = append(approximate, m.Parallel)
		}
		rows = append(rows, []string{
			m.Parallel, duration(seconds(t.Epoch)), duration(seconds(t.Compute)), duration(seconds(t.Link)),
			duration(seconds(t.Imbalance + t.Bubble + t.Wait)),
			megabytes(m.PeakTensorBytes()), megabytes(m.SentBytes()), t.LimitedBy(), cmp.Or(m.Balance, "–"),
		})
	}
	printNumbers(out, rows, "balance", "others", "link")
	if len(approximate) > 0 {
		note(out, "training is approximate on "+strings.Join(approximate, ", "))
	}
	for _, r := range refused {
		mesh, why := reason(&r)
		note(out, fmt.Sprintf("left out: %s: %s", mesh, why))
	}
}
