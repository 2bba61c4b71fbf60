package gnn_test

import (
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
	"weft/train/paralleltest"
)

// TestCost compares the cost of each layer with the kernel calls that it makes: rows × columns × columns of
// its products, the columns that attention scores read for each vertex, and the columns read for each edge.
func TestCost(t *testing.T) {
	const vertices, edges, wide, classes = 40, 90, 15, 7
	g := paralleltest.GraphOf(t, vertices, ring(vertices, edges))
	var specs []gnn.Spec
	for _, s := range forms() {
		if s.Bases > 0 {
			continue // the work of mixing weights grows with neither vertices nor edges
		}
		for _, direction := range []string{"in", "out", "both"} {
			if kind, _ := gnn.KindOf(s.Model); direction == "both" && (s.Decoupled || kind.OneDirection) ||
				direction != "in" && kind.EdgeFeatures {
				continue
			}
			s.Direction, s.OutputHeads = direction, 2
			specs = append(specs, s)
		}
	}
	for _, s := range specs {
		blocks, err := s.Blocks(gnn.OneType(wide, edgeColumns), classes)
		require.NoError(t, err)
		for i, b := range blocks {
			if got := multiplyAdds(t, g, blocks, i); got != b.Cost.MultiplyAdds(vertices, edges) {
				t.Errorf("%s %s, layer %d: %v multiply-adds, its cost says %v: %+v", s.Model, s.Direction, i,
					got, b.Cost.MultiplyAdds(vertices, edges), b.Cost)
			}
		}
	}
}

// ring returns a graph of so many edges with features, without self loops.
func ring(vertices, edges int) (e graph.Edges) {
	for k := range edges {
		u := k % vertices
		e.Source, e.Target = append(e.Source, int32(u)), append(e.Target, int32((u+1+k/vertices)%vertices))
	}
	e.FeatureColumns, e.Features = edgeColumns, make([]float32, edges*edgeColumns)
	return e
}

// multiplyAdds returns the multiply-adds of a forward pass of block i.
func multiplyAdds(t *testing.T, g *graph.Graph, blocks []gnn.BlockSpec, i int) (sum float64) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	p := paralleltest.Whole(t, team, g)
	m := gnn.Build(blocks, i, i+1, over(p, nn.NewParams(team, 7)))
	x := team.Zeros(tensor.Features, p.Rows().Here, blocks[i].In)
	team.Watch = func(c kernel.Call, run func()) {
		edges, s := int(g.Edges()), c.Shape
		switch c.Kernel {
		case "product":
			sum += float64(s[0] * s[1] * s[2])
		case "head_dot":
			sum += float64(s[0] * s[1])
		case "head_dot+head_dot":
			sum += float64(2 * s[0] * s[1])
		case "spmm", "max", "attend":
			sum += float64(edges * s[1])
		case "attend_v2", "attend_dot": // scores, and the sum
			sum += float64(2 * edges * s[1])
		}
		run()
	}
	in := gnn.StateOf(autograd.NewTape(team).Constant(x, p.Rows()))
	if blocks[i].H0 > 0 {
		in.H0 = in.Rows[0].Tape().Constant(team.Zeros(tensor.Features, x.Rows, blocks[i].H0), p.Rows())
	}
	m.Forward(in).Output().Drop()
	return sum
}

// TestTypedCost compares the costs of layers of several relations with the products of PyG's layers, counted
// by hand: columns in × columns out × vertices, divided by the number of all vertices and rounded up. There
// are 24 papers of 7 columns and 15 authors of 5. The hidden width is 12, and there are 6 classes.
func TestTypedCost(t *testing.T) {
	const (
		paper, author, all = 24, 15, 39
		hidden, classes    = 12, 6
	)
	each := func(products int) int { return (products + all - 1) / all }
	onlyBy := citations(7, 5)
	onlyBy.Relations = onlyBy.Relations[2:]
	for name, c := range map[string]struct {
		schema gnn.Schema
		change func(s *gnn.Spec)
		want   [2]gnn.Cost
	}{
		// each relation has lin_l for its sources and lin_r for its targets
		"sage": {citations(7, 5), func(*gnn.Spec) {}, [2]gnn.Cost{
			{Vertex: each(7*hidden*(paper+paper) + 5*hidden*author + 7*hidden*paper + 7*hidden*paper +
				5*hidden*author), Edge: 7},
			{Vertex: each(hidden*classes*(paper+paper) + hidden*classes*(author+paper)), Edge: classes},
		}},
		// each relation has a weight, and each type that is read next a root weight
		"rgcn": {citations(7, 5), func(*gnn.Spec) {}, [2]gnn.Cost{
			{
				Vertex: each(7*hidden*(paper+paper) + 5*hidden*author + 7*hidden*paper + 5*hidden*author),
				Edge:   7,
			},
			{Vertex: each(hidden*classes*(paper+author) + hidden*classes*paper), Edge: classes},
		}},
		// rows of the bases are looked up and combined
		"rgcn of no features": {citations(0, 0), func(s *gnn.Spec) { s.Bases = 2 }, [2]gnn.Cost{
			{Vertex: each(2 * hidden * (paper + paper + author)), Edge: hidden},
			{Vertex: each(hidden*classes*(paper+author) + hidden*classes*paper), Edge: classes},
		}},
		// no relation leads to papers: root weights alone, of papers alone
		"rgcn without relations to papers": {onlyBy, func(*gnn.Spec) {}, [2]gnn.Cost{
			{Vertex: each(7 * hidden * paper)}, {Vertex: each(hidden * classes * paper)},
		}},
	} {
		model, _, _ := strings.Cut(name, " ")
		s := gnn.Spec{
			Model: model, Layers: 2, Hidden: hidden, Norm: "none",
			Activation: "relu", Direction: "in",
		}
		c.change(&s)
		blocks, err := s.Blocks(c.schema, classes)
		require.NoError(t, err)
		if got := [2]gnn.Cost{blocks[0].Cost, blocks[1].Cost}; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	// Attention reads the columns of all heads along an edge: the last layer's are averaged, others joined.
	s := gnn.Spec{
		Model: "gat", Layers: 2, Hidden: hidden, Heads: 4, OutputHeads: 3, Norm: "none",
		Activation: "relu", Direction: "in",
	}
	blocks, err := s.Blocks(citations(7, 5), classes)
	if err != nil || blocks[0].Cost.Edge != hidden || blocks[1].Cost.Edge != 3*classes {
		t.Errorf("attention reads %d and %d columns, error %v", blocks[0].Cost.Edge, blocks[1].Cost.Edge, err)
	}
}
