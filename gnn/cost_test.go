package gnn_test

import (
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/paralleltest"
	"weft/tensor"
)

// TestCost compares the cost of each layer with the kernel calls that it makes: rows × columns × columns of
// its products, the columns that attention scores read for each vertex, and the columns read for each edge.
func TestCost(t *testing.T) {
	const vertices, edges, wide, classes = 40, 90, 15, 7
	r, err := graph.NewRelation(vertices, ring(vertices, edges))
	if err != nil {
		t.Fatal(err)
	}
	var specs []gnn.Spec
	for _, s := range forms() {
		if s.Bases > 0 {
			continue // mixing weights is work of neither vertices nor edges
		}
		for _, direction := range []string{"in", "out", "both"} {
			if kind, _ := gnn.KindOf(s.Model); direction == "both" && (s.Decoupled || kind.OneDirection) {
				continue
			}
			s.Direction, s.OutputHeads = direction, 2
			specs = append(specs, s)
		}
	}
	for _, s := range specs {
		blocks, err := s.Blocks(gnn.OneType(wide), classes)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range blocks {
			if got := multiplyAdds(t, &r, blocks, i); got != b.Cost.Of(vertices, edges) {
				t.Errorf("%s %s, layer %d: %v multiply-adds, its cost says %v: %+v", s.Model, s.Direction, i, got, b.Cost.Of(vertices, edges), b.Cost)
			}
		}
	}
}

// ring returns a graph of so many edges without self loops.
func ring(vertices, edges int) (e graph.Edges) {
	for k := range edges {
		u := k % vertices
		e.Source, e.Target = append(e.Source, int32(u)), append(e.Target, int32((u+1+k/vertices)%vertices))
	}
	return e
}

// multiplyAdds returns the multiply-adds of a forward pass of block i.
func multiplyAdds(t *testing.T, r *graph.Relation, blocks []gnn.BlockSpec, i int) (sum float64) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	g := paralleltest.Whole(t, team, r)
	m := gnn.Build(blocks, i, i+1, gnn.Env{Params: nn.NewParams(team, 7), Schema: g.Schema(), Rows: g.Types(), Propagators: g.Propagator})
	x := team.Zeros(tensor.Features, g.Rows().Here, blocks[i].In)
	team.Watch = func(c kernel.Call, run func()) {
		edges, s := len(r.Sources), c.Shape
		switch c.Kernel {
		case "product":
			sum += float64(s[0] * s[1] * s[2])
		case "head_dot":
			sum += float64(s[0] * s[1])
		case "spmm", "attend":
			sum += float64(edges * s[1])
		case "attend_v2": // scores, and the sum
			sum += float64(2 * edges * s[1])
		}
		run()
	}
	in := gnn.State{H: autograd.NewTape(team).Constant(x, g.Rows())}
	if blocks[i].H0 > 0 {
		in.H0 = in.H.Tape().Constant(team.Zeros(tensor.Features, x.Rows, blocks[i].H0), g.Rows())
	}
	m.Forward(in).Output().Drop()
	return sum
}
