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

// Counts describe a graph, which need not be there, as a mixture: a share of its edges leads from any vertex
// to any other, as in a random graph, and all others stay within a partition.
type Counts struct {
	partition.Whole
	Symmetric, Weighted bool
	EdgeColumns         int
	// Mixing is the share of the edges that lead anywhere. 1: the graph is random.
	Mixing float64
}

// CountsOf are the counts of a graph, taken as random. It returns nil where these do not describe it: with
// several vertex types, relations or graphs, or sparse features.
func CountsOf(g *graph.Graph) *Counts {
	whole := partition.WholeOf(g)
	if len(g.Relations) != 1 || len(whole.Types) > 1 || whole.Types[0].FeatureValues > 0 || whole.Graphs > 0 {
		return nil
	}
	whole.Types[0].Columns, whole.EdgeSplits = nil, nil
	r := &g.Relations[0]
	return &Counts{
		Whole: whole, Symmetric: r.Symmetric, Weighted: r.Weights != nil,
		EdgeColumns: r.EdgeColumns, Mixing: 1,
	}
}

// degree is the mean number of edges out of a vertex.
func (c *Counts) degree() float64 { return float64(c.Edges) / float64(c.Vertices) }

// HaloRows is how many rows k partitions receive of each other together, for each vertex: the expected number
// of partitions but its own into which at least one of a vertex's edges leads, where the number of those that
// lead into one is Poisson's with a mean of Mixing·degree/k:
//
//	(k−1)·(1 − exp(−Mixing·degree/k))
func (c *Counts) HaloRows(k int) float64 {
	return float64(k-1) * -math.Expm1(-c.Mixing*c.degree()/float64(k))
}

// mixing is the Mixing with which k partitions receive so many rows for each vertex.
func (c *Counts) mixing(k int, rows float64) float64 {
	return -math.Log1p(-rows/float64(k-1)) * float64(k) / c.degree()
}

// Measured takes the Mixing from rows that k partitions receive for each vertex, k at least 2. It reports
// whether so many edges can bring so many rows.
func (c *Counts) Measured(k int, rows float64) bool {
	m := c.mixing(k, rows)
	if !(m >= 0) || m*float64(k-1)/float64(k) > 1 {
		return false
	}
	c.Mixing = m
	return true
}

// within describes the graph in k partitions, with so many vertices in place of its own.
func (c *Counts) within(k, vertices int) *Alike {
	of := float64(vertices) / float64(c.Vertices)
	part := func(n int) int { return int(math.Round(of * float64(n))) }
	whole := c.Grown([]int{vertices}, int64(math.Round(of*float64(c.Edges))))
	parts := func(all []graph.SplitSizes) (some []graph.SplitSizes) {
		for _, s := range all {
			some = append(some, graph.SplitSizes{Train: part(s.Train), Val: part(s.Val), Test: part(s.Test)})
		}
		return some
	}
	whole.Splits, whole.EdgeLabels = parts(c.Splits), slices.Clone(c.EdgeLabels)
	for i := range whole.EdgeLabels {
		whole.EdgeLabels[i].Splits = parts(whole.EdgeLabels[i].Splits)
	}
	cut := c.Mixing * float64(k-1) / float64(k)
	return &Alike{
		Partitions: k, Whole: whole, Symmetric: c.Symmetric, Weighted: c.Weighted, EdgeColumns: c.EdgeColumns,
		CutShare: cut, HaloRows: c.HaloRows(k),
		FarShare: min(c.Mixing/float64(k), 1-cut),
	}
}

// The sizes of what is planned in the place of something larger.
const (
	fewestRows = 1 << 13 // of a slice: eight tiles of the kernel's, for sums of several lanes
	leastRows  = 1 << 15 // of a partition
	mostEdges  = 1 << 21 // of a partition
	fewEdges   = 1 << 19 // of one in chunks and in slices: so many that no blocks of edges are joined
	further    = 1.25    // the vertices of the larger one of two graphs, over those of the smaller one
	mostChunks = 8       // of a partition, where slices send messages for each
)

// rows is how many rows a partition of the smaller graph has on a mesh. Where a slice would have too few for
// all lanes, its sums have equally many in both graphs, so that they do not seem to grow. All partitions are
// planned where they take turns: there it has few.
func (c *Counts) rows(grid mesh.Mesh, turns bool) int {
	const half, mostHalves = 512, 4 // of a tile of rows, as lanes add them; of a slice
	of := func(edges float64) int { return max(fewestRows, int(edges/max(1, c.degree()))) }
	if grid.Stages > 1 && grid.Slices > 1 {
		return of(fewEdges)
	}
	most := of(mostEdges)
	if turns {
		return min(max(fewestRows, leastRows/grid.Slices), most)
	}
	if rows := max(leastRows, fewestRows*grid.Slices); rows <= most || grid.Slices == 1 {
		return min(rows, most)
	}
	halves := max(1, min(mostHalves, most/(half*grid.Slices)))
	return int(float64(min(most, halves*half*grid.Slices)) / further)
}

// plan plans a mesh of the settings without a memory limit: exactly, or for a large graph by the plans of two
// smaller ones, from which memory, bytes and calls grow in proportion to the vertices. Where slices send
// messages for each of many chunks, two plans with fewer chunks stand for one.
func (c *Counts) plan(ctx context.Context, r *setting.Resolved, on *Machine) (plan.Plan, error) {
	o, grid := r.Options, r.Mesh
	o.MemoryLimit = 0
	if o.Offload == setting.RAM {
		return c.resting(ctx, r, on)
	}
	chunks, _ := r.ChunksOfPartition([]int{0, c.Vertices / grid.Partitions}, len(c.Types))
	of := func(fewer float64) (plan.Plan, error) {
		return c.ofSizes(r, func(vertices int) (plan.Plan, error) {
			return c.ofVertices(ctx, vertices, o, plan.Asks{LargerBy: fewer}, r, on)
		})
	}
	if grid.Stages == 1 || grid.Slices == 1 || chunks <= mostChunks {
		return of(1)
	}
	with := func(few int) (plan.Plan, error) {
		o.Chunks = axis.Chunks(few * grid.Partitions)
		return of(float64(few) / float64(chunks)) // so much smaller are the graph's chunks
	}
	return between(with, mostChunks/2, mostChunks, chunks, plan.MoreChunks)
}

// least is a bound of the bytes that each worker of a pipeline holds, of its graph alone; elsewhere 0.
// Sources of the edges into all chunks of its partition are Int32, and so are the targets of those from
// another chunk or partition, which the backward pass reads.
func (c *Counts) least(r *setting.Resolved) int64 {
	grid := r.Mesh
	if grid.Stages == 1 {
		return 0
	}
	const perEdge = 4
	of := c.within(grid.Partitions, c.Vertices)
	chunks, _ := r.ChunksOfPartition([]int{0, c.Vertices / grid.Partitions}, len(c.Types))
	others := of.CutShare + of.FarShare*(1-1/float64(chunks))
	return int64(perEdge * float64(c.Edges) / float64(grid.Partitions) * (1 + others))
}

// features are the bytes of a worker's feature matrices, of which each of its partitions has one; 0 for a
// program, which may read none.
func (c *Counts) features(r *setting.Resolved) int64 {
	if r.Program.Path != "" {
		return 0
	}
	of := float64(c.Vertices) * float64(c.Types[0].FeatureColumns) * float64(r.Storage.Size())
	return int64(of) / int64(r.Workers)
}

// Loop plans the passes of a loop of the caller's, which are given no edges. It takes the first settings of
// what a worker keeps that meet the memory limit.
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
			return job.PlanPassesWith(ctx, plan.Asks{
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

// resting plans a mesh of partitions that take turns on a card. If the card has no room for all, a part of a
// smaller graph rests that is as large as the one that has to rest of the graph itself.
func (c *Counts) resting(ctx context.Context, r *setting.Resolved, on *Machine) (plan.Plan, error) {
	o, sharing := r.Options, on.OnOne(r.Workers)
	o.MemoryLimit, o.HostMemoryLimit, o.Offload = 0, 0, ""
	var small plan.Plan
	size := 0 // the larger of two
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
	limit := on.Card.of(&r.Options, sharing).Bytes
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

// ofVertices plans so many vertices in place of the graph's. It reads two fields of asks, InMemory and
// LargerBy: how many times larger the graph would be with as many vertices, in the rows of a chunk; 0: they
// are as many.
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
func (c *Counts) ofSizes(r *setting.Resolved, of func(vertices int) (plan.Plan, error)) (plan.Plan, error) {
	rows, k := c.rows(r.Mesh, r.TakesTurns()), r.Mesh.Partitions
	first, second := rows*k, int(further*float64(rows))*k
	switch {
	case c.Vertices > second:
	case r.TakesTurns(): // with equal partitions
		return of(c.Vertices / k * k)
	default:
		return of(c.Vertices)
	}
	return between(of, first, second, c.Vertices, plan.Extrapolate)
}

// between plans two sizes, and extrapolates from them to another one.
func between(of func(size int) (plan.Plan, error), first, second, size int,
	extrapolate func(a, b *plan.Plan, at float64) plan.Plan,
) (plan.Plan, error) {
	a, err := of(first)
	if err != nil {
		return a, err
	}
	b, err := of(second)
	if err != nil {
		return b, err
	}
	return extrapolate(&a, &b, float64(size-first)/float64(second-first)), nil
}

// tell reports whether the counts tell what a run does.
func (c *Counts) tell(o *setting.Options) bool { return c.describe(o) == nil }

// describe refuses options for which the counts do not tell what a run does.
func (c *Counts) describe(o *setting.Options) error {
	learnsEdges := o.Task == task.Edge || o.EdgeLabel != ""
	ofPeriods := o.PassMessages == task.PassEarlier || o.PassMessages != task.PassAll &&
		slices.ContainsFunc(c.EdgeLabels, func(l partition.WholeEdgeLabels) bool { return l.Rule != "" })
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
