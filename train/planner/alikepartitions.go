package planner

import (
	"math"
	"slices"
	"sync"

	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
)

// Alike describes a graph in equal partitions by counts: all partitions have equally many vertices and edges,
// and need equally many rows of each other. So the share of one stands for all of them in a plan, unless they
// take turns on a worker, where each has its own share.
type Alike struct {
	Partitions      int
	partition.Whole         // of Vertices, Edges, and what a vertex has; Splits has one entry
	Symmetric       bool    // each edge is there in both directions
	Weighted        bool    // edges have weights
	EdgeColumns     int     // features of an edge
	CutShare        float64 // the share of the edges that lead between partitions
	HaloRows        float64 // the halo rows of all partitions, for each vertex
	// FarShare is the share of the edges that join any two rows of a partition. The other edges within the
	// partition join neighbouring rows, which mostly lie in one chunk of a pipeline.
	FarShare float64
}

// Check refuses counts of partitions that cannot exist.
func (a *Alike) Check() error {
	k := a.Partitions
	if k < 1 || a.Vertices < k || a.HaloRows*float64(a.Vertices) > a.CutShare*float64(a.Edges)+1 ||
		k > 1 && a.Halo() > a.rows() || !(a.CutShare >= 0 && a.FarShare >= 0 && a.CutShare+a.FarShare <= 1) {
		return refusal.Errorf("%d partitions of %d vertices and %d edges with %.3g halo rows for each vertex "+
			"and a cut of %.3g: no such partitions exist", k, a.Vertices, a.Edges, a.HaloRows, a.CutShare)
	}
	return nil
}

// Job is a job on the partitions, for a plan with Asks.Alike.
func (a *Alike) Job(o train.Options) (*train.Job, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	g := a.graph()
	if a.Partitions == 1 {
		return &train.Job{Options: o, Graph: g}, nil
	}
	shares := make([]func() *partition.Share, a.Partitions)
	for number := range shares {
		shares[number] = sync.OnceValue(func() *partition.Share { return a.share(g, number) })
	}
	open := func(number int) (*partition.Share, error) { return shares[number](), nil }
	return &train.Job{Options: o, Parts: &train.Parts{Whole: a.Whole, Open: open}}, nil
}

// rows is the number of rows of the first partition.
func (a *Alike) rows() int { return a.start(1) }

// start is the first position of a partition.
func (a *Alike) start(number int) int { return number * a.Vertices / a.Partitions }

// Halo is how many rows one partition needs of another.
func (a *Alike) Halo() int {
	k := float64(a.Partitions)
	return int(math.Round(a.HaloRows * float64(a.Vertices) / max(1, k*(k-1))))
}

// share is the share of a partition. g has the vertices and edges of the first partition. Another partition's
// edges are at the same distances from its rows, so all partitions must have equally many.
func (a *Alike) share(g *graph.Graph, number int) *partition.Share {
	if first := int32(a.start(number)); number > 0 {
		g = &graph.Graph{
			Types: g.Types, Metric: g.Metric, Relations: slices.Clone(g.Relations),
		}
		r := &g.Relations[0]
		r.Sources = slices.Clone(r.Sources)
		for k, source := range r.Sources {
			r.Sources[k] = (source + first) % int32(a.Vertices)
		}
		sortSources(r)
	}
	s := partition.All(g)
	s.Whole, s.Edges.P = a.Whole, number
	rows := &s.Edges.Types[0]
	rows.Starts = nil
	halos := make([][]int, a.Partitions)
	for q := range a.Partitions + 1 {
		rows.Starts = append(rows.Starts, a.start(q))
	}
	for q := range halos {
		halos[q] = slices.Repeat([]int{a.Halo()}, a.Partitions)
		halos[q][q] = 0
	}
	rows.IDs = make([]int32, rows.Rows)
	for row := range rows.IDs {
		rows.IDs[row] = int32(a.start(number) + row)
	}
	s.Types[0].IDs = rows.IDs
	r := &s.Edges.Relations[0]
	r.HaloRows, r.HaloRowsOut, r.Out = halos, halos, r.In
	if r.In.HasLabels() { // ends are ids of vertices of the whole graph
		whole := r.In
		whole.Indptr = make([]int64, a.Vertices+1)
		for v := range whole.Indptr {
			whole.Indptr[v] = r.In.Indptr[min(max(0, v-a.start(number)), rows.Rows)]
		}
		s.LabelledBy(&graph.Graph{Types: g.Types, Relations: []graph.Relation{whole}})
	}
	return s
}

// graph has the vertices of the first partition, with zeros as features and labels, and the edges into them.
func (a *Alike) graph() *graph.Graph {
	rows := a.rows()
	g := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{Count: rows, Features: graph.Features{
				Columns: a.Types[0].FeatureColumns, Dense: make([]float32, rows*a.Types[0].FeatureColumns),
			}},
		}},
		Metric: a.Metric, Relations: []graph.Relation{a.edges()},
	}
	g.Types[0].Labels = labelsOf(&a.WholeFrame, rows)
	for _, sizes := range a.Splits {
		g.Types[0].Splits = append(g.Types[0].Splits, split(sizes, rows, int64(a.Vertices)))
	}
	for i := range a.Frames {
		frame := a.Frames[i].Frame()
		edges := len(g.Relations[0].Sources)
		l := &graph.Frame{Labels: labelsOf(frame, edges).Named(a.Frames[i].Column)}
		for _, sizes := range frame.Splits {
			l.Splits = append(l.Splits, split(sizes, edges, a.Edges))
		}
		g.Relations[0].SetLabels(l)
	}
	return g
}

// labelsOf are labels of so many rows, all zero, in the form of a frame's.
func labelsOf(whole *partition.WholeFrame, rows int) graph.Labels {
	switch {
	case whole.ValueColumns > 0:
		return graph.Labels{Columns: whole.ValueColumns, Values: make([]float32, rows*whole.ValueColumns)}
	case whole.SeveralLabels:
		return graph.Labels{Classes: whole.Classes, Multi: make([]float32, rows*whole.Classes)}
	case whole.Classes == 0: // in a caller's loop, or with labels of edges
		return graph.Labels{}
	}
	return graph.Labels{Classes: whole.Classes, Class: make([]int64, rows)}
}

// split is a partition's part of a split with these sizes, of so many rows of all.
func split(sizes graph.SplitSizes, rows int, all int64) (s graph.Split) {
	row := int64(0)
	for i, list := range s.Parts() {
		total := []int{sizes.Train, sizes.Val, sizes.Test}[i]
		for range min(int(int64(total)*int64(rows)/all), rows-int(row)) {
			*list = append(*list, row)
			row++
		}
	}
	return s
}

// edges are the edges into the rows of the first partition.
func (a *Alike) edges() graph.Relation {
	r := graph.Relation{Indptr: make([]int64, a.rows()+2), Symmetric: a.Symmetric}
	a.join(func(row, _ int) { r.Indptr[row+2]++ })
	for row := range a.rows() {
		r.Indptr[row+2] += r.Indptr[row+1]
	}
	r.Sources = make([]int32, r.Indptr[a.rows()+1])
	a.join(func(row, source int) {
		r.Sources[r.Indptr[row+1]] = int32(source)
		r.Indptr[row+1]++ // ends as the first edge of the next row
	})
	r.Indptr = r.Indptr[:a.rows()+1]
	sortSources(&r)
	if a.Weighted {
		r.Weights = slices.Repeat([]float32{1}, len(r.Sources))
	}
	r.Features.Columns = a.EdgeColumns
	if r.Features.Columns > 0 {
		r.Features.Dense = make([]float32, len(r.Sources)*r.Features.Columns)
	}
	return r
}

// sortSources sorts the sources of each row.
func sortSources(r *graph.Relation) {
	for row := range len(r.Indptr) - 1 {
		slices.Sort(r.Sources[r.Indptr[row]:r.Indptr[row+1]])
	}
}

// join calls f for each edge into the rows of the first partition, with the position of its source. Edges
// from another partition lead from its first rows, as many as the halo has, into as many scattered rows.
func (a *Alike) join(f func(row, source int)) {
	n, others := a.rows(), a.Partitions-1
	each := float64(a.Edges) / float64(a.Vertices)
	near := each * (1 - a.CutShare - a.FarShare) / 2 // edges in each of two directions
	for d := 1; d <= min(int(math.Ceil(near)), n-1); d++ {
		for row := range int(min(1, near-float64(d-1)) * float64(n)) {
			f(row, (row+d)%n)
			f((row+d)%n, row)
		}
	}
	far := int(each * a.FarShare * float64(n))
	for e := range far {
		if row, source := e*n/far, int(mixed(uint64(e))>>32*uint64(n)>>32); source != row {
			f(row, source)
		}
	}
	if others == 0 || a.Halo() == 0 {
		return
	}
	halo, step := a.Halo(), scattering(a.Halo())
	cut := max(halo*others, int(each*a.CutShare*float64(n))) // each halo row is read at least once
	for e := range cut {
		q, i := 1+e%others, e/others
		f((q*n/a.Partitions+e*halo/cut)%n, a.start(q)+i*step%halo)
	}
}

// mixed is the finisher of the hash MurmurHash3 for numbers of 64 bits. Of consecutive numbers it makes
// numbers that look random.
func mixed(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// scattering is a step that visits each of n numbers in turn, each far from the last. It divides n about by
// the golden ratio, and has no common divisor with it.
func scattering(n int) int {
	divisor := func(a, b int) int {
		for b > 0 {
			a, b = b, a%b
		}
		return a
	}
	step := max(1, int(float64(n)/math.Phi))
	for divisor(step, n) > 1 {
		step++
	}
	return step
}
