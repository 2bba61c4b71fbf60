package edgelist

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

type namedLabel struct {
	Kind *string `parquet:"kind,optional,dict,zstd"`
}

type besideLabel struct {
	ID    int64  `parquet:"id"`
	Label string `parquet:"label,snappy"`
}

type numberLabel struct {
	Y int32 `parquet:"y"`
}

type gapLabel struct {
	Y *int64 `parquet:"y,optional"`
}

type realLabel struct {
	Y float64 `parquet:"y"`
}

// TestParquetLabels: a column of labels has names of classes, class ids or values, as in text.
func TestParquetLabels(t *testing.T) {
	word, one := func(s string) *string { return &s }, func(y int64) *int64 { return &y }
	edges := write(t, "e.csv", "0,1\n1,2\n2,0\n")
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		file string
		want graph.Labels
	}{
		"names": {
			tableOf(t, []namedLabel{{word("b")}, {nil}, {word("a")}}),
			graph.Labels{Classes: 2, Class: []int64{1, -1, 0}, Names: []string{"a", "b"}},
		},
		"beside": {
			tableOf(t, []besideLabel{{2, "b"}, {0, "c"}, {1, "b"}}),
			graph.Labels{Classes: 2, Class: []int64{1, 0, 0}, Names: []string{"b", "c"}},
		},
		"ids": {
			tableOf(t, []numberLabel{{1}, {-1}, {0}}), graph.Labels{Classes: 2, Class: []int64{1, -1, 0}},
		},
		"whole": {
			tableOf(t, []realLabel{{1}, {math.NaN()}, {0}}),
			graph.Labels{Classes: 2, Class: []int64{1, -1, 0}},
		},
		"values": {
			tableOf(t, []realLabel{{1.5}, {math.NaN()}, {0}}),
			graph.Labels{Columns: 1, Values: []float32{1.5, nan, 0}},
		},
	} {
		g, err := Read(Options{Path: edges, Labels: write(t, name+".parquet", c.file)})
		require.NoError(t, err, name)
		assert.EqualBy(t, c.want, g.Labels, cmpopts.EquateNaNs())
	}
	for name, file := range map[string]string{
		"whole as values": tableOf(t, []realLabel{{1}, {math.NaN()}, {0}}),
		"ids as values":   tableOf(t, []gapLabel{{one(1)}, {nil}, {one(0)}}),
	} {
		g, err := Read(Options{Path: edges, Labels: write(t, "v.parquet", file), Values: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(graph.Labels{Columns: 1, Values: []float32{1, nan, 0}}, g.Labels,
			cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	const text = `column "kind" holds text, and values to predict are numbers; leave values out`
	_, err := Read(Options{
		Path:   edges,
		Labels: write(t, "k.parquet", tableOf(t, []namedLabel{{word("b")}, {nil}, {word("a")}})),
		Values: true,
	})
	assert.Refused(t, err, text)
	for want, file := range map[string]string{
		"which column has the labels?":        tableOf(t, []plainEdge{{0, 1}, {1, 2}, {2, 0}}),
		"has 2 rows, the graph of":            tableOf(t, []numberLabel{{1}, {0}}),
		"label 1990 of vertex 0: classes run": tableOf(t, []numberLabel{{1990}, {0}, {0}}),
		`row 2: column "id": the id 1 stands in 1 as well`: tableOf(t,
			[]besideLabel{{1, "b"}, {1, "c"}, {0, "b"}}),
		"has no row for the id 2:":         tableOf(t, []besideLabel{{1, "b"}, {0, "c"}}),
		`"9000000" is not the id of`:       tableOf(t, []besideLabel{{9000000, "b"}}),
		"a Parquet file that is cut short": tableOf(t, []numberLabel{{1}, {0}, {0}})[:40],
	} {
		_, err := Read(Options{Path: edges, Labels: write(t, "y.parquet", file)})
		assert.Refused(t, err, want)
	}
}
