package arrays

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/npy"
	"weft/internal/require"
)

// TestReadLabels: names of classes are numbered in their order. The first line is a header unless it is a
// class of another line, and numbers stay numbers.
func TestReadLabels(t *testing.T) {
	cat := graph.Labels{
		Classes: 3, Class: []int64{1, 0, -1, 1, 2}, Names: []string{"Art", "physics", "über uns"},
	}
	for text, want := range map[string]graph.Labels{
		"label\nphysics\nArt\n\nphysics\nüber uns\n":         cat,
		"\"label\"\n\"physics\"\nArt\n\nphysics\nüber uns\n": cat,
		"kind\na \"\"b\n\"say \"\"x, y\"\"\"\n\"5\"\" pipe\"\n": {
			Classes: 3, Class: []int64{1, 2, 0}, Names: []string{`5" pipe`, `a ""b`, `say "x, y"`},
		},
		"\"a\"\"b\"\"\"\nc\n\"a\"\"b\"\"\"\n": {
			Classes: 2, Class: []int64{0, 1, 0},
			Names: []string{`a"b"`, "c"},
		},
		"# from a table\nphysics\nArt\n\nphysics\nüber uns\n": cat,
		"label\nphysics\nArt\nnan\nphysics\nüber uns\n":       cat,
		"label\nNaN\nb\nNaN\n": {
			Classes: 1, Class: []int64{-1, 0, -1}, Names: []string{"b"},
		},
		"\nb\n7\n": {
			Classes: 2, Class: []int64{-1, 1, 0}, Names: []string{"7", "b"},
		},
		"open grass\n\nb\nopen grass\n": {
			Classes: 2, Class: []int64{1, -1, 0, 1}, Names: []string{"b", "open grass"},
		},
		"open grass\ntall shrub\n# no row\nopen grass\n": {
			Classes: 2, Class: []int64{0, 1, 0}, Names: []string{"open grass", "tall shrub"},
		},
		"vegetation class\ntype 1\nb\n": {Classes: 2, Class: []int64{1, 0}, Names: []string{"b", "type 1"}},
		"vegetation class\n\"type 1\"\n\"type 2\"\n": {
			Classes: 2, Class: []int64{0, 1}, Names: []string{"type 1", "type 2"},
		},
		"type 1\ntype 2\ntype 1\n": {
			Classes: 2, Class: []int64{0, 1, 0}, Names: []string{"type 1", "type 2"},
		},
		"\"grass, open\"\nb\n\"grass, open\"\n": {
			Classes: 2, Class: []int64{1, 0, 1}, Names: []string{"b", "grass, open"},
		},
		"\"type 1\"\n\"type 2\"\n\"type 1\"\n": {
			Classes: 2, Class: []int64{0, 1, 0}, Names: []string{"type 1", "type 2"},
		},
		"vegetation class\n1\n\n0\n2\n": {Classes: 3, Class: []int64{1, -1, 0, 2}},
		"a b\n\n0 1\n1 1\n":             {Classes: 2, Multi: []float32{0, 1, 1, 1}},
		"kind\n2\n\n0\n1":               {Classes: 3, Class: []int64{2, -1, 0, 1}},
		"kind\n0.5\n2\n":                {Columns: 1, Values: []float32{.5, 2}},
		"kind\na\na\na\n":               {Classes: 1, Class: []int64{0, 0, 0}, Names: []string{"a"}},
	} {
		rows, err := ReadLabels(graphtest.File(t, "y.csv", text), 10, nil, PerhapsWhole)
		require.NoError(t, err, "%q", text)
		got, err := rows.Labels()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: error %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, c := range []struct {
		text string
		most int64
		want string
	}{
		{"label\n1\nb\n", 10, `y.csv:3: "b" is not a number`},
		{"label\na\n\xff\n", 10, `y.csv:3: the class "\xff" is not UTF-8`},
		{"label\n0 1\n", 10, "y.csv:2: 2 columns, where the lines before have 1"},
		{"a,b\nc,d\n", 10, `y.csv:2: "c" is not a number`},
		{"a b\n0 1\nc d\n", 10, `y.csv:3: "c" is not a number`},
		{"kind of\n3 shrub\n1 tree\n0 tree\n", 10, "y.csv: several columns, or names of classes with " +
			"spaces, each in one line alone"},
		{"name class\na tree\nb tree\n", 10, "y.csv: several columns, or names of classes with spaces, " +
			"each in one line alone"},
		{"a b\n0 1 2\n", 10, "y.csv:2: 3 columns, where the lines before have 2"},
		{"open grass\n\n1\nc\n", 10, `y.csv:4: "c" is not a number`},
		{"open grass\n# nothing else\n", 10, "y.csv: has no row of numbers"},
		{"a\na\nb\n", 1, "y.csv:3: more than 1 rows"},
	} {
		_, err := ReadLabels(graphtest.File(t, "y.csv", c.text), c.most, nil, PerhapsWhole)
		assert.Refused(t, err, c.want, "%q", c.text)
	}
	words := npy.Bytes([]int32{'b', 0, 0, 0, 'a', 'b', 'b', 0}) // of two characters
	array, _, err := npy.Header{Descr: "<U2", Shape: []int{4}}.Stream(bytes.NewReader(words))
	require.NoError(t, err)
	content, err := io.ReadAll(array)
	require.NoError(t, err)
	rows, err := ReadLabels(graphtest.File(t, "y.npy", content), 10, nil, PerhapsWhole)
	require.NoError(t, err)
	got, err := rows.Labels()
	if diff := cmp.Diff(graph.Labels{Classes: 2, Class: []int64{1, -1, 0, 1}, Names: []string{"ab", "b"}},
		got); diff != "" || err != nil {
		t.Errorf("an array of text: error %v (-want +got):\n%s", err, diff)
	}
}
