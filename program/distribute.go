package program

import (
	"slices"
	"strings"
)

// The rule by which a product with rows of edges becomes products with rows of vertices.

// distributed turns a product with rows of edges into a sum of products, one for each part that the rows are
// made of. It applies if all parts but one are gathered from vertices, because a graph has fewer vertices
// than edges.
func (b *builder) distributed(o Operation, in []*value) *value {
	if o.Op != "linear" || in[0].Rows != Edges || len(in[0].Shape) != 1 || in[1].ofRows {
		return nil
	}
	terms := b.terms(o, term{in[0], in[1], 1})
	if len(terms) < 2 {
		return nil
	}
	terms = b.merged(o, terms)
	others := 0
	for _, t := range terms {
		if t.x.op != "gather" {
			others++
		}
	}
	if others > 1 {
		return nil
	}
	var z *value
	bias := in[2:]
	for i := 0; i < len(terms); {
		end := terms[i].end()
		var sum *value // the sum of the terms from one end
		for ; i < len(terms) && terms[i].end() == end; i++ {
			sum = b.plus(o, sum, b.make(o.op("linear"), terms[i].x, terms[i].weight), terms[i].sign)
		}
		if len(bias) > 0 && end != "" {
			sum, bias = b.plus(o, sum, bias[0], 1), nil
		}
		z = b.plus(o, z, sum, 1)
	}
	if len(bias) > 0 {
		z = b.plus(o, z, bias[0], 1)
	}
	return z
}

// term is ±x·wᵀ.
type term struct {
	x, weight *value
	sign      int
}

// end returns the end of the edges that a term is gathered from; "": it is not gathered.
func (t term) end() string {
	if t.x.op == "gather" {
		return t.x.o.End
	}
	return ""
}

// plus returns z ± x; z may be nil.
func (b *builder) plus(o Operation, z, x *value, sign int) *value {
	switch {
	case z == nil && sign < 0:
		return b.make(o.op("neg"), x)
	case z == nil:
		return x
	case sign < 0:
		return b.make(o.op("sub"), z, x)
	}
	return b.make(o.op("add"), z, x)
}

// merged merges terms of the same rows: their weights are added.
func (b *builder) merged(o Operation, terms []term) (all []term) {
	at := map[*value]int{}
	for _, t := range terms {
		same, found := at[t.x]
		if !found {
			at[t.x] = len(all)
			all = append(all, t)
			continue
		}
		s := &all[same]
		s.weight = b.plus(o, s.weight, t.weight, s.sign*t.sign)
	}
	return all
}

// terms returns the terms of a product, in the order of their ends, so that rows of one end are added before
// they are gathered.
func (b *builder) terms(o Operation, product term) []term {
	left := mostFactors
	terms := b.expanded(o, product, &left)
	slices.SortStableFunc(terms, func(s, t term) int { return strings.Compare(s.end(), t.end()) })
	return terms
}

// expanded returns the terms of a product, of which at most one is not gathered. left is the number of
// further terms that it may make.
func (b *builder) expanded(o Operation, product term, left *int) (terms []term) {
	parts := b.termsOf(o, product)
	if *left -= len(parts); *left < 0 {
		return []term{product}
	}
	var others []term
	for _, t := range parts {
		own := b.expanded(o, t, left)
		if slices.ContainsFunc(own, func(t term) bool { return t.end() == "" }) {
			others = append(others, t)
			continue
		}
		terms = append(terms, own...)
	}
	switch {
	case len(others) == 1:
		return append(terms, b.expanded(o, others[0], left)...)
	case len(others) > 1 && product.x.op == "cat" && len(terms) > 0:
		return append(terms, b.sideBySide(o, others))
	case len(others) > 1 || len(parts) == 0:
		return []term{product}
	}
	return terms
}

// sideBySide returns a sum of terms as one term, with rows and weights side by side.
func (b *builder) sideBySide(o Operation, terms []term) term {
	var xs, weights []*value
	for _, t := range terms {
		xs, weights = append(xs, t.x), append(weights, t.weight)
	}
	rows, columns := o.op("cat"), o.op("cat")
	columns.Dim = 1
	return term{b.make(rows, xs...), b.make(columns, weights...), terms[0].sign}
}

// termsOf returns a term for each of the rows that the operation t.x adds or puts side by side; nil: it does
// neither.
func (b *builder) termsOf(o Operation, t term) (terms []term) {
	x := t.x
	if x.Rows != Edges {
		return nil
	}
	switch x.op {
	case "neg":
		return []term{{x.in[0], t.weight, -t.sign}}
	case "add", "sub":
		second := t.sign
		if x.op == "sub" {
			second = -second
		}
		if slices.Equal(x.in[0].Shape, x.Shape) && slices.Equal(x.in[1].Shape, x.Shape) {
			return []term{{x.in[0], t.weight, t.sign}, {x.in[1], t.weight, second}}
		}
	case "cat":
		if slices.ContainsFunc(x.in, func(y *value) bool { return y.Rows != Edges }) {
			return nil
		}
		at := 0
		for _, y := range x.in {
			part := o.op("slice")
			part.Dim, part.Start, part.Stop = 1, at, at+y.Shape[0]
			at = part.Stop
			terms = append(terms, term{y, b.make(part, t.weight), t.sign})
		}
	}
	return terms
}
