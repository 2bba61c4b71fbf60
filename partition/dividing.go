package partition

import (
	"math/bits"
	"runtime/debug"
	"slices"
	"strconv"

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
// shares. Their out-edges are the transpose of the in-edges that were written. It makes them in passes, of
// which each reads the edges from a range of sources. It needs 12 bytes for each vertex while it writes
// in-edges, and 8 while it makes out-edges. It also needs a batch of edges on each core, or the out-edges of
// a pass. The assignment, of 4 bytes for each vertex, stays.
type shareWriter struct {
	g       *graph.Graph
	layouts []*layout // by vertex type
	whole   Whole
	parts   []*graph.Writer
	edges   []*edgeWriter // by relation

	progress graph.Progress
	listed   int64 // edges that were listed by their targets
	reversed int64 // by their sources
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
func (w *shareWriter) features(to *graph.Writer, t int, f *graph.Features, ids []int32) error {
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
