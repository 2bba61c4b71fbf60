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
	tape  *autograd.Tape
	loops *tensor.Matrix
	call  kernel.Attention

	targets     *tensor.Matrix // during either pass: the scores of the own rows as targets, nil for GATv2
	out, logSum *tensor.Matrix // after the forward pass
	g, gOut     *tensor.Matrix // in the backward pass: the output's gradient, and ⟨g, output⟩ per head
}

// v2 tells GATv2 from GATv1.
func (at *attention) v2() bool { return at.ATarget == nil }

func (at *attention) targetScores() *tensor.Matrix {
	if at.v2() {
		return nil
	}
	return at.scores(at.Source.Value(), at.ATarget)
}

func (at *attention) scores(rows *tensor.Matrix, a *autograd.Var) *tensor.Matrix {
	s := at.tape.Memory().New(tensor.Buffers, rows.Rows, at.Heads)
	at.tape.Team.HeadDot(s, rows, a.Value())
	return s
}

// on completes the kernel's arguments for the source rows of a block. The source scores are the caller's to
// release.
func (at *attention) on(b *edges.Block, source *tensor.Matrix, pick *edges.Picker) kernel.Attention {
	k := at.call
	k.Source, k.SourceIDs = source, b.IDs
	if k.TargetIDs != nil {
		k.TargetIDs = pick.Of(k.TargetIDs.Reshape(k.TargetIDs.Len(), 1))
	}
	if at.v2() {
		k.Target, k.A = pick.Of(at.Target.Value()), at.ASource.Value()
	} else {
		k.SourceScore, k.TargetScore = at.scores(source, at.ASource), pick.Of(at.targets)
	}
	return k
}

// extend extends the running softmax by a block.
func (at *attention) extend(
	state *kernel.AttentionState, b *edges.Block, source, loops *tensor.Matrix, end kernel.Ending,
) {
	pick := b.Picker(at.tape.Team)
	k := at.on(b, source, pick)
	if b.Targets == nil {
		at.tape.Team.Attend(state, k, b.In, loops, end)
	} else {
		at.tape.Team.AttendSome(state, b.Targets, k, b.In)
	}
	k.SourceScore.Release()
	pick.Release()
}

// backward adds one block's gradients: those of its source rows to dSource, of own rows as targets (of GATv1
// their scores) to dTarget, and those of the vectors.
func (at *attention) backward(b *edges.Block, source, loops, dSource, dTarget *tensor.Matrix) {
	team := at.tape.Team
	pick := b.Picker(team)
	k := at.on(b, source, pick)
	of := kernel.Attended{Grad: pick.Of(at.g), GradDotOut: pick.Of(at.gOut), LogSum: pick.Of(at.logSum)}
	b.Onto(team, dTarget, func(dTarget *tensor.Matrix, to kernel.Output) {
		if to == kernel.Replace {
			team.Zero(dTarget)
		}
		d := kernel.AttentionGradients{Source: dSource}
		if at.v2() {
			d.Target, d.A = dTarget, at.ASource.GradSum()
		} else {
			d.TargetScore, d.SourceScore = dTarget, team.Zeros(tensor.Buffers, source.Rows, at.Heads)
		}
		team.AttendBackward(d, k, b.In, b.Out, loops, of)
		if !at.v2() {
			team.HeadDotBackward(dSource, at.ASource.GradSum(), d.SourceScore, source, at.ASource.Value())
			d.SourceScore.Release()
		}
	})
	k.SourceScore.Release()
	pick.Release()
}
