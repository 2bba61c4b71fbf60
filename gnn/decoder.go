package gnn

import (
	"fmt"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// EdgeDecoder is the last block of a model whose outputs are rows of the edges of one relation: an MLP of
// [h_source, h_target, h_source ⊙ h_target, e], where h are the rows of vertices that the blocks before it
// make, and e the edge's features as standard scores. Its linear layers are those of PyG's MLP, with ReLU and
// dropout between them. It is a message function whose results are kept. All other values exist for a few
// thousand edges at a time, on the workers that hold the edges' targets.
type EdgeDecoder struct {
	Relation       string
	Source, Target int // vertex types
	Width          int // columns of h
	Features       int // columns of e; 0: the edges have none
	Layers         int // linear layers, at least 1
	Hidden         int // columns between them
	Outputs        int
	Dropout        float64
}

// decoderPath is the module path of an EdgeDecoder.
const decoderPath = "decoder"

// Block describes the decoder as a block. The state after it has only the rows of the edges, in the order of
// Propagator.ApplyEdges for StoredLoops.
func (d EdgeDecoder) Block() BlockSpec {
	widths, products := d.widths(), 0
	for i, in := range widths[:len(widths)-1] {
		products += in * widths[i+1]
	}
	return BlockSpec{
		In: d.Width, Cost: Cost{Edge: products}, EdgeFeatures: d.Features > 0,
		Relations:   []string{d.Relation},
		EdgeOutputs: []EdgeState{{Along: d.along(), Columns: d.Outputs}},
		OwnPass:     d.ownPass(),
		Build: func(e Env) Block {
			b := d.build(e.Params)
			b.p = e.Propagators(decoderPath, d.along())
			return b
		},
	}
}

// ownPass is BlockSpec.OwnPass: dropout is between linear layers.
func (d EdgeDecoder) ownPass() []string {
	if d.Dropout > 0 && d.Layers > 1 {
		return []string{"dropout"}
	}
	return nil
}

// build makes the decoder's parameters.
func (d EdgeDecoder) build(ps *nn.Params) *edgeDecoder {
	b, widths := &edgeDecoder{EdgeDecoder: d}, d.widths()
	for i, in := range widths[:len(widths)-1] {
		path := fmt.Sprintf("%s.lins.%d", decoderPath, i)
		b.weights = append(b.weights, ps.Weight(path+".weight", in, widths[i+1], nn.FanIn(in)))
		b.biases = append(b.biases, ps.Bias(path+".bias", widths[i+1], nn.FanIn(in)))
	}
	if d.Features > 0 {
		b.units = nn.NewEdgeUnits(ps, d.Features)
	}
	return b
}

// EdgeScorer is the last part of a model that learns labels of edges. It computes the outputs of edges from
// the rows of the vertices at their ends. The edges need not be in the graph.
type EdgeScorer struct {
	Relation       string
	Source, Target int  // vertex types
	Width          int  // columns of the rows of vertices
	Features       int  // columns of the edges' features in the graph; 0: the edges have none
	Standardised   bool // the function reads the features as standard scores
	Weighted       bool // the function reads the edges' weights
	Outputs        int
	// Rows makes the parameters of a function, and returns the function, whose result is edges × Outputs. It
	// reads the fields Tape, Source, Target, Features and Weight of its Edges.
	Rows func(ps *nn.Params) func(Edges) *autograd.Var
}

// Scorer returns the decoder's function, for edges that need not be in the graph.
func (d EdgeDecoder) Scorer() EdgeScorer {
	return EdgeScorer{
		Relation: d.Relation, Source: d.Source, Target: d.Target, Width: d.Width, Features: d.Features,
		Standardised: d.Features > 0, Outputs: d.Outputs,
		Rows: func(ps *nn.Params) func(Edges) *autograd.Var { return d.build(ps).rows },
	}
}

func (d EdgeDecoder) along() Along { return Along{Relation: d.Relation} }

// widths returns the columns before each linear layer, and after the last.
func (d EdgeDecoder) widths() []int {
	all := []int{3*d.Width + d.Features}
	for range d.Layers - 1 {
		all = append(all, d.Hidden)
	}
	return append(all, d.Outputs)
}

// DecoderOutputs returns the number of outputs of the decoder, of so many layers, in a state; 0: it has none.
func DecoderOutputs(weights nn.State, layers int) int {
	return len(weights[fmt.Sprintf("%s.lins.%d.bias", decoderPath, layers-1)].Float32)
}

// DecoderNames returns names and prefixes, for nn.Params.Allow, of the tensors of an EdgeDecoder in a state.
func DecoderNames() []string { return append(nn.EdgeUnitNames(), decoderPath+".") }

// scores returns the standard scores of features of edges.
func scores(features *autograd.Var, u *nn.Units) *autograd.Var {
	n := features.Cols()
	scale := &kernel.ColumnMap{From: n, Begin: []int32{0}}
	for k, deviation := range u.Deviations() {
		scale.Begin, scale.Columns = append(scale.Begin, int32(k+1)), append(scale.Columns, int32(k))
		scale.Weights = append(scale.Weights, 1/deviation)
	}
	means := autograd.Filled(features, n, func(values []float32) {
		for i := range values {
			values[i] = -u.Means()[i%n]
		}
	})
	return autograd.MapColumns(autograd.Add(autograd.Float32(features), means), scale)
}

// edgeDecoder is an EdgeDecoder on a worker.
type edgeDecoder struct {
	EdgeDecoder
	weights, biases []*nn.Param
	units           *nn.Units // of the edges' features; nil: there are none
	p               Propagator
}

// Forward implements Block.
func (b *edgeDecoder) Forward(s State) State {
	source := autograd.Dense(s.Rows[b.Source])
	target := source
	if b.Target != b.Source {
		target = autograd.Dense(s.Rows[b.Target])
	}
	var parameters []*nn.Param
	for i, w := range b.weights {
		parameters = append(parameters, w, b.biases[i])
	}
	made := b.p.ApplyEdges(Message{
		Source: source, Target: target, Columns: b.Outputs, Parameters: parameters, Function: b.rows,
	})
	return State{Rows: make([]*autograd.Var, len(s.Rows)), Edges: []*autograd.Var{made}}
}

// rows returns the outputs of some edges: edges × Outputs.
func (b *edgeDecoder) rows(e Edges) *autograd.Var {
	parts := []*autograd.Var{e.Source, e.Target, autograd.Multiply(e.Source, e.Target)}
	if b.Features > 0 {
		parts = append(parts, scores(e.Features, b.units))
	}
	h := autograd.Join(parts...)
	for i, w := range b.weights {
		act, mask := kernel.ReLU, kernel.Mask{}
		h = autograd.Linear(h, w.On(e.Tape))
		if i == len(b.weights)-1 {
			act = kernel.Identity
		} else {
			mask = nn.Dropout{Path: fmt.Sprintf("%s.lins.%d", decoderPath, i), P: b.Dropout}.Mask(h)
		}
		h = autograd.Finish(h, b.biases[i].On(e.Tape), act, mask)
	}
	return h
}
