package chunked

import (
	"weft/autograd"
	"weft/gnn"
)

// propagator has the gnn.Propagator of a layer for each chunk, by the chunk's set of rows of each vertex
// type. A call's input has the rows of one chunk, which selects the Propagator.
type propagator map[*autograd.RowSet]gnn.Propagator

// Propagator returns the gnn.Propagator of the layer with that module path. It panics if the graph lacks the
// relation.
func (g *Graph) Propagator(path string, along gnn.Along) gnn.Propagator {
	g.paths[path] = true
	p := propagator{}
	for _, c := range g.Chunks {
		inner := c.Propagator(path, along)
		for _, rows := range c.Types() {
			p[rows] = inner
		}
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
func (p propagator) Message(m gnn.Message) *autograd.Var { return p[m.Ends()[0].RowSet()].Message(m) }

// ApplyEdges implements gnn.Propagator.
func (p propagator) ApplyEdges(m gnn.Message) *autograd.Var {
	return p[m.Ends()[0].RowSet()].ApplyEdges(m)
}
