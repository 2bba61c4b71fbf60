package program

// A softmax over the edges of a vertex: as a factor of a sum, which divides by 1/d afterwards, and alone.

// unnormalized returns p and 1/d for a factor p/d that is a softmax over the edges of a vertex, after
// operations that keep its elements; nil: it is none.
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

// softmax returns exp(e − max e) of the edges, and its sum over those of a vertex, of a softmax over them.
// It is 1 where all edges of a vertex have the same e: the vertex may have none, and so neither a maximum.
func (b *builder) softmax(f *value) (p, sum *value) {
	e := f.in[0]
	scatter := f.o.op("scatter")
	gather := f.o.op("gather")
	scatter.Divisor = true
	scatter.End, gather.End, gather.Of, gather.Loops = f.o.End, f.o.End, e.Of, e.Loops
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

// lowered makes a softmax over edges that no sum reads from its parts.
func (b *builder) lowered(o Operation, in []*value) *value {
	if o.Op != "edge_softmax" {
		return nil
	}
	f := &value{op: o.Op, o: o, Type: in[0].Type, in: in}
	p, sum := b.softmax(f)
	gather := o.op("gather")
	gather.End, gather.Of, gather.Loops = o.End, in[0].Of, in[0].Loops
	return b.make(o.op("div"), p, b.make(gather, sum))
}
