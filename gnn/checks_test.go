package gnn_test

import (
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/assert"
	"weft/kernel"
	"weft/tensor"
)

// TestMessagesOfOneColumn: messages may have one column.
func TestMessagesOfOneColumn(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	x := autograd.NewTape(team).Constant(team.Zeros(tensor.Features, 2, 3), autograd.AllHere(2))
	m := gnn.Message{Source: x, Columns: 1, Function: func(e gnn.Edges) *autograd.Var { return e.Source }}
	assert.NoError(t, m.Check("convs.0", 2))
}

// TestUses: residual blocks always add their input and average their heads, so only the plain form has
// settings for these. A decoupled model has settings of its own.
func TestUses(t *testing.T) {
	for _, c := range []struct {
		spec    gnn.Spec
		setting string
		want    bool
	}{
		{gnn.Spec{Model: "gat"}, "output-heads", true},
		{gnn.Spec{Model: "gat"}, "residual", true},
		{gnn.Spec{Model: "gat"}, "heads", true},
		{gnn.Spec{Model: "gat", BlockForm: "residual"}, "output-heads", false},
		{gnn.Spec{Model: "gat", BlockForm: "residual"}, "residual", false},
		{gnn.Spec{Model: "gat", BlockForm: "residual"}, "heads", true},
		{gnn.Spec{Model: "gcn"}, "heads", false},
		{gnn.Spec{Model: "gcn"}, "teleport", false},
		{gnn.Spec{Model: "gcn", Decoupled: true}, "teleport", true},
	} {
		if got := c.spec.Uses(c.setting); got != c.want {
			t.Errorf("%+v uses %s: %v", c.spec, c.setting, got)
		}
	}
}
