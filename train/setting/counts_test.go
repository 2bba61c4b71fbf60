package setting

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/refusal"
	"weft/internal/require"
	"weft/partition"
)

// TestCountsOnAMesh: a graph without vertices, labels or features is refused where a run needs them, and
// several vertex types on a mesh that divides the rows of one. What has all is taken.
func TestCountsOnAMesh(t *testing.T) {
	two := []partition.WholeType{{Type: "b", Vertices: 2}}
	for _, c := range []struct {
		model, parallel string
		embedding       int
		whole           partition.Whole
		outputs         int
		want            string // of the refusal; none: taken
	}{
		{"gcn", "", 0, partition.Whole{Vertices: 1, FeatureColumns: 1}, 1, ""},
		{"gcn", "", 0, partition.Whole{FeatureColumns: 1}, 1, "the graph has no vertices"},
		{"gcn", "", 0, partition.Whole{Vertices: 1, FeatureColumns: 1}, 0, "the graph has no labels"},
		{"gcn", "", 0, partition.Whole{Vertices: 1}, 2, "the graph has no features; import it"},
		{"gcn", "", 4, partition.Whole{Vertices: 1}, 2, ""},
		{"rgcn", "", 0, partition.Whole{Vertices: 1}, 2, ""},
		{"gcn", "graph=2", 4, partition.Whole{Vertices: 3}, 2, ""},
		{"gcn", "tensor=2", 4, partition.Whole{Vertices: 3}, 2, ""},
		{"gcn", "pipeline=2", 4, partition.Whole{Vertices: 3}, 2, "take parallel graph=2 or tensor=2"},
		{"gcn", "tensor=2", 0, partition.Whole{Vertices: 3, FeatureColumns: 2}, 2, ""},
		{"rgcn", "", 0, partition.Whole{Vertices: 3, FeatureColumns: 2, Others: two}, 2, ""},
		{"rgcn", "graph=2", 0, partition.Whole{Vertices: 3, FeatureColumns: 2, Others: two}, 2, ""},
		{"rgcn", "tensor=2", 0, partition.Whole{Vertices: 3, FeatureColumns: 2, Others: two}, 2, ""},
		{
			"rgcn", "pipeline=2", 0,
			partition.Whole{Vertices: 3, FeatureColumns: 2, Others: two},
			2,
			"the pipeline divides into chunks the rows of one vertex type, and the graph has 2; take " +
				"parallel graph=2 or tensor=2, which",
		},
	} {
		o := Defaults()
		o.Model, o.Parallel, o.NodeEmbedding = c.model, c.parallel, c.embedding
		r, err := o.Resolve()
		require.NoError(t, err, "%s %s", c.model, c.parallel)
		err = r.CheckCounts(&c.whole, c.outputs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !refusal.Is(err) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %q, %+v: %v, want %q", c.model, c.parallel, c.whole, err, c.want)
		}
		some := r.CheckSome()
		if axes := strings.Contains(c.parallel, "tensor") ||
			strings.Contains(c.parallel, "pipeline"); (some != nil) != axes {
			t.Errorf("some vertices on %q: %v", c.parallel, some)
		}
	}
}

// TestNormsOfSeveralGraphs: a norm over all vertices would mix the statistics of graphs that have their own.
func TestNormsOfSeveralGraphs(t *testing.T) {
	for _, c := range []struct {
		model, norm string
		graphs      int
		refused     bool
	}{
		{"gcn", "graph", 3, true},
		{"gcn", "pair", 2, true},
		{"gcn", "graph", 1, false},
		{"gcn", "pair", 0, false},
		{"gcn", "batch", 3, false},
		{"gcn", "layer", 3, false},
	} {
		o := Defaults()
		o.Model, o.Norm = c.model, c.norm
		r, err := o.Resolve()
		require.NoError(t, err)
		want := fmt.Sprintf("norm %s: its statistics are those of one graph, and the store has %d graphs; "+
			"take batch or layer, or give one graph", c.norm, c.graphs)
		err = r.CheckCounts(&partition.Whole{Vertices: 9, FeatureColumns: 2, Graphs: c.graphs}, 2)
		if c.refused && (!refusal.Is(err) || err.Error() != want) || !c.refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
