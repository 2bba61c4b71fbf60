package gnn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// initial returns the initial parameters of a model of two layers, for a scheme.
func initial(t *testing.T, s gnn.Spec, scheme string, features, classes int) nn.State {
	t.Helper()
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	s.Layers, s.Direction, s.Norm, s.Activation = 2, "in", "none", "relu"
	schema := gnn.OneType(features, 0)
	blocks, err := s.Blocks(schema, classes)
	require.NoError(t, err)
	params := nn.NewParams(team, 1)
	params.InitScheme = scheme
	gnn.Build(blocks, 0, len(blocks), gnn.Env{
		Params: params, Schema: schema, Rows: []*autograd.RowSet{{Here: 5, Total: 5}},
		Propagators: func(string, gnn.Along) gnn.Propagator { return nil },
	})
	return params.State()
}

// reaches fails unless the largest of uniform numbers reaches their bound.
func reaches(t *testing.T, what string, numbers []float32, bound float64) {
	t.Helper()
	most := 0.
	for _, x := range numbers {
		most = max(most, math.Abs(float64(x)))
	}
	if most > bound*(1+1e-6) || most < .95*bound {
		t.Errorf("%s is up to %v, want %v", what, most, bound)
	}
}

// TestInitialBlocks: R-GCN's weights are drawn from ±√(6/(in+out)) (Glorot & Bengio 2010). A diagonal block
// has its share of in and out.
func TestInitialBlocks(t *testing.T) {
	const features, hidden, classes = 96, 48, 24
	for _, diagonal := range []int{0, 4} {
		seen := 0
		spec := gnn.Spec{Model: "rgcn", Hidden: hidden, NumBlocks: diagonal}
		for name, w := range initial(t, spec, "auto", features, classes) {
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
			reaches(t, fmt.Sprint(diagonal, " blocks: ", name), w.Float32, math.Sqrt(6/float64(in+out)))
			seen++
		}
		if seen != 4 {
			t.Errorf("%d weights, want two of each layer", seen)
		}
	}
}

// TestInitScheme: the weights of linear layers reach the bound of the scheme, ±√(6/(in+out)) (Glorot & Bengio
// 2010) or ±1/√in (torch.nn.Linear), and weights of the other scheme do not. Biases and attention vectors are
// the same with every scheme.
func TestInitScheme(t *testing.T) {
	const features, hidden, classes = 96, 48, 24
	bounds := map[string]func(in, out int) float64{
		"glorot": func(in, out int) float64 { return math.Sqrt(6 / float64(in+out)) },
		"torch":  func(in, _ int) float64 { return 1 / math.Sqrt(float64(in)) },
	}
	for _, model := range []string{"mlp", "gcn", "sage", "gat", "gatv2", "transformer", "gin", "sgc"} {
		made := map[string]nn.State{}
		for _, scheme := range nn.InitSchemes {
			spec := gnn.Spec{Model: model, Hidden: hidden, Heads: 1, OutputHeads: 1}
			made[scheme] = initial(t, spec, scheme, features, classes)
		}
		for name, own := range made["auto"] {
			linear := len(own.Shape) == 2 && strings.HasSuffix(name, ".weight")
			for scheme, bound := range bounds {
				values := made[scheme][name].Float32
				if !linear {
					if !slices.Equal(values, own.Float32) {
						t.Errorf("%s: the scheme %s changes %s", model, scheme, name)
					}
					continue
				}
				reaches(t, fmt.Sprint(model, ", ", scheme, ": ", name), values,
					bound(own.Shape[1], own.Shape[0]))
			}
		}
	}
}
