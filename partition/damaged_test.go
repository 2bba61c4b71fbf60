package partition

import (
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/require"
)

// described are two partitions of five vertices, by hand: vertices 0, 1, 2 | 3, 4 and edges 0 → 1, 1 → 0,
// 2 → 0, 3 → 0 and 3 → 4. Vertices 0 and 1 train.
func described() *Description {
	d := &Description{Statistics: Statistics{
		K: 2, CutEdges: 1, Vertices: []int{3, 2}, Edges: []int64{4, 1}, TrainVertices: []int{2, 0},
		HaloRows: [][]int{{0, 1}, {0, 0}}, HaloRowsOut: [][]int{{0, 0}, {1, 0}},
		Cut: [][]int64{{3, 1}, {0, 1}}, Types: [][]int{{3, 2}},
	}}
	d.Whole.Vertices, d.Whole.Edges = 5, 5
	d.Whole.Types = []WholeType{{Type: graph.VertexName, Vertices: 5}}
	return d
}

// TestCountsGoTogether: numbers that cannot be those of a graph's partitions are refused, and others not.
func TestCountsGoTogether(t *testing.T) {
	require.NoError(t, described().check())
	for name, change := range map[string]func(d *Description){
		"all train":   func(d *Description) { d.TrainVertices = []int{3, 2} },
		"none trains": func(d *Description) { d.TrainVertices[0] = 0 },
		"each row is needed": func(d *Description) {
			d.HaloRows[0][1], d.HaloRowsOut[1][0] = 2, 3
		},
		"no edges into one": func(d *Description) {
			d.Edges, d.Cut = []int64{5, 0}, [][]int64{{4, 1}, {0, 0}}
		},
		"an empty partition": func(d *Description) {
			d.Vertices, d.Types[0], d.HaloRows[0][1] = []int{5, 0}, []int{5, 0}, 0
		},
		"vertices of two types":          func(d *Description) { twoTypes(d, 1, 2) },
		"a partition of the second type": func(d *Description) { twoTypes(d, 3, 0) },
		"the most partitions, all empty": func(d *Description) {
			const k = MaxPartitions
			none := slices.Repeat([][]int{make([]int, k)}, k)
			*d = Description{Statistics: Statistics{
				K: k, Vertices: none[0], Edges: make([]int64, k), TrainVertices: none[0],
				HaloRows: none, HaloRowsOut: none, Cut: slices.Repeat([][]int64{make([]int64, k)}, k),
			}}
		},
	} {
		d := described()
		if change(d); d.check() != nil {
			t.Errorf("%s: %v", name, d.check())
		}
	}
	for name, change := range map[string]func(d *Description){
		"no partitions":                 func(d *Description) { *d = Description{} },
		"a partition below none":        func(d *Description) { d.K = -1 },
		"too many partitions":           func(d *Description) { d.K = MaxPartitions + 1 },
		"one partition":                 func(d *Description) { d.K = 1 },
		"vertices of one":               func(d *Description) { d.Vertices = []int{5} },
		"edges of one":                  func(d *Description) { d.Edges = []int64{5} },
		"training vertices of one":      func(d *Description) { d.TrainVertices = []int{2} },
		"training vertices of three":    func(d *Description) { d.TrainVertices = []int{2, 0, 0} },
		"a halo of one":                 func(d *Description) { d.HaloRows = d.HaloRows[:1] },
		"a halo of three":               func(d *Description) { d.HaloRows[1] = []int{0, 0, 0} },
		"a halo out of one":             func(d *Description) { d.HaloRowsOut[0] = []int{0} },
		"cuts of one":                   func(d *Description) { d.Cut[0] = []int64{4} },
		"a vertex more than there are":  func(d *Description) { d.Vertices[0]++ },
		"a vertex less":                 func(d *Description) { d.Vertices[1]-- },
		"vertices below none":           func(d *Description) { d.Vertices = []int{6, -1} },
		"an edge more than there are":   func(d *Description) { d.Edges[1]++ },
		"an edge less":                  func(d *Description) { d.Edges[0]-- },
		"edges below none":              func(d *Description) { d.Edges = []int64{6, -1} },
		"edges of the graph":            func(d *Description) { d.Whole.Edges++ },
		"vertices of the graph":         func(d *Description) { d.Whole.Vertices++ },
		"a halo below none":             func(d *Description) { d.HaloRows[1][0] = -1 },
		"a halo of more than there are": func(d *Description) { d.HaloRows[0][1] = 3 },
		"a halo out below none":         func(d *Description) { d.HaloRowsOut[0][1] = -1 },
		"a halo out of more":            func(d *Description) { d.HaloRowsOut[1][0] = 4 },
		"cuts below none":               func(d *Description) { d.Cut[0] = []int64{5, -1} },
		"cuts of more than there are":   func(d *Description) { d.Cut[1] = []int64{1, 1} },
		"cuts of less":                  func(d *Description) { d.Cut[0][0]-- },
		"cut edges":                     func(d *Description) { d.CutEdges++ },
		"no cut edges":                  func(d *Description) { d.CutEdges = 0 },
		"training vertices below none":  func(d *Description) { d.TrainVertices[1] = -1 },
		"training vertices of more":     func(d *Description) { d.TrainVertices[0] = 4 },
		"a type more":                   func(d *Description) { d.Types = append(d.Types, []int{1, 0}) },
		"a type less":                   func(d *Description) { twoTypes(d, 1, 2); d.Types = d.Types[:1] },
		"types below none":              func(d *Description) { twoTypes(d, 4, -1) },
		"types of more":                 func(d *Description) { twoTypes(d, 0, 3) },
		"types of less":                 func(d *Description) { twoTypes(d, 1, 1) },
		"types of one partition":        func(d *Description) { twoTypes(d, 1, 2); d.Types[1] = []int{3} },
		"types of three": func(d *Description) {
			twoTypes(d, 1, 2)
			d.Types[1] = []int{1, 2, 0}
		},
		"relations of one partition": func(d *Description) {
			d.Relations = []Halo{{Rows: [][]int{{0}}, RowsOut: d.HaloRowsOut}}
		},
		"relations out of one": func(d *Description) {
			d.Relations = []Halo{{Rows: d.HaloRows, RowsOut: [][]int{{0}}}}
		},
		"relations of less": func(d *Description) {
			d.Relations = []Halo{{Rows: [][]int{{0, 0}, {0, 0}}, RowsOut: d.HaloRowsOut}}
		},
		"relations out of less": func(d *Description) {
			d.Relations = []Halo{{Rows: d.HaloRows, RowsOut: [][]int{{0, 0}, {0, 0}}}}
		},
	} {
		d := described()
		if change(d); d.check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestRelationsOfAShare: a share has the relations that its description has, one here.
func TestRelationsOfAShare(t *testing.T) {
	r, err := graph.NewRelation(3, graph.Edges{Source: []int32{1, 0, 2, 2}, Target: []int32{0, 1, 0, 1}})
	require.NoError(t, err)
	for relations, want := range []string{
		"1 vertex types and 0 relations", "", "1 vertex types and 2 relations",
	} {
		part := &graph.Part{
			Whole: []int{5},
			Graph: &graph.Graph{
				Types:     []graph.VertexType{{Frame: graph.Frame{Count: 3}}},
				Relations: slices.Repeat([]graph.Relation{r}, relations),
			},
		}
		if err := described().checkCounts(0, part); (err == nil) != (want == "") ||
			err != nil && !strings.HasPrefix(err.Error(), want+", where") {
			t.Errorf("%d relations: error %v", relations, err)
		}
	}
}

// TestTypesOfAShare: each type of a share has the name, vertices and features of its description.
func TestTypesOfAShare(t *testing.T) {
	d := described()
	twoTypes(d, 1, 2)
	d.Whole.Types[1].FeatureColumns = 4
	for _, c := range []struct {
		name           string
		count, columns int
		want           string
	}{
		{"b", 1, 4, ""},
		{"c", 1, 4, `1 vertices "c" with 4 features, where partition.json says 1 "b" with 4`},
		{"b", 2, 4, `2 vertices "b" with 4 features, where partition.json says 1 "b" with 4`},
		{"b", 1, 3, `1 vertices "b" with 3 features, where partition.json says 1 "b" with 4`},
	} {
		other := graph.VertexType{
			Type: c.name, Frame: graph.Frame{Count: c.count, Features: graph.Features{Columns: c.columns}},
		}
		g := &graph.Graph{
			Types:     []graph.VertexType{{Frame: graph.Frame{Count: 2}}, other},
			Relations: []graph.Relation{{Indptr: []int64{0}}},
		}
		// the graph's numbers, which are checked later, are others here
		err := d.checkCounts(0, &graph.Part{Graph: g})
		if err == nil || c.want == "" && strings.Contains(err.Error(), `"b"`) ||
			c.want != "" && err.Error() != c.want {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}

// twoTypes makes three of the vertices those of a second type, so many of each partition.
func twoTypes(d *Description, first, second int) {
	d.Whole.Types[0].Vertices = 2
	d.Whole.Types = append(d.Whole.Types, WholeType{Type: "b", Vertices: 3})
	d.Types = [][]int{{3 - first, 2 - second}, {first, second}}
}

// TestAssignmentChecked: each vertex is of one of the partitions, of which there are between 1 and
// MaxPartitions.
func TestAssignmentChecked(t *testing.T) {
	r, err := graph.NewRelation(2, graph.Edges{})
	require.NoError(t, err)
	g := graph.Of(r)
	for _, c := range []struct {
		k     int
		parts []int32
		taken bool
	}{
		{1, []int32{0, 0}, true},
		{2, []int32{0, 1}, true},
		{MaxPartitions, []int32{0, MaxPartitions - 1}, true},
		{0, []int32{0, 0}, false},
		{MaxPartitions + 1, []int32{0, 0}, false},
		{2, []int32{0, 2}, false},
		{2, []int32{-1, 0}, false},
		{2, []int32{0}, false},
		{2, []int32{0, 1, 1}, false},
	} {
		a := Assignment{K: c.k, Parts: c.parts}
		if err := a.check(g); (err == nil) != c.taken || err != nil && !refusal.Is(err) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
