package worker

import (
	"context"
	"math"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/edges"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// Explained names a number of a model's output.
type Explained struct {
	Vertex int32        // the number of a vertex of the first type
	Edge   *graph.Edges // the one edge in place of Vertex, if the task learns edges; else nil
	Output int          // the column
	// Classes says that the columns are logits of classes. The explained number is then log(p/(1 − p)) for
	// the column's probability p: its logit minus the log-sum-exp of the others.
	Classes bool
	// Steps is over how many points of the path the integrated gradients are a mean: the middles of as many
	// equal parts. 0: the gradients at the path's end.
	Steps int
	// OnStep is called before each point, with the number of points that are done. It may be nil.
	OnStep func(done int)
}

// Explanation says on what a number of a model's output depends: its gradients by what the model reads
// (Simonyan et al. 2013) or, with Explained.Steps, the means of these along the path from zeros (Sundararajan
// et al. 2017). A gradient times the value for which it is taken is an attribution.
type Explanation struct {
	Features []FeatureGradients // by vertex type
	// Edges are the edges on whose messages the number depends, in the order of relation, target, source and
	// Before. Gradient is by a factor of the edge's message, which is 1.
	Edges []edges.MaskGradient
	// Edge has the gradients of Explained.Edge's own features, which a decoder reads as standard scores; nil:
	// there are none.
	Edge *FeatureGradients
}

// FeatureGradients are the gradients of the features of some vertices of a type. The features are as the
// model reads them: standardised, if it was trained on standardised ones.
type FeatureGradients struct {
	IDs               []int32
	Columns           int
	Inputs, Gradients []float32 // IDs × Columns
}

// explaining is an engine whose passes compute gradients of what the model reads.
type explaining interface {
	engine.Engine
	InputValues(kind int) (values []float32, columns int)
}

// Explain explains a number of the model's output with its weights. The mesh is one worker. c.Vertices are
// the vertex alone, or the ends of an edge; nil: the pass is over the whole graph. The model of an edge is
// Undecoded.
func Explain(ctx context.Context, c Config, team *kernel.Team, share *partition.Share, weights nn.State,
	target Explained,
) (*Explanation, error) {
	w, e, err := begin(c, team, comm.Alone(), share)
	if err != nil {
		return nil, err
	}
	e.Training = true // there are gradients
	if c.Program.Program != nil {
		if e.Blocks, err = w.BlocksApart(w.Share, c.Outputs); err != nil {
			return nil, err
		}
	}
	var made engine.Engine
	if c.Vertices != nil {
		made, err = engine.NewMFG(e, c.Vertices, nil)
	} else {
		made, err = engine.New(e)
	}
	if err != nil {
		return nil, err
	}
	by := made.(explaining)
	if err := w.infers(by); err != nil {
		return nil, err
	}
	x := &explainer{
		Worker: w, by: by, target: target, whole: c.Vertices == nil, unit: nn.UnitIn(weights, target.Output),
		kinds: e.Outputs,
	}
	if x.kinds == nil {
		x.kinds = []int{0}
	}
	if target.Edge != nil {
		if err := x.decode(); err != nil {
			return nil, &launch.Common{Err: err}
		}
	}
	c.Kind.Predicts(w.Params, weights)
	if err := w.Load(weights, nil); err != nil {
		return nil, err
	}
	return x.explain(ctx)
}

// explainer explains one number.
type explainer struct {
	*Worker
	by       explaining
	target   Explained
	whole    bool    // the pass is of the whole graph, most of whose edges do not lead to the vertex
	unit     float32 // the unit of the number, as the labels have it
	kinds    []int   // the vertex types of the outputs
	into     Explanation
	sums     map[edges.MaskGradient]float64 // of the edges, without Gradient
	decoding *decoding                      // of Explained.Edge; nil: a vertex is explained
}

func (x *explainer) explain(ctx context.Context) (*Explanation, error) {
	x.sums = map[edges.MaskGradient]float64{}
	if x.target.Edge != nil {
		x.into.Edge = x.own()
	}
	for kind, rows := range x.by.Inputs() {
		entry := FeatureGradients{IDs: idsOf(slices.Clone(rows.List()), rows.Here)}
		entry.Inputs, entry.Columns = x.by.InputValues(kind)
		entry.Gradients = make([]float32, len(entry.Inputs))
		x.into.Features = append(x.into.Features, entry)
	}
	steps := max(1, x.target.Steps)
	for step := range steps {
		if ctx.Err() != nil {
			return nil, &launch.Common{Err: context.Canceled}
		}
		if x.target.OnStep != nil {
			x.target.OnStep(step)
		}
		at, part := (float32(step)+.5)/float32(steps), 1/float32(steps)
		if x.target.Steps == 0 {
			x.pass(point{features: 1, messages: 1, part: part, ofFeatures: true, ofEdges: true})
			continue
		}
		x.pass(point{features: at, messages: 1, part: part, ofFeatures: true})
		x.pass(point{features: 1, messages: at, part: part, ofEdges: true})
	}
	for e, sum := range x.sums {
		e.Gradient = float32(sum)
		x.into.Edges = append(x.into.Edges, e)
	}
	slices.SortFunc(x.into.Edges, edges.MaskGradient.Compare)
	return &x.into, nil
}

// begin is the gradient of the number by the outputs of its vertex, in a row of zeros.
func (x *explainer) begin(grad, outputs []float32) {
	c := x.target.Output
	if grad[c] = x.unit; !x.target.Classes {
		return
	}
	largest, sum := math.Inf(-1), 0.
	for k := range grad {
		if k != c {
			largest = max(largest, float64(outputs[k]))
		}
	}
	for pass := range 2 { // the others' softmax
		for k := range grad {
			e := math.Exp(float64(outputs[k]) - largest)
			switch {
			case k == c:
			case pass == 0:
				sum += e
			default:
				grad[k] = -float32(e / sum)
			}
		}
	}
}

// point is a point of a path.
type point struct {
	features, messages  float32 // factors of all features and of all messages
	part                float32 // the factor of its gradients in their mean
	ofFeatures, ofEdges bool    // whose gradients are taken
}

// pass computes the gradients at a point, and adds them to the explanation.
func (x *explainer) pass(p point) {
	call := engine.Call{
		Epoch: 1, Random: autograd.Random{Seed: x.Seed, Epoch: 1}, Recording: true,
		Edges: &edges.Inputs{Mask: &p.messages},
	}
	for kind, rows := range x.by.Inputs() {
		entry := &x.into.Features[kind]
		values := slices.Clone(entry.Inputs)
		for i := range values {
			values[i] *= p.features
		}
		call.Features = append(call.Features, engine.InputMatrix{
			Values:         x.input(rows.Here, ColumnBlock{Columns: entry.Columns, Values: values}, nil),
			Differentiable: entry.Columns > 0,
		})
	}
	pass := x.by.Forward(call)
	var outputs []autograd.Root
	for _, v := range pass.Outputs() {
		grad := x.Team.Zeros(tensor.Gradients, v.Rows(), v.Cols())
		outputs = append(outputs, autograd.Root{Var: v, Grad: grad})
	}
	if x.target.Edge != nil {
		x.decoded(outputs, p)
	} else {
		at := x.row(0, x.target.Vertex)
		x.begin(at.gradient(outputs), at.in(outputs))
	}
	for kind, grad := range pass.Backward(outputs...) {
		if entry := &x.into.Features[kind]; grad != nil && p.ofFeatures {
			found := make([]float32, len(entry.Inputs))
			x.spread(ColumnBlock{Columns: entry.Columns, Values: found}, grad, 0, nil)
			for k, g := range found {
				entry.Gradients[k] += p.part * g
			}
		}
		grad.Release()
	}
	if p.ofEdges {
		call.Edges.EachMaskGradient(func(e edges.MaskGradient) {
			g := e.Gradient
			if g == 0 && x.whole {
				return
			}
			e.Gradient = 0
			x.sums[e] += float64(p.part) * float64(g)
		})
	}
	call.Release()
	x.Params.ZeroGrad()
}
