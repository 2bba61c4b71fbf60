package partition

import (
	"context"
	"slices"

	"weft/graph"
)

// Unseen is a graph that is divided for few passes, as those of a data set of graphs and those whose edges
// are made anew are.
type Unseen struct {
	*graph.Graph
	// Batch has, by vertex type, the number of the graph to which each vertex belongs, among those of a
	// batch; nil: there is one graph.
	Batch [][]int32
	// Points has the coordinates of the vertices of all types, type by type, as many of each as there are
	// Dimensions; nil: they have none.
	Points     []float32
	Dimensions int
	// Before is an assignment of the graph before, which may have the same vertices; nil: there is none. Cut
	// is the share of that graph's edges that it cut.
	Before *Assignment
	Cut    float64
}

// The bounds of what is kept or taken without a method. METIS divides 2,000 edges between near points in
// 6 ms, and 200,000 in 50 ms, in two parts or four.
const (
	fewEdges  = 2_000   // up to which METIS takes longer to start than the edges that it would save
	littleCut = 1. / 32 // of the edges, up to which parts in the order of the vertices are as good
	moreCut   = 1.25    // how many times as many edges an assignment may cut as when it was made
)

// Assign assigns the vertices. o.Method is one of Methods; empty: the positions of the vertices decide if
// there are any. Else parts in the order of the vertices are taken if they cut few edges, the assignment
// before if it does, and METIS or Stream if not. There may be more parts than vertices.
func (u *Unseen) Assign(ctx context.Context, o Options) (*Assignment, error) {
	made := func(method string, parts []int32) (*Assignment, error) {
		return &Assignment{K: o.K, Parts: parts, Method: method, Balance: ByVertices, Seed: o.Seed}, nil
	}
	switch {
	case o.K > u.Vertices():
		return made(Range, u.inOrder(o.K))
	case o.Method != "":
		return Assign(ctx, u.Graph, o)
	case u.Points != nil:
		return made(Bisection, u.bisect(o.K))
	}
	parts := u.inOrder(o.K)
	if u.Edges() <= fewEdges || u.CutBy(parts) <= littleCut {
		return made(Range, parts)
	}
	if b := u.Before; b != nil && b.K == o.K && len(b.Parts) == u.Vertices() &&
		u.CutBy(b.Parts) <= moreCut*u.Cut {
		return b, nil
	}
	o.Method, _ = Auto(u.Graph)
	return Assign(ctx, u.Graph, o)
}

// CutBy is the share of the edges between vertices of different parts.
func (u *Unseen) CutBy(parts []int32) float64 {
	cut, all := int64(0), u.Edges()
	for _, e := range inLists(u.Graph) {
		for v, part := range parts[e.target:][:len(e.in.Indptr)-1] {
			for _, source := range e.sources(e.target + v) {
				if parts[e.source+int(source)] != part {
					cut++
				}
			}
		}
	}
	return float64(cut) / float64(max(1, all))
}

// inOrder divides the vertices evenly: graph by graph, and those of each type of a graph in the order of
// their ids, so that a part has about as much of each type.
func (u *Unseen) inOrder(k int) (parts []int32) {
	counts := make([][]int, len(u.Types)) // of the vertices of a type in each graph
	var starts []int                      // how many vertices the graphs before each have
	for kind, t := range u.Types {
		for v := range t.Count {
			number := u.graphOf(kind, v)
			for len(starts) <= number+1 {
				starts = append(starts, 0)
			}
			for len(counts[kind]) <= number {
				counts[kind] = append(counts[kind], 0)
			}
			counts[kind][number]++
			starts[number+1]++
		}
	}
	for j := 1; j < len(starts); j++ {
		starts[j] += starts[j-1]
	}
	all := u.Vertices()
	for kind, t := range u.Types {
		seen := make([]int, len(starts))
		for v := range t.Count {
			number := u.graphOf(kind, v)
			// The middle of the vertex, if those of its type fill their graph.
			count := counts[kind][number]
			at := starts[number] + (2*seen[number]+1)*(starts[number+1]-starts[number])/(2*count)
			parts = append(parts, int32(min(at*k/all, k-1)))
			seen[number]++
		}
	}
	return parts
}

// graphOf is the number of the graph to which a vertex belongs.
func (u *Unseen) graphOf(kind, vertex int) int {
	if u.Batch == nil || u.Batch[kind] == nil {
		return 0
	}
	return int(u.Batch[kind][vertex])
}

// bisect divides the vertices by their positions, and the graphs of a batch as if they were far apart.
func (u *Unseen) bisect(k int) []int32 {
	if u.Batch == nil {
		return Bisect(u.Points, u.Dimensions, k)
	}
	points, far := make([]float32, 0, len(u.Points)+u.Vertices()), slices.Max(u.Points)-slices.Min(u.Points)+1
	rest := u.Points
	for kind, t := range u.Types {
		for v := range t.Count {
			points = append(append(points, far*float32(u.graphOf(kind, v))), rest[:u.Dimensions]...)
			rest = rest[u.Dimensions:]
		}
	}
	return Bisect(points, u.Dimensions+1, k)
}
