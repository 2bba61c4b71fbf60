package train

import (
	"testing"

	"weft/parallel/mesh"
)

// TestSettingsOfAMesh: what is for an axis belongs to meshes with it, and the wait for another worker to all
// that have one.
func TestSettingsOfAMesh(t *testing.T) {
	for m, want := range map[mesh.Mesh][2]bool{
		mesh.One:                              {false, false},
		{Stages: 1, Partitions: 2, Slices: 1}: {true, true},
		{Stages: 2, Partitions: 1, Slices: 1}: {false, true},
		{Stages: 1, Partitions: 1, Slices: 2}: {false, true},
	} {
		for i, name := range []string{"prefetch", "comm-timeout"} {
			if s, _ := settingNamed(name); s.appliesTo(m) != want[i] {
				t.Errorf("%s on %+v: %v", name, m, s.appliesTo(m))
			}
		}
	}
}
