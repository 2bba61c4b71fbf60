package graph

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"weft/internal/assert"
)

// TestRenumber: classes are told by their names, in any order and number; vertices of others are unlabelled.
func TestRenumber(t *testing.T) {
	stored := []int64{1, -1, 0, 2}
	f := &Frame{
		Labels: Labels{Classes: 3, Class: stored, Names: []string{"blue", "red", "grey"}},
		Splits: []Split{{Train: []int64{0, 3}, Val: []int64{2}}},
	}
	assert.Equal(t, []string{"grey"}, f.Renumber([]string{"red", "green", "blue"}), "the unknown classes")
	want := Labels{Classes: 3, Class: []int64{0, -1, 2, -1}, Names: []string{"red", "green", "blue"}}
	assert.Equal(t, want, f.Labels, "the labels")
	assert.Equal(t, []Split{{Train: []int64{0}, Val: []int64{2}}}, f.Splits, "the splits")
	assert.Equal(t, []int64{1, -1, 0, 2}, stored, "the stored labels")

	assert.Equal(t, []string(nil), f.Renumber(nil), "the unknown classes, of names that nobody knows")
	assert.Equal(t, want, f.Labels, "the labels")
}

// TestRenumberSeveralLabels: columns of labels move; a learned label that is not there is missing.
func TestRenumberSeveralLabels(t *testing.T) {
	f := &Frame{
		Labels: Labels{Classes: 2, Multi: []float32{1, 0, 0, 1, 1, 1}, Names: []string{"a", "b"}},
		Splits: []Split{{Train: []int64{0, 1, 2}}},
	}
	assert.Equal(t, []string{"a"}, f.Renumber([]string{"c", "b"}), "the unknown labels")
	for i, want := range []float32{-1, 0, -1, 1, -1, 1} { // −1: missing
		if x := f.Labels.Multi[i]; math.IsNaN(float64(x)) != (want < 0) || want >= 0 && x != want {
			t.Errorf("label %d is %v, want %v", i, x, want)
		}
	}
	assert.Equal(t, 2, f.Labels.Classes, "labels")
	assert.Equal(t, true, f.Labels.Class == nil, "no vertex has one class alone")
	assert.Equal(t, []int64{0, 1, 2}, f.Splits[0].Train, "the training vertices")
}

// TestDoubt: class ids that do not begin with 0, or of which most have no vertex, and classes that are
// written as labels of their own.
func TestDoubt(t *testing.T) {
	nan := float32(math.NaN())
	const ids = "the largest class id is %d, so that the model learns the %d classes from 0 on, and only %d of them have a vertex"
	for _, c := range []struct {
		labels Labels
		want   string
	}{
		{Labels{Classes: 6, Class: []int64{1, 2, 3, 4, 5, -1}}, fmt.Sprintf(ids, 5, 6, 5)},
		{Labels{Classes: 7, Class: []int64{0, 3, 6}}, fmt.Sprintf(ids, 6, 7, 3)},
		{Labels{Classes: 6, Class: []int64{0, 3, 5}}, ""},
		{Labels{Classes: 2, Class: []int64{1, 1}, Names: []string{"a", "b"}}, ""},
		{Labels{Classes: 2, Class: []int64{-1, -1}}, ""},
		{Labels{Classes: 2, Multi: []float32{0, 1, nan, nan, 1, 0}}, "each vertex has just one of the 2 labels"},
		{Labels{Classes: 2, Multi: []float32{0, 1, 1, 1}}, ""},
		{Labels{Classes: 2, Multi: []float32{0, 1, 0, 0}}, ""},
		{Labels{Classes: 1, Multi: []float32{1, 1}}, ""},
		{Labels{Columns: 2, Values: []float32{0, 1}}, ""},
	} {
		if got := c.labels.Doubt(); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: %q, want %q", c.labels, got, c.want)
		}
	}
}
