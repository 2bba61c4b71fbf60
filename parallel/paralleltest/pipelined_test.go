package paralleltest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/kernel/reference"
	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/partition"
	"weft/train/engine"
)

// The tests here and in pipeline_test.go quote the numbered "testable properties" of GNNPipe, section 4 of
// the notes on it. Those here test the definition, those there the engine.

// chunkedSpec is gnn's specification of one of paralleltest.ChunkModels.
func chunkedSpec(model string) gnn.Spec {
	return gnn.Spec{
		Model: model, Layers: 3, Hidden: 6, Heads: paralleltest.ChunkHeads, OutputHeads: 1, Norm: map[string]string{"resgcn": "layer"}[model],
		Activation: "relu", Direction: "in", Alpha: paralleltest.ChunkAlpha, Theta: paralleltest.ChunkTheta, SharedWeights: true,
	}
}

// labelled gives a graph features, labels and training vertices, most of which have low ids.
func labelled(t testing.TB, g *graph.Graph) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(8, 8))
	g.Features.Columns, g.Labels.Classes, g.Splits = 4, 3, make([]graph.Split, 1)
	for v := range int64(g.Vertices()) {
		for range g.Features.Columns {
			g.Features.Dense = append(g.Features.Dense, float32(r.NormFloat64()))
		}
		g.Labels.Class = append(g.Labels.Class, r.Int64N(3))
		if v < 5 || v%3 == 0 {
			g.Splits[0].Train = append(g.Splits[0].Train, v)
		}
	}
	return g
}

// drawnTensors are parameters of the model's names and shapes, drawn from the seed.
func drawnTensors(t testing.TB, g *graph.Graph, s gnn.Spec, seed uint64) paralleltest.Tensors {
	t.Helper()
	blocks, err := s.Blocks(sar.SchemaOf(partition.All(g)), g.Labels.Classes)
	if err != nil {
		t.Fatal(err)
	}
	w := paralleltest.Tensors{}
	paralleltest.Workers{Mesh: mesh.One, Graph: g}.Run(t, func(c engine.Config) {
		c.Blocks, c.Seed = blocks, seed
		e, err := engine.New(c)
		if err != nil {
			panic(err)
		}
		r := rand.New(rand.NewPCG(seed, 3))
		for _, p := range e.Params().List {
			m := reference.From32(p.Value.Rows, p.Value.Cols, p.Value.Floats())
			w[p.Name] = m.Map(func(x float64) float64 { return float64(float32(1.2*x + .2*r.NormFloat64())) })
		}
	})
	return w
}

// pipelined is a model on a small directed graph in chunks.
func pipelined(t testing.TB, model string, chunks int) (*paralleltest.Pipelined, paralleltest.Tensors) {
	t.Helper()
	g := labelled(t, paralleltest.Small(t, true, false))
	s := chunkedSpec(model)
	p := &paralleltest.Pipelined{
		Graph: g, Model: paralleltest.ChunkModels[model](s.Layers), Chunk: paralleltest.Dividings(g.Vertices(), chunks)["in turn"],
		Chunks: chunks, Scale: 2,
	}
	return p, drawnTensors(t, g, s, 1)
}

// eachChunkedModel runs a test for every model that has a definition.
func eachChunkedModel(t *testing.T, test func(t *testing.T, model string)) {
	for model := range paralleltest.ChunkModels {
		t.Run(model, func(t *testing.T) { test(t, model) })
	}
}

// agree compares tensors. tolerance is relative to each tensor's largest number.
func agree(t testing.TB, what string, got, want paralleltest.Tensors, tolerance float64) {
	t.Helper()
	if d, name := distance(got, want); !(d <= tolerance) {
		t.Errorf("%s: %s is off by %.3g of its largest, want at most %.3g", what, name, d, tolerance)
	}
}

// distance is the largest difference between tensors, relative to each tensor's largest number, and its
// place. A tensor of rounding errors is compared with a hundredth of the other tensors' size instead.
func distance(got, want paralleltest.Tensors) (most float64, where string) {
	if len(got) != len(want) {
		return math.Inf(1), fmt.Sprintf("%d tensors in place of %d", len(got), len(want))
	}
	zero := paralleltest.Tensors{}
	for name, w := range want {
		zero[name] = reference.New(w.Rows, w.Cols)
	}
	least := apart(zero, want) / 100
	for name, w := range want {
		one := paralleltest.Tensors{name: w}
		d := apart(got, one)
		if largest := max(apart(zero, one), least); largest > 0 {
			d /= largest
		}
		if d > most || math.IsNaN(d) {
			most, where = d, name
		}
	}
	return most, where
}

// apart is the largest difference between numbers of tensors.
func apart(got, want paralleltest.Tensors) (most float64) {
	for name, w := range want {
		for i, x := range w.Data {
			most = math.Max(most, math.Abs(got[name].Data[i]-x))
		}
	}
	return most
}

// permutations are all orders of n chunks.
func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{{}}
	}
	for _, rest := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(rest), at, n-1))
		}
	}
	return all
}

// differences are central differences of the loss by every parameter.
func differences(w paralleltest.Tensors, loss func() float64) paralleltest.Tensors {
	const h = 1e-6
	gradients := paralleltest.Tensors{}
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

// TestDefinitionOfOneChunk, 1: "K=1 ⇒ exact: loss and all gradients equal single-machine full-graph
// training". The test computes that training of a GCN by itself.
func TestDefinitionOfOneChunk(t *testing.T) {
	p, w := pipelined(t, "gcn", 1)
	f, got := p.Epoch(1, w, []int{0})

	g, n := p.Graph, p.Graph.Vertices()
	a := denseGCN(g)
	x := []*reference.Matrix{reference.From32(n, g.Features.Columns, g.Features.Dense)}
	for i := range 3 {
		z := reference.AddBias(reference.MatMul(a, reference.MatMul(x[i], w[conv(i, "lin.weight")])), w[conv(i, "bias")].Data)
		if i < 2 {
			z = reference.Activate(reference.ReLU, z)
		}
		x = append(x, z)
	}
	if want := reference.CrossEntropy(x[3], g.Labels.Class, g.Splits[0].Train); math.Abs(f.Loss-want) > 1e-14 {
		t.Errorf("a loss of %v, want %v", f.Loss, want)
	}
	want, dz := paralleltest.Tensors{}, reference.CrossEntropyBackward(x[3], g.Labels.Class, g.Splits[0].Train)
	for i := 2; i >= 0; i-- {
		want[conv(i, "bias")] = &reference.Matrix{Rows: 1, Cols: dz.Cols, Data: reference.AddBiasBackward(dz)}
		dx, dw := reference.MatMulBackward(x[i], w[conv(i, "lin.weight")], reference.MatMulTransA(a, dz))
		want[conv(i, "lin.weight")] = dw
		if i > 0 {
			dz = reference.ActivateBackward(reference.ReLU, x[i], dx)
		}
	}
	agree(t, "gradients", got, want, 1e-13)
}

func conv(i int, name string) string { return fmt.Sprintf("convs.%d.%s", i, name) }

// denseGCN is GCN's normalised adjacency matrix. One self loop for each vertex replaces stored ones.
func denseGCN(g *graph.Graph) *reference.Matrix {
	n, e := g.Vertices(), g.Relations[0].Edges()
	a, degree := reference.New(n, n), make([]float64, n)
	for k, u := range e.Source {
		if v := e.Target[k]; u != v {
			a.Add(int(v), int(u), 1)
			degree[v]++
		}
	}
	for v := range n {
		a.Set(v, v, 1)
		degree[v]++
	}
	for v := range n {
		for u := range n {
			a.Set(v, u, a.At(v, u)/math.Sqrt(degree[v]*degree[u]))
		}
	}
	return a
}

// TestDefinitionGradientOracle, 5: "scale=1, dropout 0: analytic gradient = finite differences of the
// pipelined loss with snapshot constant (≤1e-8 in f64). FIFO backward must FAIL this test." For attention
// this covers two facts: a chunk returns the gradient of the rows that it read to earlier chunks, and
// parameters have gradients through history rows too.
func TestDefinitionGradientOracle(t *testing.T) {
	eachChunkedModel(t, func(t *testing.T, model string) {
		p, w := pipelined(t, model, 4)
		p.Period = 1
		p.Epoch(1, drawnTensors(t, p.Graph, chunkedSpec(model), 2), []int{0, 1, 2, 3}) // a history of other weights
		p.Period, p.Scale = 0, 1
		order := []int{2, 0, 3, 1}
		want := differences(w, func() float64 { return p.Forward(w, order).Loss })
		f := p.Forward(w, order)
		if d := apart(f.Backward([]int{1, 3, 0, 2}), want); d > 1e-8 {
			t.Errorf("in reverse: off by %.3g", d)
		}
		if d := apart(f.Backward(order), want); d < .01 {
			t.Errorf("first in, first out: off by %.3g only", d)
		}
		p.Scale = 2
		if d := apart(f.Backward([]int{1, 3, 0, 2}), want); d < .01 {
			t.Errorf("doubled: off by %.3g only", d)
		}
	})
}

// TestDefinitionEdgeWeights, 6: "set scale=2 and probe single edges: gradient multiplicity 1 (same
// chunk/slot), 2 (v earlier), 0 (v later)." The graph is one edge v→u, v has features, u trains, and history
// is exact.
func TestDefinitionEdgeWeights(t *testing.T) {
	g := path(t, 2)
	model := func(t *paralleltest.ChunkTurn, x *paralleltest.ChunkRows) *paralleltest.ChunkRows {
		return t.Aggregate("convs.0", gnn.Sum, t.Linear(x, "w"))
	}
	w := paralleltest.Tensors{"w": reference.From32(1, 2, []float32{.3, -.4})}
	for _, c := range []struct {
		chunk []int32
		order []int
		want  float64
	}{
		{[]int32{0, 0}, []int{0}, 1},
		{[]int32{0, 1}, []int{0, 1}, 2},
		{[]int32{0, 1}, []int{1, 0}, 0},
	} {
		p := &paralleltest.Pipelined{Graph: g, Model: model, Chunk: c.chunk, Chunks: len(c.order), Scale: 2}
		_, exact := p.Whole().Epoch(1, w, []int{0})
		p.Warm(w)
		_, got := p.Epoch(1, w, c.order)
		for i, x := range exact["w"].Data {
			if math.Abs(got["w"].Data[i]-c.want*x) > 1e-15 {
				t.Errorf("chunks %v in the order %v: a gradient of %v, want %v times %v", c.chunk, c.order, got["w"].Data, c.want, exact["w"].Data)
			}
		}
	}
}

// path is the graph 0→1→…→n−1, in which 0 alone has a feature and the last vertex alone trains.
func path(t testing.TB, n int) *graph.Graph {
	t.Helper()
	var e graph.Edges
	for v := range int32(n - 1) {
		e.Source, e.Target = append(e.Source, v), append(e.Target, v+1)
	}
	relation, err := graph.NewRelation(n, e)
	if err != nil {
		t.Fatal(err)
	}
	g := &graph.Graph{Relations: []graph.Relation{relation}, Features: graph.Features{Columns: 1, Dense: make([]float32, n)}, Labels: graph.Labels{Classes: 2, Class: make([]int64, n)}}
	g.Features.Dense[0] = 1
	g.Splits = []graph.Split{{Train: []int64{int64(n - 1)}}}
	return g
}

// TestDefinitionUnbiased, 7: "exact history, average over all K! orders: gradient of the last two weight
// matrices (0 and 1 aggregation away) equals the exact one; a chain over k+1 chunks gives 2^k/(k+1)!."
func TestDefinitionUnbiased(t *testing.T) {
	p, w := pipelined(t, "gcnii", 4)
	_, exact := p.Whole().Epoch(1, w, []int{0})
	p.Warm(w)
	mean, _ := average(p, w)
	for name, want := range map[string]bool{"lins.1.weight": true, "convs.2.weight1": true, "convs.1.weight1": true, "convs.0.weight1": false} {
		d, _ := distance(paralleltest.Tensors{name: mean[name]}, paralleltest.Tensors{name: exact[name]})
		if unbiased := d < 1e-13; unbiased != want {
			t.Errorf("%s: the mean is off by %.3g, unbiased: want %v", name, d, want)
		}
	}

	for k := 1; k <= 4; k++ {
		g, chunk := path(t, k+1), make([]int32, k+1)
		for v := range chunk {
			chunk[v] = int32(v)
		}
		p := &paralleltest.Pipelined{Graph: g, Chunk: chunk, Chunks: k + 1, Scale: 2}
		p.Model = func(t *paralleltest.ChunkTurn, x *paralleltest.ChunkRows) *paralleltest.ChunkRows {
			x = t.Linear(x, "w")
			for i := range k {
				x = t.Aggregate(fmt.Sprint(i), gnn.Sum, x)
			}
			return x
		}
		w := paralleltest.Tensors{"w": reference.From32(1, 2, []float32{.3, -.4})}
		_, exact := p.Whole().Epoch(1, w, []int{0})
		p.Warm(w)
		mean, orders := average(p, w)
		want := math.Pow(2, float64(k)) / float64(orders) // orders = (k+1)!
		if got := mean["w"].Data[0] / exact["w"].Data[0]; math.Abs(got-want) > 1e-13 {
			t.Errorf("%d hops: a share of %v, want %v", k, got, want)
		}
	}
}

// average is the mean gradient over all orders, and their number.
func average(p *paralleltest.Pipelined, w paralleltest.Tensors) (mean paralleltest.Tensors, orders int) {
	all := permutations(p.Chunks)
	mean = paralleltest.Tensors{}
	for _, order := range all {
		_, gradients := p.Epoch(1, w, order)
		for name, g := range gradients {
			share := g.Map(func(x float64) float64 { return x / float64(len(all)) })
			if mean[name] == nil {
				mean[name] = share
			} else {
				mean[name] = mean[name].Plus(share)
			}
		}
	}
	return mean, len(all)
}

// TestDefinitionHistoryConverges, 8: "frozen weights, no dropout: the loss becomes exactly the full-graph
// loss after ≤ L epochs for P=1 and L·P for period P."
func TestDefinitionHistoryConverges(t *testing.T) {
	const layers = 3
	eachChunkedModel(t, func(t *testing.T, model string) {
		for _, period := range []int{1, 5} {
			p, w := pipelined(t, model, 4)
			p.Period = period
			exact := p.Whole().Forward(w, []int{0}).Loss
			r, first := rand.New(rand.NewPCG(3, 3)), 0
			for epoch := 1; epoch <= layers*period+3; epoch++ {
				f, _ := p.Epoch(epoch, w, r.Perm(4))
				switch near := math.Abs(f.Loss-exact) < 1e-12; {
				case near && first == 0:
					first = epoch
				case !near && first > 0:
					t.Errorf("period %d: a loss of %v in epoch %d, and exact in %d", period, f.Loss, epoch, first)
				}
			}
			// The epoch after so many epochs.
			if first < 2 || first > layers*period+1 {
				t.Errorf("period %d: exact from epoch %d on, want %d at the latest", period, first, layers*period+1)
			}
		}
	})
}

// TestDefinitionFirstEpochs, 9: "unprocessed neighbours contribute exactly 0" in the first P epochs. These
// epochs equal those of a graph without the edges from later chunks, but with all degrees.
func TestDefinitionFirstEpochs(t *testing.T) {
	const period = 3
	p, w := pipelined(t, "sage", 4)
	p.Period = period
	r := rand.New(rand.NewPCG(4, 4))
	for epoch := 1; epoch <= period+1; epoch++ {
		order := r.Perm(4)
		turn := make([]int, 4)
		for at, chunk := range order {
			turn[chunk] = at
		}
		g, n := p.Graph, p.Graph.Vertices()
		a, degree, e := reference.New(n, n), make([]float64, n), p.Graph.Relations[0].Edges()
		for _, v := range e.Target {
			degree[v]++
		}
		for k, u := range e.Source {
			if v := e.Target[k]; turn[p.Chunk[u]] <= turn[p.Chunk[v]] {
				a.Add(int(v), int(u), 1/degree[v])
			}
		}
		x := reference.From32(n, g.Features.Columns, g.Features.Dense)
		for i := range 3 {
			z := reference.MatMul(a, reference.MatMul(x, w[conv(i, "lin_l.weight")])).Plus(reference.MatMul(x, w[conv(i, "lin_r.weight")]))
			x = reference.AddBias(z, w[conv(i, "lin_l.bias")].Data)
			if i < 2 {
				x = reference.Activate(reference.ReLU, x)
			}
		}
		want := reference.CrossEntropy(x, g.Labels.Class, g.Splits[0].Train)
		f, _ := p.Epoch(epoch, w, order)
		if zeros := math.Abs(f.Loss-want) < 1e-13; zeros != (epoch <= period) {
			t.Errorf("epoch %d: a loss of %v, without history %v", epoch, f.Loss, want)
		}
	}
}

// TestDefinitionRefresh, 10: the snapshot "changes only after epochs with (e+1)%P==0; constant otherwise;
// equals the previous epoch's fresh rows for all vertices at refresh", e counted from 0. A chunk that is
// first reads what an epoch stored of the last chunk.
func TestDefinitionRefresh(t *testing.T) {
	const period = 3
	p, _ := pipelined(t, "gcnii", 2)
	p.Period = period
	s := chunkedSpec("gcnii")
	snapshot := &paralleltest.Pipelined{Graph: p.Graph, Model: p.Model, Chunk: p.Chunk, Chunks: 2, Period: 1}
	for epoch := 1; epoch <= 2*period+2; epoch++ {
		w := drawnTensors(t, p.Graph, s, uint64(epoch))
		order := []int{epoch % 2, 1 - epoch%2}
		f, _ := p.Epoch(epoch, w, order)
		held := snapshot.Forward(w, order) // reads the snapshot
		if d, where := distance(f.Rows, held.Rows); d > 0 || f.Loss != held.Loss {
			t.Errorf("epoch %d: %s is off by %v", epoch, where, d)
		}
		if epoch%period == 0 {
			snapshot.Epoch(1, w, order)
		}
	}
}

// TestDefinitionLossScaling, 16: "sum over chunks of chunk losses = full loss; gradient divided by the global
// train count, not the chunk's."
func TestDefinitionLossScaling(t *testing.T) {
	p, w := pipelined(t, "gcnii", 3)
	p.Warm(w)
	f := p.Forward(w, []int{1, 2, 0})
	want := reference.CrossEntropy(f.Logits, p.Graph.Labels.Class, p.Graph.Splits[0].Train)
	if sum := f.Losses[0] + f.Losses[1] + f.Losses[2]; math.Abs(sum-want) > 1e-14 || f.Loss != sum {
		t.Errorf("parts of the loss come to %v, and it is %v, want %v", sum, f.Loss, want)
	}
	// In every chunk the last bias is as near the loss as the logits are.
	_, exact := p.Whole().Epoch(1, w, []int{0})
	_, got := p.Epoch(1, w, []int{1, 2, 0})
	agree(t, "decoder", paralleltest.Tensors{"": got["lins.1.bias"]}, paralleltest.Tensors{"": exact["lins.1.bias"]}, 1e-13)
}

// TestDefinitionKeep: with Keep the previous epoch's gradients replace those of chunks that come later
// backward. If both epochs have the same weights, order and history, all gradients over at most one hop are
// exact.
func TestDefinitionKeep(t *testing.T) {
	p, w := pipelined(t, "gcnii", 4)
	_, exact := p.Whole().Epoch(1, w, []int{0})
	p.Scale, p.Keep = 1, true
	p.Warm(w)
	var got paralleltest.Tensors
	for epoch := 1; epoch <= 4; epoch++ {
		_, got = p.Epoch(epoch, w, []int{3, 1, 0, 2})
		if d, _ := distance(got, exact); epoch == 1 && d < .01 {
			t.Errorf("epoch 1: off by %.3g only", d)
		}
	}
	agree(t, "after as many epochs as layers", got, exact, 1e-12)
}

// TestDefinitionErrorBound, 20: "‖h̃^L_v − h^L_v‖ ≤ Σ_{l<L} ε^(l) (k1·k2·|N(v)|)^{L−l}, ε^(l)=staleness of
// history, k1,k2 Lipschitz constants (|N(v)|→1 for mean/normalised)" (GNNAutoScale, theorem 2): the layers
// here are a mean, of constant 1, and a product with a weight of at most its Frobenius norm.
func TestDefinitionErrorBound(t *testing.T) {
	const layers = 3
	p, _ := pipelined(t, "gcn", 4)
	p.Period = 1
	p.Model = func(t *paralleltest.ChunkTurn, x *paralleltest.ChunkRows) *paralleltest.ChunkRows {
		for i := range layers {
			site := fmt.Sprintf("convs.%d", i)
			x = t.ReLU(t.Linear(t.Aggregate(site, gnn.Mean, x), site))
		}
		return x
	}
	weights := func(seed uint64) paralleltest.Tensors {
		w, columns := paralleltest.Tensors{}, []int{4, 6, 6, 3}
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range layers {
			w[fmt.Sprintf("convs.%d", i)] = reference.New(columns[i], columns[i+1]).Map(func(float64) float64 { return r.NormFloat64() / 2 })
		}
		return w
	}
	norm := func(x []float64) (n float64) {
		for _, v := range x {
			n = math.Hypot(n, v)
		}
		return n
	}
	// farthest is the largest distance between rows of a vertex.
	farthest := func(a, b *reference.Matrix) (most float64) {
		for v := range a.Rows {
			d := slices.Clone(a.Data[v*a.Cols : (v+1)*a.Cols])
			for i := range d {
				d[i] -= b.At(v, i)
			}
			most = max(most, norm(d))
		}
		return most
	}
	history, _ := p.Epoch(1, weights(1), []int{0, 1, 2, 3})
	w := weights(2)
	exact := p.Whole().Forward(w, []int{0})
	bound := 0.
	for i := range layers {
		site := fmt.Sprintf("convs.%d", i)
		bound = (bound + farthest(history.Rows[site], exact.Rows[site])) * norm(w[site].Data)
	}
	for _, order := range permutations(4) {
		if d := farthest(p.Forward(w, order).Logits, exact.Logits); d == 0 || d > bound {
			t.Errorf("order %v: off by %v, want at most %v", order, d, bound)
		}
	}
}
