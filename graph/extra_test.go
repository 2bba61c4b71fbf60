package graph

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// Arrays are stored with their type, in a graph of one and of several, and listed with its files.
func TestArraysAreStored(t *testing.T) {
	years := Array{Name: "node_year", Columns: 1, Ints: []int64{2001, 2002, 2003, 2004}}
	places := Array{Name: "node_place", Columns: 2, Floats: []float32{1, 2, 3, 4, 5, nan, 7, 8}}
	single := dense()
	single.Types[0].Arrays = []Array{years, places}
	several := dense()
	r := &several.Relations[0]
	r.Source, r.Name, r.Target = "paper", "cites", "paper"
	several.Types = []VertexType{
		several.Types[0], {Type: "author", Frame: Frame{Count: 4, Arrays: []Array{years}}},
	}
	several.Types[0].Type = "paper"
	for name, g := range map[string]*Graph{"one type": single, "several": several} {
		store := filepath.Join(t.TempDir(), "store")
		require.NoError(t, g.Write(store), name)
		stored, err := Open(store)
		require.NoError(t, err, name)
		assert.Equal(t, "", differences(g, stored), name)
		assert.NoError(t, stored.CheckStored(store), name)
		files, err := Files(store)
		require.NoError(t, err)
		assert.Contains(t, strings.Join(files, " "), "node_year.npy", name)
		want := []string{"node_year", "node_place"}
		if name == "several" {
			want = []string{"vertices/author/node_year"}
		}
		assert.Equal(t, want, summarize(t, stored).Arrays, name)
		assert.NoError(t, stored.Close())
	}
	for name, a := range map[string]Array{
		"short":               {Name: "node_year", Columns: 1, Ints: []int64{1}},
		"both":                {Name: "node_year", Columns: 1, Ints: []int64{1, 2}, Floats: []float32{3, 4}},
		"a name of the store": {Name: "features", Columns: 1, Ints: years.Ints},
		"a path":              {Name: "node_/../x", Columns: 1, Ints: years.Ints},
		"no columns":          {Name: "node_year"},
	} {
		g := dense()
		g.Types[0].Arrays = []Array{a}
		assert.Refused(t, g.Check(), "", name)
	}
	single.Types[0].Arrays = []Array{years, years}
	assert.ErrorContains(t, single.Check(), `two arrays are called "node_year"`)
}

// A stream of arrays writes the bytes of Write, and takes no more and no fewer rows than there are vertices.
func TestArraysInAStream(t *testing.T) {
	g := &Graph{
		Types: []VertexType{{
			Frame: Frame{Count: 3, Arrays: []Array{
				{Name: "node_year", Columns: 1, Ints: []int64{-1, 2, 1 << 24}},
				{Name: "node_place", Columns: 2, Floats: []float32{1, 2, 3, nan, 5, .5}},
			}},
		}},
		Relations: []Relation{{Indptr: make([]int64, 4)}},
	}
	parent := t.TempDir()
	streamed, written := filepath.Join(parent, "streamed"), filepath.Join(parent, "written")
	require.NoError(t, g.Write(written))
	begin := func(store string) *Writer {
		announced := &Graph{
			Types: []VertexType{{Frame: Frame{Count: 3}}}, Relations: []Relation{{Indptr: []int64{0}}},
		}
		w, err := Create(store, announced)
		if err == nil {
			err = w.In(0, 0, &Relation{}, each([]*Relation{{Indptr: make([]int64, 4)}}))
		}
		require.NoError(t, err)
		return w
	}
	w := begin(streamed)
	for _, c := range []struct {
		shape ArrayShape
		rows  []float32
	}{
		{ArrayShape{"node_year", Int64, 1}, []float32{-1, 2, 1 << 24}},
		{ArrayShape{"node_place", Float32, 2}, g.Types[0].Arrays[1].Floats},
	} {
		require.NoError(t, w.Array(0, c.shape, each([][]float32{c.rows[:2], c.rows[2:]})))
	}
	require.NoError(t, w.Close())
	for _, name := range left(t, written) {
		a, errA := os.ReadFile(filepath.Join(written, name))
		b, errB := os.ReadFile(filepath.Join(streamed, name))
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%s differs (%v, %v)", name, errA, errB)
		}
	}
	for name, c := range map[string]struct {
		shape ArrayShape
		rows  []float32
	}{
		"too few":             {ArrayShape{"node_year", Int64, 1}, []float32{1}},
		"too many":            {ArrayShape{"node_year", Float32, 1}, make([]float32, 4)},
		"no integer":          {ArrayShape{"node_year", Int64, 1}, []float32{1, 2.5, 3}},
		"not a number":        {ArrayShape{"node_year", Int64, 1}, []float32{1, nan, 3}},
		"a name of the store": {ArrayShape{"labels", Int64, 1}, []float32{1, 2, 3}},
		"a type":              {ArrayShape{"node_year", "int32", 1}, nil},
	} {
		w := begin(filepath.Join(parent, "store"))
		err := w.Array(0, c.shape, each([][]float32{c.rows}))
		assert.Error(t, err, "%s: written", name)
		assert.NoError(t, w.Abort())
	}
}

// values is a graph whose labels are two values for each vertex.
func values() *Graph {
	g := dense()
	g.Types[0].Labels = Labels{Columns: 2, Values: []float32{1.5, -2, nan, 7, nan, nan, 1e6, 0}}
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
	assert.EqualBy(t, g.Types[0].Labels, opened.Types[0].Labels, cmpopts.EquateNaNs())
	if l := &opened.Types[0].Labels; !l.Labelled(1) || l.Labelled(2) || l.MultiLabel() || l.OneClass() {
		t.Error("labels of values are taken for others")
	}
	if s, err := opened.Summarize(nil); err != nil || s.ValueColumns != 2 ||
		s.Unlabelled != 1 || s.Classes != 0 {
		t.Errorf("summary %+v, %v", s, err)
	}
	changed, err := g.Induced([]bool{true, false, true, true})
	require.NoError(t, err)
	want := []float32{1.5, -2, nan, nan, 1e6, 0}
	assert.EqualBy(t, want, changed.Types[0].Labels.Values, cmpopts.EquateNaNs())
	if err := g.MakeSplits("random:34/33/33", 1, 1); err != nil || len(g.Types[0].Splits[0].Train) != 1 {
		t.Errorf("splits %v, %v", g.Types[0].Splits, err)
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
		damage(&g.Types[0].Labels)
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
