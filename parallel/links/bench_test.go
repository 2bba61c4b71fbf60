package links_test

import (
	"testing"

	"weft/comm"
	"weft/graph/generate"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/links"
	"weft/partition"
	"weft/tensor"
)

// bench calls pass with the edges of a graph of 20 000 vertices and 200 000 edges, divided by the shares, and
// 64 columns.
func bench(b *testing.B, shares [3]float64, pass func(l *links.Edges, h *tensor.Matrix)) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.Uniform, Vertices: 20_000, Degree: 10,
		Features: 64, Classes: 2, Directed: true, Seed: 1,
	})
	require.NoError(b, err)
	memory := tensor.NewMeter()
	defer memory.Close()
	team, s := kernel.NewTeam(1, memory), partition.All(g)
	l, err := links.New(team, comm.Alone(), s, nil, links.Options{Draw: links.Draw{Seed: 1, Shares: shares}})
	require.NoError(b, err)
	h := team.Memory.New(tensor.Activations, g.Vertices(), 64)
	copy(h.Floats(), g.Features.Dense)
	for b.Loop() {
		pass(l, h)
	}
}

// BenchmarkLoss is a training pass over all edges and as many that are drawn.
func BenchmarkLoss(b *testing.B) {
	bench(b, [3]float64{100, 0, 0}, func(l *links.Edges, h *tensor.Matrix) {
		_, grad := l.Loss(h, links.Decoder{}, 1, 1)
		grad.Release()
	})
}

// BenchmarkRanks ranks each of 4 000 edges among all vertices.
func BenchmarkRanks(b *testing.B) {
	bench(b, [3]float64{96, 2, 2}, func(l *links.Edges, h *tensor.Matrix) {
		l.Ranks(h, links.Decoder{}, links.Test)
	})
}
