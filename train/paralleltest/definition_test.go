package paralleltest

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"weft/gnn"
	"weft/graph"
	"weft/kernel/reference"
)

// gnnPipe is GNNPipe's training pass (Chen et al., arXiv 2308.10087) by its definition, in double precision.
// It is the oracle of engines that process the vertices in chunks. It has no stages: these move rows and
// change no number.
//
// An epoch processes the chunks in an order. At each aggregation a chunk writes its rows x to a buffer B of
// all vertices, and computes its rows of z = Â·B. So its own rows and those of earlier chunks are this
// epoch's. The others are history: B begins each epoch as a snapshot, which is taken every period epochs.
// Backward the chunks come in reverse. Each returns gradients to all rows that it read. Each adds to its own
// rows' gradients what other chunks have returned so far, times scale. Gradients that come too late are
// dropped at the end of the epoch. So the history has no gradient.
//
// Where a layer multiplies its input by a weight, it aggregates the input first. So the history holds
// embeddings, and no products with another epoch's weights. Features are multiplied first, as in the code of
// GNNPipe's authors.
//
// Chunks of the same number, one of each partition, are processed together. They are one chunk here.
type gnnPipe struct {
	graph  *graph.Graph
	model  chunkModel
	chunk  []int32 // of each vertex
	chunks int
	period int     // 0: the history never changes
	scale  float64 // of gradients that other chunks return: 2, or 1
	// keep says that the previous epoch's gradients replace those not yet returned in this epoch.
	keep bool
	// features are the model's input, and gradient is that of the chunks' outputs. nil: the graph's, and the
	// cross-entropy's.
	features, gradient *reference.Matrix

	edges    *inEdges
	history  map[string]*reference.Matrix   // by module path: vertices × columns; none: zeros
	returned map[string][]*reference.Matrix // by module path and chunk: vertices × columns; none: zeros
}

// tensors are parameters or their gradients, with the names and shapes of nn.Params.
type tensors map[string]*reference.Matrix

// epoch runs the training pass of an epoch, counted from 1, and updates the history.
func (p *gnnPipe) epoch(epoch int, w tensors, order []int) (*chunkPass, tensors) {
	f := p.forward(w, order)
	reverse := slices.Clone(order)
	slices.Reverse(reverse)
	gradients := f.backward(reverse)
	p.returned = nil
	if p.keep {
		p.returned = f.returned
	}
	if p.period > 0 && epoch%p.period == 0 {
		p.history = f.rows
	}
	return f, gradients
}

// warm makes the rows that one exact forward pass reads the history.
func (p *gnnPipe) warm(w tensors) { p.history = p.whole().forward(w, []int{0}).rows }

// whole is the same training with all vertices in one chunk: exact training.
func (p *gnnPipe) whole() *gnnPipe {
	return &gnnPipe{graph: p.graph, model: p.model, chunk: make([]int32, len(p.chunk)), chunks: 1}
}

// chunkPass is a forward pass of all chunks.
type chunkPass struct {
	loss   float64
	logits *reference.Matrix // vertices × classes
	dx     *reference.Matrix // of the features, after a backward pass
	// rows are the aggregations' buffers by module path, vertices × columns. At the end all rows are of this
	// pass.
	rows map[string]*reference.Matrix

	p        *gnnPipe
	weights  tensors
	grads    tensors
	returned map[string][]*reference.Matrix
	turns    []*chunkTurn // by chunk
}

// forward runs the chunks in an order. It does not change the history.
func (p *gnnPipe) forward(w tensors, order []int) *chunkPass {
	f := &chunkPass{
		p: p, weights: w, turns: make([]*chunkTurn, p.chunks),
		rows: map[string]*reference.Matrix{},
	}
	features := p.features
	if features == nil {
		features = featuresOf(p.graph)
	}
	for _, chunk := range order {
		t := &chunkTurn{pass: f, chunk: chunk}
		for v, c := range p.chunk {
			if int(c) == chunk {
				t.vertices = append(t.vertices, v)
			}
		}
		f.turns[chunk] = t
		t.features = t.record(t.pick(features), func(*reference.Matrix) {})
		t.logits = p.model(t, t.features)
		if f.logits == nil {
			f.logits = reference.New(len(p.chunk), t.logits.value.Cols)
		}
		t.put(f.logits, t.logits.value)
	}
	if p.gradient == nil {
		f.loss = reference.CrossEntropy(f.logits, p.graph.Types[0].Labels.Class,
			p.graph.Types[0].Splits[0].Train)
	}
	return f
}

// backward runs the chunks in an order, and returns the gradients of the parameters. The order is the reverse
// of forward's. It may run again with another order.
func (f *chunkPass) backward(order []int) tensors {
	p := f.p
	f.grads, f.returned = tensors{}, map[string][]*reference.Matrix{}
	for name, w := range f.weights {
		f.grads[name] = reference.New(w.Rows, w.Cols)
	}
	for path, rows := range f.rows {
		f.returned[path] = make([]*reference.Matrix, p.chunks)
		for chunk := range p.chunks {
			f.returned[path][chunk] = reference.New(rows.Rows, rows.Cols)
		}
		copy(f.returned[path], p.returned[path])
	}
	gradient := p.gradient
	if gradient == nil {
		gradient = reference.CrossEntropyBackward(f.logits, p.graph.Types[0].Labels.Class,
			p.graph.Types[0].Splits[0].Train)
	}
	f.dx = reference.New(len(p.chunk), f.turns[order[0]].features.value.Cols)
	for _, chunk := range order {
		t := f.turns[chunk]
		for _, r := range t.made {
			clear(r.grad.Data)
		}
		t.logits.grad = t.pick(gradient)
		for _, step := range slices.Backward(t.steps) {
			step()
		}
		t.put(f.dx, t.features.grad)
	}
	return f.grads
}

// featuresOf are a graph's features, dense or sparse.
func featuresOf(g *graph.Graph) *reference.Matrix {
	f := &g.Types[0].Features
	if !f.Sparse() {
		return reference.From32(g.Vertices(), f.Columns, f.Dense)
	}
	x := reference.New(g.Vertices(), f.Columns)
	for v := range g.Vertices() {
		for k := f.Indptr[v]; k < f.Indptr[v+1]; k++ {
			x.Add(v, int(f.Indices[k]), float64(f.Data[k]))
		}
	}
	return x
}

// chunkModel computes the logits of a chunk's vertices from their features.
type chunkModel func(t *chunkTurn, x *chunkRows) *chunkRows

// chunkTurn is a chunk's turn in a pass: the inputs and the results of a model's operations.
type chunkTurn struct {
	pass     *chunkPass
	chunk    int
	vertices []int // of the chunk
	features *chunkRows
	logits   *chunkRows
	made     []*chunkRows
	steps    []func() // backward
}

// chunkRows are a chunk's rows, one for each vertex, and their gradient.
type chunkRows struct{ value, grad *reference.Matrix }

// record adds rows, and the function that propagates their gradient g.
func (t *chunkTurn) record(value *reference.Matrix, backward func(g *reference.Matrix)) *chunkRows {
	r := &chunkRows{value, reference.New(value.Rows, value.Cols)}
	t.made = append(t.made, r)
	t.steps = append(t.steps, func() { backward(r.grad) })
	return r
}

// pick are the chunk's rows of a matrix of all vertices.
func (t *chunkTurn) pick(all *reference.Matrix) *reference.Matrix {
	m := reference.New(len(t.vertices), all.Cols)
	for i, v := range t.vertices {
		copy(m.Data[i*m.Cols:(i+1)*m.Cols], all.Data[v*m.Cols:])
	}
	return m
}

// put writes the chunk's rows into a matrix of all vertices.
func (t *chunkTurn) put(all, m *reference.Matrix) {
	for i, v := range t.vertices {
		copy(all.Data[v*m.Cols:], m.Data[i*m.Cols:(i+1)*m.Cols])
	}
}

// exactly is a layer that reads rows of other chunks: so many columns of an aggregation of x along edges. The
// parameters' gradients include those of history rows.
func (t *chunkTurn) exactly(path string, e *inEdges, l exact, columns int, x *chunkRows,
	weights ...string,
) *chunkRows {
	f := t.pass
	b := f.rows[path]
	if b == nil {
		b = reference.New(len(f.p.chunk), x.value.Cols)
		if history := f.p.history[path]; history != nil {
			b = history.Clone()
		}
		f.rows[path] = b
	}
	t.put(b, x.value)
	read, w := b.Clone(), []*reference.Matrix(nil)
	for _, name := range weights {
		w = append(w, t.weight(name))
	}
	dz := reference.New(b.Rows, columns) // zero outside the chunk
	return t.record(t.pick(matrix(b.Rows, columns, l(e, read, dz, w).Out)), func(g *reference.Matrix) {
		t.put(dz, g)
		o := l(e, read, dz, w)
		for i, name := range weights {
			t.addGrad(name, o.DW[i])
		}
		f.returned[path][t.chunk] = matrix(b.Rows, b.Cols, o.DX)
		for chunk, returned := range f.returned[path] {
			scale := f.p.scale
			if chunk == t.chunk {
				scale = 1
			}
			add(x.grad, scale, t.pick(returned))
		}
	})
}

// stored are the edges into each vertex.
func (t *chunkTurn) stored() *inEdges {
	p := t.pass.p
	if p.edges == nil {
		p.edges = inEdgesOf(&p.graph.Relations[0], Stored)
	}
	return p.edges
}

// aggregate is a linear aggregation along the stored edges.
func (t *chunkTurn) aggregate(path string, r gnn.Reduce, x *chunkRows) *chunkRows {
	return t.exactly(path, t.stored(), exactRounds(r, gnn.Once), x.value.Cols, x)
}

// aggregateLinear is the linear aggregation of x·W.
func (t *chunkTurn) aggregateLinear(path string, r gnn.Reduce, x *chunkRows, weight string) *chunkRows {
	if x == t.features {
		return t.aggregate(path, r, t.linear(x, weight))
	}
	return t.linear(t.aggregate(path, r, x), weight)
}

// attend is GATv1 along the stored edges, with self loops added.
func (t *chunkTurn) attend(path string, heads int, x *chunkRows, source, target string) *chunkRows {
	return t.exactly(path, t.stored(), exactGAT(heads).looped(gnn.OneLoop), x.value.Cols, x, source, target)
}

// linear is x·W.
func (t *chunkTurn) linear(x *chunkRows, weight string) *chunkRows {
	w := t.weight(weight)
	return t.record(reference.MatMul(x.value, w), func(g *reference.Matrix) {
		dx, dw := reference.MatMulBackward(x.value, w, g)
		add(x.grad, 1, dx)
		t.addGrad(weight, dw.Data)
	})
}

// bias is x + b.
func (t *chunkTurn) bias(x *chunkRows, bias string) *chunkRows {
	return t.record(reference.AddBias(x.value, t.weight(bias).Data), func(g *reference.Matrix) {
		add(x.grad, 1, g)
		t.addGrad(bias, reference.AddBiasBackward(g))
	})
}

// relu is max(x, 0).
func (t *chunkTurn) relu(x *chunkRows) *chunkRows {
	return t.record(reference.Activate(reference.ReLU, x.value), func(g *reference.Matrix) {
		add(x.grad, 1, reference.ActivateBackward(reference.ReLU, x.value, g))
	})
}

// layerNorm normalises each row.
func (t *chunkTurn) layerNorm(x *chunkRows, path string) *chunkRows {
	gamma, beta := path+".weight", path+".bias"
	return t.record(reference.LayerNorm(x.value, t.weight(gamma).Data, t.weight(beta).Data),
		func(g *reference.Matrix) {
			dx, dgamma, dbeta := reference.LayerNormBackward(x.value, t.weight(gamma).Data, g)
			add(x.grad, 1, dx)
			t.addGrad(gamma, dgamma)
			t.addGrad(beta, dbeta)
		})
}

// combine is a·x + b·y.
func (t *chunkTurn) combine(a float64, x *chunkRows, b float64, y *chunkRows) *chunkRows {
	z := reference.New(x.value.Rows, x.value.Cols)
	add(z, a, x.value)
	add(z, b, y.value)
	return t.record(z, func(g *reference.Matrix) {
		add(x.grad, a, g)
		add(y.grad, b, g)
	})
}

func (t *chunkTurn) weight(name string) *reference.Matrix {
	w := t.pass.weights[name]
	if w == nil {
		panic(fmt.Sprintf("no parameter %s among %q", name, slices.Sorted(maps.Keys(t.pass.weights))))
	}
	return w
}

func (t *chunkTurn) addGrad(name string, g []float64) {
	to := t.pass.grads[name]
	add(to, 1, matrix(to.Rows, to.Cols, g))
}

// add adds scale·m to a matrix.
func add(to *reference.Matrix, scale float64, m *reference.Matrix) {
	for i, x := range m.Data {
		to.Data[i] += scale * x
	}
}

// chunkModels are the models that have a definition, by gnn's names: with the given number of layers, ReLU
// and no dropout.
var chunkModels = map[string]func(layers int) chunkModel{
	"gcn": func(layers int) chunkModel {
		return plainModel(layers, func(t *chunkTurn, path string, x *chunkRows) *chunkRows {
			return t.bias(t.aggregateLinear(path, gnn.Symmetric, x, path+".lin.weight"), path+".bias")
		})
	},
	"sage": func(layers int) chunkModel { return plainModel(layers, sageLayer) },
	"gat": func(layers int) chunkModel {
		return plainModel(layers, func(t *chunkTurn, path string, x *chunkRows) *chunkRows {
			heads := 1 // of the last layer
			if path != fmt.Sprintf("convs.%d", layers-1) {
				heads = chunkHeads
			}
			return t.bias(t.attend(path, heads, t.linear(x, path+".lin.weight"), path+".att_src",
				path+".att_dst"), path+".bias")
		})
	},
	"gcnii": func(layers int) chunkModel {
		return func(t *chunkTurn, x *chunkRows) *chunkRows {
			const alpha = chunkAlpha
			h0 := t.relu(t.bias(t.linear(x, "lins.0.weight"), "lins.0.bias"))
			h := h0
			for i := range layers {
				path := fmt.Sprintf("convs.%d", i)
				beta := math.Log(chunkTheta/float64(i+1) + 1)
				s := t.combine(1-alpha, t.aggregate(path, gnn.Symmetric, h), alpha, h0)
				h = t.relu(t.combine(1-beta, s, beta, t.linear(s, path+".weight1")))
			}
			return t.bias(t.linear(h, "lins.1.weight"), "lins.1.bias")
		}
	},
	"resgcn": func(layers int) chunkModel {
		return func(t *chunkTurn, x *chunkRows) *chunkRows {
			h := sageLayer(t, "layers.0.conv",
				t.bias(t.linear(x, "node_encoder.weight"), "node_encoder.bias"))
			for i := 1; i < layers; i++ {
				path := fmt.Sprintf("layers.%d", i)
				h = t.combine(1, h, 1, sageLayer(t, path+".conv", t.relu(t.layerNorm(h, path+".norm"))))
			}
			return t.bias(t.linear(t.relu(t.layerNorm(h, "layers.0.norm")), "lin.weight"), "lin.bias")
		}
	},
}

// The settings of chunkModels.
const (
	chunkHeads = 2
	chunkAlpha = .1
	chunkTheta = .5
)

// plainModel is a model of layers with ReLU between them.
func plainModel(layers int, layer func(t *chunkTurn, path string, x *chunkRows) *chunkRows) chunkModel {
	return func(t *chunkTurn, x *chunkRows) *chunkRows {
		for i := range layers {
			x = layer(t, fmt.Sprintf("convs.%d", i), x)
			if i < layers-1 {
				x = t.relu(x)
			}
		}
		return x
	}
}

// sageLayer is GraphSAGE's mean.
func sageLayer(t *chunkTurn, path string, x *chunkRows) *chunkRows {
	mean := t.aggregateLinear(path, gnn.Mean, x, path+".lin_l.weight")
	return t.bias(t.combine(1, mean, 1, t.linear(x, path+".lin_r.weight")), path+".lin_l.bias")
}
