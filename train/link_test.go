package train

import (
	"context"
	"math"
	"slices"
	"testing"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
)

// linked are options of link prediction.
func linked(words string) Options {
	o := apply(Defaults(), "task link, model gcn, hidden 24, out-features 8, lr .001, epochs 5, "+
		"negatives 2, threads 1")
	return apply(o, words)
}

// severalTypes has two vertex types, and relations within the first and between both, each with its reverse.
func severalTypes(t *testing.T) *graph.Graph {
	t.Helper()
	g := tangle(t, 1100, 1000)
	other, err := graph.NewBipartite(40, g.Types[0].Count,
		graph.Edges{Source: []int32{1, 2, 39, 7}, Target: []int32{0, 0, 5, int32(g.Types[0].Count - 1)}})
	require.NoError(t, err)
	g.Types[0].Type = "a"
	g.Relations[0].Source, g.Relations[0].Name, g.Relations[0].Target = "a", "x", "a"
	other.Source, other.Name, other.Target = "b", "y", "a"
	g.Relations = append(g.Relations, other)
	g.Types = append(g.Types, graph.VertexType{
		Type:  "b",
		Frame: graph.Frame{Count: 40, Features: graph.Features{Columns: 2, Dense: make([]float32, 80)}},
	})
	for i := range g.Types[1].Features.Dense {
		g.Types[1].Features.Dense[i] = float32(i%7) / 7
	}
	g, err = g.ReverseRelations()
	require.NoError(t, err)
	return g
}

// TestLinksOfAnotherType: relations within a type that is not the first are learned as in the same graph
// where that type is first, also if the first type has no edges.
func TestLinksOfAnotherType(t *testing.T) {
	g, _, _, _ := shop(t, 1)
	var e graph.Edges
	for k := range int32(400) {
		e.Source, e.Target = append(e.Source, k%90), append(e.Target, (k*k+7*k/90)%90)
	}
	follows, err := graph.NewRelation(90, e)
	require.NoError(t, err)
	follows.Source, follows.Name, follows.Target = "user", "follows", "user"
	g.Relations = append(g.Relations, follows)
	first := *g.Copy()
	first.Types = []graph.VertexType{g.Types[1], g.Types[0], g.Types[2]}
	shifted := *g.Copy()
	shifted.Types[0].Labels, shifted.Types[0].Splits = graph.Labels{}, nil
	shifted.Types = append([]graph.VertexType{
		{
			Type:  "aside",
			Frame: graph.Frame{Count: 4, Features: graph.Features{Columns: 1, Dense: make([]float32, 4)}},
		},
	}, g.Types...)
	for _, model := range []string{"rgcn", "gatv2"} {
		want := mustRun(t, &Job{Graph: &first, Options: linked("model " + model)})
		asked := linked("link-relation user,follows,user, model " + model)
		for _, mesh := range []string{"", "graph=3", "tensor=2"} {
			for _, g := range []*graph.Graph{g, &shifted} {
				got := mustRun(t, onMesh(g, asked, mesh))
				if d := away(got.Losses, want.Losses); d > 1e-5 || len(got.Logits) != len(want.Logits) ||
					got.Links.TestEdges != want.Links.TestEdges {
					t.Errorf("%s, %s, %s first: the losses differ by %.1e; %+v, want %+v", model, mesh,
						g.Types[0].Type, d, got.Links, want.Links)
				}
			}
		}
	}
}

// withKnows is the shop with a relation between the types that are not first, and its reverse.
func withKnows(t *testing.T, shop *graph.Graph) *graph.Graph {
	t.Helper()
	g := *shop.Copy()
	var e graph.Edges
	for k := range int32(300) {
		e.Source, e.Target = append(e.Source, k%83), append(e.Target, (k%83/3+k/83*k/83)%27)
	}
	knows, err := graph.NewBipartite(90, 30, e)
	require.NoError(t, err)
	knows.Source, knows.Name, knows.Target = "user", "knows", "tag"
	back := *knows.Reversed(90)
	back.Source, back.Name, back.Target = "tag", "rev_knows", "user"
	g.Relations = append(slices.Clone(g.Relations), knows, back)
	return &g
}

// TestLinksAreLearned: on a graph with communities, a trained model tells edges from other pairs far better
// than a model after one small step.
func TestLinksAreLearned(t *testing.T) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 400, Degree: 40, Features: 16, Classes: 4, Seed: 1,
	})
	require.NoError(t, err)
	class := g.Types[0].Labels.Class
	within := func(_ int64, u, v int32) bool { return class[u] == class[v] }
	g.Relations[0], err = g.Relations[0].Where(within)
	require.NoError(t, err)
	o := linked("metric roc-auc, lr 1e-6, epochs 1, dropout 0, negatives 1")
	before := run(t, g, o)
	o.LR, o.Epochs = .02, 60
	after := run(t, g, o)
	if after.Test < before.Test+.1 || after.Test < .75 {
		t.Errorf("ROC-AUC %.3f after training, %.3f before", after.Test, before.Test)
	}
	assert.Len(t, after.Logits, g.Vertices()*o.OutFeatures,
		"values in the embeddings of %d vertices, %d columns", g.Vertices(), o.OutFeatures)
	// A prediction on the whole graph needs no decoder.
	o.Decoder = "distmult"
	r := run(t, g, o)
	p, err := (&Job{Graph: g, Options: o}).Predict(context.Background(), r.Weights, Logits)
	if err != nil || p.Classes != o.OutFeatures || len(p.Logits) != len(r.Logits) {
		t.Fatalf("%v: %d columns, %d values", err, p.Classes, len(p.Logits))
	}
	assert.Equal(t, []int{1, o.OutFeatures}, r.Weights["decoder.weight"].Shape,
		"the decoder's weights have the shape")
}

// TestLinksNeedNoLabels: link prediction needs no labels, classes or splits.
func TestLinksNeedNoLabels(t *testing.T) {
	g := *tangled(t)
	g.Types[0].Labels, g.Types[0].Splits = graph.Labels{}, nil
	if r := run(t, &g, linked("")); math.IsNaN(r.Val) || !math.IsNaN(r.Train) {
		t.Errorf("training %v, validation %v", r.Train, r.Val)
	}
}

func TestLinksRefused(t *testing.T) {
	g := tangled(t)
	untrained := benchmarked(t, graph.NoNegatives)
	for i := range untrained.Relations {
		if split := untrained.Relations[i].EdgeSplit; split != nil {
			split.Edges[0] = nil
		}
	}
	loops, err := graph.NewRelation(g.Vertices(), graph.Edges{Source: []int32{3}, Target: []int32{3}})
	require.NoError(t, err)
	lonely, types := *g.Copy(), severalTypes(t)
	lonely.Relations = []graph.Relation{loops}
	between := *types.Copy() // nothing joins the first type to itself
	between.Relations = slices.DeleteFunc(slices.Clone(types.Relations),
		func(r graph.Relation) bool { return r.Source == r.Target })
	for _, c := range []struct {
		g      *graph.Graph
		change string
		want   string
	}{
		{g, "task vertex, out-features 0, decoder distmult", "--decoder distmult: belongs to --task link or edge"},
		{g, "split 1", "--split 1: belongs to --task vertex"},
		{g, "metric accuracy", "--metric accuracy: no measure of --task link; it is one of roc-auc, mrr"},
		{g, "link-relation vertex,other,vertex", "link-relation vertex,other,vertex: the graph has no " +
			"such relation; did you mean vertex,edge,vertex?"},
		{g, "task vertex, out-features 0, link-relation a,b,c", "--link-relation a,b,c: belongs to --task link"},
		{types, "model rgcn, link-relation b,y,a;a,rev_y,b", "link-relation a,rev_y,b: the reverse of " +
			"another one"},
		{types, "model rgcn, link-relation b,y,a;b,y,a", "link-relation b,y,a: stands twice"},
		{types, "model rgcn, link-relation b,y,a, decoupled", "decoupled: its rounds end in the rows of " +
			"the first vertex type"},
		{types, "model rgcn, link-relation b,y,a, parallel pipeline=2", "take --parallel graph=2 or tensor=2"},
		{g, "parallel pipeline=2", "take --parallel graph=2 or tensor=2"},
		{untrained, "", "the graph's split of edges has none to train on"},
		{&lonely, "", "the graph has no edges to train on"},
		{&between, "model rgcn", "no edges to train on"},
		{&lonely, "parallel graph=2, partition random", "the graph has no edges to train on"},
	} {
		o := linked(c.change)
		_, err := (&Job{Graph: c.g, Options: o}).Run(context.Background())
		assert.Refused(t, err, c.want)
	}
}
