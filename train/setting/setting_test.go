package setting

import (
	"testing"

	"weft/parallel/mesh"
)

// TestSettingsOfAMesh: what is for an axis belongs to meshes with it, and the wait for another worker to all
// that have one.
func TestSettingsOfAMesh(t *testing.T) {
	for m, want := range map[mesh.Mesh][3]bool{
		mesh.One:                              {false, false, false},
		{Stages: 1, Partitions: 2, Slices: 1}: {true, false, true},
		{Stages: 2, Partitions: 1, Slices: 1}: {false, false, true},
		{Stages: 1, Partitions: 1, Slices: 2}: {false, true, true},
		{Stages: 1, Partitions: 2, Slices: 2}: {true, true, true},
	} {
		for i, name := range []string{"prefetch", "aggregation-chunks", "comm-timeout"} {
			if s, _ := settingNamed(name); s.appliesTo(m) != want[i] {
				t.Errorf("%s on %+v: %v", name, m, s.appliesTo(m))
			}
		}
	}
}
