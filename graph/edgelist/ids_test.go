package edgelist

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

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
		want                    graph.Graph // Names, Features, Labels
	}{
		"classes": {
			numbers, "", "id,label\n2,2\n0,\n\n1,0\n",
			graph.Graph{Labels: graph.Labels{Classes: 3, Class: []int64{-1, 0, 2}}},
		},
		"words": {
			numbers, "", "Node_ID;y\n1;red\n2;\n0;a b\n3;red\n",
			graph.Graph{
				Labels: graph.Labels{Classes: 2, Class: []int64{0, 1, -1, 1}, Names: []string{"a b", "red"}},
			},
		},
		"dense": {
			numbers, "id\t0\t1\n2\t.5\t1\n0\t2\t3\n1\t4\t5\n", "",
			graph.Graph{Features: graph.Features{Columns: 2, Dense: []float32{2, 3, 4, 5, .5, 1}}},
		},
		"sparse": {numbers, wide, "", graph.Graph{Features: graph.Features{
			Columns: 200, Indptr: []int64{0, 0, 1, 2}, Indices: []int32{199, 199}, Data: []float32{1, 2},
		}}},
		"several values": {
			numbers, "", "vertex a b\n1 .5 2\n 0 1 nan\n2 0 0\n",
			graph.Graph{Labels: graph.Labels{Columns: 2, Values: []float32{1, nan, .5, 2, 0, 0}}},
		},
		"by name": {
			names, "id,x\ndan,3\nann,1\n\"b, c\",2\neve,4\n", "id,label\neve,0\n\"b, c\",1\nann,0\ndan,1\n",
			graph.Graph{
				Names:    []string{"ann", "b, c", "dan", "eve"},
				Features: graph.Features{Columns: 1, Dense: []float32{1, 2, 3, 4}},
				Labels:   graph.Labels{Classes: 2, Class: []int64{0, 1, 1, 0}},
			},
		},
		"numbers as names": {
			"7,9\n9,7\n", "", "id,label\n9,1\n7,0\n",
			graph.Graph{Names: []string{"7", "9"}, Labels: graph.Labels{Classes: 2, Class: []int64{0, 1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Path: write(t, "e.csv", c.edges), Strings: strings.Contains(name, "name")}
			if c.features != "" {
				o.Features = write(t, "x.csv", c.features)
			}
			if c.labels != "" {
				o.Labels = write(t, "y.csv", c.labels)
			}
			g, err := Read(o)
			require.NoError(t, err)
			got := graph.Graph{Names: g.Names, Features: g.Features, Labels: g.Labels}
			assert.EqualBy(t, &c.want, &got, cmpopts.EquateNaNs(), cmpopts.IgnoreUnexported(graph.Graph{}))
			streamed, err := Open(o)
			require.NoError(t, err)
			store := filepath.Join(t.TempDir(), "store")
			_, err = streamed.Write(store)
			require.NoError(t, err)
			s, err := graph.Open(store)
			require.NoError(t, err)
			defer s.Close()
			assert.EqualBy(t, g.Labels, s.Labels, cmpopts.EquateNaNs())
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
		`y.csv:2: "x" is not the id of a vertex, from 0 and below 1048768; give `: {false, "id,label\nx,1\n"},
		`y.csv:2: "-1" is not the id of a vertex`: {false,
			"id,label\n-1,1\n"},
		`y.csv:2: "2000000000" is not the id of a vertex`: {false,
			"id,label\n2000000000,1\n"},
		"y.csv:3: 1 column, where the header has 2": {false,
			"id,label\n2,1\n0\n"},
		"y.csv:3: 2 columns, where the lines before have 1": {false,
			"id,label\n2,1\n0,1,1\n"},
		"y.csv: has no row of numbers": {false, "id,label\n"},
		`y.csv: has no row for the id "2" and 1 more: `: {true,
			"id,label\n0,1\n1,1\nzoe,1\n"},
		`y.csv:2: the id "" is empty`: {true, "id,label\n,1\n"},
	} {
		edges := "0,1\n1,2\n2,0\n"
		if c.names {
			edges = "0,1\n1,2\n2,zed\n"
		}
		_, err := Read(Options{
			Path: write(t, "e.csv", edges), Labels: write(t, "y.csv", c.text), Strings: c.names,
		})
		assert.Refused(t, err, want, "%q", c.text)
	}
}
