package gnn_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/paralleltest"
	"weft/tensor"
)

// relationalCase is a small graph of papers with features and authors without, and its decoupled R-GCN by
// definition, in double precision.
type relationalCase struct {
	papers, authors int
	features        [][]float64
	edges           []graph.Edges // of cites, writes, by
	teleport        float64
	layers          int
}

var relationalEnds = [][2]int{{0, 0}, {1, 0}, {0, 1}}

// logits computes the papers' logits: an MLP of each type, then the three equations of decoupled.go.
func (c *relationalCase) logits(w nn.State) [][]float64 {
	matrix := func(name string) (m [][]float64) {
		t := w[name]
		cols := t.Shape[len(t.Shape)-1]
		for i := 0; i < len(t.Float32); i += cols {
			var row []float64
			for _, x := range t.Float32[i : i+cols] {
				row = append(row, float64(x))
			}
			m = append(m, row)
		}
		return m
	}
	times := func(x []float64, w [][]float64) (z []float64) {
		z = make([]float64, len(w[0]))
		for i := range x {
			for j := range z {
				z[j] += x[i] * w[i][j]
			}
		}
		return z
	}
	add := func(x, y []float64, share float64) {
		for j := range x {
			x[j] += share * y[j]
		}
	}
	mean := func(r int, rows [2][][]float64, v int, columns int) []float64 {
		sum, n := make([]float64, columns), 0.
		for k, target := range c.edges[r].Target {
			if int(target) == v {
				add(sum, rows[relationalEnds[r][0]][c.edges[r].Source[k]], 1)
				n++
			}
		}
		for j := range sum {
			sum[j] /= max(1, n)
		}
		return sum
	}
	// the MLP
	var h [2][][]float64
	count := [2]int{c.papers, c.authors}
	for t, name := range []string{"paper", "author"} {
		root, bias := matrix("convs.0.root."+name), matrix("convs.0.bias." + name)[0]
		for v := range count[t] {
			x := append([]float64{}, root[min(v, len(root)-1)]...) // the row of a table
			if t == 0 {
				x = times(c.features[v], root)
			}
			add(x, bias, 1)
			h[t] = append(h[t], x)
		}
	}
	for l := 1; ; l++ {
		for t := range h {
			for _, row := range h[t] {
				for j := range row {
					row[j] = math.Tanh(row[j])
				}
			}
		}
		if l == c.layers-1 {
			break
		}
		root, bias := matrix("convs.1.root"), matrix("convs.1.bias")[0]
		for t := range h {
			for v, row := range h[t] {
				h[t][v] = times(row, root)
				add(h[t][v], bias, 1)
			}
		}
	}
	// the first round
	root, bias, bases, comp := matrix("convs.2.root"), matrix("convs.2.bias")[0], matrix("convs.2.weight"),
		matrix("convs.2.comp")
	classes := len(bias)
	var z [2][][]float64
	for t := range h {
		for v := range h[t] {
			row := times(h[t][v], root)
			add(row, bias, 1)
			for r, ends := range relationalEnds {
				if ends[1] == t {
					in := mean(r, h, v, len(root))
					for b, a := range comp[r] {
						add(row, times(in, bases[b*len(root):(b+1)*len(root)]), a)
					}
				}
			}
			z[t] = append(z[t], row)
		}
	}
	// the other rounds
	into, x := [2]float64{3, 2}, z // relations into a type, and the vertex itself
	for range c.layers - 1 {
		var next [2][][]float64
		for t := range x {
			for v, own := range x[t] {
				row := make([]float64, classes)
				add(row, own, (1-c.teleport)/into[t])
				for r, ends := range relationalEnds {
					if ends[1] == t {
						add(row, mean(r, x, v, classes), (1-c.teleport)/into[t])
					}
				}
				add(row, z[t][v], c.teleport)
				next[t] = append(next[t], row)
			}
		}
		x = next
	}
	return x[0]
}

// TestDecoupledRelations compares decoupled R-GCN with its definition: the logits, and the gradient of every
// parameter with central differences of the definition.
func TestDecoupledRelations(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	c := &relationalCase{papers: 6, authors: 4, layers: 3}
	g := &graph.Graph{
		Type: "paper", Count: c.papers,
		Others: []graph.VertexType{{Type: "author", Count: c.authors}},
	}
	g.Features.Columns = 3
	for range c.papers {
		row := make([]float64, 3)
		for j := range row {
			x := float32(r.NormFloat64())
			row[j], g.Features.Dense = float64(x), append(g.Features.Dense, x)
		}
		c.features = append(c.features, row)
	}
	count, names := []int{c.papers, c.authors}, []string{"paper", "author"}
	for k, ends := range relationalEnds {
		var e graph.Edges
		for range 7 { // some vertices have no neighbours
			e.Source, e.Target = append(e.Source, r.Int32N(int32(count[ends[0]]))),
				append(e.Target, r.Int32N(int32(count[ends[1]]-1)))
		}
		made, err := graph.NewBipartite(count[ends[0]], count[ends[1]], e)
		require.NoError(t, err)
		made.Source, made.Name, made.Target = names[ends[0]],
			[]string{"cites", "writes", "by"}[k], names[ends[1]]
		c.edges, g.Relations = append(c.edges, e), append(g.Relations, made)
	}
	for _, c.teleport = range []float64{0, .2} {
		team := kernel.NewTeam(2, tensor.NewMeter())
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
		x := given(tape, matrix(team, c.papers, g.Features.Dense), p.Rows(), "fixed")
		none := tape.Constant(team.Memory.New(tensor.Features, c.authors, 0), p.Types()[1])
		out := m.Forward(gnn.State{H: x, Others: []*autograd.Var{none}}).Output()
		weight := func(v, j int) float64 {
			return math.Sin(float64(3*v + j + 1))
		} // the loss is Σ weight·logit
		loss := func() (sum float64) {
			for v, row := range c.logits(w) {
				for j, z := range row {
					sum += weight(v, j) * z
				}
			}
			return sum
		}
		d := team.Memory.New(tensor.Gradients, c.papers, 2)
		for v, row := range c.logits(w) {
			for j, want := range row {
				if got := float64(out.Value().Floats()[2*v+j]); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
					t.Errorf("teleport %v, logit %d of paper %d: %v, want %v", c.teleport, j, v, got, want)
				}
				d.Floats()[2*v+j] = float32(weight(v, j))
			}
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
