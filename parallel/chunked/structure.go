package chunked

import (
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/edges"
	"weft/partition"
	"weft/tensor"
)

// structure is one direction of a relation: the edges into each chunk, and which rows are read by others.
//
// Its places are the stage's own rows, chunk by chunk, and then the rows of other ways that are read here,
// way by way and in each chunk by chunk.
type structure struct {
	graph *Graph
	edges []*edges.Edges // of each chunk
	// blocks say for each remote block of each chunk where its sources' rows are kept.
	blocks [][]*block
	most   int    // sources of the largest remote block
	rows   int    // that are kept: own ones that another chunk reads, and mirrors
	own    []list // of each chunk, those of its rows that are kept
	// needed and mirrors are for each way and chunk: those of its rows that go to the way, and those of the
	// way's that come.
	needed, mirrors [][]list

	columns map[*tensor.Matrix][]float32 // of the kept rows, by the column over the first chunk's
}

// list is some rows, which are kept from place lo of those that are, where they are.
type list struct {
	count, lo int
	rows      *tensor.Matrix // Int32, 1 × count: in their chunk; nil of mirrors
}

// of are the kept rows of the list.
func (l list) of(kept *tensor.Matrix) *tensor.Matrix { return kept.RowRange(l.lo, l.lo+l.count) }

// block is the sources of a remote block, in runs of one chunk number.
type block struct{ runs []run }

// run is sources lo … hi−1 of a block.
type run struct {
	chunk, lo, hi int
	rows          *tensor.Matrix // Int32, 1 × hi−lo: where their rows are kept
}

// structure is that of a direction, made when it is first asked for.
func (g *Graph) structure(a gnn.Along) (*structure, error) {
	if st := g.made[a]; st != nil {
		return st, nil
	}
	st, err := g.read(a)
	if err == nil {
		g.made[a] = st
	}
	return st, err
}

// relations are the edges into the stage's rows in a direction, and those out of them, which are nil with one
// way.
func (g *Graph) relations(a gnn.Along) (in, out *graph.Relation) {
	held := &g.share.Edges
	r := &held.Relations[slices.IndexFunc(held.Relations, func(r partition.Relation) bool { return r.Name == a.Relation })]
	switch {
	case len(held.Starts) == 2 && a.Reversed:
		return r.In.Reversed(), nil
	case len(held.Starts) == 2:
		return &r.In, nil
	case a.Reversed:
		return &r.Out, &r.In
	}
	return &r.In, &r.Out
}

// places are where the vertices, in the order of the partitions, stand among the structure's places.
type places struct {
	of       []int32 // for each vertex; −1: it is not read here
	vertices []int32 // for each place
	chunks   []int32 // for each place
	starts   []int   // len Count+1: the first place of each chunk's own rows
}

func (g *Graph) read(a gnn.Along) (*structure, error) {
	in, out := g.relations(a)
	p := g.places(in)
	st := &structure{graph: g, columns: map[*tensor.Matrix][]float32{}}
	kept := st.keep(p, in)
	st.listMirrors(p, out)
	ids, err := g.ids(st, p)
	if err != nil {
		return nil, err
	}
	weights := in.Weights != nil
	for k, c := range g.Chunks {
		e, needed := edges.Among(g.team, edges.Source{
			Relation: g.intoChunk(k, p, in, weights), Starts: []int{0, p.starts[k], p.starts[k+1], len(p.vertices)},
			Me: 1, Holders: []int{0, 1, 2}, IDs: c.Rows().IDs,
		}, st)
		sources := slices.Clone(needed[0])
		for _, row := range needed[2] {
			sources = append(sources, row+int32(p.starts[k+1]))
		}
		var blocks []*block
		for _, b := range e.Remote() {
			n := b.In.Cols
			st.most = max(st.most, n)
			if !g.team.Planning() {
				for i, place := range sources[:n] {
					b.IDs.Int32s()[i] = ids[place]
				}
			}
			blocks = append(blocks, st.runsOf(sources[:n], p, kept))
			sources = sources[n:]
		}
		st.edges, st.blocks = append(st.edges, e), append(st.blocks, blocks)
	}
	g.share.Unload()
	return st, nil
}

// places finds the structure's places.
func (g *Graph) places(in *graph.Relation) *places {
	held, k := &g.share.Edges, g.options.Count
	first, vertices := held.Starts[held.P], held.Starts[len(held.Starts)-1]
	p := &places{of: make([]int32, vertices), starts: make([]int, k+1)}
	for v := range p.of {
		p.of[v] = -1
	}
	add := func(v int) {
		p.of[v] = int32(len(p.vertices))
		p.vertices, p.chunks = append(p.vertices, int32(v)), append(p.chunks, g.options.Chunks[v])
	}
	byChunk := func(from, to int, wanted func(v int) bool, begin func(k int)) {
		lists := make([][]int, k)
		for v := from; v < to; v++ {
			if wanted(v) {
				lists[g.options.Chunks[v]] = append(lists[g.options.Chunks[v]], v)
			}
		}
		for c, list := range lists {
			begin(c)
			for _, v := range list {
				add(v)
			}
		}
	}
	read := make([]bool, vertices)
	for _, v := range in.Sources {
		read[v] = true
	}
	byChunk(first, first+held.Rows, func(int) bool { return true }, func(k int) { p.starts[k] = len(p.vertices) })
	p.starts[k] = len(p.vertices)
	for way := range len(held.Starts) - 1 {
		if way != held.P {
			byChunk(held.Starts[way], held.Starts[way+1], func(v int) bool { return read[v] }, func(int) {})
		}
	}
	return p
}

// keep numbers the rows that are kept: kept is for each place where, −1 where it is not.
func (st *structure) keep(p *places, in *graph.Relation) (kept []int32) {
	g := st.graph
	own := p.starts[g.options.Count]
	readByOthers := make([]bool, len(p.vertices))
	for row := range g.of {
		for _, source := range in.Sources[in.Indptr[row]:in.Indptr[row+1]] {
			if place := p.of[source]; int(place) >= own || p.chunks[place] != g.of[row] {
				readByOthers[place] = true
			}
		}
	}
	kept = make([]int32, len(p.vertices))
	for place := range kept {
		kept[place] = -1
		if readByOthers[place] {
			kept[place] = int32(st.rows)
			st.rows++
		}
	}
	at := 0
	for k := range g.options.Count {
		l := list{lo: at}
		var rows []int32
		for place := p.starts[k]; place < p.starts[k+1]; place++ {
			if kept[place] >= 0 {
				rows = append(rows, int32(place-p.starts[k]))
			}
		}
		l.count, l.rows = len(rows), g.int32s(rows)
		at += l.count
		st.own = append(st.own, l)
	}
	return kept
}

// listMirrors lists what goes to other ways and comes from them. All mirrors are kept, in the order of their
// places.
func (st *structure) listMirrors(p *places, out *graph.Relation) {
	g := st.graph
	held, k := &g.share.Edges, g.options.Count
	ways := len(held.Starts) - 1
	st.needed, st.mirrors = make([][]list, ways), make([][]list, ways)
	at := 0
	for _, l := range st.own {
		at += l.count
	}
	place := p.starts[k]
	for way := range ways {
		st.needed[way], st.mirrors[way] = make([]list, k), make([]list, k)
		if way == held.P {
			continue
		}
		for c := range k {
			from := at
			for place < len(p.vertices) && int(p.vertices[place]) >= held.Starts[way] && int(p.vertices[place]) < held.Starts[way+1] && int(p.chunks[place]) == c {
				place++
				at++
			}
			st.mirrors[way][c] = list{count: at - from, lo: from}
		}
		rows := make([][]int32, k)
		inChunk := make([]int32, k) // the next row's number in its chunk
		for row, c := range g.of {
			targets := out.Sources[out.Indptr[row]:out.Indptr[row+1]]
			i, _ := slices.BinarySearch(targets, int32(held.Starts[way]))
			if i < len(targets) && int(targets[i]) < held.Starts[way+1] {
				rows[c] = append(rows[c], inChunk[c])
			}
			inChunk[c]++
		}
		for c, list := range rows {
			st.needed[way][c] = needs(g, list)
		}
	}
}

func needs(g *Graph, rows []int32) list { return list{count: len(rows), rows: g.int32s(rows)} }

// runsOf are the sources of a block at the given places.
func (st *structure) runsOf(sources []int32, p *places, kept []int32) *block {
	b := &block{}
	var at []int32
	for i, place := range sources {
		at = append(at, kept[place])
		if i+1 == len(sources) || p.chunks[sources[i+1]] != p.chunks[place] {
			b.runs = append(b.runs, run{chunk: int(p.chunks[place]), lo: i + 1 - len(at), hi: i + 1, rows: st.graph.int32s(at)})
			at = nil
		}
	}
	return b
}

// intoChunk are the edges into a chunk's rows, from places.
func (g *Graph) intoChunk(k int, p *places, in *graph.Relation, weighted bool) *graph.Relation {
	type entry struct {
		place  int32
		weight float32
	}
	r := &graph.Relation{Indptr: []int64{0}}
	var entries []entry
	for row, chunk := range g.of {
		if int(chunk) != k {
			continue
		}
		entries = entries[:0]
		for i := in.Indptr[row]; i < in.Indptr[row+1]; i++ {
			e := entry{place: p.of[in.Sources[i]]}
			if weighted {
				e.weight = in.Weights[i]
			}
			entries = append(entries, e)
		}
		slices.SortStableFunc(entries, func(a, b entry) int { return int(a.place) - int(b.place) })
		for _, e := range entries {
			r.Sources = append(r.Sources, e.place)
			if weighted {
				r.Weights = append(r.Weights, e.weight)
			}
		}
		r.Indptr = append(r.Indptr, int64(len(r.Sources)))
	}
	if weighted && r.Weights == nil {
		r.Weights = []float32{}
	}
	return r
}

// ids are the original ids of the vertices at all places. The ways tell each other those of the mirrors.
func (g *Graph) ids(st *structure, p *places) ([]int32, error) {
	held := &g.share.Edges
	own := p.starts[g.options.Count]
	ids := make([]int32, len(p.vertices))
	for place, v := range p.vertices[:own] {
		ids[place] = g.share.Values.ID(int(v) - held.Starts[held.P])
	}
	return ids, ofMirrors(st, ids[own:], func(k, row int) int32 { return ids[p.starts[k]+row] })
}

// ofMirrors sets the values of all mirrors to what the other ways have at theirs, as this one has at the rows
// of its chunks. It does nothing in a plan.
func ofMirrors[T int32 | float32](st *structure, mirrors []T, at func(k, row int) T) error {
	g := st.graph
	n := g.ways.Size()
	if n == 1 || g.team.Planning() {
		return nil
	}
	send, receive := make([][]byte, n), make([][]byte, n)
	for way := range n {
		var theirs []T
		come := 0
		for k, l := range st.needed[way] {
			if l.count > 0 {
				for _, row := range l.rows.Int32s() {
					theirs = append(theirs, at(k, int(row)))
				}
			}
			come += st.mirrors[way][k].count
		}
		send[way], receive[way] = comm.Bytes(theirs), comm.Bytes(mirrors[:come])
		mirrors = mirrors[come:]
	}
	return g.ways.AllToAll(comm.Setup, send, receive)
}

// Columns implements edges.Others.
func (st *structure) Columns(e *edges.Edges, own func(*edges.Edges) *tensor.Matrix) (columns []*tensor.Matrix, err error) {
	for _, b := range e.Remote() {
		columns = append(columns, st.graph.team.Memory.New(tensor.Graph, b.In.Cols, 1))
	}
	of := make([]*tensor.Matrix, len(st.edges))
	for k, chunk := range st.edges {
		of[k] = own(chunk)
	}
	if st.graph.team.Planning() {
		return columns, nil
	}
	kept := st.columns[of[0]]
	if kept == nil {
		if kept, err = st.column(of); err != nil {
			return nil, err
		}
		st.columns[of[0]] = kept
	}
	for i, b := range st.blocks[slices.Index(st.edges, e)] {
		for _, r := range b.runs {
			for j, row := range r.rows.Int32s() {
				columns[i].Floats()[r.lo+j] = kept[row]
			}
		}
	}
	return columns, nil
}

// column is what the kept rows have in a column over the rows of all chunks.
func (st *structure) column(of []*tensor.Matrix) ([]float32, error) {
	kept := make([]float32, st.rows)
	mirrors := kept
	for k, l := range st.own {
		for i, row := range l.rows.Int32s() {
			kept[l.lo+i] = of[k].Floats()[row]
		}
		mirrors = kept[l.lo+l.count:]
	}
	return kept, ofMirrors(st, mirrors, func(k, row int) float32 { return of[k].Floats()[row] })
}
