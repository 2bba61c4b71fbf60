package paralleltest

import (
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/internal/require"
	"weft/kernel/kerneltest"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// TestScoresOfOneValue: scores that are the same value, or the same value as the rows, would have a gradient
// with two writers. Every axis refuses them and names the module.
func TestScoresOfOneValue(t *testing.T) {
	for name, newAxis := range map[string]Axis{"graph": newPartition, "tensor": newSlice} {
		team := kerneltest.Team(t, 1, tensor.NewMeter())
		defer team.Memory.Close()
		a, err := newAxis(engine.Config{Env: axis.Env{
			Team: team, Groups: mesh.One.Join(comm.Alone()), Share: partition.All(Small(t, false, false)),
		}})
		require.NoError(t, err)
		p, tape := a.Propagator("convs.1", Stored), autograd.NewTrainingTape(team, autograd.Random{})
		value := func() *autograd.Var {
			return tape.Input(team.Zeros(tensor.Features, a.Rows().Here, 2), a.Rows())
		}
		x, s := value(), value()
		for what, a := range map[string]gnn.Attention{
			"scores":           {Source: x, SourceScore: s, TargetScore: s},
			"rows and sources": {Source: x, SourceScore: x, TargetScore: s},
			"rows and targets": {Source: x, SourceScore: s, TargetScore: x},
			"all":              {Source: x, SourceScore: x, TargetScore: x},
		} {
			a.Heads = 2
			const want = "gnn: convs.1 attends with one value in two places: Source, SourceScore and " +
				"TargetScore are three"
			if got := panicOf(func() { p.Attend(a, gnn.Once) }); got != want {
				t.Errorf("%s, %s: %v, want %s", name, what, got, want)
			}
		}
	}
}

// panicOf is what f panics with.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
