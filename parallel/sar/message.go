package sar

import (
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// messageEdges is how many edges a message function sees at a time: the memory of its tape is bounded by it.
const messageEdges = 1 << 13

// Message implements gnn.Propagator. Messages are computed for a few edges at a time, aggregated and dropped;
// the backward pass fetches the source rows again and computes each edge's message anew, on a tape of its own
// (case 2).
func (p *propagator) Message(m gnn.Message) *autograd.Var {
	t, h := m.Source.Tape(), p.halo()
	e := h.edges
	p.decide(fmt.Sprintf("messages of %d columns, a function of %d of the source", m.Columns, m.Source.Cols()))
	run := &messages{Message: m, tape: t, site: p, rows: e.Rows, targetIDs: e.Local().IDs}
	if m.Reduce == gnn.KindMean {
		run.share = e.MeanShares(m.SelfLoops)
	}
	z := t.Team.Zeros(tensor.Activations, e.Rows, m.Columns)
	var arg *tensor.Matrix
	if m.Reduce == gnn.KindMax {
		arg = t.Memory().NewElement(tensor.Activations, tensor.Int32, e.Rows, m.Columns)
		t.Team.Fill(arg, -1)
	}
	loops := e.LoopBlock(m.SelfLoops)
	forward := func(b *edges.Block, source *tensor.Matrix) {
		run.each(b, func(c *batch) { run.forward(c, source, z, arg) })
	}
	forward(e.Local(), m.Source.Value())
	if loops != nil {
		forward(loops, m.Source.Value())
	}
	for v := range h.fetch(m.Source.Value()) {
		forward(v.Block, v.rows)
	}

	op := autograd.Op{Value: z, Inputs: []*autograd.Var{m.Source}, Keeps: []*autograd.Var{m.Source}, Buffers: append(h.kept, arg)}
	if m.Target != nil {
		op.Inputs, op.Keeps = append(op.Inputs, m.Target), append(op.Keeps, m.Target)
	}
	for _, q := range m.Parameters {
		op.Inputs = append(op.Inputs, q.On(t))
	}
	op.Backward = func(g *tensor.Matrix) {
		h.resume()
		x := m.Source.Value()
		var dx *tensor.Matrix
		if m.Source.Wants() {
			dx = m.Source.GradSum()
		}
		var dTarget *tensor.Matrix
		if m.Target != nil && m.Target.Wants() {
			dTarget = gradientApart(m.Target, m.Source)
		}
		backward := func(b *edges.Block, source, d *tensor.Matrix) {
			run.each(b, func(c *batch) { run.backward(c, source, d, dTarget, g, arg) })
		}
		backward(e.Local(), x, dx)
		if loops != nil {
			backward(loops, x, dx)
		}
		for v := range h.rematerialize(x, dx) {
			if v.grad != nil {
				t.Team.Zero(v.grad)
			}
			backward(v.Block, v.rows, v.grad)
		}
		if dTarget != nil {
			addApart(m.Target, dTarget)
		}
		g.Release()
	}
	return t.Record(op)
}

// messages is one call of Message on a tape.
type messages struct {
	gnn.Message
	tape      *autograd.Tape
	site      *propagator
	rows      int
	targetIDs *tensor.Matrix // Int32: the own rows' vertices, nil: the rows
	share     *tensor.Matrix // 1/in-degree for a mean, else nil
}

// edges puts the rows of both ends on a tape for the function; the matrices are the caller's to release.
func (m *messages) edges(c *batch, source *tensor.Matrix, recording bool) (e gnn.Edges, rows []*tensor.Matrix) {
	t, set := m.tape, &autograd.RowSet{Here: c.n, Total: autograd.NotVertices, IDs: c.keys}
	tape := &autograd.Tape{
		Team: t.Team, Recording: recording, Training: t.Training, Random: t.Random, Announced: map[*tensor.Matrix]bool{},
	}
	for _, q := range m.Parameters {
		tape.Announced[q.Grad] = true
	}
	gathered := func(from, list *tensor.Matrix, wants bool) *autograd.Var {
		x := t.Memory().New(tensor.Buffers, c.n, from.Cols)
		t.Team.Gather(x, from, list)
		rows = append(rows, x)
		if !wants {
			return tape.Constant(x, set)
		}
		return tape.Input(x, set)
	}
	e = gnn.Edges{Tape: tape, Source: gathered(source, c.sources, m.Source.Wants())}
	if m.Target != nil {
		e.Target = gathered(m.Target.Value(), c.targets, m.Target.Wants())
	}
	if c.weights != nil {
		e.Weight = tape.Constant(c.weights, set)
	}
	return e, rows
}

// call computes the messages of the batch's edges.
func (m *messages) call(e gnn.Edges, n int) *autograd.Var {
	out := e.Tape.Scope(func() *autograd.Var { return m.Function(e) })
	if out.Rows() != n || out.Cols() != m.Columns {
		panic(fmt.Sprintf("parallel: the message function of %s gives %d×%d for %d edges and %d columns",
			m.site.site, out.Rows(), out.Cols(), n, m.Columns))
	}
	return out
}

// forward aggregates the batch's messages into z, and for a maximum the winners' ids into arg.
func (m *messages) forward(c *batch, source, z, arg *tensor.Matrix) {
	e, rows := m.edges(c, source, false)
	out := m.call(e, c.n)
	team := m.tape.Team
	if arg != nil {
		team.Max(z.RowRange(c.lo, c.hi), arg.RowRange(c.lo, c.hi), c.into, out.Value(), c.ids, nil, kernel.Accumulate)
	} else {
		team.SpMM(z.RowRange(c.lo, c.hi), c.into, out.Value(), kernel.Scales{Row: m.shares(c)}, kernel.Accumulate)
	}
	out.Drop()
	exchange.Release(rows...)
}

// shares are the factors of a mean for the batch's targets.
func (m *messages) shares(c *batch) *tensor.Matrix {
	if m.share == nil {
		return nil
	}
	return m.share.RowRange(c.lo, c.hi)
}

// backward computes the batch's messages again and adds their gradients: those of source rows to dSource, of
// own rows as targets to dTarget.
func (m *messages) backward(c *batch, source, dSource, dTarget, g, arg *tensor.Matrix) {
	e, rows := m.edges(c, source, true)
	out := m.call(e, c.n)
	team, mem := m.tape.Team, m.tape.Memory()
	d := mem.New(tensor.Gradients, c.n, m.Columns)
	if arg != nil {
		team.Zero(d)
		team.MaxBackward(d, c.spread, g.RowRange(c.lo, c.hi), arg.RowRange(c.lo, c.hi), c.ids, nil)
	} else {
		team.SpMM(d, c.spread, g.RowRange(c.lo, c.hi), kernel.Scales{Col: m.shares(c)}, kernel.Replace)
	}
	e.Tape.Backward(autograd.Root{Var: out, Grad: d})
	if m.Source.Wants() {
		c.bySource(team)
		sums := mem.New(tensor.Buffers, c.n, source.Cols)
		grad := e.Source.TakeGrad()
		team.SpMM(sums.RowRange(0, c.distinct.Cols), c.outOf, grad, kernel.Scales{}, kernel.Replace)
		grad.Release()
		team.ScatterAdd(dSource, sums, c.distinct)
		sums.Release()
	}
	if dTarget != nil {
		grad := e.Target.TakeGrad()
		team.SpMM(dTarget.RowRange(c.lo, c.hi), c.into, grad, kernel.Scales{}, kernel.Accumulate)
		grad.Release()
	}
	exchange.Release(rows...)
}
