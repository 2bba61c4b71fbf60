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
	by     scoring
	loops  *tensor.Matrix
	looped *edges.Block // self loops as edges, if features are used; nil: none
	kernel kernel.Attention
	alone  bool // in the backward pass: there is only one block

	out, logSum *tensor.Matrix // after the forward pass
	// in the backward pass: gradient of the output, and ⟨g, output⟩ for each head, nil in softmax aggregation
	g, gOut *tensor.Matrix
}

// vars returns the values on which the result depends.
func (at *attention) vars() []*autograd.Var {
	all := append([]*autograd.Var{at.Source}, at.by.vars()...)
	if f := at.OfFeatures(); f != nil {
		all = append(all, f)
	}
	return all
}

// checkFeatures panics if the edges lack the features that are asked for.
func (at *attention) checkFeatures(path string, e *edges.Edges) {
	columns := at.OfFeatures().Rows()
	if at.Loops == gnn.AddedLoops {
		exchange.Must(refusal.Errorf("%s: attention with edge features has no features for loops beside the "+
			"stored ones; take stored loops, or one for each vertex", path))
	}
	if slices.ContainsFunc(e.Blocks, func(b *edges.Block) bool {
		return b.Features == nil || b.Features.Cols != columns
	}) {
		exchange.Must(refusal.Errorf("%s: attention is asked to use %d features of each edge, and the "+
			"edges do not have them in this direction; take edges as they are stored, with as many features",
			path, columns))
	}
}

// rows returns the matrices from which the rows of a block's sources are taken.
func (at *attention) rows() []*tensor.Matrix {
	rows := []*tensor.Matrix{at.Source.Value()}
	if sent := at.by.sent(); sent != nil {
		rows = append(rows, sent.Value())
	}
	return rows
}

// arguments returns the kernel's arguments for a block and its sources' rows. They are valid until unset.
func (at *attention) arguments(b *edges.Block, rows []*tensor.Matrix, pick *edges.Picker) kernel.Attention {
	k := at.kernel
	k.Source, k.SourceIDs = rows[0], b.IDs
	if k.TargetIDs != nil {
		k.TargetIDs = pick.Rows(k.TargetIDs.Reshape(k.TargetIDs.Len(), 1))
	}
	at.by.set(&k, rows, pick)
	switch {
	case at.EdgeVector != nil:
		k.Edges = kernel.EdgeFeatures{Rows: b.Features, Vector: at.EdgeVector.Value()}
	case at.EdgeWeight != nil:
		k.Edges = kernel.EdgeFeatures{Rows: b.Features, Weight: at.EdgeWeight.Value()}
	}
	return k
}

// loopFeatures gives the kernel the features of the self loops, if the block's edges include these.
func (at *attention) loopFeatures(k *kernel.Attention, loops *tensor.Matrix) {
	if loops != nil && at.looped != nil {
		k.Edges.Loops, k.Edges.FirstLoop = at.looped.Features, at.looped.In.Indptr
	}
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
	at.by.unset(k)
	pick.Release()
}

// backward adds the gradients of one block. dRows receives the gradients of its sources' rows, and of their
// keys, or of their scores if these are given and need a gradient. dTarget receives the gradients of the
// targets' rows, or of their scores for GATv1. The gradients of the parameters are added, too.
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
	attended := kernel.Attended{
		Grad: pick.Rows(at.g), GradDotOut: pick.Rows(at.gOut), LogSum: pick.Rows(at.logSum),
	}
	if at.gOut == nil {
		attended.Out = pick.Rows(at.out)
	}
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
		at.by.setGradients(&d, dRows, dTarget)
		team.AttendBackward(d, k, b.In, b.Out, loops, attended)
		at.by.unsetGradients(d, rows[0])
	})
	at.by.unset(k)
	pick.Release()
}
