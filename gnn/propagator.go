// Package gnn builds graph neural networks. Layers do not know how the graph is divided: they aggregate along
// edges only through a Propagator, and each axis of parallelism implements one.
//
// Package setting asks a Spec for the blocks of a model, or takes those of a Go user. Package engine builds
// them on a worker.
package gnn

import (
	"cmp"
	"fmt"
	"slices"

	"weft/autograd"
	"weft/internal/refusal"
	"weft/nn"
)

// Reduce is an aggregation over in-neighbours: z_i = ⊕_{j→i} x_j, and Self·x_i in a sum or mean. A neighbour
// counts once for each of its edges.
type Reduce struct {
	Kind ReduceKind
	// Loops says which self loops count as edges. KindSymmetric does not use it.
	Loops Loops
	// Weighted multiplies the rows of a sum or mean by the weights of their edges: 1 for added loops, and in
	// a relation without weights. A mean is still divided by the number of edges.
	Weighted bool
	// Unweighted leaves the weights of edges out of a normalisation, as in a relation without weights.
	Unweighted bool
	// Self is the weight of the vertex's own row, in addition to stored self loops. In a sum it is a factor.
	// In a mean it is how many times the row is counted.
	Self float32
}

// ReduceKind names the aggregation.
type ReduceKind uint8

// The aggregations. A vertex without in-neighbours gets zeros.
const (
	KindSum  ReduceKind = iota
	KindMean            // (Σ x_j + Self·x_i) / (in-degree + Self)
	KindMax             // the largest of each column
	KindMin             // the smallest of each column
	// KindSymmetric is GCN's normalisation (Kipf & Welling 2017): Σ_j w_ij / √(d_i·d_j) · x_j. Every vertex
	// has one self loop; stored ones are merged into it. d is the weighted in-degree with that loop, for both
	// ends, as PyG computes it on directed graphs. It uses edge weights.
	KindSymmetric
	// KindSymmetricNoLoops has the loops of Reduce.Loops: by default stored ones count as edges.
	KindSymmetricNoLoops
)

// Linear reports whether the aggregation is a matrix.
func (r Reduce) Linear() bool { return r.Kind != KindMax && r.Kind != KindMin }

// Loops says which self loops count as edges.
type Loops uint8

// The self loops. In a relation between two vertex types there are none, and none can be added.
const (
	StoredLoops  Loops = iota // the loops that the graph stores
	RemovedLoops              // no loops: stored ones are left out
	OneLoop                   // one for each vertex; stored ones are left out
	AddedLoops                // the loops that the graph stores, and one more for each vertex
	// Only for message functions. There are no other edges than the loops that the graph stores, or than the
	// last of each vertex.
	OnlyLoops
	LastLoops
)

// Keep reports whether stored loops are edges.
func (l Loops) Keep() bool { return l == StoredLoops || l == AddedLoops }

// Only reports whether there are no other edges.
func (l Loops) Only() bool { return l == OnlyLoops || l == LastLoops }

// Add reports whether each vertex gets a loop that the graph does not store.
func (l Loops) Add() bool { return l == OneLoop || l == AddedLoops }

// Count returns how many loops a vertex with so many stored ones has.
func (l Loops) Count(stored int) (n int) {
	if l.Keep() {
		n = stored
	}
	if l.Add() {
		n++
	}
	return n
}

// Reductions that layers use.
var (
	Sum              = Reduce{Kind: KindSum}
	Mean             = Reduce{Kind: KindMean}
	Max              = Reduce{Kind: KindMax}
	Symmetric        = Reduce{Kind: KindSymmetric}
	SymmetricNoLoops = Reduce{Kind: KindSymmetricNoLoops}
)

// Rounds applies an aggregation Â several times, or not at all (the zero value): H⁰ = x, Hᵏ⁺¹ =
// (1−Teleport)·Â·Hᵏ + Teleport·x, until Hᶜᵒᵘⁿᵗ. With a Teleport above 0 it is APPNP's propagation (Gasteiger
// et al. 2019, equation 4).
type Rounds struct {
	Count    int
	Teleport float64
}

// Once is one round.
var Once = Rounds{Count: 1}

// Run runs the rounds from x. step computes one aggregation. It must not give its argument away, and need not
// drop it: the scope does.
func (k Rounds) Run(x *autograd.Var, step func(h *autograd.Var) *autograd.Var) *autograd.Var {
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

// Propagator aggregates vertex rows along the edges of one relation, in one direction. A model holds one
// Propagator for each layer that aggregates, made for the layer's module path ("convs.1"): caches and dropout
// masks belong to a layer.
type Propagator interface {
	// AggregateLinear returns Â(xW) = (Âx)W, for x rows × in (dense, or sparse input features) and w in ×
	// out: rows × out. The implementation chooses the order of work. The aggregation must be Linear.
	AggregateLinear(x, w *autograd.Var, r Reduce) *autograd.Var
	// Propagate applies the aggregation in rounds: rows × the columns of x.
	Propagate(x *autograd.Var, r Reduce, k Rounds) *autograd.Var
	// Attend computes softmax attention over in-edges, in rounds: rows × Heads·Width. Several rounds need
	// given scores: every round uses the same coefficients, of which dropout drops the same ones. No tensor
	// with an entry for each edge is kept.
	Attend(a Attention, k Rounds) *autograd.Var
	// Message aggregates the messages of the caller's function: rows × Columns. The messages of only some
	// edges exist at a time.
	Message(m Message) *autograd.Var
	// ApplyEdges computes the messages of the caller's function and keeps them: a row for each edge, in the
	// order of Message.EdgeRows. Reduce and Columnwise have no effect. Intermediate values of the function
	// exist for some edges at a time.
	ApplyEdges(m Message) *autograd.Var
}

// Attention describes softmax attention over in-edges, per head:
//
//	GATv1 (Veličković et al. 2018): s_ij = LeakyReLU(aSource·source_j + aTarget·target_i), Target is Source
//	GATv2 (Brody et al. 2022):      s_ij = aSource·LeakyReLU(source_j + target_i), ATarget nil
//	dot products (Shi et al. 2021): s_ij = target_i·key_j, where Key is given
//	softmax aggregation (Li et al. 2020): s_ij = t·source_j, where InverseTemperature is t
//	z_i = Σ_j softmax_j(s_ij)·source_j
//
// In softmax aggregation each column is a head: Heads is the columns of Source. It takes Source and
// InverseTemperature alone, one round, no dropout and no features of edges.
//
// The features e_ji of the edges count where EdgeVector (GATv1) or EdgeWeight (others) is given:
// e_ji·EdgeVector is added to GATv1's score before LeakyReLU, e_ji·EdgeWeight to source_j + target_i in
// GATv2, and with dot products to key_j and to source_j. With OneLoop, a vertex's loop has the means of the
// features of its other in-edges, or zeros if there are none. With AddedLoops, added loops have no features.
//
// The caller may also give GATv1's two products as scores. Target, ASource and ATarget are then nil, and
// Source, SourceScore and TargetScore must be three different values; so must Source, Key and Target.
type Attention struct {
	Source, Target, Key *autograd.Var // rows × Heads·Width
	ASource, ATarget    *autograd.Var // 1 × Heads·Width
	// 1 × Heads: of softmax aggregation
	InverseTemperature *autograd.Var
	// rows × Heads: aSource·source_j and aTarget·target_i; nil: computed
	SourceScore, TargetScore *autograd.Var
	// columns of the edges' features × Heads; of GATv1; nil: it does not use them
	EdgeVector *autograd.Var
	// columns of the edges' features × Heads·Width; of the other forms; nil: they do not use them
	EdgeWeight *autograd.Var
	Heads      int
	// FirstHead is the index of the first head in the layer, if Source is a slice of the layer's columns.
	// LayerHeads is how many heads the layer has; 0: Heads. The slice has the dropout and the order of sums
	// of the whole layer.
	FirstHead, LayerHeads int
	Slope                 float64 // slope of LeakyReLU
	Dropout               float64 // probability that a coefficient is dropped
	Loops                 Loops
}

// OfFeatures returns EdgeVector or EdgeWeight, whichever is set; nil: features of edges are not used.
func (a Attention) OfFeatures() *autograd.Var { return cmp.Or(a.EdgeVector, a.EdgeWeight) }

// CheckScores panics if two of the given scores and rows, or two of Source, Key and Target, are the same
// value: its gradient would have two writers.
func (a Attention) CheckScores(path string) {
	if k := a.Key; k != nil && (k == a.Target || k == a.Source || a.Target == a.Source) {
		panic(fmt.Sprintf("gnn: %s attends with one value in two places: Source, Key and Target are three",
			path))
	}
	if s := a.SourceScore; s != nil && (s == a.TargetScore || s == a.Source || a.TargetScore == a.Source) {
		panic(fmt.Sprintf("gnn: %s attends with one value in two places: Source, SourceScore and "+
			"TargetScore are three", path))
	}
}

// WithScores returns a with the given scores in Float32.
func (a Attention) WithScores() Attention {
	if a.SourceScore != nil {
		a.SourceScore, a.TargetScore = autograd.Float32(a.SourceScore), autograd.Float32(a.TargetScore)
	}
	return a
}

// EachRound runs k rounds of a; once computes one round.
func (a Attention) EachRound(k Rounds, once func(a Attention) *autograd.Var) *autograd.Var {
	if k != Once && a.SourceScore == nil {
		panic("gnn: rounds of attention are those of scores that are given")
	}
	return k.Run(a.Source, func(h *autograd.Var) *autograd.Var {
		a.Source = h
		return once(a)
	})
}

// Message describes a message function: z_i = ⊕_{j→i} f(source_j, target_i, w_ji, e_ji).
type Message struct {
	// rows × any columns: what a vertex sends, and what the receiver knows. One of them may be nil.
	Source, Target *autograd.Var
	// SourceParts and TargetParts are for a Source and a Target that are several values side by side: the
	// columns of each value. Function then gets each value by itself, in Edges.Sources and Edges.Targets.
	// nil: it gets one value.
	SourceParts, TargetParts []int
	// EdgeRows are results of ApplyEdges that Function reads: of this relation and direction, on this tape.
	EdgeRows []EdgeRows
	// Counted says that ApplyEdges counts the rows over all workers, as norms over all edges need.
	Counted bool
	// Function computes the messages of some edges, one row for each: edges × Columns. It is called for a few
	// thousand edges at a time, and again in the backward pass. Its result must depend only on its argument
	// and Parameters. The message of an edge must depend on that edge's rows alone, so Function cannot use
	// batch norm.
	Function func(e Edges) *autograd.Var
	// Parameters are the parameters that Function puts on its tape (Param.On(e.Tape)). It must use no others.
	Parameters []*nn.Param
	Columns    int
	// Columnwise says that column c of the messages depends only on column c of source and target and on the
	// edge's weight and features. A slice of the columns can then be computed separately. Source, Target and
	// Parameters must have as many Columns as the messages. Function takes its part of a parameter by
	// Edges.Slice.
	Columnwise bool
	// FirstColumn is the index of the first column in the layer, if these columns are a slice of it.
	FirstColumn int
	// KindSum, KindMean, KindMax or KindMin. Among equal messages the source with the smallest id wins.
	Reduce ReduceKind
	Loops  Loops
	// Unmasked says that masks of edges do not change these messages. The caller divides other messages by
	// their sum.
	Unmasked bool
	// Reads are further values on the tape that Function reads. No gradient flows through them.
	Reads []*autograd.Var
}

// EdgeRows are rows of edges that ApplyEdges made, and the Loops of its Message.
type EdgeRows struct {
	*autograd.Var
	Loops Loops
}

// Ends returns Source and Target, without nil.
func (m Message) Ends() (ends []*autograd.Var) {
	for _, v := range []*autograd.Var{m.Source, m.Target} {
		if v != nil {
			ends = append(ends, v)
		}
	}
	return ends
}

// Check returns a refusal if the messages cannot be computed, and nil otherwise. The refusal names the layer
// by its module path. targets is the number of rows of the result.
func (m Message) Check(path string, targets int) error {
	refuse := func(format string, args ...any) error {
		return refusal.Errorf("%s: a message function %s", path, fmt.Sprintf(format, args...))
	}
	switch {
	case len(m.Ends()) == 0 || m.Function == nil:
		return refuse("is nothing without rows; set Message.Source or Message.Target, and Message.Function")
	case m.Loops.Only() && m.Source != nil:
		return refuse("has sources for loops, whose source is the target; set Message.Target")
	case len(m.EdgeRows) > 0 && m.Loops == LastLoops:
		return refuse("reads rows of edges for each vertex's last loop, which has none; set Message.Target")
	case m.Columns < 1:
		return refuse("has messages of %d columns; set Message.Columns", m.Columns)
	case m.Target != nil && m.Target.Rows() != targets:
		return refuse("has rows of %d targets for the worker's %d vertices; give a row for each",
			m.Target.Rows(), targets)
	case !addUp(m.SourceParts, m.Source) || !addUp(m.TargetParts, m.Target):
		return refuse("has parts of other columns than Message.Source or Message.Target; make them add up")
	case m.Reduce > KindMin:
		return refuse("has messages that are aggregated as none can be; take KindSum, KindMean, KindMax or " +
			"KindMin")
	case !m.Columnwise:
	case slices.ContainsFunc(m.Parameters, func(q *nn.Param) bool { return q.Value.Cols != m.Columns }):
		return refuse("that is said to be columnwise has messages of %d columns and a parameter of "+
			"another number; leave Columnwise out", m.Columns)
	case m.Source != nil && m.Source.Cols() != m.Columns:
		return refuse("that is said to be columnwise has messages of %d columns and sources of %d; "+
			"make them equal", m.Columns, m.Source.Cols())
	case m.Target != nil && m.Target.Cols() != m.Columns:
		return refuse("that is said to be columnwise has messages of %d columns and targets of %d; "+
			"make them equal", m.Columns, m.Target.Cols())
	}
	return nil
}

// addUp reports whether the parts add up to the columns of a value. Parts that are nil always do.
func addUp(parts []int, value *autograd.Var) bool {
	sum := 0
	for _, columns := range parts {
		sum += columns
	}
	return parts == nil || value != nil && sum == value.Cols()
}

// Edges are some edges, as a message function sees them.
type Edges struct {
	Tape *autograd.Tape // where the function's operations are recorded
	// edges × columns of Message.Source and of Message.Target, or the first part of each; nil where these are
	// nil
	Source, Target   *autograd.Var
	Sources, Targets []*autograd.Var // all parts, or the one value
	Rows             []*autograd.Var // these edges' rows of Message.EdgeRows
	// Loops says that these are added self loops. Otherwise all of them are edges of the graph.
	Loops bool
	// Weight (edges × 1) holds the edges' weights, 1 for added self loops; nil if the relation has no weights
	Weight *autograd.Var
	// Features (edges × columns) holds the features of the edges; nil if the relation has none, if no
	// BlockSpec.EdgeFeatures asks for them, and along reversed edges, because features are stored for the
	// edges in their own direction. An added self loop has the means of the features of the vertex's
	// in-edges, stored loops excepted.
	Features *autograd.Var
	// FirstColumn is Message.FirstColumn. A columnwise function masks with
	// nn.Dropout.Mask(…).From(FirstColumn), so that a slice has its part of the layer's mask.
	FirstColumn int
}

// Slice returns the columns of w that belong to the columns of these edges. w has a column for each column of
// the layer, as the parameters of a columnwise function do.
func (e Edges) Slice(w *autograd.Var) *autograd.Var {
	n := cmp.Or(e.Source, e.Target).Cols()
	if n == w.Cols() {
		return w
	}
	return autograd.Columns(w, e.FirstColumn, n)
}

// Along is a relation and an edge direction.
type Along struct {
	Relation string // the name of one of Schema.Relations
	// from the target of each edge to its source: the in-neighbours are then the out-neighbours
	Reversed bool
}

// Propagators makes the Propagator of the layer with that module path. It panics if the graph does not have
// the relation.
type Propagators func(path string, along Along) Propagator

// Slicer redistributes vertex rows into slices of columns, for functions of several aggregations in which
// each column depends on that column alone.
type Slicer interface {
	// OnSlices returns f(x), rows × the columns of x of the first vertex type. x has the rows of each vertex
	// type, or nil, all with the same number of columns. f is given a slice of each, and returns a slice of
	// the first vertex type.
	OnSlices(path string, x []*autograd.Var, f func(x []*autograd.Var) *autograd.Var) *autograd.Var
	// SlicePropagator makes a Propagator for use in f. It panics as Propagators does.
	SlicePropagator(path string, along Along) Propagator
}
