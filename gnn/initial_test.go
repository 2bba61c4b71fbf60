package gnn_test

import (
	"math"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// TestInitialBlocks: R-GCN's weights are drawn from ±√(6/(in+out)) (Glorot & Bengio 2010), where a diagonal
// block has a share of both.
func TestInitialBlocks(t *testing.T) {
	const features, hidden, classes = 96, 48, 24
	for _, diagonal := range []int{0, 4} {
		team := kernel.NewTeam(1, tensor.NewMeter())
		defer team.Memory.Close()
		s, schema := gnn.Spec{Model: "rgcn", Layers: 2, Hidden: hidden, DiagonalBlocks: diagonal, Direction: "in", Norm: "none", Activation: "relu"}, gnn.OneType(features, 0)
		blocks, err := s.Blocks(schema, classes)
		if err != nil {
			t.Fatal(err)
		}
		params := nn.NewParams(team, 1)
		none := func(string, gnn.Along) gnn.Propagator { return nil }
		gnn.Build(blocks, 0, len(blocks), gnn.Env{Params: params, Schema: schema, Rows: []*autograd.RowSet{{Here: 5, Total: 5}}, Propagators: none})
		seen := 0
		for name, w := range params.State() {
			in, out := features, hidden
			if strings.HasPrefix(name, "convs.1.") {
				in, out = hidden, classes
			}
			switch {
			case strings.HasSuffix(name, ".bias"):
				continue
			case strings.HasSuffix(name, ".root"):
			case diagonal > 0:
				in, out = in/diagonal, out/diagonal
			}
			most := 0.0
			for _, x := range w.Float32 {
				most = max(most, math.Abs(float64(x)))
			}
			if bound := math.Sqrt(6 / float64(in+out)); most > bound*(1+1e-6) || most < .95*bound {
				t.Errorf("%d blocks: %s is up to %v, want %v", diagonal, name, most, bound)
			}
			seen++
		}
		if seen != 4 {
			t.Errorf("%d weights, want two of each layer", seen)
		}
	}
}
