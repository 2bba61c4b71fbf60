package gnn_test

import (
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/assert"
	"weft/kernel"
	"weft/tensor"
)

// TestCheckScores: rows, source scores and target scores must be three values. Without given source scores,
// nothing is checked.
func TestCheckScores(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	tape := autograd.NewTape(team)
	value := func() *autograd.Var {
		return tape.Constant(team.Zeros(tensor.Features, 2, 1), autograd.AllHere(2))
	}
	x, a, b := value(), value(), value()
	for _, c := range []struct {
		what    string
		a       gnn.Attention
		refused bool
	}{
		{"three values", gnn.Attention{Source: x, SourceScore: a, TargetScore: b}, false},
		{"one score", gnn.Attention{Source: x, SourceScore: a, TargetScore: a}, true},
		{"the rows as scores of sources", gnn.Attention{Source: x, SourceScore: x, TargetScore: b}, true},
		{"the rows as scores of targets", gnn.Attention{Source: x, SourceScore: a, TargetScore: x}, true},
		{"no scores", gnn.Attention{Source: x, Target: x}, false},
	} {
		refused := func() (did bool) {
			defer func() { did = recover() != nil }()
			c.a.CheckScores("convs.0")
			return false
		}()
		if refused != c.refused {
			t.Errorf("%s: refused: %v, want %v", c.what, refused, c.refused)
		}
	}
}

// TestMessagesOfOneColumn are messages as any others.
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
