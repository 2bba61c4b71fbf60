package train

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
)

// timed gives edges that have labels a time each, and the split by it. Edges between one pair of vertices are
// of several periods, and some without a label, too. A relation of another type stays.
func timed(t *testing.T, g *graph.Graph, relation int) *graph.Graph {
	t.Helper()
	g = g.Copy()
	l := &g.Relations[relation].Frame
	e := g.Relations[relation].Edges()
	l.SplitBy = &graph.SplitBy{Column: "at", Kind: graph.ByNumber}
	for k := range e.Source {
		l.SplitBy.Values = append(l.SplitBy.Values, float64((int(e.Source[k])*5+int(e.Target[k])+k*7)%10))
	}
	require.NoError(t, l.MakeSplits("time:at=5,7", 1, 0))
	require.NoError(t, g.Check())
	return g
}

// until is the graph of the edges before a time, of that relation and of its reverse.
func until(t *testing.T, g *graph.Graph, relation int, time float64) *graph.Graph {
	t.Helper()
	less := g.Copy()
	r := g.Relations[relation]
	times := map[[3]int32]float64{} // by source, target, and how many such edges come before
	passes := func(give bool) func(k int64, u, v int32) bool {
		seen := map[[2]int32]int32{}
		return func(k int64, u, v int32) bool {
			if !give { // of the reverse
				u, v = v, u
			}
			key := [3]int32{u, v, seen[[2]int32{u, v}]}
			seen[[2]int32{u, v}]++
			if give {
				times[key] = r.SplitBy.Values[k]
			}
			return times[key] < time
		}
	}
	var err error
	less.Relations[relation], err = r.Where(passes(true))
	require.NoError(t, err)
	less.Relations[relation].SetLabels(&graph.Frame{})
	for i := range less.Relations {
		if reverse := &less.Relations[i]; r.Name != "" && reverse.Name == "rev_"+r.Name {
			*reverse, err = reverse.Where(passes(false))
			require.NoError(t, err)
		}
	}
	return less
}

// TestPassesEarlier: predictions of the edges of each period are those of a decoder of the rows of vertices
// over the graph of the periods before, which a run without labels of edges computes; degrees and means are
// its own. The decoder is that of Query.Edges, which TestEdgeLabels compares with one in double precision.
func TestPassesEarlier(t *testing.T) {
	one, types := labelEdges(t, tangle(t, 60, 40), 0, "classes"), labelEdges(t, severalTypes(t), 0, "values")
	for _, c := range []struct {
		g        *graph.Graph
		relation int
		words    string
	}{
		{one, 0, "model gcn"},
		{one, 0, "model sage, direction both"},
		{one, 0, "model gine, norm batch"},
		{types, 0, "model sage"},
		{types, 0, "model rgcn"},
	} {
		g := timed(t, c.g, c.relation)
		o := edgeLabelOptions("epochs 3, lr .01, split 0, " + c.words)
		r := mustRun(t, &Job{Graph: g, Options: o})
		by := g.Relations[c.relation].SplitBy.Values
		want := make([]float32, len(r.Logits))
		n := len(r.Logits) / len(by)
		e := g.Relations[c.relation].Edges()
		for _, last := range []float64{5, 7} {
			less := until(t, g, c.relation, last)
			// The graph needs labels of the name, which are not read.
			kept := &less.Relations[c.relation]
			kept.Labels = g.Relations[c.relation].OfRows(make([]int64, len(kept.Sources)))
			scored := &Job{Graph: less, Options: o, Query: Query{Edges: &e}}
			p, err := scored.Predict(t.Context(), r.Weights, Logits)
			require.NoError(t, err)
			for k, at := range by {
				if (at >= 7) == (last == 7) {
					copy(want[k*n:(k+1)*n], p.Logits[k*n:])
				}
			}
		}
		if d := apart(want, r.Logits); !(d < 1e-5) {
			t.Errorf("%s: logits differ by %v", c.words, d)
		}
		all := o
		all.PassMessages = "all"
		if d := apart(mustRun(t, &Job{Graph: g, Options: all}).Logits, r.Logits); d < 1e-3 {
			t.Errorf("%s: the graph of all edges gives the same", c.words)
		}
		p, err := (&Job{Graph: g, Options: o}).Predict(t.Context(), r.Weights, Logits)
		require.NoError(t, err)
		assert.Equal(t, true, slices.Equal(r.Logits, p.Logits), "%s: predictions", c.words)
		units(t, g, c.relation, r.Weights)
	}
}

// units compares the units of the edges' features with means and deviations over the training period.
func units(t *testing.T, g *graph.Graph, relation int, weights nn.State) {
	t.Helper()
	r := &g.Relations[relation]
	for i := range r.Features.Columns {
		sum, n, square := 0., 0., 0.
		for k := range r.Sources {
			if r.SplitBy.Values[k] < 5 {
				sum, n = sum+float64(r.Features.Dense[k*r.Features.Columns+i]), n+1
			}
		}
		for k := range r.Sources {
			if d := float64(r.Features.Dense[k*r.Features.Columns+i]) - sum/n; r.SplitBy.Values[k] < 5 {
				square += d * d / n
			}
		}
		assert.Near(t, sum/n, float64(weights["edge_features.mean"].Float32[i]), 1e-6)
		assert.Near(t, math.Sqrt(square), float64(weights["edge_features.deviation"].Float32[i]), 1e-6)
	}
}

// TestNothingLeaksFromLater: what changes of later edges leaves scores and losses of earlier ones, to the
// bit.
func TestNothingLeaksFromLater(t *testing.T) {
	g := timed(t, labelEdges(t, tangle(t, 60, 40), 0, "classes"), 0)
	o := edgeLabelOptions("model gine, epochs 3, eval-every 3, lr .01, split 0")
	by := g.Relations[0].SplitBy.Values
	before := mustRun(t, &Job{Graph: g, Options: o})
	for _, from := range []float64{5, 7} {
		changed := g.Copy()
		r := &changed.Relations[0]
		r.Features.Dense = slices.Clone(r.Features.Dense)
		for k, at := range by {
			if at >= from {
				for i := range r.Features.Columns {
					r.Features.Dense[k*r.Features.Columns+i] *= -100
				}
			}
		}
		after := mustRun(t, &Job{Graph: changed, Options: o})
		assert.Equal(t, fmt.Sprint(before.Losses), fmt.Sprint(after.Losses))
		assert.Equal(t, true, fmt.Sprint(before.Logits) != fmt.Sprint(after.Logits))
		n := len(before.Logits) / len(by)
		for k, at := range by {
			if at < from && !slices.Equal(before.Logits[k*n:(k+1)*n], after.Logits[k*n:(k+1)*n]) {
				t.Fatalf("edge %d of time %v reads edges from %v on", k, at, from)
			}
		}
	}
}

// timedAndReversed are a graph of edges x with labels, divided by time, and that with their reverse relation.
func timedAndReversed(t *testing.T) (forward, both *graph.Graph) {
	t.Helper()
	forward = timed(t, labelEdges(t, tangle(t, 60, 40), 0, "classes"), 0)
	forward.Types[0].Type = "a"
	r := &forward.Relations[0]
	r.Source, r.Name, r.Target = "a", "x", "a"
	both, err := forward.ReverseRelations()
	require.NoError(t, err)
	return forward, both
}

// TestReverseEdgesByTime: an edge of the reverse relation goes with its edge, whichever of the two relations
// is called the reverse of the other. Those without an edge pass no messages.
func TestReverseEdgesByTime(t *testing.T) {
	forward, g := timedAndReversed(t)
	r := &forward.Relations[0]
	run := func(g *graph.Graph, parallel string) *Result {
		return mustRun(t, &Job{Graph: g, Options: edgeLabelOptions("model gine, epochs 3, eval-every 1, lr .01, " +
			"split 0, parallel " + parallel)})
	}
	changed := func(reverse graph.Relation) *graph.Graph {
		g := g.Copy()
		reverse.Source, reverse.Name, reverse.Target = "a", "rev_x", "a"
		g.Relations[1] = reverse
		return g
	}
	e, n := g.Relations[1].Edges(), int32(g.Types[0].Count)
	for k := range e.Len() {
		if k%7 == 0 || k == e.Len()-1 {
			e.Append(&e, k) // a parallel edge
		}
	}
	for v := range n {
		e.Append(&e, 0)
		e.Source[e.Len()-1], e.Target[e.Len()-1] = v, (v+9)%n
	}
	more, err := graph.NewRelation(int(n), e)
	require.NoError(t, err)
	for _, parallel := range []string{"graph=1", "graph=2"} {
		want, have := run(g, parallel), run(changed(more), parallel)
		if d := apart(want.Logits, have.Logits); !(d < 1e-5) {
			t.Errorf("on %s edges without one change logits by %v", parallel, d)
		}
	}

	r.Features.Dense = slices.Clone(r.Features.Dense)
	for k, at := range r.SplitBy.Values {
		if at >= 7 {
			for i := range r.Features.Columns {
				r.Features.Dense[k*r.Features.Columns+i] *= -100
			}
		}
	}
	later, err := forward.ReverseRelations()
	require.NoError(t, err)
	later = changed(later.Relations[1])
	for _, reversed := range []*graph.Graph{g, later} {
		reversed.Relations[0].Name, reversed.Relations[1].Name = "rev_x", "x"
	}
	want, have := run(g, "graph=1"), run(later, "graph=1")
	assert.Equal(t, fmt.Sprint(want.Losses), fmt.Sprint(have.Losses))
	assert.Equal(t, true, slices.Equal(want.Logits, have.Logits), "edges of the test period change scores")
}

// TestPassesEarlierOnMeshes: losses, metrics and logits are those of one worker on all meshes, and the memory
// is that of the plan, to the byte.
func TestPassesEarlierOnMeshes(t *testing.T) {
	one, types := tangle(t, 60, 40), severalTypes(t)
	for _, c := range []struct {
		g     *graph.Graph
		words string
	}{
		{timed(t, labelEdges(t, one, 0, "classes"), 0), "model gcn, metric macro-f1"},
		{timed(t, labelEdges(t, one, 0, "several"), 0), "model sage, direction both, metric roc-auc"},
		{timed(t, labelEdges(t, one, 0, "values"), 0), "model gat, heads 2, metric mae"},
		{timed(t, labelEdges(t, one, 0, "classes"), 0), "model gine, split time:at=4,8"},
		{timed(t, labelEdges(t, types, 0, "values"), 0), "model sage"},
	} {
		edgesOnMeshes(t, c.g, "split 0, "+c.words, []string{
			"graph=1", "graph=3", "tensor=2", "graph=2,tensor=2", "partitions 3", "pipeline=2",
		}, func(first, r *Result, on string) {
			assert.Near(t, first.Val, r.Val, 1e-3, "%s: validation", on)
			assert.Near(t, first.Test, r.Test, 1e-3, "%s: test", on)
		})
	}
}
