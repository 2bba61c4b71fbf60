package program

import (
	"slices"

	"weft/gnn"
)

// ofSparse says how rows of vertices follow from sparse features.
type ofSparse uint8

const (
	notSparse ofSparse = iota
	linearMap          // a linear map of sparse features, which is dense
	inRows             // the features themselves, perhaps with dropout: sparse rows
)

// forFeatures returns the program for a graph with this schema: where features are sparse, products with
// weights come before linear maps of them.
func (p *Program) forFeatures(schema gnn.Schema) *Program {
	if !slices.ContainsFunc(schema.Types, func(t gnn.VertexType) bool { return t.Sparse }) {
		return p
	}
	sparse := *p
	sparse.sparse = func(vertexType string) bool {
		i := schema.TypeOf(vertexType)
		return i >= 0 && schema.Types[i].Sparse
	}
	sparse.rebuild(p.every)
	return &sparse
}

// ofSparse says how a value with known operands follows from sparse features. In a linear map, factors and
// divisors are one number for each vertex, or for all.
func (b *builder) ofSparse(v *value) ofSparse {
	if b.program.sparse == nil || v.Rows != Vertices {
		return notSparse
	}
	maps := func(x *value) bool { return x.ofSparse != notSparse && slices.Equal(x.Shape, v.Shape) }
	number := func(x *value) bool { return x.size() == 1 && len(x.Shape) < 2 && x.ofSparse == notSparse }
	is := false
	switch v.op {
	case "features":
		if b.program.sparse(v.TypeName) && len(v.Shape) == 1 {
			return inRows
		}
	case "dropout":
		if v.in[0].ofSparse == inRows {
			return inRows
		}
	case opAggregate:
		is = maps(v.in[0]) && reduceOf(v).Linear()
	case "neg":
		is = maps(v.in[0])
	case "add", "sub":
		is = maps(v.in[0]) && maps(v.in[1])
	case "mul":
		is = maps(v.in[0]) && number(v.in[1]) || number(v.in[0]) && maps(v.in[1])
	case "div":
		is = maps(v.in[0]) && number(v.in[1])
	case "cat":
		is = slices.ContainsFunc(v.in, func(x *value) bool { return x.ofSparse != notSparse }) &&
			!slices.ContainsFunc(v.in, func(x *value) bool { return x.Rows != Vertices || len(x.Shape) != 1 })
	}
	if is {
		return linearMap
	}
	return notSparse
}

// productFirst computes the product with a weight before a linear map L of sparse features, L(X)·W = L(X·W),
// so that neither L(X) nor X is made dense. If L(X) is several values side by side, the result is the sum of
// their products.
func (b *builder) productFirst(o Operation, in []*value) *value {
	if o.Op != "linear" && o.Op != "matmul" || in[0].ofSparse == notSparse || len(in[1].Shape) != 2 ||
		in[1].Rows != None {
		return nil
	}
	switch {
	case len(in) == 3: // the product becomes a step of its own (readsSparse)
		return b.make(o.op("add"), b.make(o, in[:2]...), in[2])
	case in[0].ofSparse == linearMap:
		return first{b, o, map[*value]*value{}}.product(in[0], in[1])
	}
	return nil
}

// readsSparse reports whether v is a product with sparse features. Such a product is a step of its own: if
// later layers add it, it passes from block to block in place of the features, which have more columns.
func (v *value) readsSparse() bool { return v.op == "linear" && v.in[0].ofSparse == inRows }

// first moves products with a weight before linear maps.
type first struct {
	*builder
	operation Operation
	made      map[*value]*value // the products, by first operand
}

// product returns x·w.
func (f first) product(x, w *value) *value {
	if x.ofSparse != linearMap {
		return f.make(f.operation, x, w)
	}
	if f.made[x] == nil {
		f.made[x] = f.mapped(x, w)
	}
	return f.made[x]
}

// mapped returns x·w for a linear map x of sparse features.
func (f first) mapped(x, w *value) *value {
	if x.op == "cat" {
		return f.sideBySide(x, w)
	}
	in := slices.Clone(x.in)
	for i, y := range in {
		if y.ofSparse != notSparse {
			in[i] = f.product(y, w)
		}
	}
	return f.make(x.o, in...)
}

// sideBySide returns x·w for values side by side: the sum of their products with parts of w.
func (f first) sideBySide(x, w *value) (z *value) {
	at := 0
	for _, y := range x.in {
		part := f.operation.op("slice")
		part.Start, part.Stop = at, at+y.Shape[0]
		if f.operation.Op == "linear" {
			part.Dim = 1
		}
		at = part.Stop
		nested := first{f.builder, f.operation, map[*value]*value{}}
		z = f.plus(f.operation, z, nested.product(y, f.make(part, w)), 1)
	}
	return z
}
