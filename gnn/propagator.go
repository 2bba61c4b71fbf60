// Package gnn builds graph neural networks. Layers never know how the graph is divided: they reach along
// edges only through a Propagator, and every way of dividing the work is one implementation of it.
package gnn

import (
	"fmt"

	"weft/autograd"
	"weft/internal/refusal"
	"weft/nn"
)

// Reduce is an aggregation over in-neighbours, duplicates counted: z_i = ⊕_{j→i} x_j, and Self·x_i in a sum
// or mean.
type Reduce struct {
	Kind ReduceKind
	// Self is the weight of the vertex's own row, besides stored self loops: with KindSum a factor, with
	// KindMean how often it is one of those whose mean is taken.
	Self float32
}

// ReduceKind names the aggregation.
type ReduceKind uint8

// The aggregations. A vertex without in-neighbours gets zeros.
const (
	KindSum  ReduceKind = iota
	KindMean            // (Σ x_j + Self·x_i) / (in-degree + Self)
	KindMax             // the largest of each column
	// KindSymmetric is GCN's normalisation (Kipf & Welling 2017): Σ_j w_ij / √(d_i·d_j) · x_j, with one self
	// loop for every vertex (stored ones are merged into it) and d the weighted in-degree on both sides, loop
	// included, as PyG computes it on directed graphs. It uses edge weights.
	KindSymmetric
	// KindSymmetricNoLoops is the same without adding self loops; stored ones count as edges.
	KindSymmetricNoLoops
)

// The aggregations as values.
var (
	Sum              = Reduce{Kind: KindSum}
	Mean             = Reduce{Kind: KindMean}
	Max              = Reduce{Kind: KindMax}
	Symmetric        = Reduce{Kind: KindSymmetric}
	SymmetricNoLoops = Reduce{Kind: KindSymmetricNoLoops}
)

// Rounds are an aggregation Â applied several times, or not at all (the zero value): H⁰ = x, Hᵏ⁺¹ =
// (1−Teleport)·Â·Hᵏ + Teleport·x, until Hᶜᵒᵘⁿᵗ. With a Teleport above 0 that is APPNP's propagation
// (Gasteiger et al. 2019, equation 4).
type Rounds struct {
	Count    int
	Teleport float64
}

// Once is one round.
var Once = Rounds{Count: 1}

// Of runs the rounds from x, where step is one aggregation. A step may leave its argument to be dropped with
// the scope, and must not give it away.
func (k Rounds) Of(x *autograd.Var, step func(h *autograd.Var) *autograd.Var) *autograd.Var {
	h := x
	for range k.Count {
		next := step(h)
		if h != x {
			h.Drop()
		}
		h = next
		if k.Teleport > 0 {
			h = autograd.Combine(float32(k.Teleport), x, float32(1-k.Teleport), h)
		}
	}
	return h
}

// Propagator moves vertex rows along the edges of one relation. A model holds one for each place where it
// aggregates, keyed by that place's module path ("convs.1"), because caches and masks belong to a place.
type Propagator interface {
	// AggregateLinear is Â(xW) = (Âx)W, for x rows × in (dense, or sparse input features) and w in × out:
	// rows × out. The implementation picks the order of work. The aggregation must be linear: not Max.
	AggregateLinear(x, w *autograd.Var, r Reduce) *autograd.Var
	// Propagate applies the aggregation in rounds: rows × the columns of x.
	Propagate(x *autograd.Var, r Reduce, k Rounds) *autograd.Var
	// Attend is softmax attention over in-edges, in rounds: rows × Heads·Width. More than one round needs
	// given scores: the coefficients are theirs in every round, also where they are dropped. No tensor with
	// an entry for each edge is kept.
	Attend(a Attention, k Rounds) *autograd.Var
	// Message aggregates the messages of a function of the caller's own: rows × Columns. Only some edges'
	// messages exist at a time.
	Message(m Message) *autograd.Var
}

// Attention describes softmax attention over in-edges, per head:
//
//	GATv1 (Veličković et al. 2018): s_ij = LeakyReLU(aSource·source_j + aTarget·target_i), Target is Source
//	GATv2 (Brody et al. 2022):      s_ij = aSource·LeakyReLU(source_j + target_i), ATarget nil
//	z_i = Σ_j softmax_j(s_ij)·source_j
//
// GATv1's two products may also be given, as scores that were computed elsewhere; Target, ASource and ATarget
// are then nil, and no two of Source and the scores are one value.
type Attention struct {
	Source, Target           *autograd.Var // rows × Heads·Width
	ASource, ATarget         *autograd.Var // 1 × Heads·Width
	SourceScore, TargetScore *autograd.Var // rows × Heads: aSource·source_j and aTarget·target_i, nil: not given
	Heads                    int
	// FirstHead is which of a layer's heads the first one here is, where Source is a slice of its columns,
	// and LayerHeads how many the layer has (0: these are all): dropout and the order of sums are those of
	// the whole.
	FirstHead, LayerHeads int
	Slope                 float64 // of LeakyReLU
	Dropout               float64 // probability with which a coefficient is dropped
	// SelfLoops: stored self loops are replaced by one for each vertex; otherwise they count as edges
	SelfLoops bool
}

// CheckScores panics where given scores at a site are one value, or are the rows: its gradient would have two
// writers.
func (a Attention) CheckScores(path string) {
	if s := a.SourceScore; s != nil && (s == a.TargetScore || s == a.Source || a.TargetScore == a.Source) {
		panic(fmt.Sprintf("gnn: %s attends with one value in two places: Source, SourceScore and TargetScore are three", path))
	}
}

// EachRound runs rounds of a, where once is one of them.
func (a Attention) EachRound(k Rounds, once func(a Attention) *autograd.Var) *autograd.Var {
	if k != Once && a.SourceScore == nil {
		panic("gnn: rounds of attention are those of scores that are given")
	}
	return k.Of(a.Source, func(h *autograd.Var) *autograd.Var {
		a.Source = h
		return once(a)
	})
}

// Message describes a message function: z_i = ⊕_{j→i} f(source_j, target_i, w_ji).
type Message struct {
	Source *autograd.Var // rows × any columns: what a vertex sends
	Target *autograd.Var // rows × any columns: what its receiver knows; nil: nothing
	// Function computes the messages of some edges, a row for each: edges × Columns. It is called for a few
	// thousand edges at a time, and again in the backward pass, and must depend on nothing but its argument
	// and Parameters. The result for an edge must depend on that edge's rows alone; batch norm cannot be used
	// in it.
	Function func(e Edges) *autograd.Var
	// Parameters are those that Function puts on its tape (Param.On(e.Tape)); it may use no others.
	Parameters []*nn.Param
	Columns    int
	// Columnwise says that column c of the messages depends on column c of source and target, and on the
	// edge's weight, alone, so that a slice of the columns may be computed apart. Source and Target then have
	// as many Columns as the messages, and there are no Parameters.
	Columnwise bool
	// FirstColumn is which of a layer's columns the first one here is, where these are a slice.
	FirstColumn int
	// KindSum, KindMean or KindMax; among equal messages the source with the smallest id wins
	Reduce ReduceKind
	// SelfLoops: stored self loops are replaced by one for each vertex; otherwise they count as edges
	SelfLoops bool
}

// Check says why the messages of a site, which lead to rows of so many targets, cannot be computed: nil, or a
// refusal.
func (m Message) Check(path string, targets int) error {
	refuse := func(format string, args ...any) error {
		return refusal.Errorf("%s: a message function %s", path, fmt.Sprintf(format, args...))
	}
	switch {
	case m.Source == nil || m.Function == nil:
		return refuse("is nothing without sources; set Message.Source and Message.Function")
	case m.Columns < 1:
		return refuse("has messages of %d columns; set Message.Columns", m.Columns)
	case m.Target != nil && m.Target.Rows() != targets:
		return refuse("has rows of %d targets for the worker's %d vertices; give a row for each", m.Target.Rows(), targets)
	case m.Reduce != KindSum && m.Reduce != KindMean && m.Reduce != KindMax:
		return refuse("has messages that are aggregated as none can be; take KindSum, KindMean or KindMax")
	case !m.Columnwise:
	case len(m.Parameters) > 0:
		return refuse("that is said to be columnwise has %d parameters, which belong to all columns; leave Columnwise out", len(m.Parameters))
	case m.Source.Cols() != m.Columns:
		return refuse("that is said to be columnwise has messages of %d columns and sources of %d; make them equal", m.Columns, m.Source.Cols())
	case m.Target != nil && m.Target.Cols() != m.Columns:
		return refuse("that is said to be columnwise has messages of %d columns and targets of %d; make them equal", m.Columns, m.Target.Cols())
	}
	return nil
}

// Edges are some edges as a message function sees them.
type Edges struct {
	Tape   *autograd.Tape // where the function's operations are recorded
	Source *autograd.Var  // edges × columns of Message.Source
	Target *autograd.Var  // edges × columns of Message.Target, nil without it
	// Weight: edges × 1: the edges' weights, 1 for added self loops; nil where the relation has none
	Weight *autograd.Var
	// FirstColumn is Message.FirstColumn: a columnwise function masks with
	// nn.Dropout.Mask(…).From(FirstColumn), so that a slice has the mask of the whole.
	FirstColumn int
}

// Along is a way along the graph's edges.
type Along struct {
	Relation string // the name of one of Schema.Relations
	Reversed bool   // from the target of each edge to its source: "in-neighbours" are then the out-neighbours
}

// Propagators makes the Propagator of a place. A relation that the graph does not have panics.
type Propagators func(path string, along Along) Propagator
