package task

import (
	"slices"

	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
)

// PassesOnly is the Kind of a model whose loss and metrics are its caller's. weft computes only its passes.
type PassesOnly struct {
	VertexTypes []string // the names of the vertex types of the model's outputs
	Columns     int      // of all outputs together
}

// Metrics implements Kind: there are none.
func (PassesOnly) Metrics() []string { return nil }

// Metric implements Kind: there is none.
func (PassesOnly) Metric(*partition.Whole, *graph.Labels) (string, error) { return "", nil }

// Outputs implements Kind.
func (p PassesOnly) Outputs(*partition.Whole) int { return p.Columns }

// Types implements Kind.
func (p PassesOnly) Types(s *partition.Share) (kinds []int, err error) {
	if len(s.Whole.Types) == 1 {
		return nil, nil
	}
	for k, t := range s.Whole.Types {
		if slices.Contains(p.VertexTypes, t.Type) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// Check implements Kind: a graph needs no labels and no split.
func (PassesOnly) Check(*partition.Whole) error { return nil }

// CheckMeasured implements Kind.
func (PassesOnly) CheckMeasured(*partition.Whole) error { return nil }

// Passing implements Kind: all edges pass messages.
func (PassesOnly) Passing(*partition.Whole) (training, later *partition.Subgraph, err error) {
	return nil, nil, nil
}

// Begin implements Kind: it refuses, as nothing is learned.
func (PassesOnly) Begin(Env) (Task, error) {
	return nil, refusal.Errorf("a model without a loss of weft's is not trained by it")
}

// Predicts implements Kind.
func (PassesOnly) Predicts(*nn.Params, nn.State) func(*tensor.Matrix) { return nil }
