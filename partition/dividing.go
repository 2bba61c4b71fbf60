package partition

import (
	"math/bits"
	"slices"

	"weft/graph"
	"weft/internal/cores"
)

const (
	batchEdges  = 1 << 20 // in-edges that a core divides at a time
	batchValues = 1 << 20 // values of features that are copied at a time
	unloadEdges = 1 << 27 // the pages of mapped files are given back after so many edges
	binsOfEdges = 1 << 16 // counters of edges by source
)

// divider divides a graph into shares in streams. It reads the edges once for the in-edges of all shares.
// Their out-edges are the transpose of the in-edges that their sinks have. It makes them in passes. Each pass
// reads the edges from a range of sources. It needs 12 bytes for each vertex for the in-edges, and 8 for the
// out-edges. It also needs a batch of edges on each core, or the out-edges of a pass. The assignment, of 4
// bytes for each vertex, stays.
type divider struct {
	g      *graph.Graph
	places []*Places // by vertex type
	whole  Whole
	parts  []graph.Sink
	edges  []*edgeDivider // by relation

	progress graph.Progress
	listed   int64 // edges that were listed by their targets
	reversed int64 // edges that were listed by their sources
}

// edgeDivider divides the edges of a relation.
type edgeDivider struct {
	d              *divider
	r              int // the relation
	from           *graph.Relation
	source, target *Places
	holder         []int32   // the partition of each source
	inOrder        bool      // the order of the sources is that of their ids
	halo           Halo      // the halo of the partitions so far
	cut            [][]int64 // cut[p][q]: edges from partition q into p
	shift          uint
	bins           []int64 // edges by source position >> shift
	far            *farEnds
}

func newDivider(g *graph.Graph, a *Assignment, progress graph.Progress) *divider {
	d := &divider{g: g, whole: WholeOf(g), progress: progress}
	first := g.FirstIDs()
	for i := range g.Types {
		d.places = append(d.places, newPlaces(a.Parts[first[i]:first[i+1]], a.K))
	}
	d.whole.Statistics = countVertices(g, a, d.places)
	for i := range g.Relations {
		joined := relationOf(g, i)
		e := &edgeDivider{d: d, r: i, from: &g.Relations[i]}
		e.source, e.target = d.places[joined.Source], d.places[joined.Target]
		e.holder = a.Parts[first[joined.Source]:first[joined.Source+1]]
		e.inOrder = slices.IsSorted(e.holder)
		e.halo, e.cut = Halo{square[int](a.K), square[int](a.K)}, square[int64](a.K)
		e.shift = uint(max(0, bits.Len(uint(len(e.holder)))-bits.Len(uint(binsOfEdges-1))))
		e.bins = make([]int64, len(e.holder)>>e.shift+1)
		e.far = newFarEnds(e.source.Starts)
		d.edges = append(d.edges, e)
	}
	return d
}

// in gives the sink of each partition its vertices and the edges into them. begin begins a part, whose graph
// has types and relations without rows.
func (d *divider) in(begin func(p int, part *graph.Part) (graph.Sink, error)) error {
	for p := range d.whole.Statistics.K {
		to, err := begin(p, d.part(p))
		if err != nil {
			return err
		}
		d.parts = append(d.parts, to)
		for i, t := range d.g.Types {
			if err := d.features(to, i, &t.Features, d.places[i].in(p)); err != nil {
				return err
			}
		}
		for _, e := range d.edges {
			list := func(write func(*graph.Relation) error) error { return e.list(p, write) }
			if err := to.In(e.r, e.into(p), e.from, list); err != nil {
				return err
			}
		}
		d.g.Unload()
	}
	d.count()
	return nil
}

// count adds the edges of all relations to the statistics.
func (d *divider) count() {
	for _, e := range d.edges {
		d.whole.Statistics.add(e.cut, e.halo, len(d.edges) > 1)
	}
}

// part returns the ids, labels and splits of partition p.
func (d *divider) part(p int) *graph.Part {
	part := &graph.Part{Graph: &graph.Graph{Metric: d.g.Metric, Provenance: d.g.Provenance}}
	for i, t := range d.g.Types {
		ids := d.places[i].in(p)
		part.IDs, part.Whole = append(part.IDs, ids), append(part.Whole, t.Count)
		part.Graph.Types = append(part.Graph.Types, graph.VertexType{
			Type: t.Type, Frame: graph.Frame{Count: len(ids)},
		})
	}
	first, learned := &part.Graph.Types[0], &d.g.Types[0]
	first.Labels = learned.Labels.Select(part.IDs[0])
	first.Splits = graph.SplitsOf(learned.Splits, part.IDs[0])
	for _, e := range d.edges {
		like := graph.Relation{
			Frame:     graph.Frame{Features: graph.Features{Columns: e.from.Features.Columns}},
			Symmetric: e.from.Symmetric,
		}
		like.Source, like.Name, like.Target = e.from.Source, e.from.Name, e.from.Target
		part.Graph.Relations = append(part.Graph.Relations, like)
	}
	return part
}

// features passes on the features of the vertices ids of type t.
func (d *divider) features(to graph.Sink, t int, f *graph.Features, ids []int32) error {
	if f.Columns == 0 {
		return nil
	}
	stored := -1
	starts := evenly(len(ids), max(1, batchValues/f.Columns))
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
			m.err = d.g.Guard(func() error {
				m.Features = f.Rows(ids[starts[k]:starts[k+1]])
				return nil
			})
			return m
		}, func(_ int, m made) error {
			if m.err != nil {
				return m.err
			}
			d.g.Unload() // rows are a copy
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
	size := int64(0)
	for row, v := range ids {
		n := indptr[v+1] - indptr[v] + 1
		size += n
		if size > values && row > starts[len(starts)-1] {
			starts = append(starts, row)
			size = n
		}
	}
	if len(ids) > 0 {
		starts = append(starts, len(ids))
	}
	return starts
}
