package edgelist

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
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
		g, err := Read(Options{
			Path: write(t, "e.csv", chain(3)), Labels: write(t, "y.csv", c.labels), Values: c.values,
		})
		if err != nil {
			t.Errorf("%q: %v", c.labels, err)
		} else if diff := cmp.Diff(c.want, g.Labels, cmpopts.EquateNaNs()); diff != "" {
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
		said, values      bool
	}{
		{400, 100, "", false, false},
		{400, 101, "", true, false},
		{400, 100, ".0", false, false},
		{400, 101, ".0", false, true},
		{31, 10, "", false, false},
		{30, 10, "", true, false},
		{29, 10, ".0", true, false},
	} {
		o := Options{
			Path:   write(t, "e.csv", chain(c.vertices)),
			Labels: write(t, "y.csv", numbers(c.vertices, c.classes, c.point)),
		}
		g, err := Read(o)
		require.NoError(t, err)
		want := fmt.Sprintf("whole numbers of %s taken for %d classes of %d vertices; values takes them "+
			"for values to predict", o.Labels, c.classes, c.vertices)
		if got := slices.Contains(g.Notes, want); got != c.said || g.Labels.Continuous() != c.values {
			t.Errorf("%+v: notes %q, values %v", c, g.Notes, g.Labels.Continuous())
		}
	}
	named := Options{Path: write(t, "e.csv", chain(3)), Labels: write(t, "y.csv", "b\na\nb\n")}
	g, err := Read(named)
	require.NoError(t, err)
	if g.Notes != nil {
		t.Errorf("names of classes: notes %q", g.Notes)
	}
}

func TestValuesRefuse(t *testing.T) {
	edges := write(t, "e.csv", chain(3))
	for labels, want := range map[string]string{
		"":              "values says what labels are, and none are given: give labels too",
		"a\nb\nc\n":     `y.csv:2: "b" is not a number, as values to predict are; leave values out for names of classes`,
		"1\n2\n1e300\n": "label +Inf of vertex 2: values to predict are finite",
	} {
		o := Options{Path: edges, Values: true}
		if labels != "" {
			o.Labels = write(t, "y.csv", labels)
		}
		_, err := Read(o)
		assert.Refused(t, err, want, "%q", labels)
	}
	for labels, want := range map[string]string{
		"0\n1\n26242\n":     "save values to predict as floats, by numpy.save, or give values",
		"0,1\n1,0\n2,1\n":   "save values to predict as floats, or give values",
		"0\n1\n-2\n":        "label -2 of vertex 2",
		"0.5\n1\n1e300\n":   "label +Inf of vertex 2",
		"0.5,1\n1,2\n3,4,5": "3 columns, where the lines before have 2",
	} {
		_, err := Read(Options{Path: edges, Labels: write(t, "y.csv", labels)})
		assert.Refused(t, err, want, "%q", labels)
	}
}
