package gnn_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel/kerneltest"
	"weft/kernel/reference"
	"weft/nn"
	"weft/tensor"
	"weft/train/paralleltest"
)

// relationalCase is a small graph of papers with features and authors without, and its decoupled R-GCN by
// definition, in double precision.
type relationalCase struct {
	count    [2]int // of papers and authors
	features *reference.Matrix
	means    []*reference.Aggregation // over cites, writes, by
	teleport float64
	layers   int
}

// relationalEnds are the types of the sources and targets of each relation.
var relationalEnds = [][2]int{{0, 0}, {1, 0}, {0, 1}}

// mean returns a relation's mean over in-neighbours.
func (c *relationalCase) mean(r int, rows [2]*reference.Matrix) *reference.Matrix {
	z := reference.New(c.count[relationalEnds[r][1]], rows[0].Cols)
	reference.SpMM(z, c.means[r], rows[relationalEnds[r][0]])
	return z
}

// logits computes the papers' logits: an MLP of each type, then the three equations of decoupled.go.
func (c *relationalCase) logits(w nn.State) *reference.Matrix {
	matrix := func(name string) *reference.Matrix {
		t := w[name]
		cols := t.Shape[len(t.Shape)-1]
		return reference.From32(len(t.Float32)/cols, cols, t.Float32)
	}
	linear := func(x *reference.Matrix, root, bias string) *reference.Matrix {
		return reference.AddBias(reference.MatMul(x, matrix(root)), matrix(bias).Data)
	}
	times := func(a float64, m *reference.Matrix) *reference.Matrix {
		return m.Map(func(v float64) float64 { return a * v })
	}
	// the MLP; a vertex without features has a row of a table
	h := [2]*reference.Matrix{
		linear(c.features, "convs.0.root.paper", "convs.0.bias.paper"),
		reference.AddBias(matrix("convs.0.root.author"), matrix("convs.0.bias.author").Data),
	}
	for l := 1; ; l++ {
		for t := range h {
			h[t] = h[t].Map(math.Tanh)
		}
		if l == c.layers-1 {
			break
		}
		for t := range h {
			h[t] = linear(h[t], "convs.1.root", "convs.1.bias")
		}
	}
	// the first round: each relation's weight is a combination of bases
	bases, comp, n := matrix("convs.2.weight"), matrix("convs.2.comp"), h[0].Cols
	var z [2]*reference.Matrix
	for t := range h {
		z[t] = linear(h[t], "convs.2.root", "convs.2.bias")
	}
	for r, ends := range relationalEnds {
		weight := reference.New(n, bases.Cols)
		for b := range comp.Cols {
			base := &reference.Matrix{
				Rows: n, Cols: bases.Cols,
				Data: bases.Data[b*n*bases.Cols:][:n*bases.Cols],
			}
			weight = weight.Plus(times(comp.At(r, b), base))
		}
		z[ends[1]] = z[ends[1]].Plus(reference.MatMul(c.mean(r, h), weight))
	}
	// the other rounds
	into, x := [2]float64{3, 2}, z // relations into a type, and the vertex itself
	for range c.layers - 1 {
		sums := x
		for r, ends := range relationalEnds {
			sums[ends[1]] = sums[ends[1]].Plus(c.mean(r, x))
		}
		for t := range x {
			x[t] = times((1-c.teleport)/into[t], sums[t]).Plus(times(c.teleport, z[t]))
		}
	}
	return x[0]
}

// TestDecoupledRelations compares decoupled R-GCN with its definition: the logits, and the gradient of every
// parameter with central differences of the definition.
func TestDecoupledRelations(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const papers, authors, columns = 6, 4, 3
	c := &relationalCase{count: [2]int{papers, authors}, layers: 3}
	g := &graph.Graph{Types: []graph.VertexType{
		{Type: "paper", Frame: graph.Frame{Count: papers}},
		{Type: "author", Frame: graph.Frame{Count: authors}},
	}}
	g.Types[0].Features.Columns = columns
	for range papers * columns {
		g.Types[0].Features.Dense = append(g.Types[0].Features.Dense, float32(r.NormFloat64()))
	}
	c.features = reference.From32(papers, columns, g.Types[0].Features.Dense)
	names := []string{"paper", "author"}
	for k, ends := range relationalEnds {
		var e graph.Edges
		for range 7 { // some vertices have no neighbours
			e.Source, e.Target = append(e.Source, r.Int32N(int32(c.count[ends[0]]))),
				append(e.Target, r.Int32N(int32(c.count[ends[1]]-1)))
		}
		made, err := graph.NewBipartite(c.count[ends[0]], c.count[ends[1]], e)
		require.NoError(t, err)
		made.Source, made.Name, made.Target = names[ends[0]],
			[]string{"cites", "writes", "by"}[k], names[ends[1]]
		g.Relations = append(g.Relations, made)
		c.means = append(c.means, reference.Linear(reference.Mean, 0, made.Indptr, made.Sources, nil))
	}
	for _, c.teleport = range []float64{0, .2} {
		team := kerneltest.Team(t, 2, tensor.NewMeter())
		p := paralleltest.Whole(t, team, g)
		s := gnn.Spec{
			Model: "rgcn", Layers: c.layers, Hidden: 4, Norm: "none", Activation: "tanh",
			Direction: "in", Decoupled: true, Bases: 2, Teleport: c.teleport,
		}
		m, params := built(t, team, p, s, 2)
		w := params.State()
		if _, classes := s.Widths(w); classes != 2 {
			t.Errorf("the weights are said to be for %d classes", classes)
		}
		for _, tensor := range w { // biases, too
			for i := range tensor.Float32 {
				tensor.Float32[i] = float32(r.NormFloat64())
			}
		}
		require.NoError(t, params.Load(w))
		tape := autograd.NewTrainingTape(team, autograd.Random{})
		x := onTape(tape, matrix(team, papers, g.Types[0].Features.Dense), p.Rows(), "fixed")
		none := tape.Constant(team.Memory.New(tensor.Features, authors, 0), p.Types()[1])
		out := m.Forward(gnn.StateOf(x, none)).Output()
		weight := func(v, j int) float64 {
			return math.Sin(float64(3*v + j + 1))
		} // the loss is Σ weight·logit
		loss := func() (sum float64) {
			for i, z := range c.logits(w).Data {
				sum += weight(i/2, i%2) * z
			}
			return sum
		}
		d := team.Memory.New(tensor.Gradients, papers, 2)
		for i, want := range c.logits(w).Data {
			if got := float64(out.Value().Floats()[i]); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("teleport %v, logit %d of paper %d: %v, want %v", c.teleport, i%2, i/2, got, want)
			}
			d.Floats()[i] = float32(weight(i/2, i%2))
		}
		tape.Backward(autograd.Root{Var: out, Grad: d})
		grads := gradientsOf(team, params)
		if len(grads) != 10 {
			t.Errorf("%d parameters, want 10: root and bias of each type, root and bias, and weight, "+
				"comp, root and bias", len(grads))
		}
		for name, grad := range grads {
			for i, got := range grad.Float32 {
				at := &w[name].Float32[i]
				was := *at
				const step = 1.0 / 64
				*at = was + step
				above, up := loss(), float64(*at)
				*at = was - step
				below, down := loss(), float64(*at)
				*at = was
				want := (above - below) / (up - down)
				if math.Abs(float64(got)-want) > 2e-3*(1+math.Abs(want)) {
					t.Errorf("teleport %v, gradient %d of %s: %v, want %v", c.teleport, i, name, got, want)
				}
			}
		}
		team.Memory.Close()
	}
}
