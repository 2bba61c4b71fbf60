package sar_test

import (
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/tensor"
	"weft/train/paralleltest"
)

// TestFixedInputChanges: when new features replace others, one aggregation of features is kept from epoch to
// epoch.
func TestFixedInputChanges(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	g := paralleltest.Whole(t, team, paralleltest.GraphOf(t, 4,
		graph.Edges{Source: []int32{0, 1, 2, 2, 3}, Target: []int32{1, 1, 1, 0, 3}}))
	p, w := g.Propagator("here", gnn.Along{Relation: graph.RelationName}), team.Zeros(tensor.Parameters, 2, 2)
	var live [4]int64
	for i := range live {
		g.BeginEpoch(i + 1)
		live[i] = team.Memory.Live(tensor.Features)
		x := team.Zeros(tensor.Features, 4, 2)
		tape := autograd.NewTape(team)
		p.AggregateLinear(tape.Fixed(x, g.Rows()), tape.Parameter(w, nil), gnn.Mean).Drop()
		x.Release()
	}
	if live[2] != live[1] || live[3] != live[1] {
		t.Errorf("%d bytes of features are live at the start of the epochs", live)
	}
}
