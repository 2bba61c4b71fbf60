package graph

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// values is a graph whose labels are two values for each vertex.
func values() *Graph {
	g := dense()
	g.Labels = Labels{Columns: 2, Values: []float32{1.5, -2, nan, 7, nan, nan, 1e6, 0}}
	g.Metric = ""
	return g
}

// TestValuesAreStored: a store has the values, and a relabelled graph those of its vertices. A Writer writes
// the same bytes.
func TestValuesAreStored(t *testing.T) {
	g := values()
	dir := stored(t, g)
	opened, err := Open(dir)
	require.NoError(t, err)
	defer opened.Close()
	assert.EqualBy(t, g.Labels, opened.Labels, cmpopts.EquateNaNs())
	if l := &opened.Labels; !l.Labelled(1) || l.Labelled(2) || l.MultiLabel() || l.OneClass() {
		t.Error("labels of values are taken for others")
	}
	if s, err := opened.Summarize(nil); err != nil || s.ValueColumns != 2 ||
		s.Unlabelled != 1 || s.Classes != 0 {
		t.Errorf("summary %+v, %v", s, err)
	}
	changed, err := g.Induced([]bool{true, false, true, true})
	require.NoError(t, err)
	want := []float32{1.5, -2, nan, nan, 1e6, 0}
	assert.EqualBy(t, want, changed.Labels.Values, cmpopts.EquateNaNs())
	if err := g.MakeSplits("random:34/33/33", 1, 1); err != nil || len(g.Splits[0].Train) != 1 {
		t.Errorf("splits %v, %v", g.Splits, err)
	}
}

// TestDamagedValues: values of a wrong number, that are not finite, or beside classes are refused.
func TestDamagedValues(t *testing.T) {
	for name, damage := range map[string]func(l *Labels){
		"short":      func(l *Labels) { l.Values = l.Values[:7] },
		"no columns": func(l *Labels) { l.Columns = 0 },
		"infinite":   func(l *Labels) { l.Values[1] = float32(math.Inf(1)) },
		"classes":    func(l *Labels) { l.Classes = 2 },
		"many":       func(l *Labels) { l.Columns = 1 << 20 },
		"class":      func(l *Labels) { l.Class = []int64{0, 0, 0, 0} },
	} {
		g := values()
		damage(&g.Labels)
		assert.Refused(t, g.Check(), "", name)
	}
	for _, labels := range []string{
		`{"kind": "values", "dtype": "float32", "classes": 0}`,
		`{"kind": "values", "dtype": "float32", "classes": 2, "columns": 2}`,
		`{"kind": "values", "dtype": "int64", "classes": 0, "columns": 2}`,
		`{"kind": "class", "dtype": "int64", "classes": 2, "columns": 2}`,
		`{"kind": "values", "dtype": "float32", "classes": 0, "columns": 3}`,
		`{"kind": "values", "dtype": "float32", "classes": 0, "columns": -2}`,
	} {
		dir := stored(t, values())
		path := filepath.Join(dir, descriptionFile)
		text := `{"format": 1, "provenance": "", "vertices": [{"type": "vertex", "count": 4, "labels": ` +
			labels + `}],
			"relations": [{"source": "vertex", "name": "edge", "target": "vertex", "count": 6, "dtype": "int32"}]}`
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		if g, err := Open(dir); !refusal.Is(err) {
			t.Errorf("labels %s: %v", labels, err)
			if err == nil {
				_ = g.Close()
			}
		}
	}
}
