package parallel

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// Attend implements gnn.Propagator. The running softmax of each vertex and head is extended block by block. Besides the inputs and the
// output only its log-sum-exp is kept; scores and coefficients are computed again in the backward pass (case 2). Only source rows
// travel: their scores follow from them.
func (p *propagator) Attend(a gnn.Attention) *autograd.Var {
	t, h := a.Source.Tape(), p.enter()
	e := h.t
	alone := len(e.blocks) == 1
	rows, width := a.Source.Rows(), a.Source.Cols()/a.Heads
	p.decide(fmt.Sprintf("attend with %d heads of %d columns", a.Heads, width))
	at := &attention{Attention: a, tape: t, loops: e.loops, call: kernel.Attention{
		Heads: a.Heads, Width: width, Slope: a.Slope, Whole: alone, TargetIDs: e.local().ids,
		Mask: nn.Dropout{Site: p.site + ".attention", P: a.Dropout}.Mask(a.Source),
	}}
	if a.SelfLoops {
		at.loops = e.oneLoop(t.Team)
	}
	state, targets := t.Team.AttentionStart(rows, a.Heads, width), at.targetScores()
	k, release := at.on(e.local(), a.Source.Value(), targets)
	t.Team.Attend(state, k, e.local().in, at.loops, alone)
	release()
	for v := range h.fetch(a.Source.Value(), t.Recording) {
		k, release := at.on(v.block, v.rows, targets)
		if v.targets == nil {
			t.Team.Attend(state, k, v.in, nil, false)
		} else {
			t.Team.AttendSome(state, v.targets, k, v.in)
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
		Buffers: append(slices.Clone(h.kept), at.logSum),
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
	e, team, x := h.t, at.tape.Team, at.Source.Value()
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
	at.backward(d, e.local(), x, dx, at.loops, targets)
	for v := range h.rematerialize(x, dx) {
		team.Zero(v.grad)
		at.backward(d, v.block, v.rows, v.grad, nil, targets)
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
	g, gOut     *tensor.Matrix // in the backward pass: the output's gradient, and ⟨g, output⟩ of each vertex and head
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

// on completes the kernel's arguments for the source rows of a block; release gives back what it takes for that.
func (at *attention) on(b *block, source, targets *tensor.Matrix) (k kernel.Attention, release func()) {
	team := at.tape.Team
	k = at.call
	k.Source, k.SourceIDs = source, b.ids
	releaseIDs := func() {}
	if k.TargetIDs != nil {
		k.TargetIDs, releaseIDs = b.pick(team, k.TargetIDs.Reshape(k.TargetIDs.Len(), 1))
	}
	if at.ATarget == nil {
		target, releaseTarget := b.pick(team, at.Target.Value())
		k.Target, k.A = target, at.ASource.Value()
		return k, func() {
			releaseTarget()
			releaseIDs()
		}
	}
	scores, releaseScores := b.pick(team, targets)
	k.SourceScore, k.TargetScore = at.scores(source, at.ASource), scores
	return k, func() {
		k.SourceScore.Release()
		releaseScores()
		releaseIDs()
	}
}

// backward adds one block's gradients: those of its source rows to dSource, the others to d and to the vectors'.
func (at *attention) backward(d kernel.AttentionGradients, b *block, source, dSource, loops, targets *tensor.Matrix) {
	team := at.tape.Team
	k, release := at.on(b, source, targets)
	g, releaseG := b.pick(team, at.g)
	gOut, releaseOut := b.pick(team, at.gOut)
	logSum, releaseSum := b.pick(team, at.logSum)
	own := d.Target
	if at.ATarget != nil {
		own = d.TargetScore
	}
	b.onto(team, own, func(own *tensor.Matrix, accumulate bool) {
		if !accumulate {
			team.Zero(own)
		}
		d.Source = dSource
		if at.ATarget == nil {
			d.Target, d.A = own, at.ASource.GradSum()
			team.AttendBackward(d, k, b.in, b.out, loops, g, gOut, logSum)
			return
		}
		d.TargetScore, d.SourceScore = own, team.Zeros(tensor.Buffers, source.Rows, at.Heads)
		team.AttendBackward(d, k, b.in, b.out, loops, g, gOut, logSum)
		team.HeadDotBackward(dSource, at.ASource.GradSum(), d.SourceScore, source, at.ASource.Value())
		d.SourceScore.Release()
	})
	releaseSum()
	releaseOut()
	releaseG()
	release()
}
