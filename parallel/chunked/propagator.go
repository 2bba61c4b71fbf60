package chunked

import (
	"weft/autograd"
	"weft/gnn"
)

// propagator is the gnn.Propagator of a module, for all chunks. Its input's rows tell the chunk.
type propagator map[*autograd.RowSet]gnn.Propagator

// Propagator is the gnn.Propagator of the module at a path. It panics on a relation that the graph does not
// have.
func (g *Graph) Propagator(path string, along gnn.Along) gnn.Propagator {
	p := propagator{}
	for _, c := range g.Chunks {
		p[c.Rows()] = c.Propagator(path, along)
	}
	return p
}

// AggregateLinear implements gnn.Propagator.
func (p propagator) AggregateLinear(x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	return p[x.RowSet()].AggregateLinear(x, w, r)
}

// Propagate implements gnn.Propagator.
func (p propagator) Propagate(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	return p[x.RowSet()].Propagate(x, r, k)
}

// Attend implements gnn.Propagator.
func (p propagator) Attend(a gnn.Attention, k gnn.Rounds) *autograd.Var {
	return p[a.Source.RowSet()].Attend(a, k)
}

// Message implements gnn.Propagator.
func (p propagator) Message(m gnn.Message) *autograd.Var { return p[m.Source.RowSet()].Message(m) }
