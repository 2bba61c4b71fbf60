package paralleltest

import (
	"math/rand/v2"
	"testing"

	"weft/graph"
	"weft/internal/require"
)

// Small is a directed graph. Vertex 3 has no edges, vertex 4 no in-edges, and vertex 5 no out-edges. Others
// have duplicate edges, and with loops one self loop or two. Edges have features.
func Small(t testing.TB, loops, weighted bool) *graph.Graph {
	t.Helper()
	const vertices = 14
	r := rand.New(rand.NewPCG(5, 5))
	var e graph.Edges
	add := func(source, target int) {
		if source == 3 || target == 3 || source == 5 || target == 4 {
			return
		}
		e.Source, e.Target = append(e.Source, int32(source)), append(e.Target, int32(target))
		if weighted {
			e.Weights = append(e.Weights, .25+r.Float32())
		}
	}
	for range 50 {
		if s, v := r.IntN(vertices), r.IntN(vertices); s != v {
			add(s, v)
		}
	}
	for v := range 3 {
		add(8, v)
		add(8, v)
		if loops {
			add(v, v)
			add(v+9, v+9)
			add(v+9, v+9)
		}
	}
	return WithEdgeFeatures(GraphOf(t, vertices, e))
}

// ManyEdges is a directed random graph with the given mean in-degree.
func ManyEdges(t testing.TB, vertices, degree int32) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 4))
	var e graph.Edges
	for range degree * vertices {
		e.Source, e.Target = append(e.Source, r.Int32N(vertices)), append(e.Target, r.Int32N(vertices))
	}
	return GraphOf(t, int(vertices), e)
}

// Tangled is a directed graph of 151 vertices with self loops and duplicate edges. Every seventh vertex has
// no edges. There are 13 features, 5 classes, and features of the edges.
func Tangled(t testing.TB) *graph.Graph {
	t.Helper()
	const vertices, edges, features, classes = 151, 900, 13, 5
	r := rand.New(rand.NewPCG(5, 7))
	connected := func() int32 {
		for {
			if v := r.Int32N(vertices); v%7 != 0 {
				return v
			}
		}
	}
	var e graph.Edges
	for range edges {
		u, v := connected(), connected()
		if r.IntN(20) == 0 {
			u = v
		}
		for range 1 + r.IntN(10)/9 {
			e.Source, e.Target = append(e.Source, u), append(e.Target, v)
		}
	}
	relation, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	g := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{
				Count: len(relation.Indptr) - 1, Features: graph.Features{Columns: features},
				Labels: graph.Labels{Classes: classes}, Splits: make([]graph.Split, 1),
			},
		}},
		Relations: []graph.Relation{relation},
	}
	for v := range int64(vertices) {
		class := int64(r.IntN(classes))
		g.Types[0].Labels.Class = append(g.Types[0].Labels.Class, class)
		for c := range features {
			x := float32(r.NormFloat64())
			if c%classes == int(class) {
				x++
			}
			g.Types[0].Features.Dense = append(g.Types[0].Features.Dense, x)
		}
		s := &g.Types[0].Splits[0]
		part := []*[]int64{&s.Train, &s.Train, &s.Val, &s.Test}[v%4]
		*part = append(*part, v)
	}
	return WithEdgeFeatures(g)
}

// edgeColumns is the number of columns of edge features.
const edgeColumns = 3

// WithEdgeFeatures gives the edges of a graph random features, and returns it. They are eighths, which
// bfloat16 holds.
func WithEdgeFeatures(g *graph.Graph) *graph.Graph {
	r := &g.Relations[0]
	random := rand.New(rand.NewPCG(6, 6))
	r.Features.Columns, r.Features.Dense = edgeColumns, make([]float32, len(r.Sources)*edgeColumns)
	for i := range r.Features.Dense {
		r.Features.Dense[i] = float32(random.IntN(17)-8) / 8
	}
	return g
}

// GraphOf is a graph of these edges.
func GraphOf(t testing.TB, vertices int, e graph.Edges) *graph.Graph {
	t.Helper()
	relation, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	return &graph.Graph{
		Types:     []graph.VertexType{{Frame: graph.Frame{Count: len(relation.Indptr) - 1}}},
		Relations: []graph.Relation{relation},
	}
}

// Dividings are assignments of n vertices to k workers: even, uneven, with empty partitions.
func Dividings(n, k int) map[string][]int32 {
	r := rand.New(rand.NewPCG(2, 9))
	d := map[string][]int32{}
	for name, assign := range map[string]func(v int) int{
		"in turn":           func(v int) int { return v % k },
		"unevenly":          func(int) int { return min(k-1, r.IntN(8)) },
		"to first and last": func(v int) int { return v % 2 * (k - 1) },
		"to the last":       func(int) int { return k - 1 },
	} {
		d[name] = make([]int32, n)
		for v := range n {
			d[name][v] = int32(assign(v))
		}
	}
	return d
}
