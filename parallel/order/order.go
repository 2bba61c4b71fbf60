// Package order decides, at each place of a model, whether rows are transformed or aggregated first where
// both give Â(xW), and keeps what is aggregated once.
package order

import (
	"fmt"

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
)

// Names are the choices in words.
var Names = []string{Auto: "auto", TransformFirst: "transform-first", AggregateFirst: "aggregate-first"}

// Parse is the choice of that name.
func Parse(name string) (c Choice, known bool) {
	for i, n := range Names {
		if n == name {
			return Choice(i), true
		}
	}
	return Auto, false
}

// Axis is what aggregates.
type Axis interface {
	// Aggregate is the linear aggregation Â·x on x's tape.
	Aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var
	// AggregateInto is z = Â·x without a tape.
	AggregateInto(z *tensor.Matrix, x *autograd.Var, r gnn.Reduce)
	// Cost is what an aggregation of so many columns costs in an epoch, and is the same on all workers but
	// for Sent; ok is false where the narrower rows are taken without asking.
	Cost(columns int, passes Passes) (c Cost, ok bool)
}

// Passes are how often an epoch goes along the edges for an aggregation: forward, and backward where the
// input wants a gradient.
type Passes int

// The numbers of passes. An aggregation that is kept takes none.
const (
	None               Passes = 0
	Forward            Passes = 1
	ForwardAndBackward Passes = 2
)

func passes(backward bool) Passes {
	if backward {
		return ForwardAndBackward
	}
	return Forward
}

// Cost is what an aggregation costs in an epoch.
type Cost struct {
	Sent, All int64 // bytes, of this worker and of all
	Adds      int64 // multiply-adds along edges, of all workers
	Idle      int   // workers that have no columns of it
}

// below compares by bytes and then by work. Both grow with columns × passes.
func (c Cost) below(d Cost) bool { return c.All < d.All || c.All == d.All && c.Adds < d.Adds }

// Plus is both together.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.Sent + d.Sent, c.All + d.All, c.Adds + d.Adds, max(c.Idle, d.Idle)}
}

func (c Cost) String() string {
	text := fmt.Sprintf("sends %s of %s between layouts", megabytes(c.Sent), megabytes(c.All))
	if c.Idle > 0 {
		text += fmt.Sprintf(", %d workers without columns", c.Idle)
	}
	return text
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.3g MB", float64(bytes)/1e6) }

// Book is what the sites of a worker have in common.
type Book struct {
	choice    Choice
	tell      func(line string)
	explained map[string]bool  // the sites
	retired   []*tensor.Matrix // aggregated features that others took the place of
}

// NewBook is one whose sites find their order in that way. tell takes for each site, in its first forward
// pass, what it does; nil: nobody asks.
func NewBook(choice Choice, tell func(line string)) *Book {
	return &Book{choice: choice, tell: tell, explained: map[string]bool{}}
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
func (s *Site) Explain(what string) {
	if b := s.book; b.tell != nil && !b.explained[s.Path] {
		b.explained[s.Path] = true
		b.tell(s.Path + ": " + what)
	}
}

// AggregateLinear is Â(xW) = (Âx)W. Sparse features are transformed first. A dense input that stays the same
// over the epochs is aggregated once, unless that would keep a matrix more than twice as wide as the output.
// Elsewhere the cheaper order is taken, which without costs is that of the narrower rows.
func (s *Site) AggregateLinear(a Axis, x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	in, out, choice := x.Cols(), w.Cols(), s.book.choice
	transform := option{fmt.Sprintf("transform %d columns to %d, then aggregate", in, out), out, passes(x.Tape().Recording)}
	aggregate := option{fmt.Sprintf("aggregate %d columns, then transform to %d", in, out), in, passes(x.Wants())}
	once := option{"aggregate the features once, then transform in every epoch", in, None}
	switch {
	case x.Sparse() != nil:
		s.Explain("transform the sparse features, then aggregate" + transform.costs(a))
		return transformed(a, x, w, r)
	case x.Fixed() && (choice == AggregateFirst || choice == Auto && in <= 2*out):
		s.Explain(once.said + once.costs(a, transform))
		return autograd.Linear(s.aggregateOnce(a, x, r), w)
	case choice == AggregateFirst || choice == Auto && aggregate.cheaper(a, transform):
		s.Explain(aggregate.said + aggregate.costs(a, transform))
		return autograd.Linear(a.Aggregate(x, r), w)
	case x.Fixed():
		s.Explain(transform.said + transform.costs(a, once))
	default:
		s.Explain(transform.said + transform.costs(a, aggregate))
	}
	return transformed(a, x, w, r)
}

// option is an order of work.
type option struct {
	said    string
	columns int // that are aggregated
	passes  Passes
}

func (o option) cheaper(a Axis, than option) bool {
	own, ok := a.Cost(o.columns, o.passes)
	if !ok {
		return o.columns < than.columns
	}
	other, _ := a.Cost(than.columns, than.passes)
	return own.below(other)
}

// costs says what the order costs, and what others would.
func (o option) costs(a Axis, others ...option) string {
	own, ok := a.Cost(o.columns, o.passes)
	if !ok {
		return ""
	}
	text := fmt.Sprintf("; %v", own)
	for _, other := range others {
		c, _ := a.Cost(other.columns, other.passes)
		text += fmt.Sprintf(" (%s: %v)", other.said, c)
	}
	return text
}

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
		kept = first{x.Value(), x.Tape().Memory().New(tensor.Features, x.Rows(), x.Cols())}
		a.AggregateInto(kept.value, x, r)
		s.once[key] = kept
	}
	return x.Tape().Fixed(kept.value, x.RowSet())
}

// Aggregation says in words what an aggregation of so many columns does.
func Aggregation(columns int, k gnn.Rounds) string {
	return fmt.Sprintf("aggregate %d columns", columns) + times(k)
}

// Attention says in words what attention does.
func Attention(a gnn.Attention) string {
	return fmt.Sprintf("attend with %d heads of %d columns", a.Heads, a.Source.Cols()/a.Heads) + times(a.Rounds)
}

// times says how often an aggregation is made, where that is not once.
func times(k gnn.Rounds) string {
	if k.Count < 2 {
		return ""
	}
	return fmt.Sprintf(", %d times", k.Count)
}
