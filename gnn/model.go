package gnn

import "weft/autograd"

// Model is a model, or a consecutive part of one, that was built: it maps the state before its first block to
// the state after its last. All of a model maps features, rows × features, to logits, rows × classes.
type Model struct {
	Blocks []Block
}

// Build builds the blocks from … to−1 of a model.
func Build(specs []BlockSpec, from, to int, e Env) *Model {
	m := &Model{}
	for i, s := range specs[from:to] {
		e.Params.BeginLayer(from + i)
		m.Blocks = append(m.Blocks, s.Build(e))
	}
	return m
}

// Forward is the state after all blocks.
func (m *Model) Forward(s State) State { return run(m.Blocks, s) }

// Until is the output of the first n blocks of all of a model for the features x; of all its blocks, the
// logits. What travelled along with it is dropped.
func (m *Model) Until(n int, x *autograd.Var) *autograd.Var {
	s := run(m.Blocks[:n], State{H: x})
	if s.H0 != nil && s.H0 != s.H {
		s.H0.Drop()
	}
	return s.H
}

// run passes a state through blocks. Each frees what it made besides the state that it leaves, and then what
// it does not hand on.
func run(blocks []Block, s State) State {
	for _, b := range blocks {
		in := s
		in.H.Tape().ScopeOf(func() []*autograd.Var {
			s = b.Forward(in)
			return []*autograd.Var{s.H, s.H0}
		})
		for _, v := range []*autograd.Var{in.H, in.H0} {
			if v != nil && v != s.H && v != s.H0 {
				v.Drop()
			}
		}
	}
	return s
}
