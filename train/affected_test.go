package train

import (
	"context"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"weft/graph"
	"weft/graph/appended"
	"weft/internal/assert"
	"weft/internal/require"
)

// thinned is a graph with every n-th edge of each relation.
func thinned(t *testing.T, g *graph.Graph, n int) *graph.Graph {
	t.Helper()
	thin := *g.Copy()
	thin.Relations = slices.Clone(g.Relations)
	types := g.Types
	for i := range g.Relations {
		r, e := &g.Relations[i], g.Relations[i].Edges()
		keep := graph.Edges{FeatureColumns: e.FeatureColumns}
		for k := 0; k < e.Len(); k += n {
			keep.Source, keep.Target = append(keep.Source, e.Source[k]), append(keep.Target, e.Target[k])
			if e.Weights != nil {
				keep.Weights = append(keep.Weights, e.Weights[k])
			}
			keep.Features = append(keep.Features, e.Features[k*e.FeatureColumns:(k+1)*e.FeatureColumns]...)
		}
		source, target, err := g.Joins(r)
		require.NoError(t, err)
		made, err := graph.NewBipartite(types[source].Count, types[target].Count, keep)
		require.NoError(t, err)
		made.Source, made.Name, made.Target = r.Source, r.Name, r.Target
		thin.Relations[i] = made
	}
	return &thin
}

// reached are the vertices of the first type that a change spreads to in so many hops, by a search that
// follows single edges: in, out or both ways. degrees says that a vertex passes a change of its degree on.
func reached(t *testing.T, base, whole *graph.Graph, added *appended.Addition, hops int, direction string,
	degrees bool,
) (vertices []int32) {
	t.Helper()
	type end struct{ kind, id int }
	type edge struct {
		from, to end
		new      bool
	}
	var edges []edge
	turned := map[end]bool{} // has another degree, along the edges
	back := map[end]bool{}   // and against them
	add := func(i int, e *graph.Edges, new bool) {
		source, target, err := whole.Joins(&whole.Relations[i])
		require.NoError(t, err)
		for k := range e.Len() {
			made := edge{end{source, int(e.Source[k])}, end{target, int(e.Target[k])}, new}
			edges = append(edges, made)
			if new && degrees {
				turned[made.to], back[made.from] = true, true
			}
		}
	}
	differs := map[end]bool{}
	for i, was := range base.Types {
		for v := was.Count; v < whole.Types[i].Count; v++ {
			differs[end{i, v}] = true
		}
	}
	for i := range base.Relations {
		old := base.Relations[i].Edges()
		add(i, &old, false)
		add(i, &added.Edges[i], true)
	}
	for range hops {
		next := maps.Clone(differs)
		for _, e := range edges {
			if direction != "out" && (e.new || differs[e.from] || turned[e.from]) {
				next[e.to] = true
			}
			if direction != "in" && (e.new || differs[e.to] || back[e.to]) {
				next[e.from] = true
			}
		}
		differs = next
	}
	for v := range whole.Types[0].Count {
		if differs[end{0, v}] {
			vertices = append(vertices, int32(v))
		}
	}
	return vertices
}

// TestAppended: predictions for some vertices of a graph with vertices and edges appended, and for all of the
// store that Write makes of it, have the bits of a prediction of all vertices of the graph that has them.
// Affected has every vertex whose prediction differs in a bit once vertices and edges are
// appended, and none beyond the hops of the model. Predictions of these vertices alone, on both graphs, have
// the bits of those of all.
func TestAppended(t *testing.T) {
	hops := map[string]int{"mlp": 0, "appnp": 10, "decoupled": 2} // others have three layers or rounds
	passes := []string{
		"gcn", "gcnii", "separate", "appnp", "sgc", "out", "cat", "both-gcn", "decoupled", "labels",
	}
	plain, typed := thinned(t, tangle(t, 500, 0), 6), thinned(t, severalTypes(t), 20)
	some, changed, tries := 0, 0, 0
	eachExtension(t, plain, typed, func(name string, o Options, seed uint64, base, whole *graph.Graph,
		with *appended.Graph,
	) {
		weights := run(t, base, o).Weights
		predict := func(j Job) *Prediction {
			j.Options = o
			p, err := j.Predict(context.Background(), weights, Logits)
			require.NoError(t, err)
			return p
		}
		was, is := predict(Job{Graph: base}), predict(Job{Graph: whole})
		c := is.Classes
		row := func(p *Prediction, v int) []float32 { return p.Logits[v*c : (v+1)*c] }
		var asked []int32
		for _, v := range rand.New(rand.NewPCG(seed/2, seed%2)).Perm(whole.Types[0].Count)[:8] {
			asked = append(asked, int32(v))
		}
		p, err := (&Job{Graph: base, Options: o}).Predictor(t.Context(), weights)
		require.NoError(t, err)
		kept, err := p.Predict(t.Context(), Query{Vertices: asked, Appended: with}, Logits)
		require.NoError(t, err)
		require.NoError(t, p.Close())
		for k, v := range asked {
			assert.Equal(t, row(is, int(v)), row(kept, k), "%s, vertex %d by a Predictor", name, v)
		}
		store := filepath.Join(t.TempDir(), "store")
		_, err = with.Write(store, base.Provenance, nil)
		require.NoError(t, err)
		stored, err := graph.Open(store)
		require.NoError(t, err)
		assert.Equal(t, is.Logits, predict(Job{Graph: stored}).Logits, "%s, stored", name)
		require.NoError(t, stored.Close())

		job := Job{Graph: base, Options: o, Query: Query{Appended: with}}
		got, err := job.Affected(context.Background(), weights)
		require.NoError(t, err)
		far, found := hops[name]
		if !found {
			far = 3
		}
		want := reached(t, base, whole, with.Added, far, o.Direction, slices.Contains(passes, name))
		assert.Equal(t, want, got, name)

		for v := range base.Types[0].Count {
			if !slices.Equal(row(was, v), row(is, v)) {
				changed++
				if _, among := slices.BinarySearch(got, int32(v)); !among {
					t.Errorf("%s: vertex %d has another prediction", name, v)
				}
			}
		}
		old, _ := slices.BinarySearch(got, int32(base.Types[0].Count))
		before, after := &Prediction{}, predict(Job{Graph: base, Query: Query{Vertices: got, Appended: with}})
		if old > 0 {
			before = predict(Job{Graph: base, Query: Query{Vertices: got[:old]}})
		}
		for k, v := range got {
			assert.Equal(t, row(is, int(v)), row(after, k), "%s, vertex %d", name, v)
			if k < old {
				assert.Equal(t, row(was, int(v)), row(before, k), "%s, vertex %d before", name, v)
			}
		}
		some, tries = some+whole.Types[0].Count-len(got), tries+1
	})
	if tries < 50 || changed < 1000 || some < 1000 {
		t.Errorf("%d appends, %d predictions changed, %d stay", tries, changed, some)
	}
}
