package sar

import (
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/edges"
	"weft/tensor"
)

// Attend implements gnn.Propagator. The running softmax of each vertex and head is extended block by block.
// Besides the inputs and the output only its log-sum-exp is kept; scores and coefficients are computed again
// in the backward pass (case 2). Only source rows travel: their scores follow from them.
func (p *propagator) Attend(a gnn.Attention) *autograd.Var {
	t, h := a.Source.Tape(), p.enter()
	e := h.edges
	alone := len(e.Blocks) == 1
	rows, width := a.Source.Rows(), a.Source.Cols()/a.Heads
	p.decide(fmt.Sprintf("attend with %d heads of %d columns", a.Heads, width))
	at := &attention{Attention: a, tape: t, loops: e.Loops, call: kernel.Attention{
		Heads: a.Heads, Width: width, Slope: a.Slope, Whole: alone, TargetIDs: e.Local().IDs,
		Mask: nn.Dropout{Site: p.site + ".attention", P: a.Dropout}.Mask(a.Source),
	}}
	if a.SelfLoops {
		at.loops = e.OneLoop()
	}
	state, targets := t.Team.AttentionStart(rows, a.Heads, width), at.targetScores()
	k, release := at.on(e.Local(), a.Source.Value(), targets)
	t.Team.Attend(state, k, e.Local().In, at.loops, kernel.Ending(alone))
	release()
	for v := range h.fetch(a.Source.Value()) {
		k, release := at.on(v.Block, v.rows, targets)
		if v.Targets == nil {
			t.Team.Attend(state, k, v.In, nil, kernel.More)
		} else {
			t.Team.AttendSome(state, v.Targets, k, v.In)
		}
		release()
	}
	targets.Release()
	if !alone {
		t.Team.AttendEnd(state)
	}

	at.out, at.logSum = state.Out, state.Maximum
	op := autograd.Op{
		Value: at.out, Inputs: []*autograd.Var{a.Source, a.ASource}, Keeps: []*autograd.Var{a.Source, a.ASource}, KeepsResult: true,
		Buffers: append(h.kept, at.logSum),
	}
	if a.ATarget == nil {
		op.Inputs, op.Keeps = append(op.Inputs, a.Target), append(op.Keeps, a.Target)
	} else {
		op.Inputs, op.Keeps = append(op.Inputs, a.ATarget), append(op.Keeps, a.ATarget)
	}
	op.Backward = func(g *tensor.Matrix) { p.attendBackward(at, h, g) }
	return t.Record(op)
}

// attendBackward adds all gradients of Attend, for that of its output, which it owns.
func (p *propagator) attendBackward(at *attention, h *halo, g *tensor.Matrix) {
	p.enter()
	e, team, x := h.edges, at.tape.Team, at.Source.Value()
	at.g, at.gOut = g, at.tape.Memory().New(tensor.Buffers, x.Rows, at.Heads)
	team.RowDots(at.gOut, g, at.out)
	targets := at.targetScores()
	var d kernel.AttentionGradients
	if at.ATarget == nil {
		d.Target = gradientApart(at.Target, at.Source)
	} else {
		d.TargetScore = team.Zeros(tensor.Buffers, x.Rows, at.Heads)
	}
	dx := at.Source.GradSum()
	at.backward(d, e.Local(), x, dx, at.loops, targets)
	for v := range h.rematerialize(x, dx) {
		team.Zero(v.grad)
		at.backward(d, v.Block, v.rows, v.grad, nil, targets)
	}
	if at.ATarget == nil {
		addApart(at.Target, d.Target)
	} else {
		team.HeadDotBackward(dx, at.ATarget.GradSum(), d.TargetScore, x, at.ATarget.Value())
		d.TargetScore.Release()
	}
	targets.Release()
	at.gOut.Release()
	g.Release()
}

// attention is one call of Attend on a tape.
type attention struct {
	gnn.Attention
	tape  *autograd.Tape
	loops *tensor.Matrix
	call  kernel.Attention

	out, logSum *tensor.Matrix // after the forward pass
	g, gOut     *tensor.Matrix // in the backward pass: the output's gradient, and ⟨g, output⟩ per head
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

// on completes the kernel's arguments for the source rows of a block; release gives back what it takes for
// that.
func (at *attention) on(b *edges.Block, source, targets *tensor.Matrix) (k kernel.Attention, release func()) {
	team := at.tape.Team
	k = at.call
	k.Source, k.SourceIDs = source, b.IDs
	releaseIDs := func() {}
	if k.TargetIDs != nil {
		k.TargetIDs, releaseIDs = b.Pick(team, k.TargetIDs.Reshape(k.TargetIDs.Len(), 1))
	}
	if at.ATarget == nil {
		target, releaseTarget := b.Pick(team, at.Target.Value())
		k.Target, k.A = target, at.ASource.Value()
		return k, func() {
			releaseTarget()
			releaseIDs()
		}
	}
	scores, releaseScores := b.Pick(team, targets)
	k.SourceScore, k.TargetScore = at.scores(source, at.ASource), scores
	return k, func() {
		k.SourceScore.Release()
		releaseScores()
		releaseIDs()
	}
}

// backward adds one block's gradients: those of its source rows to dSource, the others to d and to the
// vectors'.
func (at *attention) backward(d kernel.AttentionGradients, b *edges.Block, source, dSource, loops, targets *tensor.Matrix) {
	team := at.tape.Team
	k, release := at.on(b, source, targets)
	g, releaseG := b.Pick(team, at.g)
	gOut, releaseOut := b.Pick(team, at.gOut)
	logSum, releaseSum := b.Pick(team, at.logSum)
	own := d.Target
	if at.ATarget != nil {
		own = d.TargetScore
	}
	b.Onto(team, own, func(own *tensor.Matrix, accumulate bool) {
		if !accumulate {
			team.Zero(own)
		}
		d.Source = dSource
		if at.ATarget == nil {
			d.Target, d.A = own, at.ASource.GradSum()
			team.AttendBackward(d, k, b.In, b.Out, loops, kernel.Attended{Grad: g, GradDotOut: gOut, LogSum: logSum})
			return
		}
		d.TargetScore, d.SourceScore = own, team.Zeros(tensor.Buffers, source.Rows, at.Heads)
		team.AttendBackward(d, k, b.In, b.Out, loops, kernel.Attended{Grad: g, GradDotOut: gOut, LogSum: logSum})
		team.HeadDotBackward(dSource, at.ASource.GradSum(), d.SourceScore, source, at.ASource.Value())
		d.SourceScore.Release()
	})
	releaseSum()
	releaseOut()
	releaseG()
	release()
}
