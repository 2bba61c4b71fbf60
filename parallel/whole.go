package parallel

import (
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// Whole holds the whole graph on one worker. Its Propagators read from it.
type Whole struct {
	team      *kernel.Team
	edges     [2]*topology // as stored, and reversed
	operators map[operatorKey]operator
	orders    []string // what each site decided, in the order of the first pass
	decided   map[string]bool
}

type operatorKey struct {
	reduce   gnn.Reduce
	reversed bool
}

// NewWhole copies the graph's structure into the team's memory. copied, unless nil, is called when r is not needed any more.
func NewWhole(team *kernel.Team, r *graph.Relation, copied func()) *Whole {
	t := newTopology(team, r, copied)
	return &Whole{team: team, edges: [2]*topology{t, t.reversed()}, operators: map[operatorKey]operator{}, decided: map[string]bool{}}
}

// Rows are all vertices.
func (w *Whole) Rows() autograd.Rows {
	return autograd.Rows{Here: w.edges[0].vertices, Total: w.edges[0].vertices}
}

// Propagator is the whole graph's gnn.Propagator at a site.
func (w *Whole) Propagator(site string, reversed bool) gnn.Propagator {
	return &whole{graph: w, site: site, reversed: reversed}
}

// Explain says for each site in which order it works, once a forward pass has been made.
func (w *Whole) Explain() []string { return w.orders }

func (p *whole) decide(order string) {
	if w := p.graph; !w.decided[p.site] {
		w.decided[p.site] = true
		w.orders = append(w.orders, p.site+": "+order)
	}
}

// firstAggregation is the aggregation of an input that stays the same over the epochs, computed once.
type firstAggregation struct {
	of, value *tensor.Matrix
}

type whole struct {
	graph    *Whole
	site     string
	reversed bool
	once     map[gnn.Reduce]firstAggregation
}

func (p *whole) topology() *topology {
	if p.reversed {
		return p.graph.edges[1]
	}
	return p.graph.edges[0]
}

func (p *whole) operator(r gnn.Reduce) operator {
	key := operatorKey{r, p.reversed}
	o, ok := p.graph.operators[key]
	if !ok {
		o = p.topology().operator(p.graph.team, r)
		p.graph.operators[key] = o
	}
	return o
}

// AggregateLinear implements gnn.Propagator. Sparse features are transformed first. A dense input that stays the same over the
// epochs is aggregated once, unless that would keep a matrix more than twice as wide as the output. Elsewhere the narrower rows are
// the ones that are aggregated.
func (p *whole) AggregateLinear(x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	in, out := x.Cols(), w.Cols()
	switch {
	case x.Sparse() != nil:
		p.decide("transform the sparse features, then aggregate")
		return p.aggregate(autograd.Linear(x, w), r)
	case x.Fixed() && in <= 2*out:
		p.decide("aggregate the features once, then transform in every epoch")
		return autograd.Linear(p.aggregateOnce(x, r), w)
	case in < out:
		p.decide(fmt.Sprintf("aggregate %d columns, then transform to %d", in, out))
		return autograd.Linear(p.aggregate(x, r), w)
	}
	p.decide(fmt.Sprintf("transform %d columns to %d, then aggregate", in, out))
	return p.aggregate(autograd.Linear(x, w), r)
}

func (p *whole) aggregateOnce(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	first, ok := p.once[r]
	if !ok || first.of != x.Value() {
		first = firstAggregation{x.Value(), p.graph.team.Memory.New(tensor.Features, x.Rows(), x.Cols())}
		p.operator(r).apply(p.graph.team, first.value, first.of, false)
		if p.once == nil {
			p.once = map[gnn.Reduce]firstAggregation{}
		}
		p.once[r] = first
	}
	return x.Tape().Constant(first.value, true)
}

// Propagate implements gnn.Propagator.
func (p *whole) Propagate(x *autograd.Var, r gnn.Reduce, k int) *autograd.Var {
	x = autograd.Dense(x)
	for range k {
		if r.Kind == gnn.KindMax {
			x = p.max(x)
		} else {
			x = p.aggregate(x, r)
		}
	}
	return x
}

func (p *whole) aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	t, o := x.Tape(), p.operator(r)
	z := t.New(x.Rows(), x.Cols())
	o.apply(t.Team, z, x.Value(), false)
	return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Backward: func(g *tensor.Matrix) {
		dx, add := x.Grad()
		o.applyTransposed(t.Team, dx, g, add)
		g.Release()
	}})
}

func (p *whole) max(x *autograd.Var) *autograd.Var {
	t, e := x.Tape(), p.topology()
	z := t.New(x.Rows(), x.Cols())
	arg := t.Memory().NewElement(tensor.Activations, tensor.Int32, x.Rows(), x.Cols())
	t.Team.Max(z, arg, e.in, x.Value(), nil, e.loops, true)
	return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Buffers: []*tensor.Matrix{arg}, Backward: func(g *tensor.Matrix) {
		t.Team.MaxBackward(x.GradSum(), e.out, g, arg, nil, e.loops)
		g.Release()
	}})
}

// Attend implements gnn.Propagator. Besides the inputs and the output only the log-sum-exp of each vertex and head is kept; scores
// and coefficients are computed again in the backward pass.
func (p *whole) Attend(a gnn.Attention) *autograd.Var {
	t, e := a.Source.Tape(), p.topology()
	loops := e.loops
	if a.SelfLoops {
		loops = e.oneLoop(t.Team)
	}
	rows, width := a.Source.Rows(), a.Source.Cols()/a.Heads
	p.decide(fmt.Sprintf("attend with %d heads of %d columns", a.Heads, width))
	call := kernel.Attention{
		Heads: a.Heads, Width: width, Slope: a.Slope,
		Mask: nn.Dropout{Site: p.site + ".attention", P: a.Dropout}.Mask(t),
	}
	k, release := scored(t, call, a)
	state := t.Team.AttentionStart(rows, a.Heads, width)
	t.Team.Attend(state, k, e.in, loops, true)
	release()
	out, logSum := state.Out, state.Maximum
	op := autograd.Op{
		Value: out, Inputs: []*autograd.Var{a.Source, a.ASource}, Keeps: []*autograd.Var{a.Source, a.ASource}, KeepsResult: true,
		Buffers: []*tensor.Matrix{logSum},
	}
	if a.ATarget == nil {
		op.Inputs, op.Keeps = append(op.Inputs, a.Target), append(op.Keeps, a.Target)
	} else {
		op.Inputs, op.Keeps = append(op.Inputs, a.ATarget), append(op.Keeps, a.ATarget)
	}
	op.Backward = func(g *tensor.Matrix) {
		mem := t.Memory()
		gOut := mem.New(tensor.Buffers, rows, a.Heads)
		t.Team.RowDots(gOut, g, out)
		k, release := scored(t, call, a)
		d := kernel.AttentionGradients{Source: a.Source.GradSum()}
		if a.ATarget == nil {
			d.Target, d.A = a.Target.GradSum(), a.ASource.GradSum()
			t.Team.AttendBackward(d, k, e.in, e.out, loops, g, gOut, logSum)
		} else {
			d.SourceScore, d.TargetScore = t.Team.Zeros(tensor.Buffers, rows, a.Heads), t.Team.Zeros(tensor.Buffers, rows, a.Heads)
			t.Team.AttendBackward(d, k, e.in, e.out, loops, g, gOut, logSum)
			t.Team.HeadDotBackward(d.Source, a.ASource.GradSum(), d.SourceScore, a.Source.Value(), a.ASource.Value())
			t.Team.HeadDotBackward(d.Source, a.ATarget.GradSum(), d.TargetScore, a.Source.Value(), a.ATarget.Value())
			d.SourceScore.Release()
			d.TargetScore.Release()
		}
		release()
		gOut.Release()
		g.Release()
	}
	return t.Record(op)
}

// scored completes the kernel's arguments: for GATv1 with both scores of each vertex and head, in memory that release gives back.
func scored(t *autograd.Tape, k kernel.Attention, a gnn.Attention) (_ kernel.Attention, release func()) {
	k.Source = a.Source.Value()
	if a.ATarget == nil {
		k.Target, k.A = a.Target.Value(), a.ASource.Value()
		return k, func() {}
	}
	score := func(v *autograd.Var) *tensor.Matrix {
		s := t.Memory().New(tensor.Buffers, k.Source.Rows, k.Heads)
		t.Team.HeadDot(s, k.Source, v.Value())
		return s
	}
	k.SourceScore, k.TargetScore = score(a.ASource), score(a.ATarget)
	return k, func() {
		k.SourceScore.Release()
		k.TargetScore.Release()
	}
}
