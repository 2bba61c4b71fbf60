package tables

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// chain is a list of edges that joins so many vertices.
func chain(vertices int) string {
	var b strings.Builder
	for v := range vertices - 1 {
		fmt.Fprintf(&b, "%d,%d\n", v, v+1)
	}
	return b.String()
}

// TestValuesOfWholeNumbers: with Values whole numbers are values to predict, in order or by a column of ids,
// and without also those that no class has: written with a point, and too large.
func TestValuesOfWholeNumbers(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		labels string
		values bool
		want   graph.Labels
	}{
		{"0\n1\n2\n", true, graph.Labels{Columns: 1, Values: []float32{0, 1, 2}}},
		{"days\n0\n\n-1\n", true, graph.Labels{Columns: 1, Values: []float32{0, nan, -1}}},
		{"1\n0\n1\n", true, graph.Labels{Columns: 1, Values: []float32{1, 0, 1}}},
		{"id,days\n2,9000\n0,3954\n1,\n", true, graph.Labels{Columns: 1, Values: []float32{3954, nan, 9000}}},
		{
			"id,a,b\n2,0,1\n0,1,0\n1,1,1\n", true,
			graph.Labels{Columns: 2, Values: []float32{1, 0, 1, 1, 0, 1}},
		},
		{"26242.0\n26243.0\n\n", false, graph.Labels{Columns: 1, Values: []float32{26242, 26243, nan}}},
		// more classes than vertices
		{"1.0\n5.0\n0.0\n", false, graph.Labels{Columns: 1, Values: []float32{1, 5, 0}}},
		{"-2.0\n1.0\n0.0\n", false, graph.Labels{Columns: 1, Values: []float32{-2, 1, 0}}},
		{
			"id,days\n2,26242.0\n0,5.0\n1,\n", false,
			graph.Labels{Columns: 1, Values: []float32{5, nan, 26242}},
		},
		// as pandas writes classes with gaps
		{"1.0\n\n0.0\n", false, graph.Labels{Classes: 2, Class: []int64{1, -1, 0}}},
		{"id,kind\n2,1.0\n0,0.0\n1,\n", false, graph.Labels{Classes: 2, Class: []int64{0, -1, 1}}},
	} {
		g, err := readList(list{
			Path:   graphtest.File(t, "e.csv", chain(3)),
			Labels: graphtest.File(t, "y.csv", c.labels), Values: c.values,
		})
		if err != nil {
			t.Errorf("%q: %v", c.labels, err)
		} else if diff := cmp.Diff(c.want, g.Types[0].Labels, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%q: %s", c.labels, diff)
		}
	}
}

// TestManyClassesAreSaid: a note says so of more than 100 classes, and of a class for every third vertex. A
// number with a point is a value from the 101st class on.
func TestManyClassesAreSaid(t *testing.T) {
	numbers := func(vertices, classes int, point string) string {
		var b strings.Builder
		for v := range vertices {
			fmt.Fprintf(&b, "%d%s\n", v%classes, point)
		}
		return b.String()
	}
	for _, c := range []struct {
		vertices, classes int
		point             string
		noted, values     bool
	}{
		{400, 100, "", false, false},
		{400, 101, "", true, false},
		{400, 100, ".0", false, false},
		{400, 101, ".0", false, true},
		{31, 10, "", false, false},
		{30, 10, "", true, false},
		{29, 10, ".0", true, false},
	} {
		o := list{
			Path:   graphtest.File(t, "e.csv", chain(c.vertices)),
			Labels: graphtest.File(t, "y.csv", numbers(c.vertices, c.classes, c.point)),
		}
		g, err := readList(o)
		require.NoError(t, err)
		want := fmt.Sprintf("whole numbers of %s taken for %d classes of %d vertices; --values takes them "+
			"for values to predict", o.Labels, c.classes, c.vertices)
		if got := slices.Contains(g.Notes,
			want); got != c.noted || g.Types[0].Labels.Continuous() != c.values {
			t.Errorf("%+v: notes %q, values %v", c, g.Notes, g.Types[0].Labels.Continuous())
		}
	}
	named := list{Path: graphtest.File(t, "e.csv", chain(3)), Labels: graphtest.File(t, "y.csv", "b\na\nb\n")}
	g, err := readList(named)
	require.NoError(t, err)
	if g.Notes != nil {
		t.Errorf("names of classes: notes %q", g.Notes)
	}
}

func TestValuesRefuse(t *testing.T) {
	edges := graphtest.File(t, "e.csv", chain(3))
	for labels, want := range map[string]string{
		"":              "--values says what labels are, and none are given: give --labels too",
		"a\nb\nc\n":     `y.csv:2: "b" is not a number, as values to predict are; leave --values out for names of classes`,
		"1\n2\n1e300\n": "label +Inf of vertex 2: values to predict are finite",
	} {
		o := list{Path: edges, Values: true}
		if labels != "" {
			o.Labels = graphtest.File(t, "y.csv", labels)
		}
		_, err := readList(o)
		assert.Refused(t, err, want, "%q", labels)
	}
	for labels, want := range map[string]string{
		"0\n1\n26242\n":     "save values to predict as floats, by numpy.save, or give --values",
		"0,1\n1,0\n2,1\n":   "save values to predict as floats, or give --values",
		"0\n1\n-2\n":        "label -2 of vertex 2",
		"0.5\n1\n1e300\n":   "label +Inf of vertex 2",
		"0.5,1\n1,2\n3,4,5": "3 columns, where the lines before have 2",
	} {
		_, err := readList(list{Path: edges, Labels: graphtest.File(t, "y.csv", labels)})
		assert.Refused(t, err, want, "%q", labels)
	}
}

// TestRowsByID: rows of features and labels come in any order under a header that begins with id, and are
// those of the vertices that the edges name, by number or by name. A vertex without edges may be among them.
func TestRowsByID(t *testing.T) {
	numbers, names := "0,1\n1,2\n2,0\n", "source,target\nann,\"b, c\"\n\"b, c\",dan\n"
	nan := float32(math.NaN())
	wide := "id" + strings.Repeat(",x", 200) + "\n"
	for _, v := range []string{"2", "0", "1"} {
		wide += v + strings.Repeat(",0", 199) + "," + v + "\n"
	}
	for name, c := range map[string]struct {
		edges, features, labels string
		want                    graph.Graph // Types, Labels
	}{
		"classes": {
			numbers, "", "id,label\n2,2\n0,\n\n1,0\n",
			graph.Graph{
				Types: []graph.VertexType{
					{
						Frame: graph.Frame{
							Count: 3, Labels: graph.Labels{Classes: 3, Class: []int64{-1, 0, 2}},
						},
					},
				},
			},
		},
		"words": {
			numbers, "", "Node_ID;y\n1;red\n2;\n0;a b\n3;red\n",
			graph.Graph{
				Types: []graph.VertexType{
					{
						Frame: graph.Frame{
							Count: 4,
							Labels: graph.Labels{
								Classes: 2, Class: []int64{0, 1, -1, 1}, Names: []string{"a b", "red"},
							},
						},
					},
				},
			},
		},
		"dense": {
			numbers, "id\t0\t1\n2\t.5\t1\n0\t2\t3\n1\t4\t5\n", "",
			graph.Graph{Types: []graph.VertexType{{
				Frame: graph.Frame{
					Count: 3, Features: graph.Features{Columns: 2, Dense: []float32{2, 3, 4, 5, .5, 1}},
				},
			}}},
		},
		"sparse": {numbers, wide, "", graph.Graph{Types: []graph.VertexType{{
			Frame: graph.Frame{Count: 3, Features: graph.Features{
				Columns: 200, Indptr: []int64{0, 0, 1, 2}, Indices: []int32{199, 199}, Data: []float32{1, 2},
			}},
		}}}},
		"several values": {
			numbers, "", "vertex a b\n1 .5 2\n 0 1 nan\n2 0 0\n",
			graph.Graph{
				Types: []graph.VertexType{
					{
						Frame: graph.Frame{
							Count:  3,
							Labels: graph.Labels{Columns: 2, Values: []float32{1, nan, .5, 2, 0, 0}},
						},
					},
				},
			},
		},
		"by name": {
			names, "id,x\ndan,3\nann,1\n\"b, c\",2\neve,4\n", "id,label\neve,0\n\"b, c\",1\nann,0\ndan,1\n",
			graph.Graph{
				Types: []graph.VertexType{{
					Frame: graph.Frame{
						Count: 4, Names: []string{"ann", "b, c", "dan", "eve"},
						Features: graph.Features{Columns: 1, Dense: []float32{1, 2, 3, 4}},
						Labels:   graph.Labels{Classes: 2, Class: []int64{0, 1, 1, 0}},
					},
				}},
			},
		},
		"numbers as names": {
			"7,9\n9,7\n", "", "id,label\n9,1\n7,0\n",
			graph.Graph{
				Types: []graph.VertexType{
					{
						Frame: graph.Frame{
							Count: 2, Names: []string{"7", "9"},
							Labels: graph.Labels{Classes: 2, Class: []int64{0, 1}},
						},
					},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := list{Path: graphtest.File(t, "e.csv", c.edges), Strings: strings.Contains(name, "name")}
			if c.features != "" {
				o.Features = graphtest.File(t, "x.csv", c.features)
			}
			if c.labels != "" {
				o.Labels = graphtest.File(t, "y.csv", c.labels)
			}
			g, err := readList(o)
			require.NoError(t, err)
			got := graph.Graph{Types: g.Types}
			assert.EqualBy(t, &c.want, &got, cmpopts.EquateNaNs(), cmpopts.IgnoreUnexported(graph.Graph{}))
			streamed, err := openList(o)
			require.NoError(t, err)
			store := filepath.Join(t.TempDir(), "store")
			_, err = streamed.Write(store)
			require.NoError(t, err)
			s, err := graph.Open(store)
			require.NoError(t, err)
			defer s.Close()
			assert.EqualBy(t, g.Types[0].Labels, s.Types[0].Labels, cmpopts.EquateNaNs())
		})
	}
}

// TestRowsByIDRefused: an id that is missing, stands twice or is none is one line with the file.
func TestRowsByIDRefused(t *testing.T) {
	for want, c := range map[string]struct {
		names bool
		text  string
	}{
		"y.csv: has no row for the id 1: give each vertex one row": {false, "id,label\n2,1\n0,1\n"},
		"y.csv: has no row for the id 1 and 1 more: ":              {false, "id,label\n0,1\n"},
		"y.csv:4: the id 2 stands in 2 as well: give each vertex one row": {
			false, "id,label\n2,1\n0,1\n2,0\n",
		},
		`y.csv:2: "x" is not the id of a vertex, from 0 and below 1048768; if ids `: {false, "id,label\nx,1\n"},
		`y.csv:2: "-1" is not the id of a vertex`:                                   {false, "id,label\n-1,1\n"},
		`y.csv:2: "2000000000" is not the id of a vertex`:                           {false, "id,label\n2000000000,1\n"},
		"y.csv:3: 1 column, where the header has 2":                                 {false, "id,label\n2,1\n0\n"},
		"y.csv:3: 2 columns, where the lines before have 1":                         {false, "id,label\n2,1\n0,1,1\n"},
		"y.csv: has no row of numbers":                                              {false, "id,label\n"},
		`y.csv: has no row for the id "2" and 1 more: `:                             {true, "id,label\n0,1\n1,1\nzoe,1\n"},
		`y.csv:2: the id is empty`:                                                  {true, "id,label\n,1\n"},
	} {
		edges := "0,1\n1,2\n2,0\n"
		if c.names {
			edges = "0,1\n1,2\n2,zed\n"
		}
		_, err := readList(list{
			Path:   graphtest.File(t, "e.csv", edges),
			Labels: graphtest.File(t, "y.csv", c.text), Strings: c.names,
		})
		assert.Refused(t, err, want, "%q", c.text)
	}
}
