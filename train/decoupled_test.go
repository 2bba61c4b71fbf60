package train

import (
	"math"
	"slices"
	"testing"

	"weft/gnn"
)

// TestDecoupledIsAnotherModel: a decoupled model does not compute what the coupled one does.
func TestDecoupledIsAnotherModel(t *testing.T) {
	g := tangled(t)
	for _, model := range gnn.Decouplable() {
		o := Defaults()
		o.Model, o.Layers, o.Hidden, o.Epochs, o.Threads = model, 3, 8, 4, 1
		coupled := run(t, g, o).Losses
		o.Decoupled = true
		for i, loss := range run(t, g, o).Losses {
			if math.Abs(loss-coupled[i]) < 1e-4*coupled[i] {
				t.Errorf("%s: loss %v of epoch %d, coupled %v", model, loss, i+1, coupled[i])
			}
		}
	}
}

// TestStoppedAttention: without a gradient the attention vectors keep their initial values, whatever the
// weight decay.
func TestStoppedAttention(t *testing.T) {
	g := tangled(t)
	g.Splits[0].Val = nil // the weights are then the last epoch's
	o := Defaults()
	o.Model, o.Layers, o.Hidden, o.Decoupled, o.WeightDecay, o.Threads = "gat", 2, 8, true, .1, 1
	for _, gradient := range gnn.AttentionGradients {
		o.AttentionGradient = gradient
		o.Epochs = 1
		first := run(t, g, o).Weights
		o.Epochs = 5
		last := run(t, g, o).Weights
		for _, name := range []string{"propagation.att_src", "propagation.att_dst"} {
			if same := slices.Equal(first[name].Float32, last[name].Float32); same != (gradient == "stop") {
				t.Errorf("gradient %s: %s is the same after 1 and 5 epochs: %v", gradient, name, same)
			}
		}
	}
}
