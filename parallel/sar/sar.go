// Package sar is the graph axis: sequential aggregation and rematerialization (Mostafa, MLSys 2022). Its
// Partition is one worker's partition, or all of a graph, and gives a convolution its ways along the edges.
//
// Worker p owns the rows of partition p and the edges into them. Forward it aggregates its own rows, and then
// those of the other workers, a message at a time:
//
//	z ← Â_pp·x_p;  for each remote block b: receive x_b;  z ← z ⊕ Â_b·x_b;  free x_b
//
// ⊕ is a sum, a maximum, or the extension of a running softmax. Backward, for g = ∂L/∂z, either nothing has
// to be fetched (case 1: a linear aggregation with constant weights, and a maximum, whose winners are kept):
//
//	for each remote block b: send Â_bᵀ·g to b's worker;  add what comes to ∂L/∂x_p
//
// or the rows are fetched again and what was not kept is computed anew (case 2: attention, message
// functions):
//
//	for each remote block b: receive x_b;  send ∂L/∂x_b to b's worker;  add what comes to ∂L/∂x_p;  free x_b
//
// With one worker there are no remote blocks.
//
// Reading: sar.go is this algorithm, for sums, maxima and attention; halo.go the movement of rows that it is
// made of; propagator.go in which order the work is done; attention.go what attention does with a block;
// message.go, with batch.go, message functions.
package sar

import (
	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/edges"
	"weft/parallel/order"
	"weft/tensor"
)

// Aggregate is the linear aggregation Â·x (case 1).
func (p *propagator) Aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	t, h := x.Tape(), p.halo(x.Tape())
	o := h.operator(r)
	z := t.New(h.Edges.Rows, x.Cols())
	h.sum(o, z, x.Value())
	return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Rows: p.targets(), Buffers: h.kept, Reads: true, Backward: func(g *tensor.Matrix) {
		h.resume()
		h.count(g.Cols)
		dx, add := x.Grad()
		o.ApplyTransposed(dx, h.Edges.Local(), g, kernel.Output(add))
		for v := range h.giveBack(dx) {
			o.ApplyTransposed(v.Grads[0], v.Block, g, kernel.Replace)
		}
		g.Release()
	}})
}

// sum is z = Â·x.
func (h *Halo) sum(o edges.Operator, z, x *tensor.Matrix) {
	h.count(x.Cols)
	o.Apply(z, h.Edges.Local(), x, kernel.Replace)
	for v := range h.fetch(x) {
		o.Apply(z, v.Block, v.Rows[0], kernel.Accumulate)
	}
}

// max is the largest of each column over the in-neighbours (case 1). The vertex that won is kept for each
// element, so that the backward pass needs no rows.
func (p *propagator) max(x *autograd.Var) *autograd.Var {
	t, h := x.Tape(), p.halo(x.Tape())
	z := t.New(h.Edges.Rows, x.Cols())
	arg := t.Memory().NewElement(tensor.Activations, tensor.Int32, h.Edges.Rows, x.Cols())
	h.count(x.Cols())
	t.Team.Max(z, arg, h.Edges.Local().In, x.Value(), h.Edges.Local().IDs, h.Edges.Loops, kernel.Replace)
	for v := range h.fetch(x.Value()) {
		v.Within(t.Team, z, arg, func(z, arg *tensor.Matrix) {
			t.Team.Max(z, arg, v.In, v.Rows[0], v.IDs, nil, kernel.Accumulate)
		})
	}
	return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Rows: p.targets(), Buffers: append(h.kept, arg), Reads: true, Backward: func(g *tensor.Matrix) {
		h.resume()
		h.count(g.Cols)
		dx := x.GradSum()
		t.Team.MaxBackward(dx, h.Edges.Local().Out, g, arg, h.Edges.Local().IDs, h.Edges.Loops)
		for v := range h.giveBack(dx) {
			t.Team.Zero(v.Grads[0])
			pick := v.Picker(t.Team)
			t.Team.MaxBackward(v.Grads[0], v.Out, pick.Of(g), pick.Of(arg), v.IDs, nil)
			pick.Release()
		}
		g.Release()
	}})
}

// Attend implements gnn.Propagator. The running softmax of each vertex and head is extended block by block.
// Besides the inputs and the output only its log-sum-exp is kept; scores and coefficients are computed again
// in the backward pass (case 2). Source rows travel, and their scores follow from them, or travel with them
// where they are given.
func (p *propagator) Attend(a gnn.Attention, k gnn.Rounds) *autograd.Var {
	a.CheckScores(p.site.Path)
	p.site.Explain(func() string { return order.Attention(a, k) })
	return a.EachRound(k, p.attend)
}

// attend is one round of Attend.
func (p *propagator) attend(a gnn.Attention) *autograd.Var {
	t, h := a.Source.Tape(), p.halo(a.Source.Tape())
	e, x := h.Edges, a.Source.Value()
	alone := len(e.Blocks) == 1
	width := x.Cols / a.Heads
	h.count(x.Cols)
	at := &attention{Attention: a, tape: t, loops: e.Loops, call: kernel.Attention{
		Heads: a.Heads, FirstHead: a.FirstHead, LayerHeads: a.LayerHeads, Width: width, Slope: a.Slope, Whole: alone, TargetIDs: e.IDs,
		Mask: nn.Dropout{Path: p.site.Path + ".attention", P: a.Dropout}.Mask(a.Source),
	}}
	if a.SelfLoops {
		at.loops = e.OneLoop()
	}
	state := t.Team.AttentionStart(e.Rows, a.Heads, width)
	at.beginPass()
	at.extend(state, e.Local(), at.rows(), at.loops, kernel.Ending(alone))
	for v := range h.fetch(at.rows()...) {
		at.extend(state, v.Block, v.Rows, nil, kernel.More)
	}
	at.endPass()
	if !alone {
		t.Team.AttendEnd(state)
	}

	at.out, at.logSum = state.Out, state.Maximum
	vars := at.vars()
	return t.Record(autograd.Op{
		Value: at.out, Inputs: vars, Rows: p.targets(), Keeps: vars, KeepsResult: true, Buffers: append(h.kept, at.logSum),
		Backward: func(g *tensor.Matrix) { at.attendBackward(h, g) },
	})
}

// attendBackward adds all gradients of Attend, for that of its output, which it owns.
func (at *attention) attendBackward(h *Halo, g *tensor.Matrix) {
	h.resume()
	e, team, x := h.Edges, at.tape.Team, at.Source.Value()
	h.count(x.Cols)
	at.g, at.gOut = g, at.tape.Memory().New(tensor.Buffers, e.Rows, at.Heads)
	team.RowDots(at.gOut, g, at.out)
	at.beginPass()
	dTarget := at.targetGradient()
	dRows := []*tensor.Matrix{at.Source.GradSum()}
	if at.given() && at.SourceScore.Wants() { // else it does not travel; that of own targets never does
		dRows = append(dRows, at.SourceScore.GradSum())
	}
	at.backward(e.Local(), at.rows(), at.loops, dRows, dTarget)
	for v := range h.rematerialize(at.rows(), dRows) {
		for _, d := range v.Grads {
			team.Zero(d)
		}
		at.backward(v.Block, v.Rows, nil, v.Grads, dTarget)
	}
	switch {
	case at.v2():
		addApart(at.Target, dTarget)
	case !at.given():
		team.HeadDotBackward(dRows[0], at.ATarget.GradSum(), dTarget, x, at.ATarget.Value())
		dTarget.Release()
	}
	at.endPass()
	at.gOut.Release()
	g.Release()
}
