package edges

import (
	"testing"

	"weft/comm"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/tensor"
)

// TestStoredPartitionDoesNotFit: a store whose partitions need other rows than they say is refused.
func TestStoredPartitionDoesNotFit(t *testing.T) {
	mem := tensor.NewMeter()
	defer mem.Close()
	e := &Edges{team: kernel.NewTeam(1, mem), comm: comm.New(comm.InProcess(2)[0], 0), Rows: 3}
	err := e.connect(&Source{Starts: []int{0, 3, 6}, Holders: []int{0, 1}, HaloRows: [][]int{{0, 2}, {0, 0}}},
		[][]int32{nil, {1}}, nil)
	const want = "partition 0 needs 1 rows of partition 1, where the stored partition says 2; partition " +
		"the graph again"
	if err == nil || err.Error() != want || !refusal.Is(err) || !refusal.Graph.In(err) {
		t.Errorf("%v, want the refusal %s", err, want)
	}
}
