package partition

import (
	"context"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// chain is a graph of vertices in a row, each with an edge to the next, and back.
func chain(t *testing.T, vertices int) *graph.Graph {
	t.Helper()
	var e graph.Edges
	for v := range int32(vertices) - 1 {
		e.Source, e.Target = append(e.Source, v, v+1), append(e.Target, v+1, v)
	}
	return plainOf(t, vertices, e)
}

// plainOf is a graph of one type.
func plainOf(t *testing.T, vertices int, e graph.Edges) *graph.Graph {
	t.Helper()
	r, err := graph.NewBipartite(vertices, vertices, e)
	require.NoError(t, err)
	return &graph.Graph{
		Types: []graph.VertexType{{Frame: graph.Frame{Count: vertices}}}, Relations: []graph.Relation{r},
	}
}

// renumbered is a graph whose vertices have other numbers.
func renumbered(t *testing.T, g *graph.Graph, number func(v int32) int32) *graph.Graph {
	t.Helper()
	var e graph.Edges
	r := &g.Relations[0]
	for v := range int32(g.Vertices()) {
		for _, u := range r.Sources[r.Indptr[v]:r.Indptr[v+1]] {
			e.Source, e.Target = append(e.Source, number(u)), append(e.Target, number(v))
		}
	}
	return plainOf(t, g.Vertices(), e)
}

// TestBisect: the longest side is divided first, then those of the halves. Points that are alike go by their
// numbers.
func TestBisect(t *testing.T) {
	for _, one := range []struct {
		points     []float32
		dimensions int
		k          int
		want       []int32
	}{
		{[]float32{5, 1, 4, 2, 3}, 1, 2, []int32{1, 0, 1, 0, 1}},
		{[]float32{5, 1, 4, 2, 3, 6}, 1, 3, []int32{2, 0, 1, 0, 1, 2}},
		{[]float32{0, 0, 1, 0, 0, 9, 1, 9}, 2, 2, []int32{0, 0, 1, 1}},
		{[]float32{0, 0, 1, 0, 0, 9, 1, 9}, 2, 4, []int32{0, 1, 2, 3}},
		{[]float32{0, 0, 9, 0, 0, 1, 9, 1}, 2, 2, []int32{0, 1, 0, 1}},
		{[]float32{7, 7, 7}, 1, 3, []int32{0, 1, 2}},
		{[]float32{7, 7}, 1, 3, []int32{1, 2}},
		{nil, 3, 2, []int32{}},
	} {
		assert.Equal(t, one.want, Bisect(one.points, one.dimensions, one.k))
	}
}

// TestUnseenInOrder: parts have about as much of each graph and of each type, in the order of the vertices.
func TestUnseenInOrder(t *testing.T) {
	g := &graph.Graph{Types: []graph.VertexType{
		{Type: "a", Frame: graph.Frame{Count: 4}}, {Type: "b", Frame: graph.Frame{Count: 2}},
	}}
	for _, one := range []struct {
		batch [][]int32
		k     int
		want  []int32
	}{
		{nil, 2, []int32{0, 0, 1, 1, 0, 1}},
		{nil, 3, []int32{0, 1, 1, 2, 0, 2}},
		{[][]int32{{1, 1, 0, 0}, {0, 1}}, 2, []int32{1, 1, 0, 0, 0, 1}}, // graph by graph
		{[][]int32{{0, 0, 0, 2}, {2, 2}}, 2, []int32{0, 0, 0, 1, 1, 1}}, // of which one is empty
		{nil, 9, []int32{0, 3, 4, 7, 1, 6}},
	} {
		u := &Unseen{Graph: g, Batch: one.batch}
		a, err := u.Assign(context.Background(), Options{K: one.k})
		require.NoError(t, err)
		if !slices.Equal(a.Parts, one.want) {
			t.Errorf("%v in %d: %v, not %v", one.batch, one.k, a.Parts, one.want)
		}
	}
}

// TestUnseenCut counts edges between parts.
func TestUnseenCut(t *testing.T) {
	u := &Unseen{Graph: chain(t, 5)}
	assert.Equal(t, 2./8, u.CutBy([]int32{0, 0, 1, 1, 1}))
	assert.Equal(t, 6./8, u.CutBy([]int32{0, 1, 0, 1, 1}))
	u = &Unseen{Graph: plainOf(t, 3, graph.Edges{})}
	assert.Equal(t, 0., u.CutBy([]int32{0, 1, 2}))
}

// TestUnseenAssign: the order of the vertices is taken where it cuts little or the graph is small, the
// assignment before where it still does, and else METIS. Positions and a method go before all.
func TestUnseenAssign(t *testing.T) {
	ctx := context.Background()
	assigned := func(u *Unseen, o Options) *Assignment {
		t.Helper()
		a, err := u.Assign(ctx, o)
		require.NoError(t, err)
		return a
	}
	inRow := chain(t, 2000)
	a := assigned(&Unseen{Graph: inRow}, Options{K: 2})
	assert.Equal(t, Range, a.Method)
	assert.Equal(t, []int32{0, 1}, a.Parts[999:1001])
	const stride = 1001 // numbers of neighbours are far apart
	mixed := renumbered(t, inRow, func(v int32) int32 { return v * stride % 2000 })
	a = assigned(&Unseen{Graph: mixed}, Options{K: 2})
	assert.Equal(t, Metis, a.Method)
	u := &Unseen{Graph: mixed}
	if cut := u.CutBy(a.Parts); cut > .02 {
		t.Errorf("METIS cuts %g of the edges of a chain", cut)
	}
	small := renumbered(t, chain(t, 100), func(v int32) int32 { return v * 51 % 100 })
	assert.Equal(t, Range, assigned(&Unseen{Graph: small}, Options{K: 2}).Method)

	u.Before, u.Cut = a, u.CutBy(a.Parts)
	if assigned(u, Options{K: 2}) != a {
		t.Error("the assignment before is not kept")
	}
	if assigned(u, Options{K: 3}) == a {
		t.Error("an assignment to two parts is kept for three")
	}
	u.Cut /= 1.3
	if assigned(u, Options{K: 2}) == a {
		t.Error("an assignment is kept that cuts 1.3 times the edges")
	}
	u.Cut = 1
	u.Graph = renumbered(t, chain(t, 1999), func(v int32) int32 { return v * stride % 1999 })
	if assigned(u, Options{K: 2}) == a {
		t.Error("an assignment of more vertices is kept")
	}

	points := make([]float32, 2000)
	for v := range points {
		points[v*stride%2000] = float32(v)
	}
	u = &Unseen{Graph: mixed, Points: points, Dimensions: 1}
	a = assigned(u, Options{K: 2})
	assert.Equal(t, Bisection, a.Method)
	assert.Equal(t, 2./3998, u.CutBy(a.Parts))
	assert.Equal(t, Random, assigned(u, Options{K: 2, Method: Random}).Method)
	assert.Equal(t, Range, assigned(u, Options{K: 2001, Method: Random}).Method)
}

// TestUnseenBisectBatch: graphs of a batch that lie upon each other are divided as if they did not.
func TestUnseenBisectBatch(t *testing.T) {
	u := &Unseen{
		Graph: chain(t, 6), Batch: [][]int32{{0, 1, 0, 1, 0, 1}},
		Points: []float32{0, 0, 5, 5, 9, 9}, Dimensions: 1,
	}
	a, err := u.Assign(context.Background(), Options{K: 2})
	require.NoError(t, err)
	assert.Equal(t, []int32{0, 1, 0, 1, 0, 1}, a.Parts)
}
