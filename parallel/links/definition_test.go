package links_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/links"
	"weft/partition"
	"weft/tensor"
)

// TestLossOf: the loss of held-out edges is the mean binary cross-entropy of them and of as many that are
// drawn, worked out in double precision; workers have shares of it. Without edges it is 0.
func TestLossOf(t *testing.T) {
	g := tangled(t)
	h, w := embeddings()
	for _, part := range []links.Part{links.Val, links.Test} {
		edges, want := edgesOf(g, part), 0.0
		for _, e := range edges {
			p, q := score(h, w, e), score(h, w, draw.Negative(0, 0, e, links.Among(vertices)))
			want += (math.Log(1+math.Exp(-p)) + math.Log(1+math.Exp(q))) / float64(2*len(edges))
		}
		for _, k := range divisions {
			var mu sync.Mutex
			sum := 0.0
			on(t, g, k, 0, func(_ *comm.Comm, l *links.Edges, team *kernel.Team, ids []int32) error {
				loss := l.LossOf(l.Scores(rowsOf(team, h, ids), decoder(team, w), part), part)
				mu.Lock()
				defer mu.Unlock()
				sum += loss
				return nil
			})
			near(t, fmt.Sprintf("part %d on %v", part, k), sum, want)
		}
	}
	if loss := new(links.Edges).LossOf(nil, links.Val); loss != 0 {
		t.Errorf("the loss of no edges is %v", loss)
	}
}

// TestRanksWithoutTies holds filtered ranks against double precision. Where two scores are as near as
// roundings the rank may be either.
func TestRanksWithoutTies(t *testing.T) {
	const near = 1e-6
	g := tangled(t)
	h, w := embeddings()
	known := map[links.Edge]bool{}
	for _, part := range []links.Part{links.Train, links.Val, links.Test} {
		for _, e := range edgesOf(g, part) {
			known[e] = true
		}
	}
	edges := edgesOf(g, links.Test)
	slices.SortFunc(edges, func(a, b links.Edge) int {
		return slices.Compare([]int32{a.Relation, a.Source, a.Target}, []int32{b.Relation, b.Source, b.Target})
	})
	for _, rankAmong := range []int{0, 20} {
		among := draw.Candidates(rankAmong, vertices)
		if rankAmong == 0 {
			for v := range int32(vertices) {
				among = append(among, v)
			}
		}
		for _, k := range divisions {
			var mu sync.Mutex
			got, ids := map[int][]float64{}, map[int][]int32{}
			on(t, g, k, rankAmong, func(c *comm.Comm, l *links.Edges, team *kernel.Team, own []int32) error {
				ranks := l.Ranks(rowsOf(team, h, own), decoder(team, w), links.Test)
				mu.Lock()
				defer mu.Unlock()
				got[c.Rank()], ids[c.Rank()] = ranks, own
				return nil
			})
			for worker, ranks := range got {
				// A worker's edges come by relation, source and own row of the target
				var its []links.Edge
				for _, e := range edges {
					if slices.Contains(ids[worker], e.Target) {
						its = append(its, e)
					}
				}
				if k.partitions*k.each == 1 && len(its) < 300 {
					t.Fatalf("%d edges, which are ranked at once", len(its))
				}
				slices.SortStableFunc(its, func(a, b links.Edge) int {
					row := func(e links.Edge) int32 { return int32(slices.Index(ids[worker], e.Target)) }
					return slices.Compare([]int32{a.Relation, a.Source, row(a)}, []int32{b.Relation, b.Source, row(b)})
				})
				if len(ranks) != len(its) {
					t.Fatalf("%v: %d ranks, want %d", k, len(ranks), len(its))
				}
				for i, e := range its {
					low, high := 1.0, 1.0
					for _, v := range among {
						other := links.Edge{Relation: e.Relation, Source: e.Source, Target: v}
						if known[other] {
							continue
						}
						if d := score(h, w, other) - score(h, w, e); d > near {
							low, high = low+1, high+1
						} else if d > -near {
							high++
						}
					}
					if ranks[i] < low || ranks[i] > high {
						t.Errorf("%v, among %d: the rank of %v is %v, want %v to %v", k, len(among), e, ranks[i], low, high)
					}
				}
			}
		}
	}
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
		drawn = append(drawn, d.Negative(3, k, links.Edge{Relation: 1, Source: 5, Target: 9}, links.Among(100)))
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
// take the bytes of two windows, the list of rows, and a page for each matrix's end. Scores take one window.
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
	g := &graph.Graph{Type: "v", Count: many, Relations: []graph.Relation{relation}}
	share := partition.All(g)
	memory := tensor.NewMeter()
	defer memory.Close()
	team := kernel.NewTeam(1, memory)
	l, err := links.New(team, comm.Alone(), share, nil, links.Options{Draw: draw})
	require.NoError(t, err)
	const bytes = 1 << 16
	l.Cut(bytes)
	h := team.Zeros(tensor.Activations, many, columns)
	list, others := int64(bytes/columns), memory.LiveTensors() // 4 bytes a row, as a column; h
	l.Scores(h, links.Decoder{}, links.Val)
	if peak := memory.Peak() - others; peak < bytes*9/10 || peak > bytes+list+2*page {
		t.Errorf("scores take %d bytes, of windows of %d", peak, bytes)
	}
	l.Loss(h, links.Decoder{}, 1, drawn)
	others *= 2 // the gradient
	if peak := memory.Peak() - others; peak < 2*bytes*9/10 || peak > 2*bytes+list+3*page {
		t.Errorf("the loss takes %d bytes, of windows of %d", peak, bytes)
	}
}

// TestRanksOfTies: of equal scores half count, on any number of workers and of candidates. The embeddings are
// so short that their products are exact, in any order.
func TestRanksOfTies(t *testing.T) {
	g := tangled(t)
	r := rand.New(rand.NewPCG(8, 8))
	h, w := make([]float32, vertices*columns), make([]float32, 2*columns)
	for i := range h {
		h[i] = float32(r.IntN(5)-2) / 2
	}
	for i := range w {
		w[i] = float32(r.IntN(3) - 1)
	}
	holdRanks(t, g, h, w, 0, 20, 85)
}

// TestRepeatedEdgesOfASplit: an edge that a stored split has several times is one target that does not count.
// Of the targets of 0→2, with a score of 5, vertex 1 has 9 and is known twice, and vertex 3 has 7.
func TestRepeatedEdgesOfASplit(t *testing.T) {
	g := &graph.Graph{Count: 5, Relations: []graph.Relation{{Indptr: make([]int64, 6)}}}
	g.Relations[0].EdgeSplit = &graph.EdgeSplit{Edges: [3][]int32{{0, 1, 0, 1}, {0, 1}, {0, 2}}}
	require.NoError(t, g.Check())
	memory := tensor.NewMeter()
	defer memory.Close()
	team := kernel.NewTeam(1, memory)
	l, err := links.New(team, comm.Alone(), partition.All(g), nil, links.Options{Draw: draw})
	require.NoError(t, err)
	h := team.Memory.New(tensor.Activations, 5, 1)
	copy(h.Floats(), []float32{1, 9, 5, 7, 3})
	if ranks := l.Ranks(h, links.Decoder{}, links.Test); !slices.Equal(ranks, []float64{2}) {
		t.Errorf("ranks %v, want 2", ranks)
	}
}

// TestGivenByOneRelation: where only the first of two relations has held-out edges, with two negative targets
// for each, these are scored. Vertex v has the embedding v.
func TestGivenByOneRelation(t *testing.T) {
	g := &graph.Graph{Count: 5, Type: "v", Relations: []graph.Relation{{Indptr: make([]int64, 6)}, {Indptr: make([]int64, 6)}}}
	for i := range g.Relations {
		r := &g.Relations[i]
		r.Source, r.Name, r.Target = "v", fmt.Sprint("r", i), "v"
		r.EdgeSplit = &graph.EdgeSplit{Negatives: graph.TargetNegatives, Edges: [3][]int32{{0, 1}}}
	}
	s := g.Relations[0].EdgeSplit
	s.Edges[links.Val], s.Negative[links.Val] = []int32{1, 2, 2, 3}, []int32{3, 4, 0, 4}
	require.NoError(t, g.Check())
	memory := tensor.NewMeter()
	defer memory.Close()
	team := kernel.NewTeam(1, memory)
	l, err := links.New(team, comm.Alone(), partition.All(g), nil, links.Options{Draw: draw})
	require.NoError(t, err)
	h := team.Memory.New(tensor.Activations, 5, 1)
	copy(h.Floats(), []float32{0, 1, 2, 3, 4})
	edges, negatives, given := l.GivenScores(h, links.Decoder{}, links.Val)
	if !slices.Equal(edges, []float32{2, 6}) || !slices.Equal(negatives, []float32{3, 4, 0, 8}) || given != 2 {
		t.Errorf("scores %v, of %d negative edges for each %v", edges, given, negatives)
	}
}

// TestTheOnlyTarget: a stored split of the edges of a type's only vertex is refused, as there is no other one
// for negative edges.
func TestTheOnlyTarget(t *testing.T) {
	g := &graph.Graph{Count: 1, Type: "v", Relations: []graph.Relation{{Source: "v", Name: "r", Target: "v", Indptr: make([]int64, 2)}}}
	g.Relations[0].EdgeSplit = &graph.EdgeSplit{Edges: [3][]int32{{0, 0}, {0, 0}, {0, 0}}}
	d := links.Draw{}
	if _, err := d.Supervised(partition.All(g)); err == nil || !strings.Contains(err.Error(), "have one target, the only vertex of its type") {
		t.Errorf("error %v", err)
	}
}
