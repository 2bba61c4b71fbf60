package train

import (
	"slices"
	"testing"

	"weft/graph"
	"weft/graph/appended"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/edges"
	"weft/partition"
	"weft/train/task"
	"weft/train/worker"
)

// withoutTimed is a graph whose edges have labels and times, without some edges by relation. It returns the
// numbers that the others of the labelled relation had.
func withoutTimed(t *testing.T, g *graph.Graph, labelled int, gone [][]appended.Edge,
) (thin *graph.Graph, numbers []int64) {
	t.Helper()
	thin = g.Copy()
	for i := range g.Relations {
		seen := map[[2]int32]int{}
		var err error
		thin.Relations[i], err = g.Relations[i].Where(func(k int64, u, v int32) bool {
			e := appended.Edge{Source: u, Target: v, Before: seen[[2]int32{u, v}]}
			seen[[2]int32{u, v}]++
			stays := !slices.Contains(gone[i], e)
			if stays && i == labelled {
				numbers = append(numbers, k)
			}
			return stays
		})
		require.NoError(t, err)
	}
	own := &g.Relations[labelled].Frame
	l := &graph.Frame{Labels: own.OfRows(numbers), SplitBy: own.SplitBy.OfRows(numbers)}
	require.NoError(t, l.MakeSplits(own.SplitBy.Rule, 1, 0))
	thin.Relations[labelled].SetLabels(l)
	require.NoError(t, thin.Check())
	return thin, numbers
}

// TestExplainEarlier: where edges pass messages to later ones alone, an edge of each period is explained over
// the graph of the periods before. The gradients are those of the same edge on a graph that has no other
// edges, which TestExplainEdge compares with quotients of differences. The score is that of Predict, and
// without the strongest edges that of Predict on a graph without these, to the bit.
func TestExplainEarlier(t *testing.T) {
	one, types := labelEdges(t, tangle(t, 60, 40), 0, "classes"), labelEdges(t, severalTypes(t), 0, "values")
	for name, c := range map[string]struct {
		g       *graph.Graph
		words   string
		rounded bool // sums of message functions agree to rounding
	}{
		"gcn":     {one, "model gcn", false},
		"both":    {one, "model sage, direction both", false},
		"gat":     {one, "model gat, heads 2", false},
		"pna":     {one, "model pna", true},
		"gine":    {one, "model gine", true},
		"several": {types, "model sage", false},
		"rgcn":    {types, "model rgcn", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := timed(t, c.g, 0)
			o := edgeLabelOptions("normalize-features none, epochs 3, lr .01, split 0, " + c.words)
			j := &Job{Graph: g, Options: o}
			r := mustRun(t, j)
			relation := &g.Relations[0]
			by, e := relation.SplitBy.Values, relation.Edges()
			n := len(r.Logits) / len(by)
			first := make([]appended.Edge, len(by)) // each edge, with how many parallel ones come before
			seen := map[[2]int32]int{}
			for k := range by {
				ends := [2]int32{e.Source[k], e.Target[k]}
				first[k] = appended.Edge{Source: ends[0], Target: ends[1], Before: seen[ends]}
				seen[ends]++
			}
			changed := false
			for _, part := range []struct{ from, to, graph float64 }{{0, 5, 5}, {5, 7, 5}, {7, 10, 7}} {
				k := slices.IndexFunc(first, func(e appended.Edge) bool {
					at := by[slices.Index(first, e)]
					return part.from <= at && at < part.to && e.Target == 17 && e.Source != 17
				})
				edge := relation.EdgesOf(int64(k))
				j.Query = Query{Edges: edge, Numbers: []int64{int64(k)}}
				same := func(want, got []float32) {
					t.Helper()
					if c.rounded {
						assert.Equal(t, true, apart(want, got) < 1e-6)
					} else {
						assert.Equal(t, want, got)
					}
				}
				same(r.Logits[k*n:(k+1)*n], logitsOfEdge(t, j, r.Weights, edge))
				x, err := j.Explain(t.Context(), r.Weights, worker.Explained{})
				require.NoError(t, err)

				// The graph needs labels of the name, which are not read.
				less := until(t, g, 0, part.graph)
				kept := &less.Relations[0]
				kept.Labels = relation.OfRows(make([]int64, len(kept.Sources)))
				reference := &Job{Graph: less, Options: o, Query: Query{Edges: edge}}
				want, err := reference.Explain(t.Context(), r.Weights, worker.Explained{})
				require.NoError(t, err)
				for kind, f := range want.Features {
					assert.Equal(t, f.IDs, x.Features[kind].IDs)
					assert.Equal(t, true, apart(f.Gradients, x.Features[kind].Gradients) < 1e-6)
				}
				assert.Equal(t, true, apart(want.Edge.Gradients, x.Edge.Gradients) < 1e-6)
				assert.Equal(t, len(want.Edges), len(x.Edges))
				for i, w := range want.Edges {
					got := x.Edges[i]
					assert.Near(t, float64(w.Gradient), float64(got.Gradient), 1e-6)
					if w.Relation != partition.All(g).Edges.Relations[0].Name {
						continue
					}
					passes := func(before int) bool {
						key := appended.Edge{Source: w.Source, Target: w.Target, Before: before}
						return by[slices.Index(first, key)] < part.graph
					}
					passing := 0 // of the edges before it
					for before := range got.Before {
						if passes(before) {
							passing++
						}
					}
					assert.Equal(t, w.Before, passing)
					if !passes(got.Before) {
						t.Error("a later edge passes messages")
					}
				}

				gone, left := make([][]appended.Edge, len(g.Relations)), 4
				for i := range g.Relations {
					alone, name := *x, partition.All(g).Edges.Relations[i].Name
					alone.Edges = nil
					for _, e := range x.Edges {
						key := appended.Edge{Source: e.Source, Target: e.Target, Before: e.Before}
						if e.Relation == name && key != first[k] {
							alone.Edges = append(alone.Edges, e)
						}
					}
					gone[i] = strongest(&alone, left)
				}
				thin, numbers := withoutTimed(t, g, 0, gone)
				assert.Equal(t, true, len(numbers) < len(by))
				p, err := (&Job{Graph: thin, Options: o}).Predict(t.Context(), r.Weights, Logits)
				require.NoError(t, err)
				row := slices.Index(numbers, int64(k))
				removed, err := j.Without(gone)
				require.NoError(t, err)
				logits := logitsOfEdge(t, removed, r.Weights, edge)
				same(p.Logits[row*n:(row+1)*n], logits)
				counts := slices.ContainsFunc(x.Edges, func(e edges.MaskGradient) bool {
					return e.Gradient != 0
				})
				if changed = changed || counts; counts && slices.Equal(logits, r.Logits[k*n:(k+1)*n]) {
					t.Error("without the edges the logits are the same")
				}
			}
			assert.Equal(t, true, changed)
		})
	}
}

// TestScoringWithout: which edges of a relation and of its reverse pass messages, without some edges, is what
// it is on a graph that has none of these.
func TestScoringWithout(t *testing.T) {
	_, g := timedAndReversed(t)
	gone := make([][]appended.Edge, 2)
	for i := range gone {
		e := g.Relations[i].Edges()
		for k := 1; k < e.Len(); k += 3 { // the second of some parallel edges, and the first of others
			before := 0
			for before < k && e.Source[k-before-1] == e.Source[k] && e.Target[k-before-1] == e.Target[k] {
				before++
			}
			gone[i] = append(gone[i], appended.Edge{Source: e.Source[k], Target: e.Target[k], Before: before})
		}
	}
	scoring := func(g *graph.Graph) *task.Scoring {
		j := &Job{Graph: g, Options: edgeLabelOptions("split 0")}
		r, err := j.resolve()
		require.NoError(t, err)
		s, err := scoringOf(r.Kind, g)
		require.NoError(t, err)
		return s
	}
	thin, numbers := withoutTimed(t, g, 0, gone)
	whole, left := scoring(g), scoring(thin)
	parallels := 0
	for row := 0; row < len(numbers); row += len(numbers) / 9 {
		have, want := whole.Passes(whole.Over(numbers[row]), gone), left.Passes(left.Over(int64(row)), nil)
		for i := range thin.Relations {
			e, before := thin.Relations[i].Edges(), 0
			for k := range e.Source {
				if before++; k == 0 || e.Source[k-1] != e.Source[k] || e.Target[k-1] != e.Target[k] {
					before = 0
				}
				parallels += before
				u, v := e.Source[k], e.Target[k]
				assert.Equal(t, want(i)(u, v, before), have(i)(u, v, before), "%d→%d, %d", u, v, before)
			}
		}
		assert.Equal(t, false, have(1)(0, 1000, 0))
	}
	assert.Equal(t, true, parallels > 0)
}
