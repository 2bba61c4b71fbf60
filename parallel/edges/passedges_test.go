package edges

import (
	"slices"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// TestReversedNumbers: edges that are reversed after a pass has asked for their numbers are numbered by their
// own order.
func TestReversedNumbers(t *testing.T) {
	const vertices = 3
	r, err := graph.NewRelation(vertices, graph.Edges{Source: []int32{0, 2, 0}, Target: []int32{1, 1, 2}})
	require.NoError(t, err)
	mem := tensor.NewMeter()
	defer mem.Close()
	e, err := New(kernel.NewTeam(1, mem), comm.Alone(),
		Source{Relation: &r, Starts: []int{0, vertices}, Holders: []int{0}})
	require.NoError(t, err)
	numbering := &Numbering{Relation: &r}
	for _, c := range []struct {
		reversed bool
		want     []int64
	}{{false, []int64{0, 1, 2}}, {true, []int64{0, 2, 1}}} {
		some := e
		if c.reversed {
			some = e.Reversed()
		}
		if numbers := some.Numbers(numbering, c.reversed)[0]; !slices.Equal(numbers, c.want) {
			t.Errorf("reversed: %v; numbers %v, want %v", c.reversed, numbers, c.want)
		}
	}
}
