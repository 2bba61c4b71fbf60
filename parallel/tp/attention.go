package tp

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/order"
)

// Attend implements gnn.Propagator. For GATv1 each worker computes the scores of its own rows, and
// redistributes them with the rows: two numbers for each vertex and head. So a slice may end within a head.
// GATv2 and dot products need all columns of a head at each edge, so their slices are whole heads. In softmax
// aggregation a head is one column. GATv1's slices are whole heads, too, in the history of a pipeline: it
// keeps rows, and scores are computed from them with the parameters of this epoch. With fewer heads than
// workers, some workers have no head.
func (p *propagator) Attend(a gnn.Attention, k gnn.Rounds) *autograd.Var {
	a.CheckScores(p.path)
	if a.LayerHeads == 0 {
		a.LayerHeads = a.Heads
	}
	if a.SourceScore == nil && (a.ATarget == nil || p.axis.wholeHeads) {
		return p.attendHeads(a, k)
	}
	a = a.WithScores()
	computed := a.SourceScore == nil
	if computed {
		a.SourceScore, a.TargetScore = autograd.HeadDot(a.Source, a.ASource, a.Heads),
			autograd.HeadDot(a.Source, a.ATarget, a.Heads)
		a.ASource, a.ATarget = nil, nil
	}
	cut := p.cut(a.Source.Cols())
	width := a.Source.Cols() / a.Heads
	me := p.axis.comm.Rank()
	touched := make([]span, len(cut)) // by slice: the heads of which it has columns
	for t, s := range cut {
		if first := s.from / width; s.count > 0 {
			touched[t] = span{first, (s.from+s.count-1)/width + 1 - first}
		}
	}
	p.order.Explain(func() string { return order.Attention(a, k) })
	shared := kernel.Replace
	if columnsOf(touched) > a.Heads { // some heads are in several slices
		shared = kernel.Accumulate
	}
	in := append(p.inputs(cut, a.Source, nil), input{a.SourceScore, p.from, touched, shared, true},
		input{a.TargetScore, p.to, touched, shared, true})
	z := p.onSlices(in, cut, func(own []*autograd.Var) (parts []*autograd.Var) {
		for _, s := range segments(cut[me], width) {
			b, head := a, s.head-touched[me].from
			some := []*autograd.Var{
				columns(own[0], s.from-cut[me].from, s.count), columns(own[1], head, s.heads),
				columns(own[2], head, s.heads),
			}
			b.Source, b.Target, b.SourceScore, b.TargetScore = some[0], some[0], some[1], some[2]
			b.Heads, b.FirstHead = s.heads, a.FirstHead+s.head
			if a.EdgeVector != nil {
				b.EdgeVector = autograd.Columns(a.EdgeVector, s.head, s.heads)
			}
			parts = append(parts, p.inner.Attend(b, k))
			for i, x := range some {
				if x != own[i] {
					x.Drop()
				}
			}
		}
		return parts
	})
	if computed {
		a.SourceScore.Drop()
		a.TargetScore.Drop()
	}
	return z
}

// attendHeads computes attention whose slices are whole heads, because its scores need all columns of a head.
func (p *propagator) attendHeads(a gnn.Attention, k gnn.Rounds) *autograd.Var {
	width := a.Source.Cols() / a.Heads
	heads := p.cut(a.Heads)
	cut := make([]span, len(heads))
	for t, h := range heads {
		cut[t] = span{h.from * width, h.count * width}
	}
	ownHeads, own := heads[p.axis.comm.Rank()], cut[p.axis.comm.Rank()]
	p.order.Explain(func() string { return order.Attention(a, k) + ", sliced between heads" })
	// With all columns or none, too: gradients of parameters are complete in the same order on all workers.
	var read []*autograd.Var
	b := a
	for _, v := range []**autograd.Var{&b.ASource, &b.ATarget, &b.EdgeWeight, &b.InverseTemperature} {
		if *v != nil {
			*v = autograd.Columns(*v, own.from, own.count)
			read = append(read, *v)
		}
	}
	if a.EdgeVector != nil {
		b.EdgeVector = autograd.Columns(a.EdgeVector, ownHeads.from, ownHeads.count)
		read = append(read, b.EdgeVector)
	}
	in := p.inputs(cut, a.Source, a.Target)
	if a.Key != nil {
		in = slices.Insert(in, 1, input{x: a.Key, vertices: p.from, cut: cut, back: kernel.Replace})
	}
	return p.onSlices(in, cut, func(own []*autograd.Var) []*autograd.Var {
		b := b
		if b.Source = own[0]; a.InverseTemperature == nil {
			b.Target = own[len(own)-1]
		}
		if a.Key != nil {
			b.Key = own[1]
		}
		b.Heads, b.FirstHead = ownHeads.count, a.FirstHead+ownHeads.from
		return []*autograd.Var{p.inner.Attend(b, k)}
	}, read...)
}

// segment is a range of a slice's columns for one call of inner.Attend: whole heads, or a part of one head.
type segment struct{ from, count, head, heads int }

// segments divides a slice into at most three segments: the end of a head, whole heads, the beginning of a
// head.
func segments(s span, width int) (list []segment) {
	for at, end := s.from, s.from+s.count; at < end; {
		g := segment{from: at, head: at / width, heads: 1}
		if whole := (end - at) / width; at%width == 0 && whole > 0 {
			g.heads, g.count = whole, whole*width
		} else {
			g.count = min(end, (g.head+1)*width) - at
		}
		list = append(list, g)
		at = at + g.count
	}
	return list
}

// columns returns a range of x's columns, or x itself for all columns.
func columns(x *autograd.Var, from, count int) *autograd.Var {
	if count == x.Cols() {
		return x
	}
	return autograd.Columns(x, from, count)
}
