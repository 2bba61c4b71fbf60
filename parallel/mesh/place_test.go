package mesh_test

import (
	"testing"

	"weft/comm"
	"weft/parallel/mesh"
)

// panics reports whether f does.
func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestNoPlace: a rank that the mesh lacks has no place, and a world of another size no groups.
func TestNoPlace(t *testing.T) {
	for _, m := range meshes {
		for rank, none := range map[int]bool{-1: true, 0: false, m.Workers() - 1: false, m.Workers(): true} {
			if panics(func() { m.Coords(rank) }) != none {
				t.Errorf("%+v: rank %d has a place: %v", m, rank, none)
			}
		}
	}
	if !panics(func() { mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}.Join(comm.Alone()) }) {
		t.Error("one worker makes the groups of two")
	}
	ends := comm.InProcess(3)
	if !panics(func() { mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}.Join(comm.New(ends[0], 0)) }) {
		t.Error("three workers make groups of two")
	}
}
