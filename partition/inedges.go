package partition

import (
	"slices"
	"sync"

	"weft/graph"
	"weft/internal/cores"
)

// inBatch has the in-edges of consecutive rows, the positions of their sources, and counts of them.
type inBatch struct {
	graph.Relation
	*tally
	bins []int64
	at   []int    // scratch: by partition, the next place in the row
	keys []uint64 // scratch
	err  error
}

// into returns the number of edges into partition p.
func (e *edgeDivider) into(p int) (edges int64) {
	for _, v := range e.target.in(p) {
		edges += e.from.Indptr[v+1] - e.from.Indptr[v]
	}
	return edges
}

// list calls write with the in-edges of consecutive vertices of partition p, and counts them.
func (e *edgeDivider) list(p int, write func(*graph.Relation) error) error {
	ids := e.target.in(p)
	k := len(e.cut)
	e.far.begin(p)
	pool := sync.Pool{New: func() any {
		return &inBatch{tally: newTally(k), bins: make([]int64, len(e.bins)), at: make([]int, k+1)}
	}}
	starts := batches(ids, e.from.Indptr, batchEdges)
	read := 0
	err := cores.InOrder(len(starts)-1, func(n int) *inBatch {
		b := pool.Get().(*inBatch)
		b.err = e.d.g.Guard(func() error {
			e.fill(b, ids[starts[n]:starts[n+1]])
			return nil
		})
		return b
	}, func(_ int, b *inBatch) error {
		if b.err != nil {
			return b.err
		}
		for q := range k {
			e.cut[p][q] += b.edges[q]
			if q != p {
				e.halo.RowsOut[q][p] += b.rows[q]
			}
		}
		for bin, n := range b.bins {
			e.bins[bin] += n
		}
		e.d.listed += int64(len(b.Sources))
		e.d.progress.Report("dividing edges", e.d.listed, e.d.whole.Edges)
		read += len(b.Sources)
		if read > unloadEdges {
			e.d.g.Unload()
			read = 0
		}
		err := write(&b.Relation)
		pool.Put(b)
		return err
	})
	e.halo.Rows[p] = e.far.needs()
	e.halo.Rows[p][p] = 0
	return err
}

// fill lists the in-edges of the vertices ids, and counts them.
func (e *edgeDivider) fill(b *inBatch, ids []int32) {
	from := e.from
	clear(b.edges)
	clear(b.rows)
	clear(b.bins)
	b.Features.Columns = from.Features.Columns
	b.Indptr = append(b.Indptr[:0], 0)
	edges := int64(0)
	for _, v := range ids {
		edges += from.Indptr[v+1] - from.Indptr[v]
		b.Indptr = append(b.Indptr, edges)
	}
	b.Sources = slices.Grow(b.Sources[:0], int(edges))[:edges]
	if from.Weights != nil {
		b.Weights = slices.Grow(b.Weights[:0], int(edges))[:edges]
	}
	if from.Features.Dense != nil {
		values := int(edges) * from.Features.Columns
		b.Features.Dense = slices.Grow(b.Features.Dense[:0], values)[:values]
	}
	for i, v := range ids {
		e.listRow(b, v, b.Indptr[i])
		e.far.count(b.tally, b.Sources[b.Indptr[i]:b.Indptr[i+1]])
	}
	for _, at := range b.Sources {
		b.bins[at>>e.shift]++
	}
}

// listRow lists the in-edges of vertex v from place to on, by the positions of their sources. Parallel edges
// keep their order.
func (e *edgeDivider) listRow(b *inBatch, v int32, to int64) {
	first := e.from.Indptr[v]
	sources := e.from.Sources[first:e.from.Indptr[v+1]]
	switch {
	case e.inOrder:
		copy(b.Sources[to:], sources)
		if e.from.Weights != nil {
			copy(b.Weights[to:], e.from.Weights[first:first+int64(len(sources))])
		}
		if c := int64(e.from.Features.Columns); c > 0 {
			copy(b.Features.Dense[to*c:], e.from.Features.Dense[first*c:(first+int64(len(sources)))*c])
		}
	case len(b.at) <= len(sources):
		// Ids ascend within a partition's sources, and so do positions.
		clear(b.at)
		for _, u := range sources {
			b.at[e.holder[u]+1]++
		}
		for q := range len(b.at) - 1 {
			b.at[q+1] += b.at[q]
		}
		for k, u := range sources {
			q := e.holder[u]
			e.place(b, to+int64(b.at[q]), e.source.Positions[u], first+int64(k))
			b.at[q]++
		}
	default:
		b.keys = b.keys[:0] // position of the source, then position in the row
		for k, u := range sources {
			b.keys = append(b.keys, uint64(e.source.Positions[u])<<32|uint64(k))
		}
		slices.Sort(b.keys)
		for k, key := range b.keys {
			e.place(b, to+int64(k), int32(key>>32), first+int64(uint32(key)))
		}
	}
}

// place puts edge k of the graph, from a source at that position, at a place in the batch.
func (e *edgeDivider) place(b *inBatch, at int64, position int32, k int64) {
	b.Sources[at] = position
	if e.from.Weights != nil {
		b.Weights[at] = e.from.Weights[k]
	}
	if c := int64(e.from.Features.Columns); c > 0 {
		copy(b.Features.Dense[at*c:(at+1)*c], e.from.Features.Dense[k*c:(k+1)*c])
	}
}
