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

// Pipelined is GNNPipe's training pass (Chen et al., arXiv 2308.10087) by its definition, in double
// precision. It is the oracle of engines that process the vertices in chunks. It has no stages: these move
// rows and change no number.
//
// An epoch processes the chunks in an order. At each aggregation a chunk writes its rows x to a buffer B of
// all vertices, and computes its rows of z = Â·B. So its own rows and those of earlier chunks are this
// epoch's. The others are history: B begins each epoch as a snapshot, which is taken every Period epochs.
// Backward the chunks come in reverse. Each returns gradients to all rows that it read. Each adds to its own
// rows' gradients what other chunks have returned so far, times Scale. Gradients that come too late are
// dropped at the end of the epoch. So the history has no gradient.
//
// Where a layer multiplies its input by a weight, it aggregates the input first. So the history holds
// embeddings, and no products with another epoch's weights. Features are multiplied first, as in the code of
// GNNPipe's authors.
//
// Chunks of the same number, one of each partition, are processed together. They are one chunk here.
type Pipelined struct {
	Graph  *graph.Graph
	Model  ChunkModel
	Chunk  []int32 // of each vertex
	Chunks int
	Period int     // 0: the history never changes
	Scale  float64 // of gradients that other chunks return: 2, or 1
	// Keep says that the previous epoch's gradients replace those not yet returned in this epoch.
	Keep bool

	history  map[string]*reference.Matrix   // by module path: vertices × columns; none: zeros
	returned map[string][]*reference.Matrix // by module path and chunk: vertices × columns; none: zeros
}

// Tensors are parameters or their gradients, with the names and shapes of nn.Params.
type Tensors map[string]*reference.Matrix

// Epoch runs the training pass of an epoch, counted from 1, and updates the history.
func (p *Pipelined) Epoch(epoch int, w Tensors, order []int) (*ChunkPass, Tensors) {
	f := p.Forward(w, order)
	reverse := slices.Clone(order)
	slices.Reverse(reverse)
	gradients := f.Backward(reverse)
	p.returned = nil
	if p.Keep {
		p.returned = f.returned
	}
	if p.Period > 0 && epoch%p.Period == 0 {
		p.history = f.Rows
	}
	return f, gradients
}

// Warm makes the rows that one exact forward pass reads the history.
func (p *Pipelined) Warm(w Tensors) { p.history = p.Whole().Forward(w, []int{0}).Rows }

// Whole is the same training with all vertices in one chunk: exact training.
func (p *Pipelined) Whole() *Pipelined {
	return &Pipelined{Graph: p.Graph, Model: p.Model, Chunk: make([]int32, len(p.Chunk)), Chunks: 1}
}

// ChunkPass is a forward pass of all chunks.
type ChunkPass struct {
	Loss   float64
	Losses []float64         // the chunks' parts of it
	Logits *reference.Matrix // vertices × classes
	// Rows are the aggregations' buffers by module path, vertices × columns. At the end all rows are of this
	// pass.
	Rows map[string]*reference.Matrix

	p        *Pipelined
	weights  Tensors
	grads    Tensors
	returned map[string][]*reference.Matrix
	turns    []*ChunkTurn // by chunk
}

// Forward runs the chunks in an order. It does not change the history.
func (p *Pipelined) Forward(w Tensors, order []int) *ChunkPass {
	f := &ChunkPass{
		p: p, weights: w, Losses: make([]float64, p.Chunks), turns: make([]*ChunkTurn, p.Chunks),
		Logits: reference.New(p.Graph.Vertices(), p.Graph.Labels.Classes), Rows: map[string]*reference.Matrix{},
		returned: map[string][]*reference.Matrix{},
	}
	for _, chunk := range order {
		f.turn(chunk)
	}
	for _, part := range f.Losses {
		f.Loss += part
	}
	return f
}

// Backward runs the chunks in an order, and returns the gradients of the parameters. The order is the reverse
// of Forward's. It may run again with another order.
func (f *ChunkPass) Backward(order []int) Tensors {
	f.grads, f.returned = Tensors{}, map[string][]*reference.Matrix{}
	for name, w := range f.weights {
		f.grads[name] = reference.New(w.Rows, w.Cols)
	}
	for path, rows := range f.Rows {
		f.returned[path] = make([]*reference.Matrix, f.p.Chunks)
		for chunk := range f.p.Chunks {
			f.returned[path][chunk] = reference.New(rows.Rows, rows.Cols)
		}
		copy(f.returned[path], f.p.returned[path])
	}
	for _, chunk := range order {
		t := f.turns[chunk]
		for _, r := range t.made {
			clear(r.Grad.Data)
		}
		t.logits.Grad = t.pick(f.lossGradient())
		for i := len(t.steps) - 1; i >= 0; i-- {
			t.steps[i]()
		}
	}
	return f.grads
}

// turn runs a chunk's turn in a forward pass.
func (f *ChunkPass) turn(chunk int) {
	p, t := f.p, &ChunkTurn{pass: f, chunk: chunk}
	for v, c := range p.Chunk {
		if int(c) == chunk {
			t.vertices = append(t.vertices, v)
		}
	}
	f.turns[chunk] = t
	t.features = t.record(t.pick(featuresOf(p.Graph)), func(*reference.Matrix) {})
	t.logits = p.Model(t, t.features)
	t.put(f.Logits, t.logits.Value)
	var train []int64
	for _, v := range p.Graph.Splits[0].Train {
		if int(p.Chunk[v]) == chunk {
			train = append(train, v)
		}
	}
	if n := len(train); n > 0 { // the mean is over the training vertices of all chunks
		f.Losses[chunk] = reference.CrossEntropy(f.Logits, p.Graph.Labels.Class, train) * float64(n) / float64(len(p.Graph.Splits[0].Train))
	}
}

// featuresOf are a graph's features, dense or sparse.
func featuresOf(g *graph.Graph) *reference.Matrix {
	f := &g.Features
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

func (f *ChunkPass) lossGradient() *reference.Matrix {
	return reference.CrossEntropyBackward(f.Logits, f.p.Graph.Labels.Class, f.p.Graph.Splits[0].Train)
}

// ChunkModel computes the logits of a chunk's vertices from their features.
type ChunkModel func(t *ChunkTurn, x *ChunkRows) *ChunkRows

// ChunkTurn is a chunk's turn in a pass: the inputs and the results of a model's operations.
type ChunkTurn struct {
	pass     *ChunkPass
	chunk    int
	vertices []int // of the chunk
	features *ChunkRows
	logits   *ChunkRows
	made     []*ChunkRows
	steps    []func() // backward
}

// ChunkRows are a chunk's rows, one for each vertex, and their gradient.
type ChunkRows struct{ Value, Grad *reference.Matrix }

// record adds rows, and the function that propagates their gradient g.
func (t *ChunkTurn) record(value *reference.Matrix, backward func(g *reference.Matrix)) *ChunkRows {
	r := &ChunkRows{value, reference.New(value.Rows, value.Cols)}
	t.made = append(t.made, r)
	t.steps = append(t.steps, func() { backward(r.Grad) })
	return r
}

// pick are the chunk's rows of a matrix of all vertices.
func (t *ChunkTurn) pick(all *reference.Matrix) *reference.Matrix {
	m := reference.New(len(t.vertices), all.Cols)
	for i, v := range t.vertices {
		copy(m.Data[i*m.Cols:(i+1)*m.Cols], all.Data[v*m.Cols:])
	}
	return m
}

// put writes the chunk's rows into a matrix of all vertices.
func (t *ChunkTurn) put(all, m *reference.Matrix) {
	for i, v := range t.vertices {
		copy(all.Data[v*m.Cols:], m.Data[i*m.Cols:(i+1)*m.Cols])
	}
}

// aggregate is the operation that reads rows of other chunks. forward aggregates the rows of all vertices.
// backward gets these rows, and the result's gradient, which is zero outside the chunk. It returns the
// gradient of the rows.
func (t *ChunkTurn) aggregate(
	path string, x *ChunkRows, forward func(b *reference.Matrix) *reference.Matrix, backward func(b, dz *reference.Matrix) *reference.Matrix,
) *ChunkRows {
	f := t.pass
	vertices, columns := len(f.p.Chunk), x.Value.Cols
	b := f.Rows[path]
	if b == nil {
		b = reference.New(vertices, columns)
		if history := f.p.history[path]; history != nil {
			b = history.Clone()
		}
		f.Rows[path] = b
	}
	t.put(b, x.Value)
	read := b.Clone()
	return t.record(t.pick(forward(read)), func(g *reference.Matrix) {
		dz := reference.New(vertices, g.Cols)
		t.put(dz, g)
		f.returned[path][t.chunk] = backward(read, dz)
		for chunk, returned := range f.returned[path] {
			scale := f.p.Scale
			if chunk == t.chunk {
				scale = 1
			}
			add(x.Grad, scale, t.pick(returned))
		}
	})
}

// Aggregate is a linear aggregation along the stored edges.
func (t *ChunkTurn) Aggregate(path string, r gnn.Reduce, x *ChunkRows) *ChunkRows {
	a := inEdgesOf(&t.pass.p.Graph.Relations[0], Stored).aggregation(r)
	return t.aggregate(path, x, func(b *reference.Matrix) *reference.Matrix {
		z := reference.New(b.Rows, b.Cols)
		reference.SpMM(z, a, b)
		return z
	}, func(_, dz *reference.Matrix) *reference.Matrix {
		db := reference.New(dz.Rows, dz.Cols)
		reference.SpMMTranspose(db, a, dz)
		return db
	})
}

// AggregateLinear is the linear aggregation of x·W.
func (t *ChunkTurn) AggregateLinear(path string, r gnn.Reduce, x *ChunkRows, weight string) *ChunkRows {
	if x == t.features {
		return t.Aggregate(path, r, t.Linear(x, weight))
	}
	return t.Linear(t.Aggregate(path, r, x), weight)
}

// Attend is GATv1 along the stored edges, with self loops added. The parameters' gradients include those of
// history rows.
func (t *ChunkTurn) Attend(path string, heads int, x *ChunkRows, source, target string) *ChunkRows {
	a := inEdgesOf(&t.pass.p.Graph.Relations[0], Stored).attention(heads, true)
	w := t.pass.weights
	return t.aggregate(path, x, func(b *reference.Matrix) *reference.Matrix {
		z, _ := reference.GAT(a, b, w[source].Data, w[target].Data, nil)
		return z
	}, func(b, dz *reference.Matrix) *reference.Matrix {
		db, ds, dt, _ := reference.GATBackward(a, b, w[source].Data, w[target].Data, nil, dz)
		t.addGrad(source, &reference.Matrix{Rows: 1, Cols: len(ds), Data: ds})
		t.addGrad(target, &reference.Matrix{Rows: 1, Cols: len(dt), Data: dt})
		return db
	})
}

// Linear is x·W.
func (t *ChunkTurn) Linear(x *ChunkRows, weight string) *ChunkRows {
	w := t.weight(weight)
	return t.record(reference.MatMul(x.Value, w), func(g *reference.Matrix) {
		dx, dw := reference.MatMulBackward(x.Value, w, g)
		add(x.Grad, 1, dx)
		t.addGrad(weight, dw)
	})
}

// Bias is x + b.
func (t *ChunkTurn) Bias(x *ChunkRows, bias string) *ChunkRows {
	return t.record(reference.AddBias(x.Value, t.weight(bias).Data), func(g *reference.Matrix) {
		add(x.Grad, 1, g)
		t.addGrad(bias, &reference.Matrix{Rows: 1, Cols: g.Cols, Data: reference.AddBiasBackward(g)})
	})
}

// ReLU is max(x, 0).
func (t *ChunkTurn) ReLU(x *ChunkRows) *ChunkRows {
	return t.record(reference.Activate(reference.ReLU, x.Value), func(g *reference.Matrix) {
		add(x.Grad, 1, reference.ActivateBackward(reference.ReLU, x.Value, g))
	})
}

// LayerNorm normalises each row.
func (t *ChunkTurn) LayerNorm(x *ChunkRows, path string) *ChunkRows {
	gamma, beta := path+".weight", path+".bias"
	return t.record(reference.LayerNorm(x.Value, t.weight(gamma).Data, t.weight(beta).Data), func(g *reference.Matrix) {
		dx, dgamma, dbeta := reference.LayerNormBackward(x.Value, t.weight(gamma).Data, g)
		add(x.Grad, 1, dx)
		t.addGrad(gamma, &reference.Matrix{Rows: 1, Cols: g.Cols, Data: dgamma})
		t.addGrad(beta, &reference.Matrix{Rows: 1, Cols: g.Cols, Data: dbeta})
	})
}

// Combine is a·x + b·y.
func (t *ChunkTurn) Combine(a float64, x *ChunkRows, b float64, y *ChunkRows) *ChunkRows {
	z := reference.New(x.Value.Rows, x.Value.Cols)
	add(z, a, x.Value)
	add(z, b, y.Value)
	return t.record(z, func(g *reference.Matrix) {
		add(x.Grad, a, g)
		add(y.Grad, b, g)
	})
}

func (t *ChunkTurn) weight(name string) *reference.Matrix {
	w := t.pass.weights[name]
	if w == nil {
		panic(fmt.Sprintf("no parameter %s among %q", name, slices.Sorted(maps.Keys(t.pass.weights))))
	}
	return w
}

func (t *ChunkTurn) addGrad(name string, g *reference.Matrix) { add(t.pass.grads[name], 1, g) }

// add adds scale·m to a matrix.
func add(to *reference.Matrix, scale float64, m *reference.Matrix) {
	for i, x := range m.Data {
		to.Data[i] += scale * x
	}
}

// ChunkModels are the models that have a definition, by gnn's names: with the given number of layers, ReLU
// and no dropout.
var ChunkModels = map[string]func(layers int) ChunkModel{
	"gcn": func(layers int) ChunkModel {
		return plainModel(layers, func(t *ChunkTurn, path string, x *ChunkRows) *ChunkRows {
			return t.Bias(t.AggregateLinear(path, gnn.Symmetric, x, path+".lin.weight"), path+".bias")
		})
	},
	"sage": func(layers int) ChunkModel { return plainModel(layers, sageLayer) },
	"gat": func(layers int) ChunkModel {
		return plainModel(layers, func(t *ChunkTurn, path string, x *ChunkRows) *ChunkRows {
			heads := 1 // of the last layer
			if path != fmt.Sprintf("convs.%d", layers-1) {
				heads = ChunkHeads
			}
			return t.Bias(t.Attend(path, heads, t.Linear(x, path+".lin.weight"), path+".att_src", path+".att_dst"), path+".bias")
		})
	},
	"gcnii": func(layers int) ChunkModel {
		return func(t *ChunkTurn, x *ChunkRows) *ChunkRows {
			const alpha = ChunkAlpha
			h0 := t.ReLU(t.Bias(t.Linear(x, "lins.0.weight"), "lins.0.bias"))
			h := h0
			for i := range layers {
				path := fmt.Sprintf("convs.%d", i)
				beta := math.Log(ChunkTheta/float64(i+1) + 1)
				s := t.Combine(1-alpha, t.Aggregate(path, gnn.Symmetric, h), alpha, h0)
				h = t.ReLU(t.Combine(1-beta, s, beta, t.Linear(s, path+".weight1")))
			}
			return t.Bias(t.Linear(h, "lins.1.weight"), "lins.1.bias")
		}
	},
	"resgcn": func(layers int) ChunkModel {
		return func(t *ChunkTurn, x *ChunkRows) *ChunkRows {
			h := sageLayer(t, "layers.0.conv", t.Bias(t.Linear(x, "node_encoder.weight"), "node_encoder.bias"))
			for i := 1; i < layers; i++ {
				path := fmt.Sprintf("layers.%d", i)
				h = t.Combine(1, h, 1, sageLayer(t, path+".conv", t.ReLU(t.LayerNorm(h, path+".norm"))))
			}
			return t.Bias(t.Linear(t.ReLU(t.LayerNorm(h, "layers.0.norm")), "lin.weight"), "lin.bias")
		}
	},
}

// The settings of ChunkModels.
const (
	ChunkHeads = 2
	ChunkAlpha = .1
	ChunkTheta = .5
)

// plainModel is a model of layers with ReLU between them.
func plainModel(layers int, layer func(t *ChunkTurn, path string, x *ChunkRows) *ChunkRows) ChunkModel {
	return func(t *ChunkTurn, x *ChunkRows) *ChunkRows {
		for i := range layers {
			x = layer(t, fmt.Sprintf("convs.%d", i), x)
			if i < layers-1 {
				x = t.ReLU(x)
			}
		}
		return x
	}
}

// sageLayer is GraphSAGE's mean.
func sageLayer(t *ChunkTurn, path string, x *ChunkRows) *ChunkRows {
	mean := t.AggregateLinear(path, gnn.Mean, x, path+".lin_l.weight")
	return t.Bias(t.Combine(1, mean, 1, t.Linear(x, path+".lin_r.weight")), path+".lin_l.bias")
}
