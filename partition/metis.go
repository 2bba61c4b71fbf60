package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/graph"
	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/partition/metis"
)

// mostByMetis bounds the edges, each direction counted, of a graph that METIS divides unless it is asked for.
// METIS takes about 35 s of an EPYC's processor time for 20 million edges, and stream 14 s. Both take longer
// on a graph with hubs, METIS minutes.
const mostByMetis = 20_000_000

// Auto returns the method for a graph if none is asked for. It is metis, or stream where METIS would take
// long or cannot hold the graph. why says why it is stream; "" for metis.
func Auto(g *graph.Graph) (method, why string) {
	switch edges := g.Edges(); {
	case edges > mostByMetis:
		return Stream, "METIS may take minutes"
	case checkMetisSize(edges+int64(g.Vertices())) != nil || memory.Need(metisMemory(g)) != nil:
		return Stream, "METIS has too little memory"
	}
	return Metis, ""
}

// Slow says that METIS may take minutes, as on a graph with hubs, where Stream takes seconds.
func Slow(g *graph.Graph) bool { return g.Edges() > mostByMetis/40 }

// metisMemory estimates the bytes that METIS takes for a graph. It depends on how well METIS can coarsen it:
// 35 for each entry of a neighbour list were measured on a graph with communities, 69 on an R-MAT graph. An
// edge has two entries, unless the opposite edge is there too.
func metisMemory(g *graph.Graph) int64 {
	const entry, vertex = 70, 40
	return 2*entry*g.Edges() + vertex*int64(g.Vertices())
}

// byMetis assigns the vertices of a graph.
func byMetis(ctx context.Context, g *graph.Graph, o *Options) ([]int32, error) {
	if o.K == 1 {
		return make([]int32, g.Vertices()), nil // METIS fails on one partition
	}
	in, err := union(g)
	if err != nil {
		return nil, err
	}
	o.Progress.Report("dividing by METIS", 0, 0) // METIS does not tell how far it is
	d := division{in: in, k: o.K, seed: o.Seed, timeout: o.Timeout}
	if w := weights(g, o); len(w) > 1 { // METIS divides the vertices evenly by itself
		d.weights = w
	}
	parts, err := d.solve(ctx)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w; the partition method stream takes less memory, and random and range do "+
			"without METIS", err)
	}
	return parts, err
}

// union returns all relations of a graph as one relation. Vertices of all types are numbered consecutively.
func union(g *graph.Graph) (*graph.Relation, error) {
	if !g.Typed() {
		return &g.Relations[0], nil
	}
	if err := memory.Need(8 * g.Edges()); err != nil {
		return nil, err
	}
	in := &graph.Relation{Indptr: make([]int64, 1, g.Vertices()+1), Sources: make([]int32, 0, g.Edges())}
	sources := inLists(g).reader()
	for v := range int32(g.Vertices()) {
		in.Sources = append(in.Sources, sources(v)...)
		in.Indptr = append(in.Indptr, int64(len(in.Sources)))
	}
	return in, nil
}

// maxBalanced is the largest number of vertex types that METIS divides evenly, each by itself. It balances
// only a few weights well.
const maxBalanced = 8

// weights returns the quantities that each partition gets an equal share of, by vertex. They are the
// vertices, or those of each type, and what o.Balance adds.
func weights(g *graph.Graph, o *Options) []func(v int) int32 {
	w := typeWeights(g)
	if w == nil {
		w = []func(v int) int32{func(int) int32 { return 1 }}
	}
	if o.balance() != ByVertices {
		w = append(w, secondWeight(g, o))
	}
	return w
}

// typeWeights returns weights by which METIS divides every vertex type evenly; nil if there is one type, or
// more than maxBalanced.
func typeWeights(g *graph.Graph) (weights []func(v int) int32) {
	first := g.FirstIDs()
	if types := len(first) - 1; types == 1 || types > maxBalanced {
		return nil
	}
	for i := range first[1:] {
		weights = append(weights, func(v int) int32 {
			if v < first[i] || v >= first[i+1] {
				return 0
			}
			return 1
		})
	}
	return weights
}

// division is a problem for METIS: a graph, and how to divide it.
type division struct {
	in *graph.Relation
	// weights of vertex v, each divided evenly; none: the vertices are divided evenly
	weights []func(v int) int32
	k       int // parts, from 2 to the number of vertices
	seed    uint64
	timeout time.Duration // as in Options
}

// solve divides the graph by METIS, as an undirected graph without self loops. The weight of an undirected
// edge is the number of edges between its ends: the cost of cutting it.
func (d *division) solve(ctx context.Context) (parts []int32, err error) {
	vertices := len(d.in.Indptr) - 1
	if err := checkMetisSize(int64(len(d.in.Sources) + vertices)); err != nil {
		return nil, err
	}
	p, err := undirected(d.in, len(d.weights))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for c, weight := range d.weights {
		for v := range vertices {
			p.VertexWeights[v*len(d.weights)+c] = weight(v)
		}
	}
	return solve(ctx, p, d.k, d.seed, d.timeout)
}

// solve divides the vertices of a problem into k parts. If parts have fewVertices or more on average, some
// parts may be empty.
func solve(ctx context.Context, p *metis.Problem, k int, seed uint64,
	timeout time.Duration,
) ([]int32, error) {
	vertices := len(p.Indptr) - 1
	parts, err := p.Solve(ctx, k, seed, timeout)
	if err != nil || vertices >= k*fewVertices || !leavesEmpty(parts, k) {
		return parts, err
	}
	groups := make([]int32, vertices)
	if n := vertices / fewVertices; n > 1 {
		if groups, err = p.Solve(ctx, n, seed, timeout); err != nil {
			return nil, err
		}
	}
	return rangesOfGroups(groups, k), nil
}

// fewVertices is the mean number of vertices in a partition below which METIS divides badly: its tolerance
// is then less than one vertex. It puts several times too many vertices into some partitions, up to all
// vertices into one, and none into others. solve then lets METIS make groups of about fewVertices vertices,
// and divides the groups itself.
const fewVertices = 10

// leavesEmpty reports whether one of k partitions has no vertex.
func leavesEmpty(parts []int32, k int) bool {
	used := make([]bool, k)
	for _, p := range parts {
		used[p] = true
	}
	return slices.Contains(used, false)
}

// rangesOfGroups sorts the vertices by group, then by id, and divides them into k ranges. The sizes of the
// ranges differ by at most one.
func rangesOfGroups(group []int32, k int) []int32 {
	order := make([]int, len(group))
	for v := range order {
		order[v] = v
	}
	slices.SortStableFunc(order, func(u, v int) int { return cmp.Compare(group[u], group[v]) })
	parts := make([]int32, len(group))
	for at, p := range ranges(len(group), k) {
		parts[order[at]] = p
	}
	return parts
}

// checkMetisSize refuses graphs too large for METIS's indices.
func checkMetisSize(entries int64) error {
	if entries > metis.MaxEntries {
		return refusal.Errorf("METIS counts vertices, edges and weights in 32 bits, up to %d, and here are "+
			"%d", metis.MaxEntries, entries)
	}
	return nil
}

// secondWeight returns the weight that o.Balance adds to the vertices: edges, or training vertices.
func secondWeight(g *graph.Graph, o *Options) func(v int) int32 {
	if o.balance() == ByEdges {
		in := inLists(g)
		return func(v int) int32 { return in.degree(v) + 1 }
	}
	trains := make([]int32, g.Vertices())
	if o.Split < len(g.Types[0].Splits) {
		for _, v := range g.Types[0].Splits[o.Split].Train {
			trains[v] = 1
		}
	}
	return func(v int) int32 { return trains[v] }
}

// undirected returns the graph that METIS divides, with space for vertexWeights weights of each vertex. Edge
// weights are left out if all are equal.
func undirected(in *graph.Relation, vertexWeights int) (*metis.Problem, error) {
	vertices := len(in.Indptr) - 1
	out := (&graph.Relation{Indptr: in.Indptr, Sources: in.Sources}).Reversed(vertices) // without weights
	degree := make([]int32, vertices)
	entries, least, most := int64(0), int32(0), int32(0)
	for v := range int32(vertices) {
		eachNeighbour(in, out, v, func(_, weight int32) {
			if entries == 0 {
				least = weight
			}
			least, most = min(least, weight), max(most, weight)
			degree[v]++
			entries++
		})
	}
	if err := checkMetisSize(entries); err != nil {
		return nil, err
	}
	p, err := metis.New(vertices, int(entries), metis.Weights{Edges: least != most, Vertex: vertexWeights})
	if err != nil {
		return nil, err
	}
	at := int32(0)
	for v := range int32(vertices) {
		eachNeighbour(in, out, v, func(u, weight int32) {
			p.Neighbours[at] = u
			if p.EdgeWeights != nil {
				p.EdgeWeights[at] = weight
			}
			at++
		})
		p.Indptr[v+1] = at
	}
	return p, nil
}

// eachNeighbour calls f for each other vertex that has an edge with v, in ascending order, with the number of
// edges in both directions.
func eachNeighbour(in, out *graph.Relation, v int32, f func(u, weight int32)) {
	a, b := in.Sources[in.Indptr[v]:in.Indptr[v+1]], out.Sources[out.Indptr[v]:out.Indptr[v+1]]
	for len(a) > 0 || len(b) > 0 {
		var u int32
		if len(b) == 0 || len(a) > 0 && a[0] < b[0] {
			u = a[0]
		} else {
			u = b[0]
		}
		weight := int32(0)
		for len(a) > 0 && a[0] == u {
			a, weight = a[1:], weight+1
		}
		for len(b) > 0 && b[0] == u {
			b, weight = b[1:], weight+1
		}
		if u != v {
			f(u, weight)
		}
	}
}
