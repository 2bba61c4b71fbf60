// Package planner predicts how long an epoch takes on each mesh of some workers, before any run. It combines
// the plan of each mesh, which counts kernel calls and messages, with rates that are measured on this
// machine, and the rate of the links. The command plan prints what it finds, and --parallel auto takes the
// fastest mesh.
package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/refusal"
	"weft/kernel/machine"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/train"
	"weft/train/metric"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
)

// Planner predicts the epochs of meshes.
type Planner struct {
	Options setting.Options // of the run; Parallel does not count
	// Given names the settings of axes that the caller has set. A mesh without the axis of such a setting is
	// refused. Other settings of an axis that a mesh lacks have their defaults.
	Given   []string
	Machine Machine // Threads 0: as many as the workers of a machine have cores
	// Graph is the whole graph. If it is small, kernels are measured on it. nil: there is none, and Counts
	// describe it.
	Graph *graph.Graph
	// Open opens the graph for a mesh.
	Open func(context.Context, *setting.Resolved) (*train.Job, error)
	// Counts describe the graph. All meshes are first predicted by them. nil: counts do not describe it.
	Counts *Counts
	// Exactly is how many meshes are planned on the graph itself, the fastest by Counts first. More are
	// planned until the fastest of all is among them. 0: all.
	Exactly int
	// Cache keeps rates under what they depend on: the graph, the settings and Machine.
	Cache machine.Cache
	// ExactOnly leaves out meshes on which training is approximate. What workers send by the Options may be
	// approximate all the same.
	ExactOnly bool
	// Progress is told which mesh is planned and measured.
	Progress graph.Progress
	// Found is called with each mesh once it is planned on the graph, and with its prediction by Counts; nil:
	// there is none. Found may be nil.
	Found func(m, byCounts *Mesh)
}

// Mesh is the prediction for a mesh.
type Mesh struct {
	Parallel string
	Settings *setting.Resolved
	Plan     plan.Plan
	Times    Times
	// ByCounts says that Plan is of Counts and not of the graph. Bytes and memory may then differ from a
	// run's.
	ByCounts bool
	// Balance is what the mesh's partitions balance; "": there is one partition, or ByCounts is set.
	Balance string
	// Exact says that training on the mesh gives the results of one worker, up to rounding.
	Exact bool
	// Rates say how long kernels take on the mesh.
	Rates *Rates

	steps    int     // kernel calls, and starts and ends of messages, of the planned workers
	haloRows float64 // halo rows of all partitions of the graph, for each vertex
}

// CardBytes is how much of a card the worker that needs most takes.
func (m *Mesh) CardBytes() int64 {
	_, bytes := m.Plan.Most()
	return bytes
}

// PeakTensorBytes is the peak of the worker that needs most.
func (m *Mesh) PeakTensorBytes() int64 { return slices.Max(m.Plan.PeakTensorBytes) }

// SentBytes is what all workers send in an epoch.
func (m *Mesh) SentBytes() (all int64) {
	for _, sent := range m.Plan.Sent {
		all += sent.Bytes()
	}
	return all
}

// Refused is a mesh that is not possible.
type Refused struct {
	Parallel string
	Reason   error
}

// mostSteps is about how many steps the meshes of several axes have together at most. A step takes some
// microseconds to plan.
const mostSteps = 3_000_000

// mostPlanned is about how many workers of a mesh are planned at most. If there are more, each stands for the
// workers like it.
const mostPlanned = 16

// Meshes predicts all meshes of so many workers, the fastest first. It refuses impossible meshes. It also
// refuses meshes of several axes that have too many messages, because the messages between slices grow with
// their number squared and with the chunks of a pipeline. If ctx is cancelled it returns the cause, and the
// meshes that are predicted so far.
func (p *Planner) Meshes(ctx context.Context, workers int) (meshes []Mesh, refused []Refused, err error) {
	return p.within(ctx, workers, mostSteps)
}

// within is Meshes with a limit of steps for all meshes of several axes together.
func (p *Planner) within(ctx context.Context, workers,
	left int,
) (meshes []Mesh, refused []Refused, err error) {
	s := &search{Planner: p, left: left, all: grids(workers)}
	err = s.byCounts(ctx)
	if err == nil && p.Graph != nil {
		err = s.onGraph(ctx)
	}
	for _, grid := range s.all {
		switch m, why := s.found[grid], s.refused[grid]; {
		case why != nil:
			refused = append(refused, Refused{setting.Axes(grid), why})
		case m != nil:
			meshes = append(meshes, *m)
		}
	}
	slices.SortStableFunc(meshes, func(a, b Mesh) int { return cmp.Compare(a.Times.Epoch, b.Times.Epoch) })
	return meshes, refused, err
}

// grids are all meshes of so many workers: meshes of one axis come first.
func grids(workers int) (all []mesh.Mesh) {
	for stages := 1; stages <= workers; stages++ {
		for slices := 1; workers%stages == 0 && slices <= workers/stages; slices++ {
			if workers/stages%slices == 0 {
				all = append(all,
					mesh.Mesh{Stages: stages, Partitions: workers / stages / slices, Slices: slices})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mesh.Mesh) int { return cmp.Compare(axes(a), axes(b)) })
	return all
}

// axes is the number of axes along which a mesh has several workers.
func axes(m mesh.Mesh) (n int) {
	for _, size := range []int{m.Stages, m.Partitions, m.Slices} {
		if size > 1 {
			n++
		}
	}
	return n
}

// options are the options of a run on a mesh.
func (p *Planner) options(grid mesh.Mesh) setting.Options {
	o := p.Options
	o.Parallel = setting.Axes(grid)
	o.ResetOtherAxes(func(name string) bool { return slices.Contains(p.Given, name) })
	return o
}

// resolve resolves the options on a mesh.
func (p *Planner) resolve(grid mesh.Mesh) (*setting.Resolved, error) {
	o := p.options(grid)
	r, err := o.Resolve(p.Given...)
	if err == nil && r.TakesTurns() && p.Machine.Card == nil {
		return nil, refusal.Errorf("--partitions %d: only meshes whose workers hold one partition each are "+
			"compared; leave it out", r.Partitions)
	}
	if err == nil && p.ExactOnly && !r.Exact("wire", "wire-schedule") {
		return nil, refusal.Errorf("training is approximate; name the mesh to take it")
	}
	return r, err
}

// mesh predicts a mesh on the graph, and refuses it if it has more than most steps; 0: no limit. say is
// called with what it does.
func (p *Planner) mesh(ctx context.Context, grid mesh.Mesh, most int,
	say func(what string),
) (m *Mesh, err error) {
	r, err := p.resolve(grid)
	if err != nil {
		return nil, err
	}
	if err := r.CheckGraph(p.Graph); err != nil {
		return nil, err
	}
	job, err := p.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, j := range []*train.Job{job, job.Validate} {
			if j != nil && j.Graph != nil && j.Graph != p.Graph {
				err = errors.Join(err, j.Graph.Close())
			}
		}
	}()
	say("planning its messages and memory")
	p.Machine.prepare(job, r.Workers)
	m = p.newMesh(r)
	if r.Mesh.Partitions > 1 && job.Parts == nil {
		if job.Parts, err = job.MakeParts(ctx); err != nil {
			return nil, err
		}
	}
	asks := plan.Asks{Counts: true, MostSteps: most, Most: mostPlanned}
	if m.Plan, err = job.PlanWith(ctx, asks); err != nil {
		return nil, err
	}
	if err := p.checkLimits(m); err != nil {
		return nil, err
	}
	if job.Parts != nil {
		m.Balance = job.Parts.Balance
		m.haloRows = job.Parts.Whole.Statistics.Replication() - 1
	}
	if card := p.Machine.Card; card != nil {
		m.Rates = card.ratesOn(m)
	} else if m.Rates, err = p.rates(ctx, p.options(fewer(grid)), m.work(), p.machine(r), say); err != nil {
		return nil, err
	}
	p.predict(m)
	return m, nil
}

// checkLimits refuses a mesh that takes more memory than it may.
func (p *Planner) checkLimits(m *Mesh) error {
	here := min(p.Machine.Sharers, m.Settings.Workers)
	m.Plan.Advice = plan.MorePartitions
	if p.Machine.Card == nil { // on the CPU only meshes without turns are compared
		m.Plan.Advice = plan.TrainPartitions
	}
	return cmp.Or(m.Plan.CheckLimit(m.Settings.MemoryLimit),
		m.Plan.CheckHost(m.Settings.HostMemoryLimit, here), m.Plan.CheckMachine(p.Machine.HostMemory, here))
}

func (p *Planner) newMesh(r *setting.Resolved) *Mesh {
	return &Mesh{Parallel: r.Parallel, Settings: r, Exact: r.Exact()}
}

// Predict predicts an epoch of a run on cards from its plan, which has Counts.
func (p *Planner) Predict(r *setting.Resolved, planned plan.Plan) *Mesh {
	m := p.newMesh(r)
	m.Plan = planned
	m.Rates = p.Machine.Card.ratesOn(m)
	p.predict(m)
	return m
}

// prepare prepares a job whose workers run on such machines for its plan.
func (m *Machine) prepare(job *train.Job, workers int) {
	job.CoreSharers = m.Sharers
	for worker := range workers {
		job.Machines = append(job.Machines, worker/max(1, m.Sharers))
	}
	job.Checkpoints = &train.Checkpoints{} // a run may write some
	if m.Card != nil {
		job.Cards = m.Card.forWorker(&job.Options, m.OnOne(workers))
	}
}

// work is how many multiply-adds a forward pass has.
func (m *Mesh) work() (all float64) {
	for _, cost := range m.Plan.Workers[0].Costs {
		all += cost
	}
	return all
}

// machine is the machine of the workers of a mesh.
func (p *Planner) machine(r *setting.Resolved) *Machine {
	m := p.Machine
	m.Threads = (&train.Job{CoreSharers: m.Sharers}).Threads(r)
	return &m
}

// predict sets the times of a mesh, which follow from its plan and its rates.
func (p *Planner) predict(m *Mesh) {
	f := formula{
		Machine: *p.machine(m.Settings), Resolved: m.Settings, chunks: m.Plan.Workers[0].Chunks.Each,
		loads: make([]load, len(m.Plan.Workers)),
	}
	for i := range m.Plan.Workers {
		if w := &m.Plan.Workers[i]; w.Like == i {
			m.steps += w.Counts.Steps()
			f.loads[i] = loadOf(&w.Counts, m.Settings, m.Rates)
			if card := p.Machine.Card; card != nil {
				f.loads[i].copies = max(0, card.copies(w.Disk)-f.loads[i].kernels)
			}
		}
	}
	for i := range f.loads {
		f.loads[i] = f.loads[m.Plan.Workers[i].Like]
	}
	m.Times = f.times()
}

// measuredWork is about how many multiply-adds a forward pass of a measured epoch has at most. With so many,
// its rows are no longer all in the caches.
const measuredWork = 1e9

// fewer is a mesh with the same axes and fewer workers, on which kernels are measured in this process.
func fewer(grid mesh.Mesh) mesh.Mesh {
	const most = 8
	for grid.Workers() > most {
		axes := []*int{&grid.Partitions, &grid.Slices, &grid.Stages}
		longest := slices.MaxFunc(axes, func(a, b *int) int { return cmp.Compare(*a, *b) })
		*longest = max(2, *longest/2)
	}
	return grid
}

// rates are the rates of a mesh with these options: kept or measured. work is the work of the whole graph.
func (p *Planner) rates(ctx context.Context, o setting.Options, work float64, m *Machine,
	say func(what string),
) (*Rates, error) {
	o, work = measured(o, work)
	o.Threads = m.Threads
	atOnce := max(1, min(m.Sharers, m.Cores/m.Threads))
	alike := o // for a graph of one relation and one split
	alike.Split, alike.LinkRelation = task.Split{}, ""
	if o.EdgeLabel != "" {
		alike.PassMessages = task.PassAll
	}
	if o.Task == task.Link { // evaluation does not count, and this metric ranks nothing
		alike.Metric = metric.ROCAUC
		if p.Graph == nil || !p.givesTargets() {
			o.Metric = metric.ROCAUC
		}
	}
	fraction := min(1, measuredWork/max(1, work))
	large := p.Graph == nil || fraction < 1
	if large {
		o = alike
	}
	r, err := o.Resolve()
	if err != nil {
		return nil, err
	}
	text, err := r.YAML()
	if err != nil {
		return nil, err
	}
	like := p.smaller(fraction)
	on := fmt.Sprintf("%+v", like) // what is measured
	if !large {
		if on, err = p.Graph.Checksum(); err != nil {
			return nil, err
		}
	}
	key := fmt.Appendf(text, "%d at once\n%s", atOnce, on)
	rates, unkept, err := machine.Kept(p.Cache, key, Rates.possible, func() (r Rates, err error) {
		all := sample{p.Graph, o}
		if large {
			if all.Graph, err = like.graph(); err != nil {
				return r, err
			}
		}
		var few *sample
		const part = 8
		if fewer := p.smaller(fraction / part); fewer.Vertices < all.Types[0].Count/2 {
			g, err := fewer.graph()
			if err != nil {
				return r, err
			}
			few = &sample{g, alike}
		}
		say("measuring its kernels")
		return measure(ctx, all, few, atOnce)
	})
	rates.Unkept = unkept
	return &rates, err
}

// measured are options with the same kernels and fewer layers, and the work of these. Options that change no
// kernel have their defaults.
func measured(o setting.Options, work float64) (setting.Options, float64) {
	plain := setting.Defaults()
	o.Epochs, o.EvalEvery, o.Patience = measuredEpochs, measuredEpochs, 0
	o.MemoryLimit, o.MaxTime = 0, 0
	o.Init, o.Validate, o.CheckpointEvery, o.Select = "", "", plain.CheckpointEvery, plain.Select
	o.Seed, o.SplitSeed = plain.Seed, plain.SplitSeed
	o.LR, o.Schedule, o.Warmup = plain.LR, plain.Schedule, plain.Warmup
	const enough = 4 // layers: the first and the last differ from the ones between
	fewer := o
	fewer.Layers = min(o.Layers, enough)
	if _, err := fewer.Resolve(); err != nil { // a pipeline of more stages needs more layers
		return o, work
	}
	return fewer, work * float64(fewer.Layers) / float64(max(1, o.Layers))
}

// givesTargets reports whether the graph's split of edges gives each edge negative targets of its own.
func (p *Planner) givesTargets() bool {
	splits := partition.WholeOf(p.Graph).EdgeSplits
	return len(splits) > 0 && splits[0].Negatives == graph.TargetNegatives
}

// twin describes a uniform graph that resembles another graph.
type twin struct {
	generate.Options
	EdgeColumns, ValueColumns int
	SeveralLabels             bool   // of a vertex, or of an edge
	OfEdges                   string // the name of the edges' labels; "": vertices have labels
}

// smaller describes a graph with a fraction of the vertices, and the same degree, features and kind of
// labels. All edges have as many features as the relation with most. Vertices and degree are rounded, so that
// similar graphs share their rates.
func (p *Planner) smaller(fraction float64) twin {
	const fewest = 2000
	var whole partition.Whole
	l := twin{Options: generate.Default(generate.Uniform)}
	if p.Graph == nil {
		whole, l.EdgeColumns = p.Counts.Whole, p.Counts.EdgeColumns
	} else {
		whole = partition.WholeOf(p.Graph)
		for i := range p.Graph.Relations {
			l.EdgeColumns = max(l.EdgeColumns, p.Graph.Relations[i].Features.Columns)
		}
	}
	for i := range whole.Frames {
		if edges := &whole.Frames[i]; edges.Named(p.Options.EdgeLabel) {
			whole.WholeFrame, l.OfEdges = *edges.Frame(), edges.Column
			break
		}
	}
	l.ValueColumns, l.SeveralLabels = whole.ValueColumns, whole.SeveralLabels
	rounded := func(x float64) float64 { return math.Exp2(math.Round(2*math.Log2(x)) / 2) }
	l.Vertices = min(whole.Vertices, max(fewest, int(rounded(fraction*float64(whole.Vertices)))))
	l.Degree = rounded(float64(whole.Edges) / float64(whole.Vertices))
	l.Directed = true
	l.Features, l.Classes = whole.Types[0].FeatureColumns, max(1, whole.Classes)
	return l
}

// graph makes the graph. Labels and edge features, other than classes, cycle through a few numbers.
func (l *twin) graph() (*graph.Graph, error) {
	g, err := generate.Graph(l.Options)
	if err != nil {
		return nil, err
	}
	inTurn := func(n int, different float32) []float32 {
		all := make([]float32, n)
		for k := 1; k < n; k++ {
			all[k] = all[k-1] + 1
			if all[k] == different {
				all[k] = 0
			}
		}
		return all
	}
	r := &g.Relations[0]
	r.Features.Columns = l.EdgeColumns
	if l.EdgeColumns > 0 {
		r.Features.Dense = inTurn(len(r.Sources)*l.EdgeColumns, 7)
	}
	frame, rows := &g.Types[0].Frame, g.Types[0].Count
	if l.OfEdges != "" {
		frame.SetLabels(&graph.Frame{})
		frame, rows = &r.Frame, len(r.Sources)
	}
	switch {
	case l.ValueColumns > 0:
		frame.Labels = graph.Labels{Columns: l.ValueColumns, Values: inTurn(rows*l.ValueColumns, 5)}
	case l.SeveralLabels:
		frame.Labels = graph.Labels{Classes: l.Classes, Multi: inTurn(rows*l.Classes, 2)}
	case l.OfEdges != "":
		frame.Labels = graph.Labels{Classes: l.Classes, Class: make([]int64, rows)}
		for k := range rows {
			frame.Labels.Class[k] = int64(k % l.Classes)
		}
	}
	if l.OfEdges != "" {
		frame.Labels.Column = l.OfEdges
		return g, frame.MakeSplits("random:60/20/20", 1, 1)
	}
	return g, nil
}
