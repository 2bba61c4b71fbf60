package gnn

import (
	"slices"

	"weft/autograd"
)

// Model is a built model, or a consecutive part of one: blocks that map the state before the first to the
// state after the last. A whole model maps features, rows × features, to logits, rows × classes.
type Model []Block

// Build builds the blocks from … to−1 of a model.
func Build(specs []BlockSpec, from, to int, e Env) (m Model) {
	for i, s := range specs[from:to] {
		e.Params.BeginLayer(from + i)
		m = append(m, numbered{s.Build(e), from + i})
	}
	return m
}

// numbered is a block, and its number in the whole model, which the tape is told.
type numbered struct {
	Block
	number int
}

// Forward implements Block.
func (b numbered) Forward(s State) State {
	t := s.tape()
	t.BeginLayer(b.number)
	defer t.BeginLayer(autograd.NoLayer)
	return b.Block.Forward(s)
}

// Forward passes a state through the blocks. After each block it releases everything but the state that the
// block returned.
func (m Model) Forward(s State) State {
	for _, b := range m {
		in := s
		in.tape().ScopeOf(func() []*autograd.Var {
			s = b.Forward(in)
			return s.Vars()
		})
		for _, v := range in.Vars() {
			if !slices.Contains(s.Vars(), v) {
				v.Drop()
			}
		}
	}
	return s
}
