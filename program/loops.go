package program

// Rules about the self loops of a set of edges.

// loopsOfRows lets a gather produce rows for the set of edges that reads it, without a change of loops
// afterwards.
func (b *builder) loopsOfRows(o Operation, in []*value) *value {
	if o.Op != "without_loops" && o.Op != "with_loops" {
		return nil
	}
	x := in[0]
	again := x.o
	again.Loops = removed
	if o.Op == "with_loops" {
		again.Loops = withLoops[x.Loops]
	}
	switch {
	case x.op == "ones" && (o.Op == "without_loops" || in[1].isOne()):
		return b.make(again)
	case x.op == "gather" && (o.Op == "without_loops" || in[1] == x.in[0]):
		return b.make(again, x.in...)
	}
	return nil
}

// valuesOfLoops makes the value of the last stored loop of each vertex, or the other operand's for a vertex
// without loops. As in PyTorch, each stored loop of a vertex gets the gradient of the last.
func (b *builder) valuesOfLoops(o Operation, in []*value) *value {
	if o.Op != "loop_values" {
		return nil
	}
	loops := func(set string, x *value) *value {
		sum := o.op("scatter")
		sum.Reduce, sum.End, sum.Loops = "sum", "target", set
		return b.plain(sum, x)
	}
	last, any := loops(lastLoops, in[0]), loops(lastLoops, b.ones(in[0].Type))
	if in[0].requiresGrad {
		each := loops(onlyLoops, in[0])
		nothing := b.make(o.op("sub"), each, b.make(o.op("detach"), each)) // 0, with the gradient of each
		last = b.make(o.op("add"), b.make(o.op("detach"), last), nothing)
	}
	return b.make(o.op("where"), b.make(o.op("gt"), any, b.constant(0)), last, in[1])
}
