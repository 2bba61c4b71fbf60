// Package order decides, at each place of a model, whether rows are transformed or aggregated first where
// both give Â(xW), and keeps what is aggregated once.
package order

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/tensor"
)

// Choice is how the order is found.
type Choice uint8

// Auto takes the cheaper order; the others are taken wherever the input allows them: sparse features are
// always transformed first.
const (
	Auto Choice = iota
	TransformFirst
	AggregateFirst
	// Embeddings is for aggregations whose input is kept over epochs: what parameters made is aggregated
	// first, so that what is kept are embeddings and no product with a weight; features are transformed
	// first. So is the order of GNNPipe's authors. No setting has its name.
	Embeddings
)

// Names are the choices in words, but for Embeddings.
var Names = []string{Auto: "auto", TransformFirst: "transform-first", AggregateFirst: "aggregate-first"}

// Parse is the choice of that name, one of Names.
func Parse(name string) (Choice, error) {
	i := slices.Index(Names, name)
	if i < 0 {
		return Auto, fmt.Errorf("unknown order of work %q", name)
	}
	return Choice(i), nil
}

// Options are how the sites of a worker work.
type Options struct {
	// Choice is how each finds the order of its work.
	Choice Choice
	// Explain takes for each site, in its first forward pass, what it does; nil: nobody asks.
	Explain func(site, what string)
}

// Axis is what aggregates.
type Axis interface {
	// Aggregate is the linear aggregation Â·x on x's tape.
	Aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var
	// Rows are those of the result of an aggregation of x.
	Rows(x *autograd.Var) *autograd.RowSet
	// AggregateInto is z = Â·x without a tape.
	AggregateInto(z *tensor.Matrix, x *autograd.Var, r gnn.Reduce)
}

// Book is what the sites of a worker have in common.
type Book struct {
	o         Options
	moved     func(columns int) int64
	explained map[string]bool  // the sites
	retired   []*tensor.Matrix // aggregated features that others took the place of
}

// NewBook is one of an axis on which a pass of an aggregation of so many columns moves that many bytes
// between layouts, of all workers. Work and bytes grow with columns and passes, and so the smaller product is
// cheaper. moved nil: nothing is moved between layouts, and the narrower rows are cheaper.
func NewBook(o Options, moved func(columns int) int64) *Book {
	return &Book{o: o, moved: moved, explained: map[string]bool{}}
}

// BeginEpoch says that no tape of the epoch before is read any more.
func (b *Book) BeginEpoch() {
	for _, m := range b.retired {
		m.Release()
	}
	b.retired = nil
}

// Site is a place of a model that aggregates.
type Site struct {
	Path string
	book *Book
	once map[aggregated]first
}

// Site is the book's at a path.
func (b *Book) Site(path string) *Site {
	return &Site{Path: path, book: b, once: map[aggregated]first{}}
}

// aggregated is what is computed once: an aggregation of an input of these rows, as those of a chunk.
type aggregated struct {
	by   gnn.Reduce
	rows *autograd.RowSet
}

// first is the aggregation of an input that stays the same over the epochs, computed once. That of another
// input takes its place, once no pass reads it any more.
type first struct {
	of, value *tensor.Matrix
}

// Explain says what the site does, the first time.
func (s *Site) Explain(what func() string) {
	if b := s.book; b.o.Explain != nil && !b.explained[s.Path] {
		b.explained[s.Path] = true
		b.o.Explain(s.Path, what())
	}
}

// AggregateLinear is Â(xW) = (Âx)W. Sparse features are transformed first. A dense input that stays the same
// over the epochs is aggregated once, unless that would keep a matrix more than twice as wide as the output.
// Elsewhere the cheaper order is taken, or that of the Choice.
func (s *Site) AggregateLinear(a Axis, x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	in, out, b := x.Cols(), w.Cols(), s.book
	transform := option{TransformFirst, in, out, passes(x.Tape().Recording)}
	aggregate := option{AggregateFirst, in, out, passes(x.Wants())}
	once := option{AggregateFirst, in, out, 0}
	takes := func(taken, instead option) {
		s.Explain(func() string { return taken.String() + b.instead(instead) })
	}
	switch choice := b.o.Choice.of(x); {
	case x.Sparse() != nil:
		s.Explain(func() string { return "transform the sparse features, then aggregate" })
	case x.Fixed() && (choice == AggregateFirst || choice == Auto && in <= 2*out):
		takes(once, transform)
		return autograd.Linear(s.aggregateOnce(a, x, r), w)
	case choice == AggregateFirst || choice == Auto && b.weight(aggregate) < b.weight(transform):
		takes(aggregate, transform)
		return autograd.Linear(a.Aggregate(x, r), w)
	case x.Fixed():
		takes(transform, once)
	default:
		takes(transform, aggregate)
	}
	return transformed(a, x, w, r)
}

// of is what the choice comes to for an input.
func (c Choice) of(x *autograd.Var) Choice {
	switch {
	case c != Embeddings:
		return c
	case x.Learned():
		return AggregateFirst
	}
	return TransformFirst
}

// option is an order of work: what comes first, the columns before and after the transformation, and how
// often an epoch goes along the edges.
type option struct {
	first           Choice
	in, out, passes int
}

// passes are how often an epoch goes along the edges: forward, and backward where the input wants a gradient.
func passes(backward bool) int {
	if backward {
		return 2
	}
	return 1
}

// columns are how many are aggregated.
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

// weight is what options are compared by.
func (b *Book) weight(o option) int {
	if b.moved == nil {
		return o.columns()
	}
	return o.columns() * o.passes
}

// instead says what an option that was not taken would move.
func (b *Book) instead(o option) string {
	if b.moved == nil {
		return ""
	}
	return fmt.Sprintf(" (%v: %s)", o, Moved(int64(o.passes)*b.moved(o.columns())))
}

// Moved says in words how many bytes all workers send between layouts in an epoch.
func Moved(bytes int64) string { return fmt.Sprintf("%.3g MB between layouts", float64(bytes)/1e6) }

// transformed is Â(xW), whose xW nobody reads again.
func transformed(a Axis, x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	xw := autograd.Linear(x, w)
	z := a.Aggregate(xw, r)
	xw.Drop()
	return z
}

func (s *Site) aggregateOnce(a Axis, x *autograd.Var, r gnn.Reduce) *autograd.Var {
	key := aggregated{r, x.RowSet()}
	kept, ok := s.once[key]
	if !ok || kept.of != x.Value() {
		s.book.retired = append(s.book.retired, kept.value) // a tape of this epoch may still read it
		kept = first{x.Value(), x.Tape().Memory().New(tensor.Features, a.Rows(x).Here, x.Cols())}
		a.AggregateInto(kept.value, x, r)
		s.once[key] = kept
	}
	return x.Tape().Fixed(kept.value, a.Rows(x))
}

// Aggregation says in words what an aggregation of so many columns does.
func Aggregation(columns int, k gnn.Rounds) string {
	return fmt.Sprintf("aggregate %d columns", columns) + times(k)
}

// Attention says in words what attention does.
func Attention(a gnn.Attention, k gnn.Rounds) string {
	return fmt.Sprintf("attend with %d heads of %d columns", a.Heads, a.Source.Cols()/a.Heads) + times(k)
}

// times says how often an aggregation is made, where that is not once.
func times(k gnn.Rounds) string {
	if k.Count < 2 {
		return ""
	}
	return fmt.Sprintf(", %d times", k.Count)
}
