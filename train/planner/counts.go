package planner

import (
	"cmp"
	"context"
	"math"
	"slices"

	"weft/graph"
	"weft/internal/refusal"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
)

// Counts describe a graph, which need not be there, as a mixture. A share of its edges leads from any vertex
// to any other, as in a random graph. All others stay within a partition.
type Counts struct {
	partition.Whole
	Symmetric, Weighted bool
	EdgeColumns         int
	// Mixing is the share of the edges that lead anywhere; 1: the graph is random.
	Mixing float64
}

// CountsOf are the counts of a graph, taken as random. They are nil if counts do not describe it: with
// several vertex types, relations or graphs, or with sparse features.
func CountsOf(g *graph.Graph) *Counts {
	whole := partition.WholeOf(g)
	if len(g.Relations) != 1 || len(whole.Types) > 1 || whole.Types[0].FeatureValues > 0 || whole.Graphs > 0 {
		return nil
	}
	whole.Types[0].Columns, whole.EdgeSplits = nil, nil
	r := &g.Relations[0]
	return &Counts{
		Whole: whole, Symmetric: r.Symmetric, Weighted: r.Weights != nil,
		EdgeColumns: r.Features.Columns, Mixing: 1,
	}
}

// degree is the mean number of edges out of a vertex.
func (c *Counts) degree() float64 { return float64(c.Edges) / float64(c.Vertices) }

// HaloRows is how many rows k partitions receive from each other together, for each vertex. It is the
// expected number of other partitions into which at least one of a vertex's edges leads. The number of edges
// that lead into one partition is Poisson's with mean Mixing·degree/k:
//
//	(k−1)·(1 − exp(−Mixing·degree/k))
func (c *Counts) HaloRows(k int) float64 {
	return float64(k-1) * -math.Expm1(-c.Mixing*c.degree()/float64(k))
}

// mixing is the Mixing with which k partitions receive rows rows for each vertex.
func (c *Counts) mixing(k int, rows float64) float64 {
	return -math.Log1p(-rows/float64(k-1)) * float64(k) / c.degree()
}

// Measured sets Mixing so that k partitions receive rows rows for each vertex, k at least 2. It reports
// whether the edges can bring so many rows.
func (c *Counts) Measured(k int, rows float64) bool {
	m := c.mixing(k, rows)
	if !(m >= 0) || m*float64(k-1)/float64(k) > 1 {
		return false
	}
	c.Mixing = m
	return true
}

// within describes the graph in k partitions, with vertices in place of its own number.
func (c *Counts) within(k, vertices int) *Alike {
	fraction := float64(vertices) / float64(c.Vertices)
	part := func(n int) int { return int(math.Round(fraction * float64(n))) }
	whole := c.Grown([]int{vertices}, int64(math.Round(fraction*float64(c.Edges))))
	parts := func(all []graph.SplitSizes) (some []graph.SplitSizes) {
		for _, s := range all {
			some = append(some, graph.SplitSizes{Train: part(s.Train), Val: part(s.Val), Test: part(s.Test)})
		}
		return some
	}
	whole.Splits, whole.Frames = parts(c.Splits), slices.Clone(c.Frames)
	for i := range whole.Frames {
		whole.Frames[i].Splits = parts(whole.Frames[i].Splits)
	}
	cut := c.Mixing * float64(k-1) / float64(k)
	return &Alike{
		Partitions: k, Whole: whole, Symmetric: c.Symmetric, Weighted: c.Weighted, EdgeColumns: c.EdgeColumns,
		CutShare: cut, HaloRows: c.HaloRows(k),
		FarShare: min(c.Mixing/float64(k), 1-cut),
	}
}

// Sizes of the smaller graphs that are planned in place of a large one.
const (
	fewestRows = 1 << 13 // rows of a slice: eight tiles of the kernel's, for sums of several lanes
	leastRows  = 1 << 15 // rows of a partition, at least
	mostEdges  = 1 << 21 // edges of a partition, at most
	fewEdges   = 1 << 19 // of a partition in chunks and slices: so many that no blocks of edges are joined
	further    = 1.25    // vertices of the larger of two planned graphs, over those of the smaller one
	mostChunks = 8       // chunks of a partition, at most, where slices send messages for each
)

// rows is how many rows a partition of the smaller graph has on a mesh. If a slice would have too few rows
// for all lanes, its sums have equally many lanes in both graphs, so that they do not seem to grow. If
// partitions take turns, all are planned: then each has few rows.
func (c *Counts) rows(grid mesh.Mesh, turns bool) int {
	const half, mostHalves = 512, 4 // rows of half a tile, as lanes add them; half tiles of a slice, at most
	rowsFor := func(edges float64) int { return max(fewestRows, int(edges/max(1, c.degree()))) }
	if grid.Stages > 1 && grid.Slices > 1 {
		return rowsFor(fewEdges)
	}
	most := rowsFor(mostEdges)
	if turns {
		return min(max(fewestRows, leastRows/grid.Slices), most)
	}
	if rows := max(leastRows, fewestRows*grid.Slices); rows <= most || grid.Slices == 1 {
		return min(rows, most)
	}
	halves := max(1, min(mostHalves, most/(half*grid.Slices)))
	return int(float64(min(most, halves*half*grid.Slices)) / further)
}

// plan plans a mesh of the settings without a memory limit. It plans a large graph by the plans of two
// smaller ones, from which memory, bytes and calls grow in proportion to the vertices. If slices send
// messages for each of many chunks, two plans with fewer chunks stand for one. Any other plan is exact.
func (c *Counts) plan(ctx context.Context, r *setting.Resolved, on *Machine) (plan.Plan, error) {
	o, grid := r.Options, r.Mesh
	o.MemoryLimit = 0
	if o.Offload == setting.RAM {
		return c.resting(ctx, r, on)
	}
	chunks, _ := r.ChunksOfPartition([]int{0, c.Vertices / grid.Partitions}, len(c.Types))
	planLarger := func(fewer float64) (plan.Plan, error) {
		return c.ofSizes(r, func(vertices int) (plan.Plan, error) {
			return c.ofVertices(ctx, vertices, o, plan.Asks{LargerBy: fewer}, r, on)
		})
	}
	if grid.Stages == 1 || grid.Slices == 1 || chunks <= mostChunks {
		return planLarger(1)
	}
	with := func(few int) (plan.Plan, error) {
		o.Chunks = axis.Chunks(few * grid.Partitions)
		return planLarger(float64(few) / float64(chunks)) // the graph's chunks are smaller by this factor
	}
	return between(with, mostChunks/2, mostChunks, chunks, plan.MoreChunks)
}

// least bounds from below the bytes of the graph on each worker of a pipeline; elsewhere it is 0. The worker
// holds as Int32 the sources of the edges into all chunks of its partition. It also holds the targets of
// edges from another chunk or partition, which the backward pass reads.
func (c *Counts) least(r *setting.Resolved) int64 {
	grid := r.Mesh
	if grid.Stages == 1 {
		return 0
	}
	const perEdge = 4
	alike := c.within(grid.Partitions, c.Vertices)
	chunks, _ := r.ChunksOfPartition([]int{0, c.Vertices / grid.Partitions}, len(c.Types))
	others := alike.CutShare + alike.FarShare*(1-1/float64(chunks))
	return int64(perEdge * float64(c.Edges) / float64(grid.Partitions) * (1 + others))
}

// features are the bytes of a worker's feature matrices, one for each of its partitions. They are 0 for a
// program, which may read no features.
func (c *Counts) features(r *setting.Resolved) int64 {
	if r.Program.Path != "" {
		return 0
	}
	total := float64(c.Vertices) * float64(c.Types[0].FeatureColumns) * float64(r.Storage.Size())
	return int64(total) / int64(r.Workers)
}

// Loop plans the passes of a caller's loop that gives no edges. It takes the first settings of what a worker
// keeps that meet the memory limit.
func (c *Counts) Loop(ctx context.Context, r *setting.Resolved, loop plan.Loop) (p plan.Plan, err error) {
	if r.Offload != "" {
		return p, refusal.Errorf("--offload %s: counts do not tell what rests of a loop; leave it out, or name a "+
			"graph", r.Offload)
	}
	for _, with := range saving(r) {
		p, err = c.ofSizes(with, func(vertices int) (plan.Plan, error) {
			o := with.Options
			o.MemoryLimit = 0
			job, err := c.within(with.Mesh.Partitions, vertices).Job(o)
			if err != nil {
				return plan.Plan{}, err
			}
			return job.PlanPasses(ctx, plan.Asks{
				Loop: &loop, Alike: true, LargerBy: float64(c.Vertices) / float64(vertices),
			})
		})
		if err != nil {
			return p, err
		}
		if err = p.CheckLimit(r.MemoryLimit); err == nil {
			break
		}
	}
	return p, err
}

// resting plans a mesh of partitions that take turns on a card. If the card has no room for all, it plans a
// smaller graph of which as large a part rests as has to rest of the graph itself.
func (c *Counts) resting(ctx context.Context, r *setting.Resolved, on *Machine) (plan.Plan, error) {
	o, sharing := r.Options, on.OnOne(r.Workers)
	o.MemoryLimit, o.HostMemoryLimit, o.Offload = 0, 0, ""
	var small plan.Plan
	size := 0 // the larger of two sizes
	all, err := c.ofSizes(r, func(vertices int) (p plan.Plan, err error) {
		size = vertices
		small, err = c.ofVertices(ctx, vertices, o, plan.Asks{}, r, on)
		return small, err
	})
	if err != nil {
		return all, err
	}
	_, smaller := small.Most()
	_, needs := all.Most()
	limit := on.Card.forWorker(&r.Options, sharing).Bytes
	if needs <= limit {
		return all, nil
	}
	o.MemoryLimit = setting.Bytes(float64(smaller)*float64(limit)/float64(needs)) * setting.Bytes(sharing)
	o.Offload = r.Offload
	rests, err := c.ofVertices(ctx, size, o, plan.Asks{InMemory: &small}, r, on)
	if err != nil {
		return all, err
	}
	resting := plan.Resting(&all, &small, &rests, float64(c.Vertices)/float64(size))
	resting.All = needs
	return resting, nil
}

// ofVertices plans vertices vertices in place of the graph's. Of asks it reads InMemory and LargerBy.
// LargerBy is how many times as many rows a chunk of the graph has; 0: as many.
func (c *Counts) ofVertices(ctx context.Context, vertices int, o setting.Options, asks plan.Asks,
	r *setting.Resolved, on *Machine,
) (plan.Plan, error) {
	job, err := c.within(r.Mesh.Partitions, vertices).Job(o)
	if err != nil {
		return plan.Plan{}, err
	}
	on.prepare(job, r.Workers)
	asks.Counts, asks.Alike = true, true
	asks.LargerBy = cmp.Or(asks.LargerBy, 1) * float64(c.Vertices) / float64(vertices)
	return job.PlanWith(ctx, asks)
}

// ofSizes plans the graph, or two smaller ones in its place.
func (c *Counts) ofSizes(r *setting.Resolved, eval func(vertices int) (plan.Plan, error)) (plan.Plan, error) {
	rows, k := c.rows(r.Mesh, r.TakesTurns()), r.Mesh.Partitions
	first, second := rows*k, int(further*float64(rows))*k
	switch {
	case c.Vertices > second:
	case r.TakesTurns(): // with equal partitions
		return eval(c.Vertices / k * k)
	default:
		return eval(c.Vertices)
	}
	return between(eval, first, second, c.Vertices, plan.Extrapolate)
}

// between plans two sizes, and extrapolates from them to another one.
func between(eval func(size int) (plan.Plan, error), first, second, size int,
	extrapolate func(a, b *plan.Plan, at float64) plan.Plan,
) (plan.Plan, error) {
	a, err := eval(first)
	if err != nil {
		return a, err
	}
	b, err := eval(second)
	if err != nil {
		return b, err
	}
	return extrapolate(&a, &b, float64(size-first)/float64(second-first)), nil
}

// tell reports whether the counts suffice to tell what a run does.
func (c *Counts) tell(o *setting.Options) bool { return c.describe(o) == nil }

// describe refuses options for which the counts do not suffice to tell what a run does.
func (c *Counts) describe(o *setting.Options) error {
	learnsEdges := o.Task == task.Edge || o.EdgeLabel != ""
	ofPeriods := o.PassMessages == task.PassEarlier || o.PassMessages != task.PassAll &&
		slices.ContainsFunc(c.Frames, func(l partition.RelationFrame) bool { return l.Rule != "" })
	switch {
	case o.Task == task.Link:
		return refusal.Errorf("--task %s: counts of a graph do not tell which edges are held out; name a graph", o.Task)
	case learnsEdges && ofPeriods:
		return refusal.Errorf("--pass-messages %s: counts of a graph do not tell which edges pass messages; name a "+
			"graph", task.PassEarlier)
	case o.Validate != "":
		return refusal.Errorf("--validate %s: counts stand for one graph; leave it out", o.Validate)
	}
	return nil
}
