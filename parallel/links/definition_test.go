package links_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/links"
	"weft/partition"
	"weft/tensor"
)

// alone are the edges of a graph on one worker, and its team.
func alone(t *testing.T, g *graph.Graph) (*links.Edges, *kernel.Team) {
	t.Helper()
	team := kernel.NewTeam(1, tensor.NewMeter())
	t.Cleanup(team.Memory.Close)
	l, err := links.New(team, comm.Alone(), partition.All(g), nil, links.Options{Draw: draw})
	require.NoError(t, err)
	return l, team
}

// TestDrawsStay: a seed stands for the same draws in all versions, as results are to be had again by it.
func TestDrawsStay(t *testing.T) {
	d := links.Draw{Seed: 42, Shares: [3]float64{60, 20, 20}}
	var parts []links.Part
	for u := range int32(12) {
		parts = append(parts, d.Part(links.Edge{Relation: 1, Source: u, Target: 3 * u}))
	}
	var drawn []links.Edge
	for k := range 4 {
		drawn = append(drawn,
			d.Negative(3, k, links.Edge{Relation: 1, Source: 5, Target: 9}, among(100)))
	}
	if want := []links.Part{2, 2, 0, 2, 1, 0, 0, 0, 1, 0, 0, 1}; !slices.Equal(parts, want) {
		t.Errorf("parts %v, want %v", parts, want)
	}
	if want := []links.Edge{{1, 56, 9}, {1, 5, 8}, {1, 92, 9}, {1, 5, 86}}; !slices.Equal(drawn, want) {
		t.Errorf("drawn are %v, want %v", drawn, want)
	}
	if got, want := d.Candidates(6, 50), []int32{8, 18, 45, 42, 33, 46}; !slices.Equal(got, want) {
		t.Errorf("candidates %v, want %v", got, want)
	}
	for n, all := range map[int]bool{0: true, 1: false, 49: false, 50: true, 51: true} {
		if drawn := d.Candidates(n, 50); (drawn == nil) != all || !all && len(drawn) != n {
			t.Errorf("%d of 50 candidates are %v", n, drawn)
		}
	}
}

// TestBytesOfWindows: on a graph that is large beside a window, the rows of its edges and their gradients
// take the bytes of two windows, the list of rows, for each pair of rows three numbers and its score, and a
// page for each matrix's end. Scores take one window. Training takes the gradient of each score, and lists
// each row's pairs.
func TestBytesOfWindows(t *testing.T) {
	const many, page = 20_000, 4096
	r := rand.New(rand.NewPCG(7, 7))
	var e graph.Edges
	for range 3 * many {
		e.Source, e.Target = append(e.Source, r.Int32N(many)), append(e.Target, r.Int32N(many))
	}
	relation, err := graph.NewRelation(many, e)
	require.NoError(t, err)
	relation.Source, relation.Name, relation.Target = "v", "a", "v"
	g := &graph.Graph{
		Types:     []graph.VertexType{{Type: "v", Frame: graph.Frame{Count: many}}},
		Relations: []graph.Relation{relation},
	}
	l, team := alone(t, g)
	memory := team.Memory
	const bytes = 1 << 16
	l.Cut(bytes)
	h := team.Zeros(tensor.Activations, many, columns)
	list, others := int64(bytes/columns), memory.LiveTensors() // 4 bytes a row, as a column; h
	l.Scores(h, links.Decoder{}, links.Val)
	if peak := memory.Peak() - others; peak < bytes*9/10 || peak > bytes+list+2*list+4*page {
		t.Errorf("scores take %d bytes, of windows of %d", peak, bytes)
	}
	l.Loss(h, links.Decoder{}, 1, drawn)
	others *= 2 // the gradient
	most := 2*bytes + list + 2*list + list/2 + 2*list + 8*page
	if peak := memory.Peak() - others; peak < 2*bytes*9/10 || peak > most {
		t.Errorf("the loss takes %d bytes, of windows of %d", peak, bytes)
	}
}

// TestRepeatedEdgesOfASplit: an edge that a stored split has several times is one target that does not count.
// Of the targets of 0→2, with a score of 5, vertex 1 has 9 and is known twice, and vertex 3 has 7.
func TestRepeatedEdgesOfASplit(t *testing.T) {
	g := graph.Of(graph.Relation{Indptr: make([]int64, 6)})
	g.Relations[0].EdgeSplit = &graph.EdgeSplit{Edges: [3][]int32{{0, 1, 0, 1}, {0, 1}, {0, 2}}}
	require.NoError(t, g.Check())
	l, team := alone(t, g)
	h := team.Memory.New(tensor.Activations, 5, 1)
	copy(h.Floats(), []float32{1, 9, 5, 7, 3})
	if ranks := l.Ranks(h, links.Decoder{}, links.Test); !slices.Equal(ranks, []float64{2}) {
		t.Errorf("ranks %v, want 2", ranks)
	}
}

// TestGivenByOneRelation: where only the first of two relations has held-out edges, with two negative targets
// for each, these are scored. Vertex v has the embedding v.
func TestGivenByOneRelation(t *testing.T) {
	g := &graph.Graph{Types: []graph.VertexType{
		{Frame: graph.Frame{Count: 5}, Type: "v"},
	}, Relations: []graph.Relation{
		{Indptr: make([]int64, 6)},
		{Indptr: make([]int64, 6)},
	}}
	for i := range g.Relations {
		r := &g.Relations[i]
		r.Source, r.Name, r.Target = "v", fmt.Sprint("r", i), "v"
		r.EdgeSplit = &graph.EdgeSplit{Negatives: graph.TargetNegatives, Edges: [3][]int32{{0, 1}}}
	}
	s := g.Relations[0].EdgeSplit
	s.Edges[links.Val], s.Negative[links.Val] = []int32{1, 2, 2, 3}, []int32{3, 4, 0, 4}
	require.NoError(t, g.Check())
	l, team := alone(t, g)
	h := team.Memory.New(tensor.Activations, 5, 1)
	copy(h.Floats(), []float32{0, 1, 2, 3, 4})
	edges, negatives, each := l.GivenScores(h, links.Decoder{}, links.Val)
	if !slices.Equal(edges, []float32{2, 6}) ||
		!slices.Equal(negatives, []float32{3, 4, 0, 8}) || each != 2 {
		t.Errorf("scores %v, of %d negative edges for each %v", edges, each, negatives)
	}
}

// TestTheOnlyTarget: a stored split of the edges of a type's only vertex is refused, as there is no other one
// for negative edges.
func TestTheOnlyTarget(t *testing.T) {
	g := &graph.Graph{
		Types:     []graph.VertexType{{Frame: graph.Frame{Count: 1}, Type: "v"}},
		Relations: []graph.Relation{{Source: "v", Name: "r", Target: "v", Indptr: make([]int64, 2)}},
	}
	g.Relations[0].EdgeSplit = &graph.EdgeSplit{Edges: [3][]int32{{0, 0}, {0, 0}, {0, 0}}}
	d := links.Draw{}
	if _, err := d.Supervised(partition.All(g)); err == nil ||
		!strings.Contains(err.Error(), "have one target, the only vertex of its type") {
		t.Errorf("error %v", err)
	}
}
