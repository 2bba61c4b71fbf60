package program

import "slices"

// The rule by which operations on rows of edges become operations on rows of vertices.

// hoisted computes an operation on rows of vertices and gathers its result, instead of gathering its
// operands: a graph has fewer vertices than edges.
func (b *builder) hoisted(o Operation, in []*value) *value {
	if !isRowLocal(o.Op) {
		return nil
	}
	var from *value
	rows := slices.Clone(in)
	for i, x := range in {
		if x.Rows != Edges {
			continue
		}
		if x.op != "gather" || from != nil && (x.o.End != from.o.End || x.o.loops() != from.o.loops()) {
			return nil
		}
		from, rows[i] = x, x.in[0]
	}
	if from == nil {
		return nil
	}
	if k := singular(o.Op); k >= 0 && in[k].Rows == Edges {
		rows[k] = b.oneWhereUnread(rows[k], from)
	}
	return b.make(from.o, b.make(o, rows...))
}

// singular returns the number of the operand for which the derivative may be infinite; -1: there is none.
func singular(op string) int {
	switch op {
	case "div", "fmod":
		return 1
	case "pow", "reciprocal", "rsqrt", "sqrt", "exp", "expm1", "log", "log1p":
		return 0
	}
	return -1
}

// oneWhereUnread returns x, which edges gather, with 1 for vertices that no edge reads. Their gradient is 0,
// and must not become 0·∞.
func (b *builder) oneWhereUnread(x, gather *value) *value {
	if !x.requiresGrad || gather.Loops == one || gather.Loops == added {
		return x
	}
	o := gather.o.op("scatter")
	o.End = gather.o.End
	return b.make(o.op("where"), b.hasEdges(gather.Type, o), x, b.constant(1))
}
