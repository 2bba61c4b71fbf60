package gnn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/autograd"
	"weft/nn"
	"weft/tensor"
)

// Model is a built model, or a consecutive part of one: blocks that map the state before the first to the
// state after the last. A whole model maps features, rows × features, to logits, rows × classes.
type Model []Block

// Build builds the blocks from … to−1 of a model.
func Build(specs []BlockSpec, from, to int, e Env) (m Model) {
	for i, s := range specs[from:to] {
		e.Params.BeginLayer(from + i)
		before := len(e.Params.List)
		b := numbered{s.Build(e), from + i, fmt.Sprintf("layer %d", from+i)}
		if made := e.Params.List[before:]; len(made) > 0 {
			b.name += " (" + pathOf(made) + ")"
		}
		m = append(m, b)
	}
	return m
}

// pathOf returns the module path that all the parameters have in common, or the name of the first.
func pathOf(made []*nn.Param) string {
	module := func(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }
	path := module(made[0].Name)
	for _, p := range made {
		for path != "" && !strings.HasPrefix(p.Name, path+".") {
			path = module(path)
		}
	}
	return cmp.Or(path, made[0].Name)
}

// numbered is a block with its number in the whole model, which the tape is told, and its name in errors.
type numbered struct {
	Block
	number int
	name   string
}

// Forward implements Block.
func (b numbered) Forward(s State) (out State) {
	t := s.tape()
	t.BeginLayer(b.number)
	defer t.BeginLayer(autograd.NoLayer)
	tensor.Within(b.name, func() { out = b.Block.Forward(s) })
	return out
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
