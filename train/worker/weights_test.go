package worker

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"weft/comm"
	"weft/internal/assert"
	"weft/internal/launch"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/tensor"
)

// TestWeightsOfStages: worker 0, and no other, gets the weights of all stages.
func TestWeightsOfStages(t *testing.T) {
	grid := mesh.Mesh{Stages: 3, Partitions: 1, Slices: 2}
	err := launch.Workers(grid.Workers(), 0, func(c *comm.Comm) error {
		mem := tensor.NewMeter()
		defer mem.Close()
		w := &Worker{Groups: grid.Join(c)}
		w.Params = nn.NewParams(kernel.NewTeam(1, mem), 1)
		w.Params.Weight(fmt.Sprintf("convs.%d.lin.weight", w.Groups.Stage), 4, 3, nn.Glorot(4, 3))
		all, err := w.Weights()
		if err != nil {
			return err
		}
		var want []string
		sent := int64(0) // messages to the first stage: the length of a file, and the file
		switch {
		case w.Ranks().First():
			want = []string{"convs.0.lin.weight", "convs.1.lin.weight", "convs.2.lin.weight"}
		case w.Groups.Slice == 0:
			sent = 2
		}
		assert.Equal(t, want, slices.Sorted(maps.Keys(all)), "rank %d", c.Rank())
		assert.Equal(t, sent, c.Sent(comm.Setup).Messages, "rank %d sends", c.Rank())
		return c.Barrier(comm.Setup)
	})
	assert.NoError(t, err)
}
