package partition

import (
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"weft/graph"
	"weft/internal/cores"
)

// inBatch is the in-edges of consecutive rows, with the sources' positions, and what they count.
type inBatch struct {
	graph.Relation
	cut     []int64 // by the partition of the sources
	reached []int   // rows with a source in the partition
	bins    []int64
	at      []int    // scratch: by partition, the next place in the row
	keys    []uint64 // scratch
	err     error
}

// in writes the in-edges of partition p.
func (e *edgeWriter) in(to *graph.Writer, p int) error {
	ids, k := e.target.ids(p), len(e.cut)
	edges := int64(0)
	for _, v := range ids {
		edges += e.from.Indptr[v+1] - e.from.Indptr[v]
	}
	clear(e.needed)
	pool := sync.Pool{New: func() any {
		return &inBatch{cut: make([]int64, k), reached: make([]int, k), bins: make([]int64, len(e.bins)), at: make([]int, k+1)}
	}}
	starts, read := batches(ids, e.from.Indptr, batchEdges), 0
	err := to.In(e.r, edges, e.from, func(write func(*graph.Relation) error) error {
		return cores.InOrder(len(starts)-1, func(n int) *inBatch {
			b := pool.Get().(*inBatch)
			b.err = e.w.g.Guard(func() error {
				e.list(b, ids[starts[n]:starts[n+1]], p)
				return nil
			})
			return b
		}, func(_ int, b *inBatch) error {
			if b.err != nil {
				return b.err
			}
			for q := range k {
				e.cut[p][q] += b.cut[q]
				if q != p {
					e.halo.RowsOut[q][p] += b.reached[q]
				}
			}
			for bin, n := range b.bins {
				e.bins[bin] += n
			}
			e.w.listed += int64(len(b.Sources))
			e.w.progress.Of("dividing edges", e.w.listed, e.w.whole.Edges)
			if read += len(b.Sources); read > unloadEdges {
				e.w.g.Unload()
				read = 0
			}
			err := write(&b.Relation)
			pool.Put(b)
			return err
		})
	})
	for q := range k {
		if q != p {
			e.halo.Rows[p][q] = marked(e.needed, e.source.starts[q], e.source.starts[q+1])
		}
	}
	return err
}

// marked counts the marks of positions from … to−1.
func marked(marks []uint32, from, to int) (n int) {
	for at := from; at < to; {
		end := min(to, (at/bitsOfMarks+1)*bitsOfMarks)
		word := uint64(marks[at/bitsOfMarks]) >> (at % bitsOfMarks)
		n += bits.OnesCount64(word & (1<<(end-at) - 1))
		at = end
	}
	return n
}

// list lists the in-edges of the vertices ids, which are of partition p.
func (e *edgeWriter) list(b *inBatch, ids []int32, p int) {
	from := e.from
	clear(b.cut)
	clear(b.reached)
	clear(b.bins)
	b.EdgeColumns = from.EdgeColumns
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
	if from.EdgeFeatures != nil {
		values := int(edges) * from.EdgeColumns
		b.EdgeFeatures = slices.Grow(b.EdgeFeatures[:0], values)[:values]
	}
	for i, v := range ids {
		e.listRow(b, v, b.Indptr[i])
		e.count(b, b.Sources[b.Indptr[i]:b.Indptr[i+1]], p)
	}
}

// listRow lists the in-edges of vertex v from place to on, by the positions of their sources. Parallel edges
// keep their order.
func (e *edgeWriter) listRow(b *inBatch, v int32, to int64) {
	first := e.from.Indptr[v]
	sources := e.from.Sources[first:e.from.Indptr[v+1]]
	switch {
	case e.inOrder:
		copy(b.Sources[to:], sources)
		if e.from.Weights != nil {
			copy(b.Weights[to:], e.from.Weights[first:first+int64(len(sources))])
		}
		if c := int64(e.from.EdgeColumns); c > 0 {
			copy(b.EdgeFeatures[to*c:], e.from.EdgeFeatures[first*c:(first+int64(len(sources)))*c])
		}
	case len(b.at) <= len(sources):
		// Ids ascend within a partition's sources, and so do positions.
		clear(b.at)
		for _, u := range sources {
			b.at[e.source.of[u]+1]++
		}
		for q := range len(b.at) - 1 {
			b.at[q+1] += b.at[q]
		}
		for k, u := range sources {
			q := e.source.of[u]
			e.place(b, to+int64(b.at[q]), e.source.position[u], first+int64(k))
			b.at[q]++
		}
	default:
		b.keys = b.keys[:0] // position of the source, then position in the row
		for k, u := range sources {
			b.keys = append(b.keys, uint64(e.source.position[u])<<32|uint64(k))
		}
		slices.Sort(b.keys)
		for k, key := range b.keys {
			e.place(b, to+int64(k), int32(key>>32), first+int64(uint32(key)))
		}
	}
}

// place puts edge k of the graph, from a source at that position, at a place in the batch.
func (e *edgeWriter) place(b *inBatch, at int64, position int32, k int64) {
	b.Sources[at] = position
	if e.from.Weights != nil {
		b.Weights[at] = e.from.Weights[k]
	}
	if c := int64(e.from.EdgeColumns); c > 0 {
		copy(b.EdgeFeatures[at*c:(at+1)*c], e.from.EdgeFeatures[k*c:(k+1)*c])
	}
}

// count counts the edges of a row of partition p, whose sources' positions ascend.
func (e *edgeWriter) count(b *inBatch, row []int32, p int) {
	q, end := -1, int32(0)
	for len(row) > 0 {
		for q < 0 || row[0] >= end {
			q = sort.Search(len(b.cut), func(q int) bool { return e.source.starts[q+1] > int(row[0]) })
			end = int32(e.source.starts[q+1])
		}
		n := 0
		for n < len(row) && row[n] < end {
			b.bins[row[n]>>e.shift]++
			n++
		}
		b.cut[q] += int64(n)
		b.reached[q]++
		if q != p {
			e.mark(row[:n])
		}
		row = row[n:]
	}
}

// mark marks positions that the partition needs. Other cores mark, too.
func (e *edgeWriter) mark(positions []int32) {
	for _, at := range positions {
		word, bit := &e.needed[at/bitsOfMarks], uint32(1)<<(at%bitsOfMarks)
		if atomic.LoadUint32(word)&bit == 0 {
			atomic.OrUint32(word, bit)
		}
	}
}
