package partition

import "weft/graph"

// sink takes what a divider makes of a partition. A graph.Writer, whose methods these are, writes it to
// files. A heldPart keeps it in memory.
type sink interface {
	Features(t, columns, stored int, batches graph.Batches[*graph.Features]) error
	In(r int, edges int64, like *graph.Relation, batches graph.Batches[*graph.Relation]) error
	Out(r int, edges int64, like *graph.Relation, batches graph.Batches[*graph.Relation]) error
	Written(r int) (*graph.Graph, error)
}

// heldPart is a part of a graph in memory.
type heldPart struct{ *graph.Part }

// holdPart begins a part. Its graph has labels and splits, and types and relations without rows.
func holdPart(p *graph.Part) *heldPart {
	p.Out = make([]graph.Relation, len(p.Graph.Relations))
	for i := range p.Out {
		p.Out[i].Symmetric = p.Graph.Relations[i].Symmetric
	}
	return &heldPart{p}
}

// Features implements sink.
func (h *heldPart) Features(t, columns, stored int, batches graph.Batches[*graph.Features]) error {
	f := &h.Graph.Features
	if t > 0 {
		f = &h.Graph.Others[t-1].Features
	}
	f.Columns = columns
	if stored < 0 {
		f.Dense = make([]float32, 0, len(h.IDs[t])*columns)
	} else {
		f.Indptr = make([]int64, 1, len(h.IDs[t])+1)
		f.Indices, f.Data = make([]int32, 0, stored), make([]float32, 0, stored)
	}
	return batches(func(b *graph.Features) error {
		f.Dense = append(f.Dense, b.Dense...)
		f.Indptr = appendRows(f.Indptr, b.Indptr)
		f.Indices, f.Data = append(f.Indices, b.Indices...), append(f.Data, b.Data...)
		return nil
	})
}

// In implements sink.
func (h *heldPart) In(r int, edges int64, like *graph.Relation, batches graph.Batches[*graph.Relation]) error {
	in := &h.Graph.Relations[r]
	if like.EdgeFeatures != nil {
		in.EdgeFeatures = make([]float32, 0, edges*int64(like.EdgeColumns))
	}
	return hold(in, edges, like, batches)
}

// Out implements sink.
func (h *heldPart) Out(r int, edges int64, like *graph.Relation, batches graph.Batches[*graph.Relation]) error {
	return hold(&h.Part.Out[r], edges, like, batches)
}

// hold appends batches of so many edges to a relation.
func hold(to *graph.Relation, edges int64, like *graph.Relation, batches graph.Batches[*graph.Relation]) error {
	to.Indptr, to.Sources = []int64{0}, make([]int32, 0, edges)
	if like.Weights != nil {
		to.Weights = make([]float32, 0, edges)
	}
	return batches(func(b *graph.Relation) error {
		to.Indptr = appendRows(to.Indptr, b.Indptr)
		to.Sources, to.Weights = append(to.Sources, b.Sources...), append(to.Weights, b.Weights...)
		to.EdgeFeatures = append(to.EdgeFeatures, b.EdgeFeatures...)
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

// Written implements sink.
func (h *heldPart) Written(r int) (*graph.Graph, error) {
	return &graph.Graph{Relations: h.Graph.Relations[r : r+1 : r+1]}, nil
}
