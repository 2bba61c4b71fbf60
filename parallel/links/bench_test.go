package links_test

import (
	"testing"

	"weft/comm"
	"weft/graph/generate"
	"weft/kernel"
	"weft/parallel/links"
	"weft/partition"
	"weft/tensor"
)

// BenchmarkLoss is a training pass over 200 000 edges and as many that are drawn, with 64 columns.
func BenchmarkLoss(b *testing.B) {
	g, err := generate.Graph(generate.Options{Kind: generate.Uniform, Vertices: 20_000, Degree: 10, Features: 64, Classes: 2, Directed: true, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	memory := tensor.NewMeter()
	defer memory.Close()
	team, s := kernel.NewTeam(1, memory), partition.All(g)
	all := links.Options{Draw: links.Draw{Seed: 1, Shares: [3]float64{100, 0, 0}}}
	l, err := links.New(team, comm.Alone(), s, &partition.Places{Starts: s.Edges.Starts}, all)
	if err != nil {
		b.Fatal(err)
	}
	h := team.Memory.New(tensor.Activations, g.Vertices(), 64)
	copy(h.Floats(), g.Features.Dense)
	for b.Loop() {
		_, grad := l.Loss(h, links.Decoder{}, 1, 1)
		grad.Release()
	}
}
