package sar

import (
	"testing"

	"weft/gnn"
	"weft/parallel/mesh"
)

// TestNamesOfAHistory: each part of the history of each aggregation and place has a name of its own.
func TestNamesOfAHistory(t *testing.T) {
	type named struct {
		what   string
		key    Key
		groups mesh.Groups
		part   string
		m      int
	}
	name := func(entry named) string {
		s := Saved{What: entry.what, Place: PlaceOf(entry.groups)}
		return s.Name(entry.key, entry.part, entry.m)
	}
	base := named{
		what: "history", key: Key{Path: "convs.1", Number: 2}, part: "rows", m: 3,
		groups: mesh.Groups{Coords: mesh.Coords{Partition: 1, Slice: 1}, Mesh: mesh.Mesh{Slices: 2}},
	}
	if got, want := name(base), "history/convs.1/.in.2/partition-1.slice-1-of-2/rows.3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for what, change := range map[string]func(n *named){
		"history":     func(n *named) { n.what = "chunks" },
		"module path": func(n *named) { n.key.Path = "convs.2" },
		"relation":    func(n *named) { n.key.Along.Relation = "cites" },
		"direction":   func(n *named) { n.key.Along = gnn.Along{Reversed: true} },
		"call":        func(n *named) { n.key.Number = 1 },
		"partition":   func(n *named) { n.groups.Partition = 2 },
		"slice":       func(n *named) { n.groups.Slice = 0 },
		"slices":      func(n *named) { n.groups.Mesh.Slices = 3 },
		"part":        func(n *named) { n.part = "gradients" },
		"matrix":      func(n *named) { n.m = 4 },
	} {
		other := base
		if change(&other); name(other) == name(base) {
			t.Errorf("another %s has the same name, %s", what, name(base))
		}
	}
}
