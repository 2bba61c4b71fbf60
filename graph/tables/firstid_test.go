package tables

import (
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestFirstID: ids that count from 1 are those of the vertices from 0 on, in all files, and stay their names.
func TestFirstID(t *testing.T) {
	edges := graphtest.File(t, "e.csv", "1,2\n3,1\n2,3\n")
	for _, c := range []list{
		{
			Features: array(t, []float32{10, 20, 30}, 3, 1), Labels: array(t, []int64{1, 0, 0}, 3),
			Train: array(t, []int64{3, 1}, 2), Val: graphtest.File(t, "val.csv", "2\n"),
		},
		{
			Features: graphtest.File(t, "x.csv", "id,x\n3,30\n1,10\n2,20\n"),
			Labels:   graphtest.File(t, "y.csv", "id,y\n2,0\n3,0\n1,1\n"),
			Train:    array(t, []bool{true, false, true}, 3), Val: array(t, []uint8{0, 1, 0}, 3),
		},
	} {
		c.Path, c.FirstID = edges, 1
		g, err := readList(c)
		require.NoError(t, err)
		assert.Equal(t, graph.Relation{Indptr: []int64{0, 1, 2, 3}, Sources: []int32{2, 0, 1}},
			g.Relations[0])
		assert.Equal(t, []float32{10, 20, 30}, g.Types[0].Features.Dense)
		assert.Equal(t, []int64{1, 0, 0}, g.Types[0].Labels.Class)
		assert.Equal(t, []graph.Split{
			{Train: []int64{0, 2}, Val: []int64{1}, Test: []int64{}},
		}, g.Types[0].Splits)
		assert.Equal(t, []string{"1", "2", "3"}, g.Types[0].Names)
		assert.Equal(t, []string(nil), g.Warnings)
	}
	for _, c := range []struct {
		o    list
		want string
	}{
		{
			list{Path: graphtest.File(t, "zero.csv", "1,2\n0,1\n"), FirstID: 1},
			"zero.csv:2: source: 0 is not a vertex id from --first-id 1 on",
		},
		{
			list{Path: edges, FirstID: 1, Train: array(t, []int64{0, 1}, 2)},
			"entry 1: vertex 0 is out of the range of 3 vertices: give ids from 1 to 3",
		},
		{
			list{Path: edges, FirstID: 1, Train: array(t, []int64{1, 4}, 2)},
			"entry 2: vertex 4 is out of the range of 3 vertices: give ids from 1 to 3",
		},
		{
			list{Path: edges, FirstID: 1, Labels: graphtest.File(t, "y.csv", "id,y\n0,0\n1,1\n2,0\n")},
			`"0" is not the id of a vertex, from 1 and below `,
		},
		{
			list{Path: edges, FirstID: 1, Vertices: 2},
			"e.csv:2: source: vertex 3 is out of the range of --vertices 2",
		},
		{list{Path: edges, FirstID: 1, Strings: true}, "--first-id 1: with --string-ids"},
		{list{Path: edges, FirstID: -1}, "first-id -1: give 0 or 1"},
	} {
		_, err := readList(c.o)
		assert.Refused(t, err, c.want, "%+v", c.o)
	}
}

// TestPerhapsFrom1: what cannot be meant where ids count from 0 leads on to first-id; else a warning does.
func TestPerhapsFrom1(t *testing.T) {
	const leads = "vertex 0 has no edge: where ids count from 1, give --first-id 1"
	edges := graphtest.File(t, "e.csv", "1,2\n3,1\n2,3\n")
	for _, o := range []list{
		{Features: array(t, []float32{10, 20, 30}, 3, 1)},
		{Labels: array(t, []int64{1, 0, 0}, 3)},
		{Labels: graphtest.File(t, "y.csv", "id,y\n2,0\n3,0\n1,1\n")},
		{Train: array(t, []bool{true, false, true}, 3)},
		{Vertices: 3},
	} {
		o.Path = edges
		_, err := readList(o)
		assert.Refused(t, err, leads, "%+v", o)
	}
	for _, o := range []list{
		{Path: edges, Features: array(t, []float32{10, 20}, 2, 1)},
		{Path: graphtest.File(t, "zero.csv", "1,2\n0,3\n"), Features: array(t, []float32{10, 20, 30}, 3, 1)},
		{Path: edges, FirstID: 1, Features: array(t, []float32{10, 20}, 2, 1)},
	} {
		_, err := readList(o)
		assert.Refused(t, err, "vertices: give one row for each")
		if err != nil && strings.Contains(err.Error(), "count from 1") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, c := range []struct {
		o      list
		warned bool
	}{
		{list{}, true},
		{list{Train: array(t, []int64{1, 2}, 2)}, true},
		{list{Vertices: 4}, false},
		{list{Features: array(t, []float32{0, 10, 20, 30}, 4, 1)}, false},
		{list{Strings: true}, false},
	} {
		c.o.Path = edges
		g, err := readList(c.o)
		require.NoError(t, err)
		var want []string
		if c.warned {
			want = []string{edges + ": vertex 0 has no edge, no features: ids from 1? --first-id 1"}
		}
		assert.Equal(t, want, g.Warnings, "%+v", c.o)
	}
}
