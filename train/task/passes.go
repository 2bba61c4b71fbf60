package task

import (
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
)

// Passes is the Kind of a model whose loss and metrics are its caller's: weft computes its passes alone.
// Columns is the number of columns of the model's last layer.
type Passes struct{ Columns int }

// Metrics implements Kind: there are none.
func (Passes) Metrics() []string { return nil }

// Metric implements Kind: there is none.
func (Passes) Metric(*partition.Whole, *graph.Labels) (string, error) { return "", nil }

// Outputs implements Kind.
func (p Passes) Outputs(*partition.Whole) int { return p.Columns }

// Types implements Kind.
func (Passes) Types(*partition.Share) ([]int, error) { return nil, nil }

// Check implements Kind: a graph needs no labels and no split.
func (Passes) Check(*partition.Whole) error { return nil }

// CheckMeasured implements Kind.
func (Passes) CheckMeasured(*partition.Whole) error { return nil }

// Passing implements Kind: all edges pass messages.
func (Passes) Passing() *partition.Subgraph { return nil }

// Begin implements Kind: it refuses, as nothing is learned.
func (Passes) Begin(Env) (Task, error) {
	return nil, refusal.Errorf("a model without a loss of weft's is not trained by it")
}

// Predicts implements Kind.
func (Passes) Predicts(*nn.Params, nn.State) func(*tensor.Matrix) { return nil }
