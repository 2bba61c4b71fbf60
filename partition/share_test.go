package partition

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/require"
)

// same compares values. nil and empty arrays are the same.
func same(a, b any) string {
	return gocmp.Diff(a, b, cmpopts.IgnoreUnexported(graph.Graph{}, Share{}), cmpopts.EquateEmpty(),
		cmpopts.EquateNaNs())
}

// assigned are the options with which every graph is divided.
func assigned() []Options {
	var all []Options
	for _, k := range []int{1, 2, 3, 8} {
		all = append(all,
			Options{K: k, Method: Random, Seed: 5},
			Options{K: k, Method: Range},
			Options{K: k, Method: Range, Balance: ByEdges},
			Options{K: k, Method: Metis})
	}
	return all
}

// TestShares tests each method and kind of graph. Each vertex is in one share. The shares together are the
// graph. In-edges and out-edges are the same edges. The statistics are right.
func TestShares(t *testing.T) {
	for name, k := range kinds {
		g := made(t, 40, 150, k, 3)
		for _, o := range assigned() {
			t.Run(fmt.Sprint(name, "/", o.Method, o.Balance, o.K), func(t *testing.T) {
				a, err := Assign(context.Background(), g, o)
				require.NoError(t, err)
				checkShares(t, g, a)
			})
		}
	}
}

// TestArrangeACopy: a share stays when a copy of it is arranged, and without arrangements. There is one of
// each vertex type.
func TestArrangeACopy(t *testing.T) {
	list := columns.List{{Name: "a", Kind: columns.Number}}
	two := append(list, columns.Column{Name: "b", Kind: columns.Number})
	arrangement, _, err := columns.Arrange(list, two)
	require.NoError(t, err)
	g := graph.Of(graph.Relation{Indptr: []int64{0, 0}})
	g.Types[0].Features = graph.Features{Columns: 2, Dense: []float32{5, 6}}
	s := All(g)
	copied := s.Copy()
	copied.Arrange(nil)
	assert.Equal(t, []float32{5, 6}, copied.Types[0].FeatureRow(nil, 0))
	copied.Arrange([]*columns.Arrangement{arrangement})
	assert.Equal(t, []float32{5}, copied.Types[0].FeatureRow(nil, 0))
	assert.Equal(t, 1, copied.Whole.Types[0].FeatureColumns)
	assert.Equal(t, []float32{5, 6}, s.Types[0].FeatureRow(nil, 0))
	assert.Equal(t, 2, s.Whole.Types[0].FeatureColumns)
	defer func() { assert.Equal(t, true, recover() != nil, "none for one type") }()
	s.Arrange([]*columns.Arrangement{})
}

// TestSharesOfAnyAssignment tests assignments that no method makes: empty partitions, and one that owns
// everything.
func TestSharesOfAnyAssignment(t *testing.T) {
	g := made(t, 12, 40, kinds["dense"], 4)
	for name, a := range map[string]*Assignment{
		"empty between":     {K: 4, Parts: []int32{0, 0, 3, 3, 3, 0, 1, 1, 1, 3, 0, 3}},
		"all in the last":   {K: 3, Parts: slices.Repeat([]int32{2}, 12)},
		"more than there":   {K: 20, Parts: []int32{19, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"against the order": {K: 2, Parts: []int32{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0}, Split: 0},
	} {
		t.Run(name, func(t *testing.T) { checkShares(t, g, a) })
	}
	checkShares(t, made(t, 5, 0, kinds["sparse"], 1), &Assignment{K: 2, Parts: []int32{0, 1, 0, 1, 0}})
}

// TestSharesOfRandomGraphs tests random assignments of random graphs, sparse to dense.
func TestSharesOfRandomGraphs(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		g := made(t, 1+r.IntN(15), r.IntN(60), kinds[[]string{"bare", "dense", "sparse", "plain"}[seed%4]],
			seed)
		a := &Assignment{K: 1 + r.IntN(6), Parts: make([]int32, g.Vertices())}
		for v := range a.Parts {
			a.Parts[v] = int32(r.IntN(a.K))
		}
		checkShares(t, g, a)
	}
}

func checkShares(t *testing.T, g *graph.Graph, a *Assignment) {
	t.Helper()
	shares, err := Split(g, a)
	require.NoError(t, err)
	seen := make([]int, g.Vertices())
	for p, s := range shares {
		if s.Edges.P != p || s.Edges.Types[0].Starts[p+1]-s.Edges.Types[0].Starts[p] != len(s.Types[0].IDs) ||
			s.Types[0].Count != len(s.Types[0].IDs) || s.Edges.Types[0].Starts[a.K] != g.Vertices() {
			t.Errorf("share %d is %d, with %d ids, %d rows and starts %v", p, s.Edges.P, len(s.Types[0].IDs),
				s.Types[0].Count, s.Edges.Types[0].Starts)
		}
		if !slices.IsSorted(s.Types[0].IDs) {
			t.Errorf("share %d: ids %v", p, s.Types[0].IDs)
		}
		for _, v := range s.Types[0].IDs {
			seen[v]++
			assert.Equal(t, p, int(a.Parts[v]), "vertex %d", v)
		}
		ascending(t, &s.Edges.Relations[0].In)
		ascending(t, &s.Edges.Relations[0].Out)
	}
	assert.Equal(t, 1, slices.Max(seen), "vertices are in %v shares", seen)
	assert.Equal(t, 1, slices.Min(seen), "vertices are in %v shares", seen)
	assert.Equal(t, "", same(g, joined(t, shares)), "the shares do not make up the graph")
	assert.Equal(t, "", gocmp.Diff(outEdges(shares), inEdges(shares)), "out-edges and in-edges")
	checkStatistics(t, g, a, &shares[0].Whole)
}

func ascending(t *testing.T, r *graph.Relation) {
	t.Helper()
	for v := range len(r.Indptr) - 1 {
		if row := r.Sources[r.Indptr[v]:r.Indptr[v+1]]; !slices.IsSorted(row) {
			t.Errorf("row %d: %v", v, row)
		}
	}
}

// edge is one edge between positions.
type edge struct {
	From, To int32
	Weight   float32
}

func inEdges(shares []*Share) []edge {
	return edges(shares, func(s *Share) *graph.Relation {
		return &s.Edges.Relations[0].In
	}, func(row, far int32, w float32) edge { return edge{far, row, w} })
}

func outEdges(shares []*Share) []edge {
	return edges(shares, func(s *Share) *graph.Relation {
		return &s.Edges.Relations[0].Out
	}, func(row, far int32, w float32) edge { return edge{row, far, w} })
}

// edges lists the edges by their ends. Parallel edges keep their order.
func edges(shares []*Share, relation func(*Share) *graph.Relation,
	made func(row, far int32, weight float32) edge,
) []edge {
	var all []edge
	for _, s := range shares {
		r := relation(s)
		for row := range s.Types[0].IDs {
			for k := r.Indptr[row]; k < r.Indptr[row+1]; k++ {
				weight := float32(0)
				if r.Weights != nil {
					weight = r.Weights[k]
				}
				all = append(all, made(int32(s.Edges.Types[0].Starts[s.Edges.P]+row), r.Sources[k], weight))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return all
}

// checkStatistics compares statistics with a simple count.
func checkStatistics(t *testing.T, g *graph.Graph, a *Assignment, w *Whole) {
	t.Helper()
	want := Statistics{
		K: a.K, Method: a.Method, Seconds: a.Seconds,
		Vertices: make([]int, a.K), Edges: make([]int64, a.K), TrainVertices: make([]int, a.K),
		HaloRows: square[int](a.K), HaloRowsOut: square[int](a.K), Cut: square[int64](a.K),
	}
	for _, p := range a.Parts {
		want.Vertices[p]++
	}
	want.Types = [][]int{want.Vertices}
	if len(g.Types[0].Splits) > 0 {
		for _, v := range g.Types[0].Splits[0].Train {
			want.TrainVertices[a.Parts[v]]++
		}
	}
	type need struct{ partition, vertex int32 }
	in, out := map[need]bool{}, map[need]bool{}
	e := g.Relations[0].Edges()
	for k := range e.Len() {
		u, v := e.Source[k], e.Target[k]
		p, q := a.Parts[v], a.Parts[u]
		want.Edges[p]++
		want.Cut[p][q]++
		if p != q {
			want.CutEdges++
			in[need{p, u}], out[need{q, v}] = true, true
		}
	}
	for n := range in {
		want.HaloRows[n.partition][a.Parts[n.vertex]]++
	}
	for n := range out {
		want.HaloRowsOut[n.partition][a.Parts[n.vertex]]++
	}
	assert.Equal(t, "", same(want, w.Statistics), "statistics")
	if w.Vertices != g.Vertices() || w.Edges != g.Edges() || w.Classes != g.Types[0].Labels.Classes ||
		w.Types[0].FeatureColumns != g.Types[0].Features.Columns || len(w.Splits) != len(g.Types[0].Splits) {
		t.Errorf("whole: %+v", w)
	}
}

func TestReplication(t *testing.T) {
	relation, err := graph.NewRelation(4,
		graph.Edges{Source: []int32{2, 3, 2, 1}, Target: []int32{0, 0, 1, 2}})
	require.NoError(t, err)
	a := &Assignment{K: 2, Parts: []int32{0, 0, 1, 1}}
	g := graph.Of(relation)
	s := counted(t, g, a)
	// The first partition needs 2 and 3, the second needs 1.
	if s.Halo(0) != 2 || s.Halo(1) != 1 || s.Replication() != 7./4 {
		t.Errorf("halo %d and %d, replication %v", s.Halo(0), s.Halo(1), s.Replication())
	}
}

// TestWholeOfSeveralGraphs: each worker knows how many graphs are stored as one.
func TestWholeOfSeveralGraphs(t *testing.T) {
	g := linked(t, 3)
	assert.Equal(t, 0, WholeOf(g).Graphs, "graphs in one")
	g.Types[0].GraphOf, g.Graphs = []int32{0, 1, 1}, 2
	assert.Equal(t, 2, WholeOf(g).Graphs, "graphs of 2")
}
