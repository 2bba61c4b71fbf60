package dgl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/dgl/dgltest"
	"weft/graph/graphtest"
	"weft/internal/assert"
)

// follows is a graph without labels of two types and of a relation between them, whose edges have masks, with
// its reverse. Edge k goes from user k%3 to item k%4.
func follows(masks map[string][]uint8) *dgltest.Graph {
	g := &dgltest.Graph{
		Vertices: []dgltest.Vertices{{Type: "item", Count: 4}, {Type: "user", Count: 3}},
		Relations: []dgltest.Relation{
			{Name: "buys", Source: 1, Target: 0, Tensors: dgltest.Tensors{}},
			{Name: graph.ReversePrefix + "buys", Source: 0, Target: 1},
		},
	}
	buys, back := &g.Relations[0], &g.Relations[1]
	var weights, features []float32
	for k := range int64(8) {
		buys.From, buys.To = append(buys.From, k%3), append(buys.To, k%4)
		back.From, back.To = append(back.From, k%4), append(back.To, k%3)
		weights, features = append(weights, float32(k)), append(features, float32(k), float32(-k))
	}
	buys.Tensors["w"], buys.Tensors["feat"] = dgltest.Of(weights), dgltest.Of(features, 8, 2)
	for name, mask := range masks {
		buys.Tensors[name] = dgltest.Of(mask)
	}
	return g
}

// TestEdgeMasks: masks of edges are a split for link prediction. Validation and test edges pass no
// messages, and neither do their reverses and what the masks of DGL's knowledge graphs mark.
func TestEdgeMasks(t *testing.T) {
	path := graphtest.File(t, "g.bin", dgltest.Graphs(nil, follows(map[string][]uint8{
		"train_mask": {1, 1, 0, 0, 0, 1, 0, 0}, "val_mask": {0, 0, 1, 0, 0, 0, 0, 0},
		"test_mask":       {0, 0, 0, 1, 1, 0, 0, 0},
		"valid_edge_mask": {0, 0, 1, 0, 0, 0, 1, 0},
	})))
	o := only
	o.EdgeWeights = "w"
	g, _ := read(t, path, o)
	want := &graph.EdgeSplit{Edges: [3][]int32{{0, 0, 1, 1, 2, 1}, {2, 2}, {0, 3, 1, 0}}}
	buys, back := &g.Relations[0], &g.Relations[1]
	assert.Equal(t, want, buys.EdgeSplit)
	// Edges 0, 1, 5 and 7 are left. Of edge 6, from user 0 to item 2, the reverse is no reverse of the split
	edges := buys.Edges()
	if !slices.Equal(edges.Source, []int32{0, 1, 2, 1}) || !slices.Equal(edges.Target, []int32{0, 1, 1, 3}) ||
		!slices.Equal(buys.Weights, []float32{0, 1, 5, 7}) ||
		!slices.Equal(buys.Features.Dense, []float32{0, 0, 1, -1, 5, -5, 7, -7}) {
		t.Errorf("edges %v, weights %v, features %v", edges, buys.Weights, buys.Features.Dense)
	}
	edges = back.Edges()
	if back.EdgeSplit != nil || !slices.Equal(edges.Source, []int32{0, 2, 1, 3, 1}) ||
		!slices.Equal(edges.Target, []int32{0, 0, 1, 1, 2}) {
		t.Errorf("reverse edges %v, split %v", edges, back.EdgeSplit)
	}
	assert.Equal(t, "[3 validation and test edges of masks pass no messages, "+
		"nor do 3 of reverse relations]", fmt.Sprint(g.Notes), "notes")
	// whichever of the two is called the reverse
	turned := follows(map[string][]uint8{
		"train_mask": {1, 1, 0, 0, 0, 1, 0, 0}, "val_mask": {0, 0, 1, 0, 0, 0, 0, 0},
		"test_mask": {0, 0, 0, 1, 1, 0, 0, 0},
	})
	turned.Relations[0].Name, turned.Relations[1].Name = graph.ReversePrefix+"buys", "buys"
	g, _ = read(t, graphtest.File(t, "turned.bin", dgltest.Graphs(nil, turned)), o)
	for i := range g.Relations {
		if r := &g.Relations[i]; r.Name == "buys" {
			edges = r.Edges()
			assert.Equal(t, []int32{0, 2, 1, 3, 1}, edges.Source)
			assert.Equal(t, []int32{0, 0, 1, 1, 2}, edges.Target)
		}
	}

	o.EdgeSplit = None
	if g, _ = read(t, path, o); g.Relations[0].EdgeSplit != nil || len(g.Relations[0].Sources) != 8 ||
		len(g.Relations[1].Sources) != 8 {
		t.Errorf("without masks: %+v", g.Relations)
	}

	// Beside labels, masks are read if they are asked for
	labelled := shop()
	labelled.Relations[2].Tensors = dgltest.Tensors{
		"train_mask": dgltest.Of([]uint8{1, 0}), "test_mask": dgltest.Of([]uint8{0, 1}),
	}
	path = graphtest.File(t, "g.bin", dgltest.Graphs(nil, labelled))
	if g, _ = read(t, path, only); g.Relations[2].EdgeSplit != nil || len(g.Relations[2].Sources) != 2 {
		t.Errorf("beside labels: %+v", g.Relations[2])
	}
	o = only
	o.EdgeSplit = Masks
	g, _ = read(t, path, o)
	if diff := cmp.Diff(&graph.EdgeSplit{Edges: [3][]int32{{0, 1}, nil, {1, 2}}},
		g.Relations[2].EdgeSplit); diff != "" || len(g.Relations[2].Sources) != 1 {
		t.Error(diff, g.Relations[2])
	}
}

func TestEdgeMasksRefused(t *testing.T) {
	masked := follows(map[string][]uint8{"train_mask": {1, 0, 0, 0, 0, 0, 0, 0}})
	several, o := graphtest.File(t, "several.bin", dgltest.Graphs(nil, masked, masked)), only
	o.Graph = AllGraphs
	refused(t, several, o, "masks of edges in several graphs, where a split of edges is of one; --graph "+
		"takes one graph by its number, and --edge-split none leaves masks out")
	o.EdgeSplit = None
	g, _ := read(t, several, o)
	assert.Equal(t, 2, g.Graphs, "graphs")
	good := []uint8{1, 0, 0, 0, 0, 0, 0, 0}
	for want, c := range map[string]struct {
		masks map[string][]uint8
		split string
	}{
		`column "val_mask" of "buys": edge 0 is in another mask, too`: {map[string][]uint8{
			"train_mask": good, "val_mask": good,
		}, ""},
		`"train_mask" of "buys": `: {map[string][]uint8{"train_mask": {1, 0, 0, 0, 0, 0, 0, 2}}, ""},
		`edge-split masks: no edges have a train_mask, val_mask or test_mask`: {nil, Masks},
		`edge-split "mine": it is masks or none`:                              {nil, "mine"},
	} {
		o := only
		o.EdgeSplit = c.split
		refused(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, follows(c.masks))), o, want)
	}
}

// lists are those that AsLinkPredDataset stores of validation and test edges.
func lists(change func(dgltest.Tensors)) dgltest.Tensors {
	all := dgltest.Tensors{"glabel": dgltest.Of([]int64{1})}
	for name, ids := range map[string][]int64{
		"val_pos_src": {4, 2}, "val_pos_dst": {0, 5}, "val_neg_src": {1, 2, 3, 4},
		"val_neg_dst":  {6, 7, 8, 9},
		"test_pos_src": {9}, "test_pos_dst": {3}, "test_neg_src": {5}, "test_neg_dst": {5},
	} {
		all[name] = dgltest.Of(ids)
	}
	if change != nil {
		change(all)
	}
	return all
}

// TestListsOfAsLinkPredDataset: what AsLinkPredDataset stores is a split, whose training edges are those of
// the graph. Negative edges of each edge's source are its negative targets.
func TestListsOfAsLinkPredDataset(t *testing.T) {
	g, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(lists(nil), ring())), only)
	split := g.Relations[0].EdgeSplit
	if split.Negatives != graph.SharedNegatives || split.Count(0) != 21 ||
		!slices.Equal(split.Edges[1], []int32{4, 0, 2, 5}) || !slices.Equal(split.Edges[2], []int32{9, 3}) ||
		!slices.Equal(split.Negative[1], []int32{1, 6, 2, 7, 3, 8, 4, 9}) ||
		!slices.Equal(split.Negative[2], []int32{5, 5}) {
		t.Errorf("%+v", split)
	}
	for k := range split.Count(0) {
		if u, v := split.Edges[0][2*k], split.Edges[0][2*k+1]; (v+10-u)%10 != 1 && (v+10-u)%10 != 3 {
			t.Errorf("training edge %d→%d", u, v)
		}
	}
	if notes := fmt.Sprint(g.Notes); strings.Contains(notes, "val_pos") ||
		!strings.Contains(notes, `labels of whole graphs left out: "glabel"`) {
		t.Errorf("notes %s", notes)
	}
	g, _ = read(t, graphtest.File(t, "g.bin", dgltest.Graphs(lists(func(all dgltest.Tensors) {
		all["val_neg_src"], all["test_neg_src"] = dgltest.Of([]int64{4, 4, 2, 2}), dgltest.Of([]int64{9})
	}), ring())), only)
	split = g.Relations[0].EdgeSplit
	if split.Negatives != graph.TargetNegatives || !slices.Equal(split.Negative[1], []int32{6, 7, 8, 9}) ||
		split.Given(1) != 2 || split.Given(2) != 1 {
		t.Errorf("%+v", split)
	}
	o := only
	o.EdgeSplit = None
	if g, _ = read(t, graphtest.File(t, "g.bin", dgltest.Graphs(lists(nil), ring())),
		o); g.Relations[0].EdgeSplit != nil {
		t.Errorf("%+v", g.Relations[0].EdgeSplit)
	}
	masked := ring()
	masked.Relations[0].Tensors["train_mask"] = dgltest.Of(append([]uint8{1}, make([]uint8, 20)...))
	for want, c := range map[string]struct {
		change func(dgltest.Tensors)
		graph  *dgltest.Graph
		split  string
	}{
		`"val_neg_dst" of a split of edges: is not there`: {func(all dgltest.Tensors) {
			delete(all, "val_neg_dst")
		}, ring(), ""},
		`has 2 ids, and "val_pos_dst" has 1`: {func(all dgltest.Tensors) {
			all["val_pos_dst"] = dgltest.Of([]int64{1})
		}, ring(), ""},
		`has an end 10, which is outside the range of 10`: {func(all dgltest.Tensors) {
			all["test_pos_dst"] = dgltest.Of([]int64{10})
		}, ring(), ""},
		`"test_neg_src" of a split of edges: has shape [1 1]`: {func(all dgltest.Tensors) {
			all["test_neg_src"] = dgltest.Of([]int64{1}, 1, 1)
		}, ring(), ""},
		"are of one graph of one relation; --edge-split none": {nil, shop(), ""},
		"has a split of edges twice, as masks and as lists":   {nil, masked, Masks},
	} {
		o := only
		o.EdgeSplit = c.split
		refused(t, graphtest.File(t, "g.bin", dgltest.Graphs(lists(c.change), c.graph)), o, want)
	}
}
