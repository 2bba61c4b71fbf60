package sar

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// attention is one call of Attend on a tape.
type attention struct {
	gnn.Attention
	tape   *autograd.Tape
	loops  *tensor.Matrix
	looped *edges.Block // the self loops as edges, if features are used; nil: there are none
	kernel kernel.Attention

	// during either pass GATv1's scores of the local rows as targets, and as sources until these are read;
	// else nil
	targets, sources *tensor.Matrix
	alone            bool // in the backward pass: there is one block

	out, logSum *tensor.Matrix // after the forward pass
	g, gOut     *tensor.Matrix // in the backward pass: gradient of the output, and ⟨g, output⟩ for each head
}

// Four kinds of attention: given is GATv1 with scores computed elsewhere, dot and v2 are dot products and
// GATv2, which read rows of the targets, and none of these is GATv1 with attention vectors.
func (at *attention) given() bool       { return at.SourceScore != nil }
func (at *attention) dot() bool         { return at.Key != nil }
func (at *attention) v2() bool          { return at.ASource != nil && at.ATarget == nil }
func (at *attention) readsTarget() bool { return at.dot() || at.v2() }

// vars returns the values that the result depends on.
func (at *attention) vars() []*autograd.Var {
	all := []*autograd.Var{at.Source, at.ASource, at.ATarget}
	switch {
	case at.given():
		all = []*autograd.Var{at.Source, at.SourceScore, at.TargetScore}
	case at.v2():
		all = []*autograd.Var{at.Source, at.ASource, at.Target}
	case at.dot():
		all = []*autograd.Var{at.Source, at.Key, at.Target}
	}
	if f := at.OfFeatures(); f != nil {
		all = append(all, f)
	}
	return all
}

// checkFeatures refuses edges without the features that are asked for.
func (at *attention) checkFeatures(path string, e *edges.Edges) {
	columns := at.OfFeatures().Rows()
	if slices.ContainsFunc(e.Blocks, func(b *edges.Block) bool {
		return b.Features == nil || b.Features.Cols != columns
	}) {
		exchange.Must(refusal.Errorf("%s: attention is asked to use %d features of each edge, and the "+
			"edges do not have them in this direction; take edges as they are stored, with as many features",
			path, columns))
	}
}

// rows returns the matrices whose rows the sources of a block are read from.
func (at *attention) rows() []*tensor.Matrix {
	switch {
	case at.given():
		return []*tensor.Matrix{at.Source.Value(), at.SourceScore.Value()}
	case at.dot():
		return []*tensor.Matrix{at.Source.Value(), at.Key.Value()}
	}
	return []*tensor.Matrix{at.Source.Value()}
}

// beginPass computes the scores of the local rows: as targets, valid until endPass, and as sources.
func (at *attention) beginPass() {
	switch {
	case at.given():
		at.targets = at.TargetScore.Value()
	case !at.readsTarget():
		x := at.Source.Value()
		at.targets, at.sources = at.newScores(x), at.newScores(x)
		at.tape.Team.HeadDots(x, kernel.HeadVector{A: at.ATarget.Value(), Score: at.targets},
			kernel.HeadVector{A: at.ASource.Value(), Score: at.sources})
	}
}

func (at *attention) endPass() {
	if !at.given() {
		at.targets.Release()
	}
}

func (at *attention) newScores(rows *tensor.Matrix) *tensor.Matrix {
	return at.tape.Memory().New(tensor.Buffers, rows.Rows, at.Heads)
}

// sourceScores returns those of a block's sources. The first block of a pass is the local one.
func (at *attention) sourceScores(rows *tensor.Matrix) *tensor.Matrix {
	s := at.sources
	if at.sources = nil; s == nil {
		s = at.newScores(rows)
		at.tape.Team.HeadDot(s, rows, at.ASource.Value())
	}
	return s
}

// targetGradient returns the matrix in which the gradient of the targets' rows is summed. For GATv1 it is the
// gradient of their scores.
func (at *attention) targetGradient(blocks int) *tensor.Matrix {
	switch {
	case at.readsTarget():
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
	case at.dot():
		k.Target, k.Key = pick.Of(at.Target.Value()), rows[1]
	case at.given():
		k.SourceScore, k.TargetScore = rows[1], pick.Of(at.targets)
	default:
		k.SourceScore, k.TargetScore = at.sourceScores(rows[0]), pick.Of(at.targets)
	}
	switch {
	case at.EdgeVector != nil:
		k.Edges = kernel.EdgeFeatures{Rows: b.Features, Vector: at.EdgeVector.Value()}
	case at.EdgeWeight != nil:
		k.Edges = kernel.EdgeFeatures{Rows: b.Features, Weight: at.EdgeWeight.Value()}
	}
	return k
}

// loopFeatures gives the kernel the features of the self loops, if these are among the block's edges.
func (at *attention) loopFeatures(k *kernel.Attention, loops *tensor.Matrix) {
	if loops != nil && at.looped != nil {
		k.Edges.Loops, k.Edges.FirstLoop = at.looped.Features, at.looped.In.Indptr
	}
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
	state *kernel.AttentionState, b *edges.Block, rows []*tensor.Matrix,
	loops *tensor.Matrix, end kernel.Ending,
) {
	pick := b.Picker(at.tape.Team)
	k := at.arguments(b, rows, pick)
	at.loopFeatures(&k, loops)
	if b.Targets == nil {
		at.tape.Team.Attend(state, k, b.In, loops, end)
	} else {
		at.tape.Team.AttendSome(state, b.Targets, k, b.In)
	}
	at.done(k, pick)
}

// backward adds the gradients of one block. dRows receives those of its sources' rows, and those of their
// keys, or of their scores if these are given and need a gradient. dTarget receives those of the targets'
// rows, or of their scores for GATv1. The gradients of the parameters are added too.
func (at *attention) backward(b *edges.Block, rows []*tensor.Matrix, loops *tensor.Matrix,
	dRows []*tensor.Matrix, dTarget *tensor.Matrix,
) {
	team := at.tape.Team
	pick := b.Picker(team)
	k := at.arguments(b, rows, pick)
	at.loopFeatures(&k, loops)
	if at.OfFeatures() != nil {
		var err error
		k.Edges.Transposed, err = b.FeatureRows(team)
		exchange.Must(err)
	}
	of := kernel.Attended{Grad: pick.Of(at.g), GradDotOut: pick.Of(at.gOut), LogSum: pick.Of(at.logSum)}
	b.Onto(team, dTarget, func(dTarget *tensor.Matrix, to kernel.Output) {
		if to == kernel.Replace {
			team.Zero(dTarget)
		}
		d := kernel.AttentionGradients{Source: dRows[0]}
		switch {
		case at.EdgeVector != nil:
			d.EdgeVector = at.EdgeVector.GradSum()
		case at.EdgeWeight != nil:
			d.EdgeWeight = at.EdgeWeight.GradSum()
		}
		if at.readsTarget() {
			if d.Target = dTarget; at.dot() {
				d.Key = dRows[1]
			} else {
				d.A = at.ASource.GradSum()
			}
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
		switch {
		case at.given():
		case at.alone:
			team.HeadDotsBackward(d.Source, rows[0],
				kernel.HeadGradient{A: at.ASource.Value(), DA: at.ASource.GradSum(), DScore: d.SourceScore},
				kernel.HeadGradient{A: at.ATarget.Value(), DA: at.ATarget.GradSum(), DScore: dTarget})
		default:
			team.HeadDotBackward(d.Source, at.ASource.GradSum(), d.SourceScore, rows[0], at.ASource.Value())
		}
	})
	at.done(k, pick)
}
