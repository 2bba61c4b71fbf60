package tensor

import (
	"weft/autograd"
	"weft/parallel/order"
)

// switches are how often an epoch switches a cut's columns into slices, and back into rows.
type switches struct{ toSlices, toRows int64 }

// ofCall are the switches of a call that splits the inputs and gathers its result; backward the gradients go
// the other ways.
func ofCall(inputs ...*autograd.Var) (s switches) {
	s.toRows++
	for _, x := range inputs {
		s.toSlices++
		if x.Wants() {
			s.toRows++
		}
	}
	if s.toRows > 1 {
		s.toSlices++
	}
	return s
}

// ofInputs are those of inputs whose result is another's.
func ofInputs(inputs ...*autograd.Var) (s switches) {
	s = ofCall(inputs...)
	s.toRows--
	if s.toRows > 0 {
		s.toSlices--
	}
	return s
}

// cost is what the switches of a cut send.
func (a *Axis) cost(cut []span, s switches) (c order.Cost) {
	const size = 4 // bytes of an element
	k, me, columns := len(cut), a.comm.Rank(), columnsOf(cut)
	toSlices := a.own.Here * (columns - cut[me].count)
	toRows := (a.all.Here - a.own.Here) * cut[me].count
	c.Sent = size * (s.toSlices*int64(toSlices) + s.toRows*int64(toRows))
	for _, mine := range cut {
		if mine.count == 0 {
			c.Idle++
		}
	}
	for p, start := range a.starts[:len(a.starts)-1] {
		for t := range cut {
			c.All += size * (s.toSlices + s.toRows) * int64(owned(a.starts[p+1]-start, k, t)*(columns-cut[t].count))
		}
	}
	return c
}

// Cost implements order.Axis: an aggregation splits its input and gathers its result in each pass.
func (p *propagator) Cost(columns int, passes order.Passes) (c order.Cost, ok bool) {
	c = p.axis.cost(p.cut(columns), switches{int64(passes), int64(passes)})
	c.Adds = int64(passes) * p.axis.whole.Edges * int64(columns)
	return c, true
}
