package program

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
)

// region is the message function of a scatter: the operations on rows of edges between the rows of vertices
// that it gathers and the sum.
type region struct {
	leaves           []leaf
	sources, targets []*value // what the leaves are rows of, each once
	parameters       []string
	edgeFeatures     bool
	columnwise       bool
	edges, loops     *code // of the messages of the graph's edges, and of those of added loops
}

// leaf is rows that a message function reads at an end of the edges.
type leaf struct {
	*value
	of     *value // rows of vertices, or a tensor that depends on some
	target bool
}

// newRegion returns the region of a scatter.
func newRegion(v *value) *region {
	r := &region{columnwise: true}
	x, own := v.in[0], loopsOf(v.o.Loops).Only()
	seen := map[*value]bool{}
	var visit func(x *value)
	visit = func(x *value) {
		if seen[x] {
			return
		}
		seen[x] = true
		_, number := x.isConstant()
		switch {
		case x.op == "gather":
			r.leaf(x, x.in[0], own || x.o.End == v.o.End)
			return
		case x.Rows == Vertices || x.ofRows:
			r.leaf(x, x, true)
			return
		case x.op == "parameter":
			r.parameters = append(r.parameters, x.o.Name)
		case x.op == "edge_features":
			r.edgeFeatures = true
		}
		r.columnwise = r.columnwise && (number || isPointwise(x.op) && slices.Equal(x.Shape, v.Shape))
		for _, y := range x.in {
			visit(y)
		}
	}
	visit(x)
	r.columnwise = r.columnwise && len(r.sources) == 1 && len(r.targets) <= 1 &&
		!slices.ContainsFunc(r.leaves, func(l leaf) bool { return !slices.Equal(l.of.Shape, v.Shape) })
	given := func(x *value) bool {
		return slices.ContainsFunc(r.leaves, func(l leaf) bool { return l.value == x })
	}
	r.edges = newCode(v.in, storage(false), given)
	r.loops = newCode(v.in, storage(true), given)
	return r
}

// leaf notes rows that the function reads at an end.
func (r *region) leaf(x, of *value, target bool) {
	r.leaves = append(r.leaves, leaf{x, of, target})
	to := &r.sources
	if target {
		to = &r.targets
	}
	if !slices.Contains(*to, of) {
		*to = append(*to, of)
	}
}

// function computes the messages of some edges.
func (r *region) function(b *block, v *value) func(e gnn.Edges) *autograd.Var {
	return func(e gnn.Edges) *autograd.Var {
		c := r.edges
		if e.Loops {
			c = r.loops
		}
		p := &pass{
			block: b, tape: e.Tape, edges: &e, rows: e.Source, code: c, vars: map[*value]*autograd.Var{},
		}
		if e.Source == nil {
			p.rows = e.Target
		}
		for _, l := range r.leaves {
			of, from := r.sources, e.Sources
			if l.target {
				of, from = r.targets, e.Targets
			}
			p.vars[l.value] = from[slices.Index(of, l.of)]
		}
		return p.result(v.in[0])
	}
}
