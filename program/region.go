package program

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
)

// region is the message function of a scatter or an opApply. It begins with gathered rows of vertices and
// kept rows of edges, and has the operations on rows of edges up to the result.
type region struct {
	operands         []operand
	sources, targets []*value // the values that operands gather, each once
	edgeRows         []*value // the kept rows of edges that it reads, each once
	parameters       []string
	edgeFeatures     bool
	columnwise       bool
	chooses          bool  // an opChoose is in it, so modes differ
	edges, loops     *code // for the messages of the graph's edges, and for those of added loops
}

// operand is a value that a message function reads at an end of the edges.
type operand struct {
	*value
	target bool
	number int // its index in region.sources or region.targets
}

// newRegions returns the regions of a scatter or of an opApply, by mode.
func newRegions(v *value) (all [modes]*region) {
	all[inBoth] = newRegion(v, inBoth)
	for m := range inBoth {
		if all[m] = all[inBoth]; all[inBoth].chooses {
			all[m] = newRegion(v, m)
		}
	}
	return all
}

func newRegion(v *value, m mode) *region {
	r := &region{columnwise: true}
	x, own := v.in[0], loopsOf(v.o.Loops).Only()
	seen, inputs := map[*value]bool{}, map[*value]bool{}
	numbers := map[bool]map[*value]int{false: {}, true: {}} // indices in sources, and in targets
	read := func(x, origin *value, target bool) {
		inputs[x] = true
		r.addOperand(x, origin, target, numbers[target])
	}
	var visit func(x *value)
	visit = func(x *value) {
		if x = m.taken(x); seen[x] {
			return
		}
		seen[x] = true
		_, number := x.isConstant()
		switch {
		case isKept(x):
			inputs[x] = true
			r.edgeRows = append(r.edgeRows, x)
			return
		case x.op == "gather":
			read(x, x.in[0], own || x.o.End == v.o.End)
			return
		case x.Rows == Vertices || x.ofRows:
			read(x, x, true)
			return
		case x.op == "parameter":
			r.parameters = append(r.parameters, x.o.Name)
		case x.op == "edge_features":
			r.edgeFeatures = true
		case x.op == opChoose:
			r.chooses = true
		}
		r.columnwise = r.columnwise && (number || isPointwise(x.op) && slices.Equal(x.Shape, v.Shape))
		for _, y := range x.in {
			visit(y)
		}
	}
	visit(x)
	r.columnwise = r.columnwise && v.op == "scatter" && len(r.edgeRows) == 0 &&
		len(r.sources) == 1 && len(r.targets) <= 1 &&
		!slices.ContainsFunc(slices.Concat(r.sources, r.targets), func(x *value) bool {
			return !slices.Equal(x.Shape, v.Shape)
		})
	isGiven := func(x *value) bool { return inputs[x] }
	r.edges = newCode(m, v.in, storage(false, m), isGiven)
	r.loops = newCode(m, v.in, storage(true, m), isGiven)
	return r
}

// addOperand notes that the function reads x at an end. x has the elements of origin: rows of vertices, or a
// tensor that depends on them.
func (r *region) addOperand(x, origin *value, target bool, numbers map[*value]int) {
	to := &r.sources
	if target {
		to = &r.targets
	}
	if _, known := numbers[origin]; !known {
		numbers[origin] = len(*to)
		*to = append(*to, origin)
	}
	r.operands = append(r.operands, operand{x, target, numbers[origin]})
}

// function returns the function that computes the messages of some edges.
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
		for _, o := range r.operands {
			from := e.Sources
			if o.target {
				from = e.Targets
			}
			p.vars[o.value] = from[o.number]
		}
		for i, x := range r.edgeRows {
			p.vars[x] = e.Rows[i]
		}
		return p.result(v.in[0])
	}
}
