// Package order decides, for each layer that computes Â(xW), which product comes first: transform first,
// Â(xW), or aggregate first, (Âx)W. It compares the costs of both. It also keeps aggregated input features,
// which are the same in every epoch. Each axis asks it before an aggregation with a weight.
package order

import (
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/suggest"
	"weft/tensor"
)

// Choice says how a layer finds its order of work.
type Choice uint8

// Auto takes the cheaper order. The other choices hold if the input allows them: sparse features are always
// transformed first.
const (
	Auto Choice = iota
	TransformFirst
	AggregateFirst
	// Embeddings is for layers whose input is kept as history over epochs. An input that depends on
	// parameters is aggregated first, so that the history holds embeddings and not their product with a
	// weight. Features are transformed first. The code of GNNPipe's authors has this order. No setting has
	// this name.
	Embeddings
)

// Names are the names of the choices; Embeddings has none.
var Names = []string{Auto: "auto", TransformFirst: "transform-first", AggregateFirst: "aggregate-first"}

func (c Choice) String() string { return Names[c] }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Choice) UnmarshalText(text []byte) error { return suggest.Parse(c, text, Names) }

// Options are the settings of all layers of a worker.
type Options struct {
	// Choice says how each layer finds its order of work.
	Choice Choice
	// Explain is called once for each layer, in its first forward pass, with its module path and what it
	// does. It may be nil.
	Explain func(path, what string)
}

// Axis is the axis of parallelism that aggregates.
type Axis interface {
	// Aggregate returns the linear aggregation Â·x and records it on x's tape.
	Aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var
	// Rows returns the rows that an aggregation of x results in.
	Rows(x *autograd.Var) *autograd.RowSet
	// AggregateInto computes z = Â·x and records nothing.
	AggregateInto(z *tensor.Matrix, x *autograd.Var, r gnn.Reduce)
}

// Costs is a worker's table of what each order of work costs. All layers of the worker share it.
type Costs struct {
	o         Options
	moved     func(columns int) int64
	explained map[string]bool  // the layers that Explain has named, by module path
	retired   []*tensor.Matrix // aggregated features that newer ones have replaced
}

// NewCosts makes the table of an axis. moved returns the bytes that all workers send to redistribute so many
// columns, in one pass of an aggregation. Computation and bytes both grow with columns × passes, so the order
// with the smaller product is the cheaper one. If moved is nil, nothing is redistributed, and the order that
// aggregates fewer columns is the cheaper one.
func NewCosts(o Options, moved func(columns int) int64) *Costs {
	return &Costs{o: o, moved: moved, explained: map[string]bool{}}
}

// BeginEpoch releases the features that were replaced. The tapes of the last epoch must no longer be in use.
func (c *Costs) BeginEpoch() {
	for _, m := range c.retired {
		m.Release()
	}
	c.retired = nil
}

// Layer is a layer that aggregates.
type Layer struct {
	Path string // its module path
	// Moved is NewCosts' moved for this layer.
	Moved func(columns int) int64
	costs *Costs
	once  map[aggregated]aggregatedOnce
}

// Layer makes the layer of that module path.
func (c *Costs) Layer(path string) *Layer {
	return &Layer{Path: path, Moved: c.moved, costs: c, once: map[aggregated]aggregatedOnce{}}
}

// aggregated is the key of what is computed once: the aggregation, and the rows of its input, such as those
// of a chunk.
type aggregated struct {
	by   gnn.Reduce
	rows *autograd.RowSet
}

// aggregatedOnce is a constant input and its aggregation. A new input replaces both.
type aggregatedOnce struct {
	input, value *tensor.Matrix
}

// Explain passes on what the layer does, at the first call for its module path.
func (l *Layer) Explain(what func() string) {
	if c := l.costs; c.o.Explain != nil && !c.explained[l.Path] {
		c.explained[l.Path] = true
		c.o.Explain(l.Path, what())
	}
}

// AggregateLinear computes Â(xW) = (Âx)W, for x rows × in and w in × out. It transforms sparse features
// first. It aggregates a dense input that is the same in every epoch only once, unless it would have to keep
// a matrix more than twice as wide as the output. For other inputs it takes the order of the Choice, or the
// cheaper order.
func (l *Layer) AggregateLinear(a Axis, x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	in := x.Cols()
	out := w.Cols()
	costs := l.costs
	training := x.Tape().Training // it is also set in a forward pass that the backward pass computes again
	transform := option{TransformFirst, in, out, passes(training)}
	aggregate := option{AggregateFirst, in, out, passes(training && x.DependsOnParameters())}
	once := option{AggregateFirst, in, out, 0}
	takes := func(taken, instead option) {
		l.Explain(func() string { return taken.String() + l.instead(instead) })
	}
	switch choice := costs.o.Choice.resolve(x); {
	case x.Sparse() != nil:
		l.Explain(func() string { return "transform the sparse features, then aggregate" })
	case x.Fixed() && (choice == AggregateFirst || choice == Auto && in <= 2*out):
		takes(once, transform)
		return autograd.Linear(l.aggregateOnce(a, x, r), w)
	case choice == AggregateFirst || choice == Auto && l.cost(aggregate) < l.cost(transform):
		takes(aggregate, transform)
		return autograd.Linear(a.Aggregate(x, r), w)
	case x.Fixed():
		takes(transform, once)
	default:
		takes(transform, aggregate)
	}
	return transformed(a, x, w, r)
}

// resolve returns the choice for an input: Embeddings depends on it, and other choices do not.
func (c Choice) resolve(x *autograd.Var) Choice {
	switch {
	case c != Embeddings:
		return c
	case x.DependsOnParameters():
		return AggregateFirst
	}
	return TransformFirst
}

// option is an order of work: what comes first, the columns before and after the transformation, and how many
// passes over the edges an epoch makes.
type option struct {
	first           Choice
	in, out, passes int
}

// passes counts an epoch's passes over the edges: one forward, and one backward if the input needs a
// gradient.
func passes(backward bool) int {
	if backward {
		return 2
	}
	return 1
}

// columns returns how many columns are aggregated.
func (o option) columns() int {
	if o.first == TransformFirst {
		return o.out
	}
	return o.in
}

func (o option) String() string {
	switch {
	case o.first == TransformFirst:
		return fmt.Sprintf("transform %d columns to %d, then aggregate", o.in, o.out)
	case o.passes == 0:
		return "aggregate the features once, then transform in every epoch"
	}
	return fmt.Sprintf("aggregate %d columns, then transform to %d", o.in, o.out)
}

// cost is the number by which options are compared.
func (l *Layer) cost(o option) int {
	if l.Moved == nil {
		return o.columns()
	}
	return o.columns() * o.passes
}

// instead describes what the other option would send.
func (l *Layer) instead(o option) string {
	if l.Moved == nil {
		return ""
	}
	return fmt.Sprintf(" (%v: %s)", o, Moved(int64(o.passes)*l.Moved(o.columns())))
}

// Moved describes how many bytes all workers send between layouts in an epoch.
func Moved(bytes int64) string { return fmt.Sprintf("%.3g MB between layouts", float64(bytes)/1e6) }

// transformed computes Â(xW) and releases xW.
func transformed(a Axis, x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	xw := autograd.Linear(x, w)
	z := a.Aggregate(xw, r)
	xw.Drop()
	return z
}

// aggregateOnce returns Âx from an earlier epoch. It computes it if x is another matrix than then.
func (l *Layer) aggregateOnce(a Axis, x *autograd.Var, r gnn.Reduce) *autograd.Var {
	key := aggregated{r, x.RowSet()}
	kept, ok := l.once[key]
	if !ok || kept.input != x.Value() {
		l.costs.retired = append(l.costs.retired, kept.value) // a tape of this epoch may still read it
		kept = aggregatedOnce{x.Value(), x.Tape().Memory().NewElement(tensor.Features, x.Element(),
			a.Rows(x).Here, x.Cols())}
		a.AggregateInto(kept.value, x, r)
		kept.value.SetReadOnly()
		l.once[key] = kept
	}
	return x.Tape().Fixed(kept.value, a.Rows(x))
}

// Aggregation describes an aggregation of so many columns.
func Aggregation(columns int, k gnn.Rounds) string {
	return fmt.Sprintf("aggregate %d columns", columns) + times(k)
}

// Attention describes softmax attention.
func Attention(a gnn.Attention, k gnn.Rounds) string {
	return fmt.Sprintf("attend with %d heads of %d columns", a.Heads, a.Source.Cols()/a.Heads) + times(k)
}

// times says how often an aggregation is applied, if more than once.
func times(k gnn.Rounds) string {
	if k.Count < 2 {
		return ""
	}
	return fmt.Sprintf(", %d times", k.Count)
}
