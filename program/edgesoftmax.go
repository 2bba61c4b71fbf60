package program

// A softmax over the edges of a vertex is p/d, with p = exp(e − max e) and d the sum of p. As a factor of a
// sum, p stays in the sum, and the sum is divided by d. Alone it is computed from its parts.

// unnormalized returns p and 1/d for a factor p/d that is a softmax over the edges of a vertex, perhaps after
// operations that keep its elements; nil: the factor is not.
func (b *builder) unnormalized(f *value, o Operation) (p, inverse *value) {
	switch f.op {
	case "edge_softmax":
		if f.o.End != o.End {
			return nil, nil
		}
		p, sum := b.softmax(f)
		return p, b.make(o.op("reciprocal"), sum)
	case "reshape", "permute", "expand", "dropout":
		p, inverse = b.unnormalized(f.in[0], o)
		if p == nil {
			return nil, nil
		}
		if f.op != "dropout" {
			inverse = b.make(f.o, inverse)
		}
		return b.make(f.o, p), inverse
	}
	return nil, nil
}

// softmax returns p = exp(e − max e) for the edges of a softmax, and its sum over the edges of a vertex. If e
// is gathered from the vertex itself, p is 1 without a maximum, which a vertex without edges would not have.
func (b *builder) softmax(f *value) (p, sum *value) {
	e := f.in[0]
	scatter := f.o.op("scatter")
	gather := f.o.op("gather")
	scatter.Divisor = true
	scatter.End, gather.End, gather.TypeName, gather.Loops = f.o.End, f.o.End, e.TypeName, e.Loops
	if e.op == "gather" && e.o.End == f.o.End {
		expand := f.o.op("expand")
		expand.Shape = e.Shape
		p = b.make(expand, b.ones(e.Type))
	} else {
		scatter.Reduce = "max"
		largest := b.make(f.o.op("detach"), b.make(scatter, e))
		p = b.make(f.o.op("exp"), b.make(f.o.op("sub"), e, b.make(gather, largest)))
	}
	scatter.Reduce = "sum"
	return p, b.make(f.o.op("add"), b.make(scatter, p), b.constant(1e-16))
}

// lowered makes a softmax over edges from its parts, if no sum reads it.
func (b *builder) lowered(o Operation, in []*value) *value {
	if o.Op != "edge_softmax" {
		return nil
	}
	f := &value{op: o.Op, o: o, Type: in[0].Type, in: in}
	p, sum := b.softmax(f)
	gather := o.op("gather")
	gather.End, gather.TypeName, gather.Loops = o.End, in[0].TypeName, in[0].Loops
	return b.make(o.op("div"), p, b.make(gather, sum))
}
