package paralleltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel/reference"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/train/engine"
)

// chunkedSpec is gnn's specification of one of chunkModels.
func chunkedSpec(model string) gnn.Spec {
	return gnn.Spec{
		Model: model, Layers: 3, Hidden: 6, Heads: chunkHeads, OutputHeads: 1,
		Norm:       map[string]string{"resgcn": "layer"}[model],
		Activation: "relu", Direction: "in", Alpha: chunkAlpha, Theta: chunkTheta, SharedWeights: true,
	}
}

// labelled gives a graph features, labels and training vertices, most of which have low ids.
func labelled(t testing.TB, g *graph.Graph) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(8, 8))
	g.Types[0].Features.Columns, g.Types[0].Labels.Classes, g.Types[0].Splits = 4, 3, make([]graph.Split, 1)
	for v := range int64(g.Vertices()) {
		for range g.Types[0].Features.Columns {
			g.Types[0].Features.Dense = append(g.Types[0].Features.Dense, float32(r.NormFloat64()))
		}
		g.Types[0].Labels.Class = append(g.Types[0].Labels.Class, r.Int64N(3))
		if v < 5 || v%3 == 0 {
			g.Types[0].Splits[0].Train = append(g.Types[0].Splits[0].Train, v)
		}
	}
	return g
}

// drawnTensors are parameters of the model's names and shapes, drawn from the seed.
func drawnTensors(t testing.TB, g *graph.Graph, s gnn.Spec, seed uint64) tensors {
	t.Helper()
	blocks, err := s.Blocks(sar.SchemaOf(partition.All(g)), g.Types[0].Labels.Classes)
	require.NoError(t, err)
	w := tensors{}
	Workers{Mesh: mesh.One, Graph: g}.Run(t, func(c engine.Config) {
		c.Blocks, c.Seed = blocks, seed
		e, err := engine.New(c)
		exchange.Must(err)
		r := rand.New(rand.NewPCG(seed, 3))
		for _, p := range e.Params().List {
			m := reference.From32(p.Value.Rows, p.Value.Cols, p.Value.Floats())
			w[p.Name] = m.Map(func(x float64) float64 { return float64(float32(1.2*x + .2*r.NormFloat64())) })
		}
	})
	return w
}

// pipelined is a model on a small directed graph in chunks.
func pipelined(t testing.TB, model string, chunks int) (*gnnPipe, tensors) {
	t.Helper()
	g := labelled(t, Small(t, true, false))
	s := chunkedSpec(model)
	p := &gnnPipe{
		graph: g, model: chunkModels[model](s.Layers), chunk: Dividings(g.Vertices(), chunks)["in turn"],
		chunks: chunks, scale: 2,
	}
	return p, drawnTensors(t, g, s, 1)
}

// eachChunkedModel runs a test for every model that has a definition.
func eachChunkedModel(t *testing.T, test func(t *testing.T, model string)) {
	for model := range chunkModels {
		t.Run(model, func(t *testing.T) { test(t, model) })
	}
}

// alike compares tensors. tolerance is relative to each tensor's largest number.
func alike(t testing.TB, what string, got, want tensors, tolerance float64) {
	t.Helper()
	if d, name := distance(got, want); !(d <= tolerance) {
		t.Errorf("%s: %s is off by %.3g of its largest, want at most %.3g", what, name, d, tolerance)
	}
}

// distance is the largest difference between tensors, relative to each tensor's largest number, and its
// place. A tensor of rounding errors is compared with a hundredth of the other tensors' size instead.
func distance(got, want tensors) (most float64, where string) {
	if len(got) != len(want) {
		return math.Inf(1), fmt.Sprintf("%d tensors in place of %d", len(got), len(want))
	}
	zero := tensors{}
	for name, w := range want {
		zero[name] = reference.New(w.Rows, w.Cols)
	}
	least := apart(zero, want) / 100
	for name, w := range want {
		single := tensors{name: w}
		d := apart(got, single)
		if largest := max(apart(zero, single), least); largest > 0 {
			d /= largest
		}
		if d > most || math.IsNaN(d) {
			most, where = d, name
		}
	}
	return most, where
}

// apart is the largest difference between numbers of tensors.
func apart(got, want tensors) (most float64) {
	for name, w := range want {
		for i, x := range w.Data {
			most = math.Max(most, math.Abs(got[name].Data[i]-x))
		}
	}
	return most
}

// differences are central differences of the loss by every parameter.
func differences(w tensors, loss func() float64) tensors {
	const h = 1e-6
	gradients := tensors{}
	for name, m := range w {
		g := reference.New(m.Rows, m.Cols)
		for i, at := range m.Data {
			m.Data[i] = at + h
			up := loss()
			m.Data[i] = at - h
			g.Data[i] = (up - loss()) / (2 * h)
			m.Data[i] = at
		}
		gradients[name] = g
	}
	return gradients
}

// TestDefinitionGradients: with scale 1 the definition's gradients are central differences of its loss with
// the snapshot held constant. With chunks first in, first out they are not, nor doubled. So the engine that
// agrees with the definition descends on its loss. For attention this covers two facts: a chunk returns the
// gradient of the rows that it read to earlier chunks, and parameters have gradients through history rows
// too.
func TestDefinitionGradients(t *testing.T) {
	eachChunkedModel(t, func(t *testing.T, model string) {
		p, w := pipelined(t, model, 4)
		p.period = 1
		// a history of other weights
		p.epoch(1, drawnTensors(t, p.graph, chunkedSpec(model), 2), []int{0, 1, 2, 3})
		p.period, p.scale = 0, 1
		order := []int{2, 0, 3, 1}
		want := differences(w, func() float64 { return p.forward(w, order).loss })
		f := p.forward(w, order)
		if d := apart(f.backward([]int{1, 3, 0, 2}), want); d > 1e-8 {
			t.Errorf("in reverse: off by %.3g", d)
		}
		if d := apart(f.backward(order), want); d < .01 {
			t.Errorf("first in, first out: off by %.3g only", d)
		}
		p.scale = 2
		if d := apart(f.backward([]int{1, 3, 0, 2}), want); d < .01 {
			t.Errorf("doubled: off by %.3g only", d)
		}
	})
}
