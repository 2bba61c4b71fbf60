package program

import "slices"

// The rules that leave out operations that change nothing.

// chosen makes an opChoose, so that each pass computes only the value of its mode.
func (b *builder) chosen(o Operation, in []*value) *value {
	if o.Op != "where" || in[0].op != "training" || !in[1].equals(in[2].Type) {
		return nil
	}
	o.Op = opChoose
	return b.make(o, in[1:]...)
}

// sameShape leaves out changes of the shape that change nothing, and joins two of them.
func (b *builder) sameShape(o Operation, in []*value) *value {
	switch {
	case (o.Op == "reshape" || o.Op == "expand") && slices.Equal(o.Shape, in[0].Shape):
		return in[0]
	case o.Op == "reshape" && in[0].op == "reshape":
		return b.make(o, in[0].in[0])
	}
	return nil
}

// dropOnes leaves out factors of 1, and rows of ones beside others of the same edges.
func (b *builder) dropOnes(o Operation, in []*value) *value {
	if !isPointwise(o.Op) {
		return nil
	}
	for i, x := range in {
		if x.op == "ones" && slices.ContainsFunc(in,
			func(y *value) bool { return y.Rows == x.Rows && y.op != "ones" }) {
			in = slices.Clone(in)
			in[i] = b.constant(1)
			return b.make(o, in...)
		}
	}
	if o.Op == "mul" {
		for i, x := range in {
			y := in[1-i]
			if x.op == "constant" && x.isOne() && len(x.Shape) == 0 {
				return y
			}
		}
	}
	return nil
}
