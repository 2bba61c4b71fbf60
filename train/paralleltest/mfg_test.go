package paralleltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/partition"
	"weft/train"
)

// TestSomeVertices: a prediction for some vertices, in any order, has the bits of one for all vertices, for
// each model, and for each variant of some models that have it (dealt). The plain form runs on one worker and
// on partitions, of which one is empty. Each variant runs on one of these, in turn.
func TestSomeVertices(t *testing.T) {
	turn := 0
	for _, model := range gnn.Names() {
		for _, v := range dealt(gnn.Names(), model, 0) {
			partitions := []int{1, 2, 3}
			if v.name != unchanged {
				partitions = partitions[turn%3:][:1]
				turn++
			}
			for _, k := range partitions {
				t.Run(fmt.Sprint(k, " ", model, " ", v.name), func(t *testing.T) {
					g, o := v.graph(t), v.options(model)
					if k > 1 {
						o = with(o, v.halo)
						o.Halo = train.Defaults().Halo // some vertices need other sums
					}
					someAsAmongAll(t, train.Job{
						Graph: g, Options: o, Mesh: Grid(1, k, 1),
						Parts: parts(t, g, k),
					})
				})
			}
		}
	}
}

// TestSomeVerticesOfTypes is TestSomeVertices on graphs of several types of vertices and edges.
func TestSomeVerticesOfTypes(t *testing.T) {
	for i, c := range typedModels {
		k := []int{1, 3}[i%2]
		t.Run(fmt.Sprint(k, " ", c.graph, " ", c.name), func(t *testing.T) {
			g := typedGraphs[c.graph](t)
			someAsAmongAll(t, train.Job{
				Graph: g, Options: small(c.name, c.set), Mesh: Grid(1, k, 1), Parts: parts(t, g, k),
			})
		})
	}
}

// TestSomeVerticesOfManyEdges is TestSomeVertices for each kind of aggregation, in both directions. The graph
// has weights, and a vertex whose edges several threads share. Partitions send their rows in several
// messages, of which some have edges into few rows. Each model is on partitions or on one worker.
func TestSomeVerticesOfManyEdges(t *testing.T) {
	const vertices, hub, columns = 9000, 50, 5
	r := rand.New(rand.NewPCG(8, 9))
	var e graph.Edges
	add := func(u, v int32) {
		e.Source, e.Target, e.Weights = append(e.Source, u), append(e.Target, v),
			append(e.Weights, .1+r.Float32())
	}
	for range 17000 {
		add(r.Int32N(vertices), hub)
	}
	for v := range int32(vertices) {
		for range r.IntN(8) { // most edges from near, a third from the first quarter
			u := (v + r.Int32N(40)) % vertices
			if r.IntN(3) == 0 {
				u = r.Int32N(vertices / 4)
			}
			add(u, v)
		}
	}
	relation, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	g := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{
				Count: len(relation.Indptr) - 1, Features: graph.Features{Columns: columns},
				Labels: graph.Labels{Classes: 3, Class: make([]int64, vertices)},
				Splits: []graph.Split{{Train: []int64{0, 4000}, Val: []int64{1}, Test: []int64{2}}},
			},
		}},
		Relations: []graph.Relation{relation},
	}
	for v := range vertices {
		g.Types[0].Labels.Class[v] = int64(r.IntN(3))
		for range columns {
			g.Types[0].Features.Dense = append(g.Types[0].Features.Dense, float32(r.NormFloat64()))
		}
	}
	for k, models := range map[int][]string{
		1: {"gcn", "gat", "transformer", "gcnii"},
		3: {"sage", "gatv2", "gin"},
	} {
		divided := parts(t, g, k)
		if k > 1 {
			owners := make([]int32, vertices)
			for v := range owners {
				owners[v] = int32(v * k / vertices)
			}
			divided = partsOf(t, g, k, owners)
		}
		for _, model := range models {
			directions := []string{"both"}
			if kind, _ := gnn.KindOf(model); kind.OneDirection {
				directions = []string{"in", "out"}
			}
			for _, direction := range directions {
				t.Run(fmt.Sprint(k, " ", model, " ", direction), func(t *testing.T) {
					o := with(train.Defaults(), "layers=2 hidden=8 seed=3 threads=2 model="+model+
						" direction="+direction)
					someAsAmongAll(t, train.Job{Graph: g, Options: o, Mesh: Grid(1, k, 1), Parts: divided})
				})
			}
		}
	}
}

// someAsAmongAll trains for an epoch. It predicts all vertices of the job's graph, and then lists of them.
func someAsAmongAll(t *testing.T, job train.Job) {
	t.Helper()
	job.Options.Epochs = 1
	r, err := job.Run(context.Background())
	require.NoError(t, err)
	weights := r.Weights
	if kind, _ := gnn.KindOf(job.Options.Model); gnn.OverAll(job.Options.Norm) && kind.Uses("norm") {
		job.Vertices = []int32{73}
		if _, err := job.Predict(t.Context(), weights, train.Logits); !refusal.Is(err) {
			t.Errorf("some vertices with norm %s: %v", job.Options.Norm, err)
		}
		return
	}
	all := predict(t, &job, weights)
	degrees := job.Graph.Relations[0].Indptr
	hub, owned := int32(0), []int32(nil)
	for v := range int32(all.Vertices) {
		if len(degrees) > all.Vertices && degrees[v+1]-degrees[v] > degrees[hub+1]-degrees[hub] {
			hub = v
		}
		if share, err := partitionOf(&job, 0); err == nil && slices.Contains(share.Types[0].IDs, v) {
			owned = append(owned, v)
		}
	}
	any := rand.New(rand.NewPCG(4, 4)).Perm(all.Vertices)
	lists := map[string][]int32{
		"one": {73}, "an isolated one": {14}, "the one of most edges": {hub},
		"of one partition": owned,
	}
	for i, v := range any {
		lists["all"] = append(lists["all"], int32(v))
		if i < 10 {
			lists["several"] = append(lists["several"], int32(v))
		}
	}
	for name, list := range lists {
		if len(list) == 0 {
			continue
		}
		some := job
		some.Vertices = list
		got := predict(t, &some, weights)
		for i, v := range list {
			if !slices.Equal(row(got.Logits, got.Classes, i), row(all.Logits, all.Classes, int(v))) {
				t.Errorf("%s: the logits of vertex %d are %v, among all %v", name, v,
					row(got.Logits, got.Classes, i), row(all.Logits, all.Classes, int(v)))
				break
			}
			columns := got.EmbeddingColumns
			if !slices.Equal(row(got.Embeddings, columns, i), row(all.Embeddings, columns, int(v))) {
				t.Errorf("%s: other embeddings of vertex %d than among all", name, v)
				break
			}
		}
		if got.Vertices != len(list) || len(got.Logits) != len(list)*got.Classes {
			t.Errorf("%s: %d logits of %d vertices, want those of %d", name, len(got.Logits),
				got.Vertices, len(list))
		}
	}
}

func row(m []float32, columns, i int) []float32 { return m[i*columns : (i+1)*columns] }

// partitionOf is partition p of a job's graph that has several.
func partitionOf(j *train.Job, p int) (*partition.Share, error) {
	if j.Parts == nil {
		return partition.All(j.Graph), nil
	}
	return j.Parts.Open(p)
}

// TestNeedOfAPath: on a path each layer needs one vertex more than the next layer.
func TestNeedOfAPath(t *testing.T) {
	const vertices = 100
	var e graph.Edges
	for v := range int32(vertices - 1) {
		e.Source, e.Target = append(e.Source, v), append(e.Target, v+1)
	}
	relation, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	g := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{
				Count:    len(relation.Indptr) - 1,
				Features: graph.Features{Columns: 1, Dense: make([]float32, vertices)},
				Labels:   graph.Labels{Classes: 2, Class: make([]int64, vertices)},
				Splits:   []graph.Split{{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}}},
			},
		}},
		Relations: []graph.Relation{relation},
	}
	for _, k := range []int{1, 4} {
		for direction, want := range map[string]string{
			"in": "[{3 2} {2 1}]", "out": "[{3 2} {2 1}]", "both": "[{5 6} {3 2}]",
		} {
			o := with(train.Defaults(), "layers=2 hidden=4 epochs=1 model=sage direction="+direction)
			job := train.Job{Graph: g, Options: o, Mesh: Grid(1, k, 1), Parts: parts(t, g, k)}
			r, err := job.Run(context.Background())
			require.NoError(t, err)
			job.Vertices = []int32{50}
			if got := predict(t, &job, r.Weights).Needs; fmt.Sprint(got) != want {
				t.Errorf("%d partitions, %s: needs %v, want %s", k, direction, got, want)
			}
		}
	}
}
