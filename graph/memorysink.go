package graph

import "slices"

// Sink takes a graph, or a part of one, in batches: a Writer, which stores it, or Held. Edges have the labels
// that the graph announces: Sink refuses others.
type Sink interface {
	Features(t, columns, stored int, batches Batches[*Features]) error
	Classes(batches Batches[[]int64]) error
	Splits(splits []Split) error
	In(r int, edges int64, like *Relation, batches Batches[*Relation]) error
	Out(r int, edges int64, like *Relation, batches Batches[*Relation]) error
	Written(r int) (*Graph, error)
}

// Held is a Sink that keeps in memory what a Writer would store.
type Held struct{ *Part }

// Hold begins a part or, with only the Graph, a whole graph. The graph has what is announced to a Writer.
func Hold(p *Part) *Held {
	p.Out = make([]Relation, len(p.Graph.Relations))
	for i := range p.Out {
		p.Out[i].Symmetric = p.Graph.Relations[i].Symmetric
	}
	return &Held{p}
}

// Features is Writer.Features.
func (h *Held) Features(t, columns, stored int, batches Batches[*Features]) error {
	vertexType := &h.Graph.Types[t]
	f, vertices := &vertexType.Features, vertexType.Count
	f.Columns = columns
	if stored < 0 {
		f.Dense = make([]float32, 0, vertices*columns)
	} else {
		f.Indptr = make([]int64, 1, vertices+1)
		f.Indices, f.Data = make([]int32, 0, stored), make([]float32, 0, stored)
	}
	return batches(func(b *Features) error {
		f.add(b, 0, stored < 0)
		return nil
	})
}

// Classes is Writer.Classes.
func (h *Held) Classes(batches Batches[[]int64]) error {
	l := &h.Graph.Types[0].Labels
	l.Class = make([]int64, 0, h.Graph.Types[0].Count)
	return batches(func(class []int64) error {
		l.Class = append(l.Class, class...)
		return nil
	})
}

// Splits is Writer.Splits.
func (h *Held) Splits(splits []Split) error {
	h.Graph.Types[0].Splits = splits
	return nil
}

// In is Writer.In.
func (h *Held) In(r int, edges int64, like *Relation, batches Batches[*Relation]) error {
	rows, _, err := h.ends(r, inEdges)
	if err != nil {
		return err
	}
	in := &h.Graph.Relations[r]
	in.Features.Columns = like.Features.Columns
	if like.Features.Dense != nil {
		in.Features.Dense = make([]float32, 0, edges*int64(like.Features.Columns))
	}
	return in.hold(rows, edges, like, batches)
}

// Out is Writer.Out.
func (h *Held) Out(r int, edges int64, like *Relation, batches Batches[*Relation]) error {
	rows, _, err := h.ends(r, outEdges)
	if err != nil {
		return err
	}
	return h.Part.Out[r].hold(rows, edges, like, batches)
}

// hold appends batches, with rows rows and edges edges in all, to a relation that announces their labels.
func (r *Relation) hold(rows int, edges int64, like *Relation, batches Batches[*Relation]) error {
	announced := r.Announced()
	r.Labels, r.SplitBy = announced.Labels, announced.SplitBy // those of the caller stay as they are
	r.Indptr = make([]int64, 1, rows+1)
	r.Sources = make([]int32, 0, edges)
	if like.Weights != nil {
		r.Weights = make([]float32, 0, edges)
	}
	return batches(func(b *Relation) error {
		if err := announced.checkBatch(&b.Frame, len(b.Sources)); err != nil {
			return err
		}
		r.AppendRows(&b.Frame, 0, int64(len(b.Sources)))
		r.Indptr = appendRows(r.Indptr, b.Indptr)
		r.Sources, r.Weights = append(r.Sources, b.Sources...), append(r.Weights, b.Weights...)
		r.Features.Dense = append(r.Features.Dense, b.Features.Dense...)
		return nil
	})
}

// appendRows appends the ends of a batch's rows, which begin at 0.
func appendRows(indptr, batch []int64) []int64 {
	if len(batch) == 0 {
		return indptr
	}
	before := indptr[len(indptr)-1]
	for _, end := range batch[1:] {
		indptr = append(indptr, before+end)
	}
	return indptr
}

// Written is Writer.Written.
func (h *Held) Written(r int) (*Graph, error) {
	return &Graph{Relations: slices.Clip(h.Graph.Relations[r : r+1])}, nil
}
