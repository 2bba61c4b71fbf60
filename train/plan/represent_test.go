package plan

import (
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/mesh"
	"weft/train/setting"
	"weft/train/worker"
)

// TestLikeness: by hand, slices of equally many columns are alike, but for the first one on its machine,
// which has the copy of the edges.
func TestLikeness(t *testing.T) {
	for _, c := range []struct {
		widths, machines, want []int
	}{
		{[]int{8}, nil, []int{0, 1, 1, 1, 4, 5, 5, 5}},
		{[]int{8}, []int{0, 0, 1, 1, 2, 2, 3, 3}, []int{0, 1, 0, 1, 4, 5, 4, 5}},
		{[]int{3, 8}, nil, []int{0, 1, 1, 1, 4, 5, 5, 5}},                        // 0, 1, 1, 1 of 3 columns
		{[]int{2, 8}, nil, []int{0, 1, 2, 1, 4, 5, 6, 5}},                        // 0, 1, 0, 1
		{[]int{2, 3}, nil, []int{0, 1, 2, 1, 4, 5, 6, 5}},                        // 0, 1, 0, 1 and 0, 1, 1, 1
		{[]int{5}, []int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 0, 0, 3, 4, 4, 4, 7}}, // 1, 1, 1, 2
	} {
		in := Inputs{Asks: Asks{Alike: true}, Config: worker.Config{
			Resolved: &setting.Resolved{Meshes: setting.Meshes{
				Mesh: mesh.Mesh{Stages: 2, Partitions: 1, Slices: 4}, SampleGroups: 1, Workers: 8,
			}},
			Machines: c.machines,
		}}
		got, err := in.represent(&Worker{widths: c.widths})
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "%v on machines %v", c.widths, c.machines)
	}
}

// TestHoldersInTurn: by hand, of workers that hold several partitions those are alike that hold as many, of
// slices with as many columns: of 5 partitions the first worker of a slice holds 3, and the second one 2.
func TestHoldersInTurn(t *testing.T) {
	for _, c := range []struct {
		partitions, workers, slices int
		widths, want                []int
	}{
		{16, 8, 8, []int{8}, []int{0, 1, 1, 1, 1, 1, 1, 1}},
		{4, 4, 4, []int{2, 8}, []int{0, 1, 2, 1}}, // 0, 1, 0, 1 of 2 columns
		{5, 4, 2, []int{8}, []int{0, 1, 2, 3}},
		{8, 8, 2, []int{8}, []int{0, 1, 0, 1, 0, 1, 0, 1}},
	} {
		resolved := &setting.Resolved{Meshes: setting.Meshes{
			Mesh: mesh.Mesh{Stages: 1, Partitions: c.partitions, Slices: c.slices}, SampleGroups: 1,
			Workers: c.workers,
		}}
		in := Inputs{Asks: Asks{Alike: true}, Config: worker.Config{Resolved: resolved}}
		got, err := in.represent(&Worker{widths: c.widths})
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "%d partitions, %d slices", c.partitions, c.slices)
	}
}

// TestNearest: by hand, of 9 partitions the first, the middle one and the last stand for those nearest.
func TestNearest(t *testing.T) {
	for count, want := range map[int][]int{
		1: {0, 0, 0, 0, 0, 0, 0, 0, 0},
		2: {0, 0, 0, 0, 0, 8, 8, 8, 8},
		3: {0, 0, 0, 4, 4, 4, 4, 8, 8},
		9: {0, 1, 2, 3, 4, 5, 6, 7, 8},
	} {
		var got []int
		for i := range want {
			got = append(got, nearest(i, len(want), count))
		}
		assert.Equal(t, want, got, "%d", count)
	}
}
