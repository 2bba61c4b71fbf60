package program

import "slices"

// The rule by which operations on rows of edges become operations on rows of vertices.

// hoisted computes an operation on rows of vertices and gathers its result, instead of gathering its
// operands: a graph has fewer vertices than edges. It computes rows that no edge reads, too. Their gradient
// is 0, and must not become 0·∞ where the derivative or an operand is infinite.
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
	if slices.ContainsFunc(in, func(x *value) bool { return x.requiresGrad }) {
		k := singular(o.Op)
		for i, x := range in {
			if x.Rows == Edges && (i == k || rows[i].infiniteInTraining) {
				rows[i] = b.oneWhereUnread(rows[i], from, i != k)
			}
		}
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

// oneWhereUnread returns x, which edges gather, with 1 for vertices that no edge reads. finite: it returns x
// itself if that is known to be finite for these vertices.
func (b *builder) oneWhereUnread(x, gather *value, finite bool) *value {
	if gather.Loops == one || gather.Loops == added {
		return x
	}
	o := gather.o.op("scatter")
	o.End = gather.o.End
	read := b.hasEdges(gather.Type, o)
	if finite && x.infiniteWhere == read {
		return x
	}
	return b.make(o.op("where"), read, x, b.constant(1))
}
