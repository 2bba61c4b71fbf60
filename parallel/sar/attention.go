package sar

import (
	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/tensor"
)

// attention is one call of Attend on a tape.
type attention struct {
	gnn.Attention
	tape   *autograd.Tape
	loops  *tensor.Matrix
	kernel kernel.Attention

	targets     *tensor.Matrix // during either pass: scores of the local rows as targets; nil for GATv2
	out, logSum *tensor.Matrix // after the forward pass
	g, gOut     *tensor.Matrix // in the backward pass: gradient of the output, and ⟨g, output⟩ for each head
}

// Three kinds of attention: given is GATv1 with scores computed elsewhere, v2 is GATv2, and neither is GATv1
// with attention vectors.
func (at *attention) given() bool { return at.SourceScore != nil }
func (at *attention) v2() bool    { return at.ATarget == nil && !at.given() }

// vars returns the values that the result depends on.
func (at *attention) vars() []*autograd.Var {
	switch {
	case at.given():
		return []*autograd.Var{at.Source, at.SourceScore, at.TargetScore}
	case at.v2():
		return []*autograd.Var{at.Source, at.ASource, at.Target}
	}
	return []*autograd.Var{at.Source, at.ASource, at.ATarget}
}

// rows returns the matrices whose rows the sources of a block are read from.
func (at *attention) rows() []*tensor.Matrix {
	if at.given() {
		return []*tensor.Matrix{at.Source.Value(), at.SourceScore.Value()}
	}
	return []*tensor.Matrix{at.Source.Value()}
}

// beginPass computes the scores of the local rows as targets, which are valid until endPass.
func (at *attention) beginPass() {
	switch {
	case at.given():
		at.targets = at.TargetScore.Value()
	case !at.v2():
		at.targets = at.scores(at.Source.Value(), at.ATarget)
	}
}

func (at *attention) endPass() {
	if !at.given() {
		at.targets.Release()
	}
}

func (at *attention) scores(rows *tensor.Matrix, a *autograd.Var) *tensor.Matrix {
	s := at.tape.Memory().New(tensor.Buffers, rows.Rows, at.Heads)
	at.tape.Team.HeadDot(s, rows, a.Value())
	return s
}

// targetGradient returns the matrix in which the gradient of the targets' rows is summed. For GATv1 it is the
// gradient of their scores.
func (at *attention) targetGradient(blocks int) *tensor.Matrix {
	switch {
	case at.v2():
		return separateGradient(at.Target, at.Source, blocks)
	case at.given():
		return at.TargetScore.GradSum()
	}
	return at.tape.Team.Zeros(tensor.Buffers, at.Source.Rows(), at.Heads)
}

// arguments returns the kernel's arguments for a block and its sources' rows. They are valid until done.
func (at *attention) arguments(b *edges.Block, rows []*tensor.Matrix, pick *edges.Picker) kernel.Attention {
	k := at.kernel
	k.Source, k.SourceIDs = rows[0], b.IDs
	if k.TargetIDs != nil {
		k.TargetIDs = pick.Of(k.TargetIDs.Reshape(k.TargetIDs.Len(), 1))
	}
	switch {
	case at.v2():
		k.Target, k.A = pick.Of(at.Target.Value()), at.ASource.Value()
	case at.given():
		k.SourceScore, k.TargetScore = rows[1], pick.Of(at.targets)
	default:
		k.SourceScore, k.TargetScore = at.scores(rows[0], at.ASource), pick.Of(at.targets)
	}
	return k
}

// done releases what arguments computed.
func (at *attention) done(k kernel.Attention, pick *edges.Picker) {
	if !at.given() {
		k.SourceScore.Release()
	}
	pick.Release()
}

// extend updates the running softmax with a block.
func (at *attention) extend(
	state *kernel.AttentionState, b *edges.Block, rows []*tensor.Matrix, loops *tensor.Matrix, end kernel.Ending,
) {
	pick := b.Picker(at.tape.Team)
	k := at.arguments(b, rows, pick)
	if b.Targets == nil {
		at.tape.Team.Attend(state, k, b.In, loops, end)
	} else {
		at.tape.Team.AttendSome(state, b.Targets, k, b.In)
	}
	at.done(k, pick)
}

// backward adds the gradients of one block. dRows receives those of its sources' rows, and those of their
// scores if these are given and need a gradient. dTarget receives those of the targets' rows, or of their
// scores for GATv1. The gradients of the attention vectors are added too.
func (at *attention) backward(b *edges.Block, rows []*tensor.Matrix, loops *tensor.Matrix, dRows []*tensor.Matrix, dTarget *tensor.Matrix) {
	team := at.tape.Team
	pick := b.Picker(team)
	k := at.arguments(b, rows, pick)
	of := kernel.Attended{Grad: pick.Of(at.g), GradDotOut: pick.Of(at.gOut), LogSum: pick.Of(at.logSum)}
	b.Onto(team, dTarget, func(dTarget *tensor.Matrix, to kernel.Output) {
		if to == kernel.Replace {
			team.Zero(dTarget)
		}
		d := kernel.AttentionGradients{Source: dRows[0]}
		if at.v2() {
			d.Target, d.A = dTarget, at.ASource.GradSum()
			team.AttendBackward(d, k, b.In, b.Out, loops, of)
			return
		}
		d.TargetScore = dTarget
		if len(dRows) > 1 {
			d.SourceScore = dRows[1]
		} else {
			d.SourceScore = team.Zeros(tensor.Buffers, rows[0].Rows, at.Heads)
			defer d.SourceScore.Release()
		}
		team.AttendBackward(d, k, b.In, b.Out, loops, of)
		if !at.given() {
			team.HeadDotBackward(d.Source, at.ASource.GradSum(), d.SourceScore, rows[0], at.ASource.Value())
		}
	})
	at.done(k, pick)
}
