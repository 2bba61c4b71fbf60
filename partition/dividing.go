package partition

import (
	"errors"
	"math/bits"
	"runtime/debug"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"weft/graph"
	"weft/internal/cores"
)

const (
	batchEdges  = 1 << 20 // of in-edges that a core divides at a time
	batchValues = 1 << 20 // of features
	unloadEdges = 1 << 27 // after so many, the pages of mapped files are given back
	binsOfEdges = 1 << 16 // counters of edges by source
	bitsOfMarks = 32      // vertices in a word of marks
)

// shareWriter writes the shares of a graph in streams. It reads the edges once for the in-edges of all
// shares. Their out-edges are the transpose of the in-edges that were written, which it makes in passes: each
// reads the edges from a range of sources. It needs 12 bytes for each vertex while it writes in-edges, and 8
// while it makes out-edges; and memory for a batch of edges on each core, and for the out-edges of a pass. The
// assignment, of 4 bytes for each vertex, stays.
type shareWriter struct {
	g       *graph.Graph
	layouts []*layout // by vertex type
	whole   Whole
	parts   []*graph.PartWriter
	edges   []*edgeWriter // by relation

	progress graph.Progress
	listed   int64 // edges that were listed by their targets
	turned   int64 // by their sources
}

// edgeWriter writes the edges of a relation.
type edgeWriter struct {
	w              *shareWriter
	r              int // the relation
	from           *graph.Relation
	source, target *layout
	inOrder        bool      // the order of the sources is that of their ids
	halo           Halo      // of the partitions so far
	cut            [][]int64 // from q into p
	shift          uint
	bins           []int64  // edges by source position >> shift
	needed         []uint32 // marks of source positions that the current partition needs
}

// writeShares writes the shares into a folder. It returns the description of the whole graph.
func writeShares(folder *graph.Folder, g *graph.Graph, a *Assignment, progress graph.Progress) (*Whole, error) {
	w := &shareWriter{g: g, layouts: layouts(g, a), whole: WholeOf(g), progress: progress}
	w.whole.Statistics = *countVertices(g, a, w.layouts)
	for i := range g.Relations {
		w.edges = append(w.edges, newEdgeWriter(w, i, a.K))
	}
	for p := range a.K {
		if err := w.part(folder, p); err != nil {
			return nil, err
		}
		g.Unload()
	}
	for _, l := range w.layouts {
		l.onlyStarts()
	}
	debug.FreeOSMemory() // the out-edges need what the in-edges took
	for _, e := range w.edges {
		w.whole.Statistics.add(e.cut, e.halo, len(g.Relations) > 1)
		if err := e.out(); err != nil {
			return nil, err
		}
	}
	for _, part := range w.parts {
		if err := part.Close(); err != nil {
			return nil, err
		}
	}
	return &w.whole, nil
}

// part writes the vertices of partition p and the edges into them.
func (w *shareWriter) part(folder *graph.Folder, p int) error {
	ids := w.layouts[0].ids(p)
	part := &graph.Part{Graph: w.g.Bare(ids)}
	for i, t := range w.g.Types() {
		ids := w.layouts[i].ids(p)
		part.IDs, part.Whole = append(part.IDs, ids), append(part.Whole, t.Count)
		if i > 0 {
			part.Graph.Others = append(part.Graph.Others, graph.VertexType{Type: t.Type, Count: len(ids)})
		}
	}
	for _, e := range w.edges {
		like := graph.Relation{EdgeColumns: e.from.EdgeColumns, Symmetric: e.from.Symmetric}
		like.Source, like.Name, like.Target = e.from.Source, e.from.Name, e.from.Target
		part.Graph.Relations = append(part.Graph.Relations, like)
	}
	to, err := folder.CreatePart(strconv.Itoa(p), part)
	if err != nil {
		return err
	}
	w.parts = append(w.parts, to)
	for i, t := range w.g.Types() {
		if err := w.features(to, i, &t.Features, w.layouts[i].ids(p)); err != nil {
			return err
		}
	}
	for _, e := range w.edges {
		if err := e.in(to, p); err != nil {
			return err
		}
	}
	return nil
}

// features writes the features of the vertices ids of type t.
func (w *shareWriter) features(to *graph.PartWriter, t int, f *graph.Features, ids []int32) error {
	if f.Columns == 0 {
		return nil
	}
	stored, starts := -1, evenly(len(ids), max(1, batchValues/f.Columns))
	if f.Sparse() {
		stored = 0
		for _, v := range ids {
			stored += int(f.Indptr[v+1] - f.Indptr[v])
		}
		starts = batches(ids, f.Indptr, batchValues)
	}
	return to.Features(t, f.Columns, stored, func(write func(*graph.Features) error) error {
		type made struct {
			graph.Features
			err error
		}
		return cores.InOrder(len(starts)-1, func(k int) (m made) {
			m.err = w.g.Guard(func() error {
				m.Features = f.Rows(ids[starts[k]:starts[k+1]])
				return nil
			})
			return m
		}, func(_ int, m made) error {
			if m.err != nil {
				return m.err
			}
			return write(&m.Features)
		})
	})
}

// evenly returns the starts of ranges of so many of n rows, and n.
func evenly(n, rows int) (starts []int) {
	for at := 0; at < n; at += rows {
		starts = append(starts, at)
	}
	return append(starts, n)
}

// batches divides rows of a matrix into consecutive batches of about so many values. It returns their starts,
// and the number of rows.
func batches(ids []int32, indptr []int64, values int64) (starts []int) {
	starts = []int{0}
	held := int64(0)
	for row, v := range ids {
		n := indptr[v+1] - indptr[v] + 1
		if held += n; held > values && row > starts[len(starts)-1] {
			starts, held = append(starts, row), n
		}
	}
	if len(ids) > 0 {
		starts = append(starts, len(ids))
	}
	return starts
}

func newEdgeWriter(w *shareWriter, r, k int) *edgeWriter {
	joined := relationOf(w.g, r)
	e := &edgeWriter{w: w, r: r, from: &w.g.Relations[r], source: w.layouts[joined.Source], target: w.layouts[joined.Target]}
	e.inOrder = slices.IsSorted(e.source.of)
	e.halo, e.cut = Halo{square[int](k), square[int](k)}, square[int64](k)
	sources := len(e.source.of)
	e.shift = uint(max(0, bits.Len(uint(sources))-bits.Len(uint(binsOfEdges-1))))
	e.bins = make([]int64, sources>>e.shift+1)
	e.needed = make([]uint32, sources/bitsOfMarks+1)
	return e
}

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
func (e *edgeWriter) in(to *graph.PartWriter, p int) error {
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

// out writes the out-edges of all partitions.
func (e *edgeWriter) out() (err error) {
	var parts []*graph.Graph
	defer func() {
		for _, part := range parts {
			err = errors.Join(err, part.Close())
		}
	}()
	for _, to := range e.w.parts {
		part, err := to.Written(e.r)
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	unload := func() {
		for _, part := range parts {
			part.Unload()
		}
	}
	list, most, err := e.lister(parts, unload)
	if err != nil {
		return err
	}
	for q, to := range e.w.parts {
		edges := int64(0)
		for p := range e.cut {
			edges += e.cut[p][q]
		}
		err := to.Out(e.r, edges, e.from, func(write func(*graph.Relation) error) error {
			written := make(chan error, 1) // of one range, beside the listing of the next
			written <- nil
			for lo := e.source.starts[q]; lo < e.source.starts[q+1]; {
				hi := e.until(lo, e.source.starts[q+1], most)
				rows, err := list(q, lo, hi)
				if err = errors.Join(err, <-written); err != nil {
					return err
				}
				e.w.turned += int64(len(rows.Sources))
				e.w.progress.Of("turning edges around", e.w.turned, e.w.whole.Edges)
				go func() { written <- parts[q].Guard(func() error { return write(rows) }) }()
				unload()
				lo = hi
			}
			return <-written
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lister returns a function that lists the edges out of the sources of partition q at positions lo … hi−1,
// which ascend from call to call, and how many edges to ask it for. parts have the in-edges that were written.
func (e *edgeWriter) lister(parts []*graph.Graph, unload func()) (list func(q, lo, hi int) (*graph.Relation, error), most int64, err error) {
	var in []*graph.Relation
	for _, part := range parts {
		in = append(in, &part.Relations[0])
	}
	if e.from.Symmetric && e.from.Weights == nil && e.from.EdgeColumns == 0 { // what goes in also goes out
		return func(q, lo, hi int) (rows *graph.Relation, err error) {
			first := e.source.starts[q]
			err = parts[q].Guard(func() error {
				bounds := in[q].Indptr[lo-first : hi-first+1]
				rows = &graph.Relation{Sources: in[q].Sources[bounds[0]:bounds[hi-lo]]}
				for _, end := range bounds {
					rows.Indptr = append(rows.Indptr, end-bounds[0])
				}
				return nil
			})
			return rows, err
		}, batchEdges, nil
	}
	t, err := graph.NewTransposer(in, parts[0].Guard, unload)
	if err != nil {
		return nil, 0, err
	}
	return func(_, lo, hi int) (*graph.Relation, error) { return t.List(lo, hi) }, t.Most(), nil
}

// until returns the end of a range of source positions that begins at lo and has at most so many edges, unless
// it lies in one bin.
func (e *edgeWriter) until(lo, end int, most int64) int {
	edges, hi := int64(0), lo
	for hi < end {
		bin := hi >> e.shift
		if edges += e.bins[bin]; edges > most && hi > lo {
			break
		}
		hi = min(end, (bin+1)<<e.shift)
	}
	return hi
}
