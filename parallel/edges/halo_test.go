package edges

import (
	"strings"
	"testing"

	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// relationOf makes a relation between so many rows from pairs of row and position of the other end.
func relationOf(t *testing.T, rows int, pairs ...[2]int32) *graph.Relation {
	t.Helper()
	var e graph.Edges
	for _, p := range pairs {
		e.Target, e.Source = append(e.Target, p[0]), append(e.Source, p[1])
	}
	r, err := graph.NewBipartite(6, rows, e)
	require.NoError(t, err)
	return &r
}

// TestBothEndsMustAgree: partition 1 has an edge from position 0, and partition 0 says that it is from
// position 1, or that there are more. As each computes for itself what travels, that is refused.
func TestBothEndsMustAgree(t *testing.T) {
	for want, out := range map[string][][2]int32{
		"partitions 0 and 1 store different edges from one to the other; partition the graph again": {{1, 3}},
		"partition 1 needs 2 rows of partition 0, where the stored partition says 1; partition the " +
			"graph again": {{0, 3}, {1, 4}},
	} {
		err := launch.Workers(2, 0, func(c *comm.Comm) error {
			mem := tensor.NewMeter()
			defer mem.Close()
			s := Source{
				Relation: relationOf(t, 3), Starts: []int{0, 3, 6}, Me: c.Rank(), Holders: []int{0, 1},
				HaloRows: [][]int{{0, 0}, {1, 0}},
				Halo:     HaloCover, Back: relationOf(t, 3, out...), BackStarts: []int{0, 3, 6},
			}
			if c.Rank() == 1 {
				s.Relation, s.Back = relationOf(t, 3, [2]int32{0, 0}), relationOf(t, 3)
			}
			team := kernel.NewTeam(1, mem)
			s.IDs = kernel.List(team, tensor.Graph, []int32{0, 1, 2})
			s.SourceIDs = s.IDs
			_, err := New(team, c, s)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) || !refusal.Graph.In(err) {
			t.Errorf("%v, want the refusal %s", err, want)
		}
	}
}
