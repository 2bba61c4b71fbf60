package graph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// Arrays are stored with their type, in a graph of one and of several, and listed with its files.
func TestArraysAreStored(t *testing.T) {
	years := Array{Name: "node_year", Columns: 1, Ints: []int64{2001, 2002, 2003, 2004}}
	places := Array{Name: "node_place", Columns: 2, Floats: []float32{1, 2, 3, 4, 5, nan, 7, 8}}
	one := dense()
	one.Arrays = []Array{years, places}
	several := dense()
	several.Type, several.Count = "paper", 4
	r := &several.Relations[0]
	r.Source, r.Name, r.Target = "paper", "cites", "paper"
	several.Others = []VertexType{{Type: "author", Count: 4, Arrays: []Array{years}}}
	for name, g := range map[string]*Graph{"one type": one, "several": several} {
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
		g.Arrays = []Array{a}
		assert.Refused(t, g.Check(), "", name)
	}
	one.Arrays = []Array{years, years}
	assert.ErrorContains(t, one.Check(), `two arrays are called "node_year"`)
}

// A stream of arrays writes the bytes of Write, and takes no more and no fewer rows than there are vertices.
func TestArraysInAStream(t *testing.T) {
	g := &Graph{Count: 3, Relations: []Relation{{Indptr: make([]int64, 4)}}, Arrays: []Array{
		{Name: "node_year", Columns: 1, Ints: []int64{-1, 2, 1 << 24}},
		{Name: "node_place", Columns: 2, Floats: []float32{1, 2, 3, nan, 5, .5}},
	}}
	parent := t.TempDir()
	streamed, written := filepath.Join(parent, "streamed"), filepath.Join(parent, "written")
	require.NoError(t, g.Write(written))
	begin := func(store string) *Writer {
		w, err := Create(store, &Graph{Count: 3, Relations: []Relation{{Indptr: []int64{0}}}})
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
		{ArrayShape{"node_place", Float32, 2}, g.Arrays[1].Floats},
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
