package program

import (
	"slices"

	"weft/autograd"
	"weft/kernel"
)

// code lists the steps that compute values, in their order: in a block for its vertices, or in a message
// function for some edges.
type code struct {
	mode  mode
	steps []step
	uses  map[*value]int      // how many steps and results read a value
	alias func(*value) *value // the value that has a value's elements
}

// step computes a value.
type step struct {
	*value
	reads []*value // the values that must be computed before
	fused fused    // the operations computed together with it; nil: none
}

// storage returns a function of a value x. It returns the operand that has the elements of x in the same
// order, or x itself if there is none. For added loops in a message function (loops) the operand may be
// another than for the graph's edges.
func storage(loops bool, m mode) func(x *value) *value {
	return func(x *value) *value {
		switch {
		case x.op == "with_loops" && loops:
			return x.in[1]
		case x.op == "reshape" || x.op == "without_loops" || x.op == "with_loops":
			return x.in[0]
		}
		return m.taken(x)
	}
}

// newCode orders the values that results depend on in a mode. It stops at values that isInput reports.
func newCode(m mode, results []*value, storage func(*value) *value, isInput func(*value) bool) *code {
	alias := func(x *value) *value {
		for !isInput(x) {
			y := storage(x)
			if y == x {
				break
			}
			x = y
		}
		return x
	}
	c := &code{mode: m, uses: map[*value]int{}, alias: alias}
	var all []*value
	seen, readers := map[*value]bool{}, map[*value]int{}
	var visit func(v *value)
	visit = func(v *value) {
		if v = alias(v); seen[v] || isInput(v) {
			return
		}
		seen[v] = true
		for _, x := range operands(v, m) {
			readers[alias(x)]++
			visit(x)
		}
		all = append(all, v)
	}
	for _, v := range results {
		readers[alias(v)] += 2 // a result stays a value of its own
		visit(v)
	}
	slices.SortFunc(all, func(x, y *value) int { return x.number - y.number })
	alone := func(x *value) bool { return seen[x] && readers[x] == 1 }
	absorbed := map[*value]bool{}
	for _, v := range slices.Backward(all) {
		if absorbed[v] {
			continue
		}
		s := step{value: v, reads: operands(v, m)}
		if s.fused = fuse(v, alone); s.fused != nil {
			s.reads = s.fused.reads()
			for _, x := range s.fused.parts() {
				absorbed[x] = true
			}
		}
		c.steps = append(c.steps, s)
		for _, x := range s.reads {
			c.uses[alias(x)]++
		}
	}
	for _, v := range results {
		c.uses[alias(v)]++
	}
	slices.Reverse(c.steps)
	return c
}

// operands returns the values that a value is computed from in a mode. An aggregation of messages reads the
// values that its function gathers.
func operands(v *value, m mode) []*value {
	if r := v.regions[m]; r != nil {
		return slices.Concat(r.sources, r.targets, r.edgeRows)
	}
	return v.in
}

// cluster is pointwise operations that are computed in one pass over the rows. Only the result of the last is
// kept.
type cluster struct {
	last       *value
	expression kernel.Expression
	inputs     []*value
	absorbed   []*value
}

// mostOperations bounds the operations of an expression. The gradient of any expression of this size has a
// kernel on a card, whose registers are few.
const mostOperations = 64

// newCluster makes the cluster of v and of the values before v that it alone reads.
func newCluster(v *value, alone func(*value) bool) *cluster {
	c := &cluster{last: v}
	var instructions []*value
	taken := 0 // number of operations
	left := 1  // operands that are not yet collected, each of which may be one more input
	var collect func(x *value)
	collect = func(x *value) {
		left--
		_, number := x.isConstant()
		switch {
		case slices.Contains(instructions, x) || slices.Contains(c.inputs, x):
			return
		case number:
		case x == v || isPointwise(x.op) && alone(x) && x.Rows == v.Rows && sameColumns(x.Shape, v.Shape) &&
			taken < mostOperations && len(c.inputs)+left+len(x.in) <= kernel.MaxInputs:
			taken++
			left += len(x.in)
			for _, y := range x.in {
				collect(y)
			}
			if x != v {
				c.absorbed = append(c.absorbed, x)
			}
		default:
			c.inputs = append(c.inputs, x)
			return
		}
		instructions = append(instructions, x)
	}
	collect(v)
	registers := map[*value]int{}
	for i, x := range c.inputs {
		registers[x] = i
	}
	// an expression of constants alone has an input that nothing reads
	c.expression.Inputs = max(1, len(c.inputs))
	for _, x := range instructions {
		var args []int
		for _, y := range x.in {
			args = append(args, registers[y])
		}
		registers[x] = emit(&c.expression, x, args)
	}
	c.expression.Results = []int{registers[v]}
	return c
}

// sameColumns reports whether two shapes are the same, apart from leading sizes of 1.
func sameColumns(a, b []int) bool { return slices.Equal(trimLeadingOnes(a), trimLeadingOnes(b)) }

func trimLeadingOnes(shape []int) []int {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return shape
}

func (c *cluster) parts() []*value { return c.absorbed }

func (c *cluster) reads() []*value { return c.inputs }

func (c *cluster) compute(p *pass) *autograd.Var {
	var operands []autograd.Operand
	for _, x := range c.inputs {
		columns := p.broadcast(x.Shape, c.last.Shape)
		operands = append(operands, autograd.Operand{Var: p.value(x), Columns: columns})
	}
	if len(operands) == 0 {
		operands = append(operands, autograd.Operand{Var: p.row(make([]float32, c.last.size()))})
	}
	return autograd.Pointwise(&c.expression, operands...)
}
