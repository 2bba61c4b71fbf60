package parallel

import (
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// Sequential aggregation and rematerialization (Mostafa, MLSys 2022). Worker p owns the rows of partition p and the edges into them.
// Forward it aggregates its own rows, and then those of the other workers, a piece at a time:
//
//	z ← Â_pp·x_p;  for each remote block b: receive x_b;  z ← z ⊕ Â_b·x_b;  free x_b
//
// ⊕ is a sum, a maximum, or the extension of a running softmax. Backward, for g = ∂L/∂z, either nothing has to be fetched (case 1:
// a linear aggregation with constant weights, and a maximum, whose winners are kept):
//
//	for each remote block b: send Â_bᵀ·g to b's worker;  add what comes to ∂L/∂x_p
//
// or the rows are fetched again and what was not kept is computed anew (case 2: attention, message functions):
//
//	for each remote block b: receive x_b;  send ∂L/∂x_b to b's worker;  add what comes to ∂L/∂x_p;  free x_b
//
// With one worker there are no remote blocks.

// aggregate is the linear aggregation Â·x (case 1).
func (p *propagator) aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	t, o := x.Tape(), p.operator(r)
	z := t.New(x.Rows(), x.Cols())
	kept := p.sum(o, z, x.Value(), t.Recording)
	return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Buffers: kept, Backward: func(g *tensor.Matrix) {
		e := p.enter()
		dx, add := x.Grad()
		o.applyTransposed(t.Team, dx, e.local(), g, add)
		p.giveBack(e, dx, func(b *block, d *tensor.Matrix) {
			o.applyTransposed(t.Team, d, b, g, false)
		})
		g.Release()
	}})
}

// sum is z = Â·x.
func (p *propagator) sum(o operator, z, x *tensor.Matrix, recording bool) (kept []*tensor.Matrix) {
	g, e := p.graph, p.enter()
	o.apply(g.team, z, e.local(), x, false)
	return p.fetch(e, x, recording, func(b *block, rows *tensor.Matrix) {
		o.apply(g.team, z, b, rows, true)
	})
}

// max is the largest of each column over the in-neighbours. The vertex that won is kept for each element, so that the backward pass
// needs no rows.
func (p *propagator) max(x *autograd.Var) *autograd.Var {
	t, e := x.Tape(), p.enter()
	z := t.New(x.Rows(), x.Cols())
	arg := t.Memory().NewElement(tensor.Activations, tensor.Int32, x.Rows(), x.Cols())
	t.Team.Max(z, arg, e.local().in, x.Value(), e.local().ids, e.loops, true)
	kept := p.fetch(e, x.Value(), t.Recording, func(b *block, rows *tensor.Matrix) {
		t.Team.Max(z, arg, b.in, rows, b.ids, nil, false)
	})
	return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Buffers: append(kept, arg), Backward: func(g *tensor.Matrix) {
		e := p.enter()
		dx := x.GradSum()
		t.Team.MaxBackward(dx, e.local().out, g, arg, e.local().ids, e.loops)
		p.giveBack(e, dx, func(b *block, d *tensor.Matrix) {
			t.Team.Zero(d)
			t.Team.MaxBackward(d, b.out, g, arg, b.ids, nil)
		})
		g.Release()
	}})
}

// Attend implements gnn.Propagator. Besides the inputs and the output only the log-sum-exp of each vertex and head is kept; scores
// and coefficients are computed again in the backward pass (case 2). Only source rows travel: their scores follow from them.
func (p *propagator) Attend(a gnn.Attention) *autograd.Var {
	t, e := a.Source.Tape(), p.enter()
	rows, width := a.Source.Rows(), a.Source.Cols()/a.Heads
	p.decide(fmt.Sprintf("attend with %d heads of %d columns", a.Heads, width))
	at := attention{a, t, e.loops, kernel.Attention{
		Heads: a.Heads, Width: width, Slope: a.Slope, TargetIDs: p.graph.rows.IDs,
		Mask: nn.Dropout{Site: p.site + ".attention", P: a.Dropout}.Mask(t),
	}}
	if a.SelfLoops {
		at.loops = e.oneLoop(t.Team)
	}
	state := t.Team.AttentionStart(rows, a.Heads, width)
	left := len(e.blocks)
	targets := at.targetScores()
	extend := func(b *block, source, loops *tensor.Matrix) {
		left--
		k, scores := at.on(b, source, targets)
		t.Team.Attend(state, k, b.in, loops, left == 0)
		scores.Release()
	}
	extend(e.local(), a.Source.Value(), at.loops)
	kept := p.fetch(e, a.Source.Value(), t.Recording, func(b *block, rows *tensor.Matrix) { extend(b, rows, nil) })
	targets.Release()

	out, logSum := state.Out, state.Maximum
	op := autograd.Op{
		Value: out, Inputs: []*autograd.Var{a.Source, a.ASource}, Keeps: []*autograd.Var{a.Source, a.ASource}, KeepsResult: true,
		Buffers: append(kept, logSum),
	}
	if a.ATarget == nil {
		op.Inputs, op.Keeps = append(op.Inputs, a.Target), append(op.Keeps, a.Target)
	} else {
		op.Inputs, op.Keeps = append(op.Inputs, a.ATarget), append(op.Keeps, a.ATarget)
	}
	op.Backward = func(g *tensor.Matrix) {
		e := p.enter()
		gOut := t.Memory().New(tensor.Buffers, rows, a.Heads)
		t.Team.RowDots(gOut, g, out)
		targets := at.targetScores()
		var d kernel.AttentionGradients
		if a.ATarget == nil {
			d.Target = a.Target.GradSum()
		} else {
			d.TargetScore = t.Team.Zeros(tensor.Buffers, rows, a.Heads)
		}
		dx := a.Source.GradSum()
		at.backward(d, e.local(), a.Source.Value(), dx, at.loops, targets, g, gOut, logSum)
		p.rematerialize(e, a.Source.Value(), kept, dx, func(b *block, rows, dRows *tensor.Matrix) {
			t.Team.Zero(dRows)
			at.backward(d, b, rows, dRows, nil, targets, g, gOut, logSum)
		})
		if a.ATarget != nil {
			t.Team.HeadDotBackward(dx, a.ATarget.GradSum(), d.TargetScore, a.Source.Value(), a.ATarget.Value())
			d.TargetScore.Release()
		}
		targets.Release()
		gOut.Release()
		g.Release()
	}
	return t.Record(op)
}

// attention is one call of Attend on a tape.
type attention struct {
	gnn.Attention
	tape  *autograd.Tape
	loops *tensor.Matrix
	call  kernel.Attention
}

// targetScores are GATv1's scores of the worker's rows as targets, nil for GATv2.
func (at *attention) targetScores() *tensor.Matrix {
	if at.ATarget == nil {
		return nil
	}
	return at.scores(at.Source.Value(), at.ATarget)
}

func (at *attention) scores(rows *tensor.Matrix, a *autograd.Var) *tensor.Matrix {
	s := at.tape.Memory().New(tensor.Buffers, rows.Rows, at.Heads)
	at.tape.Team.HeadDot(s, rows, a.Value())
	return s
}

// on completes the kernel's arguments for the source rows of a block; GATv1's scores of them are the caller's to release.
func (at *attention) on(b *block, source, targets *tensor.Matrix) (k kernel.Attention, scores *tensor.Matrix) {
	k = at.call
	k.Source, k.SourceIDs = source, b.ids
	if at.ATarget == nil {
		k.Target, k.A = at.Target.Value(), at.ASource.Value()
		return k, nil
	}
	k.SourceScore, k.TargetScore = at.scores(source, at.ASource), targets
	return k, k.SourceScore
}

// backward adds one block's gradients: those of its source rows to dSource, the others to d and to the vectors'.
func (at *attention) backward(d kernel.AttentionGradients, b *block, source, dSource, loops, targets, g, gOut, logSum *tensor.Matrix) {
	team := at.tape.Team
	k, scores := at.on(b, source, targets)
	d.Source = dSource
	if at.ATarget == nil {
		d.A = at.ASource.GradSum()
		team.AttendBackward(d, k, b.in, b.out, loops, g, gOut, logSum)
		return
	}
	d.SourceScore = team.Zeros(tensor.Buffers, source.Rows, at.Heads)
	team.AttendBackward(d, k, b.in, b.out, loops, g, gOut, logSum)
	team.HeadDotBackward(dSource, at.ASource.GradSum(), d.SourceScore, source, at.ASource.Value())
	d.SourceScore.Release()
	scores.Release()
}
