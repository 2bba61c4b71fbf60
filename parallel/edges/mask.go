package edges

import (
	"cmp"

	"weft/gnn"
	"weft/tensor"
)

// masked are the edges of a pass whose messages have a factor.
func (e *Edges) masked(factor float32) *Edges {
	some := *e
	some.reset()
	some.mask, some.Blocks = &factor, nil
	for _, b := range e.Blocks {
		block := *b
		block.featureRows = nil
		block.MaskGradients = e.team.Zeros(tensor.Gradients, b.In.Entries(), 1)
		some.Blocks, some.made = append(some.Blocks, &block), append(some.made, block.MaskGradients)
	}
	return &some
}

// Masked reports whether messages have the factor Mask.
func (e *Edges) Masked() bool { return e.mask != nil }

// Mask is the factor of the messages of a pass that is Masked.
func (e *Edges) Mask() float32 { return *e.mask }

// MaskGradient is the gradient of the factor of an edge's messages, summed over some layers.
type MaskGradient struct {
	Relation       string
	Source, Target int32 // the vertices of the edge as the graph stores it
	Before         int   // how many parallel edges come before it
	Gradient       float32
}

// Compare orders edges by relation, target, source and Before.
func (m MaskGradient) Compare(n MaskGradient) int {
	return cmp.Or(cmp.Compare(m.Relation, n.Relation), cmp.Compare(m.Target, n.Target),
		cmp.Compare(m.Source, n.Source), cmp.Compare(m.Before, n.Before))
}

// EachMaskGradient calls f for each edge of the pass, in every layer in which it passes messages. It must be
// called before Release. The order is always the same.
func (g *Inputs) EachMaskGradient(f func(MaskGradient)) {
	for _, m := range g.made {
		for _, b := range m.some.Blocks {
			m.eachOf(b, f)
		}
	}
}

func (m *madeEdges) eachOf(b *Block, f func(MaskGradient)) {
	source, row, target := entriesOf(b.IDs), entriesOf(b.Targets), entriesOf(m.some.IDs)
	indptr, columns := b.In.Indptr.ReadInt64s(), b.In.Indices.ReadInt32s()
	grads := b.MaskGradients.ReadFloats()
	for i := range b.In.Rows {
		for k, before := range occurrences(indptr, columns, i) {
			gradient := MaskGradient{
				Relation: m.Relation, Before: int(before), Gradient: grads[k],
				Source: int32(source(int(columns[k]))), Target: int32(target(row(i))),
			}
			if m.Reversed {
				gradient.Source, gradient.Target = gradient.Target, gradient.Source
			}
			f(gradient)
		}
	}
}

// Scales are the factors of a linear aggregation: for the sources and the targets of the local block, and for
// vertices' own rows. weighted says that weights of edges are factors, too.
func (e *Edges) Scales(r gnn.Reduce) (row, column, self *tensor.Matrix, weighted bool, err error) {
	o, err := e.Operator(r)
	s := o.factors[e.Local()].forward
	return s.Row, s.Col, s.Self, o.weighted, err
}
