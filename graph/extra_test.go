package graph

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/internal/refusal"
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
		if err := g.Write(store); err != nil {
			t.Fatal(name, err)
		}
		stored, err := Open(store)
		if err != nil {
			t.Fatal(name, err)
		}
		if d := differences(g, stored); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if err := stored.CheckStored(store); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		files, err := Files(store)
		if err != nil || !strings.Contains(strings.Join(files, " "), "node_year.npy") {
			t.Errorf("%s: files %q, %v", name, files, err)
		}
		want := []string{"node_year", "node_place"}
		if name == "several" {
			want = []string{"vertices/author/node_year"}
		}
		if diff := cmp.Diff(want, stored.Summarize().Arrays); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := stored.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, a := range map[string]Array{
		"short": {Name: "node_year", Columns: 1, Ints: []int64{1}}, "both": {Name: "node_year", Columns: 1, Ints: []int64{1, 2}, Floats: []float32{3, 4}},
		"a name of the store": {Name: "features", Columns: 1, Ints: years.Ints}, "a path": {Name: "node_/../x", Columns: 1, Ints: years.Ints},
		"no columns": {Name: "node_year"},
	} {
		g := dense()
		g.Arrays = []Array{a}
		if err := g.Check(); err == nil || !refusal.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
		w, err := Create(filepath.Join(t.TempDir(), "store"), announced())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.AddArray(a); err == nil {
			t.Errorf("%s: added", name)
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
	}
	one.Arrays = []Array{years, years}
	if err := one.Check(); err == nil || !strings.Contains(err.Error(), `two arrays are called "node_year"`) {
		t.Error(err)
	}
}
