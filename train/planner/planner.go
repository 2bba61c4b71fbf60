// Package planner predicts how long an epoch takes on each mesh of some workers, before any run: from the
// plan of each mesh, which counts kernel calls and messages, from rates that are measured on this machine,
// and from the rate of the links.
package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/refusal"
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
	// Given names the settings that a mesh without their axis is refused for. Other settings of axes that a
	// mesh lacks have their defaults on it.
	Given   []string
	Machine Machine // with Threads 0: as many as the workers of a machine have cores
	// Open opens the graph for a mesh.
	Open func(context.Context, *setting.Resolved) (*train.Job, error)
	// Graph is the whole graph, on which kernels are measured if it is small.
	Graph *graph.Graph
	// Cache keeps rates by what they depend on: the graph, the settings, Machine, and On, which tells this
	// processor and program from others.
	Cache Cache
	On    string
	// Progress is told which mesh is planned and measured.
	Progress graph.Progress
}

// Mesh is what is predicted for a mesh.
type Mesh struct {
	Parallel string
	Settings *setting.Resolved
	Plan     plan.Plan
	Times    Times
	// Balance is what its partitions balance, "": there is one.
	Balance string
	// Exact says that training on the mesh gives the results of one worker, but for rounding.
	Exact bool
	// Rates are what kernels take on it.
	Rates *Rates

	steps int // kernel calls, starts and ends of messages of all workers
}

// PeakTensorBytes is that of the worker with most.
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

// mostSteps is about how many steps the meshes of several axes have together. A step takes some microseconds
// to plan.
const mostSteps = 3_000_000

// Meshes predicts all meshes of so many workers, the fastest first. Those that are not possible are refused.
// So are meshes of several axes that have too many messages: the messages between slices grow with their
// number squared and with the chunks of a pipeline.
func (p *Planner) Meshes(ctx context.Context, workers int) (meshes []Mesh, refused []Refused, err error) {
	return p.within(ctx, workers, mostSteps)
}

// within is Meshes where meshes of several axes have at most so many steps together.
func (p *Planner) within(ctx context.Context, workers,
	left int,
) (meshes []Mesh, refused []Refused, err error) {
	all := grids(workers)
	for k, grid := range all {
		say := func(what string) {
			p.Progress.Of(fmt.Sprintf("mesh %d of %d, %s: %s", k+1, len(all),
				cmp.Or(setting.Axes(grid), "one worker"), what), 0, 0)
		}
		most := 0
		if axes(grid) > 1 {
			most = max(1, left)
		}
		m, err := p.mesh(ctx, grid, most, say)
		if err == nil && most > 0 {
			left -= m.steps
		}
		switch {
		case refusal.Is(err) && ctx.Err() == nil:
			refused = append(refused, Refused{setting.Axes(grid), err})
		case err != nil:
			return nil, nil, err
		default:
			meshes = append(meshes, *m)
		}
	}
	slices.SortStableFunc(meshes, func(a, b Mesh) int { return cmp.Compare(a.Times.Epoch, b.Times.Epoch) })
	return meshes, refused, nil
}

// grids are all meshes of so many workers: first those of one axis.
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

// options are those of a run on a mesh.
func (p *Planner) options(grid mesh.Mesh) setting.Options {
	o := p.Options
	o.Parallel = setting.Axes(grid)
	o.ResetOtherAxes(func(name string) bool { return slices.Contains(p.Given, name) })
	return o
}

// mesh predicts one mesh of at most so many steps; 0: of any number. say is told what it does.
func (p *Planner) mesh(ctx context.Context, grid mesh.Mesh, most int,
	say func(what string),
) (m *Mesh, err error) {
	o := p.options(grid)
	r, err := o.Resolve(p.Given...)
	if err != nil {
		return nil, err
	}
	if r.TakesTurns() {
		return nil, refusal.Errorf("%s %d: only meshes whose workers hold one partition each are "+
			"compared; leave it out", refusal.Setting("partitions"), r.Partitions)
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
	return p.predict(ctx, r, job, most, say)
}

// predict predicts the mesh of a job.
func (p *Planner) predict(ctx context.Context, r *setting.Resolved, job *train.Job, most int,
	say func(what string),
) (m *Mesh, err error) {
	say("planning its messages and memory")
	job.CoreSharers, job.PlanCounts, job.MostPlanSteps = p.Machine.Sharers, true, most
	for worker := range r.Workers {
		job.Machines = append(job.Machines, worker/max(1, p.Machine.Sharers))
	}
	job.Checkpoints = &train.Checkpoints{} // a run may write some
	grid := r.Mesh
	m = &Mesh{
		Parallel: r.Parallel, Settings: r,
		Exact: (grid.Stages == 1 || int(r.Chunks) == grid.Partitions) && r.HaloDelay == 0,
	}
	if m.Plan, err = job.Plan(ctx); err != nil {
		return nil, err
	}
	if err := m.Plan.CheckLimit(r.MemoryLimit); err != nil {
		return nil, err
	}
	if job.Parts != nil {
		m.Balance = job.Parts.Balance
	}
	machine := p.Machine
	machine.Threads = job.Threads(r)
	if m.Rates, err = p.rates(ctx, p.options(fewer(grid)), &m.Plan, &machine, say); err != nil {
		return nil, err
	}
	f := formula{Machine: machine, Resolved: r, chunks: m.Plan.Workers[0].Chunks.Each}
	for i := range m.Plan.Workers {
		counts := &m.Plan.Workers[i].Counts
		m.steps, f.loads = m.steps+counts.Steps(), append(f.loads, loadOf(counts, r, m.Rates))
	}
	m.Times = f.times()
	return m, nil
}

// measuredWork is about how many multiply-adds of a forward pass a measured epoch has at most.
const measuredWork = 5e8

// fewer is a mesh with the same axes on which kernels are measured in this process.
func fewer(grid mesh.Mesh) mesh.Mesh {
	const most = 8
	for grid.Workers() > most {
		axes := []*int{&grid.Partitions, &grid.Slices, &grid.Stages}
		longest := slices.MaxFunc(axes, func(a, b *int) int { return cmp.Compare(*a, *b) })
		*longest = max(2, *longest/2)
	}
	return grid
}

// rates are those of a mesh with these options: kept ones, or measured. of is the plan of the whole graph.
func (p *Planner) rates(ctx context.Context, o setting.Options, of *plan.Plan, machine *Machine,
	say func(what string),
) (*Rates, error) {
	o.Threads, o.Epochs, o.EvalEvery, o.Patience, o.MemoryLimit, o.Init, o.Validate = machine.Threads,
		measuredEpochs, measuredEpochs, 0, 0, "", ""
	atOnce := max(1, min(machine.Sharers, machine.Cores/machine.Threads))
	work := 0.0
	for _, cost := range of.Workers[0].Costs {
		work += cost
	}
	large := work > measuredWork
	if large { // which is measured on another graph, of one relation and one split
		o.Split, o.LinkRelation = task.Split{}, ""
	}
	if o.Task == task.Link && (large || !p.givesTargets()) {
		o.Metric = metric.ROCAUC // evaluation does not count, and this one ranks nothing
	}
	r, err := o.Resolve()
	if err != nil {
		return nil, err
	}
	text, err := r.YAML()
	if err != nil {
		return nil, err
	}
	var on string // what is measured
	measured := func() (*graph.Graph, error) { return p.Graph, nil }
	if large {
		like := p.smaller(measuredWork / work)
		on, measured = fmt.Sprintf("%+v", like), like.graph
	} else if on, err = p.Graph.Checksum(); err != nil {
		return nil, err
	}
	key := fmt.Appendf(text, "%s\n%d at once\n%s", p.On, atOnce, on)
	return p.Cache.of(key, func() (*Rates, error) {
		g, err := measured()
		if err != nil {
			return nil, err
		}
		say("measuring its kernels")
		return measure(ctx, g, o, atOnce)
	})
}

// givesTargets reports whether the graph's split of edges gives each edge negative targets of its own.
func (p *Planner) givesTargets() bool {
	splits := partition.All(p.Graph).Whole.EdgeSplits
	return len(splits) > 0 && splits[0].Negatives == graph.TargetNegatives
}

// likeness describes a uniform graph that is like another.
type likeness struct {
	generate.Options
	EdgeColumns, ValueColumns int
	SeveralLabels             bool // for each vertex
}

// smaller describes a graph with a fraction of the vertices, and the graph's degree, features and kind of
// labels. Edges have as many features as those of the relation that has most.
func (p *Planner) smaller(fraction float64) likeness {
	const fewest = 2000
	whole := partition.All(p.Graph).Whole
	l := likeness{
		Options: generate.Default(generate.Uniform), ValueColumns: whole.ValueColumns,
		SeveralLabels: p.Graph.Labels.MultiLabel(),
	}
	l.Vertices = min(whole.Vertices, max(fewest, int(fraction*float64(whole.Vertices))))
	l.Degree, l.Directed = float64(whole.Edges)/float64(whole.Vertices), true
	l.Features, l.Classes = whole.FeatureColumns, max(1, whole.Classes)
	for i := range p.Graph.Relations {
		l.EdgeColumns = max(l.EdgeColumns, p.Graph.Relations[i].EdgeColumns)
	}
	return l
}

// graph makes the graph. Labels and edge features beside classes are few numbers in turn.
func (l *likeness) graph() (*graph.Graph, error) {
	g, err := generate.Graph(l.Options)
	if err != nil {
		return nil, err
	}
	inTurn := func(n int, different float32) []float32 {
		all := make([]float32, n)
		for k := 1; k < n; k++ {
			if all[k] = all[k-1] + 1; all[k] == different {
				all[k] = 0
			}
		}
		return all
	}
	r := &g.Relations[0]
	if r.EdgeColumns = l.EdgeColumns; l.EdgeColumns > 0 {
		r.EdgeFeatures = inTurn(len(r.Sources)*l.EdgeColumns, 7)
	}
	switch {
	case l.ValueColumns > 0:
		g.Labels = graph.Labels{Columns: l.ValueColumns, Values: inTurn(g.Own()*l.ValueColumns, 5)}
	case l.SeveralLabels:
		g.Labels = graph.Labels{Classes: l.Classes, Multi: inTurn(g.Own()*l.Classes, 2)}
	}
	return g, nil
}
