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
type structure struct {
	graph   *Graph
	edges   []*edges.Edges // of each chunk
	sources [][]*sources   // of each remote block of each chunk
	most    int            // sources of the largest remote block
	rows    int            // that are kept: own ones that another chunk reads, and mirrors
	own     []list         // of each chunk, those of its rows that are kept
	// needed and mirrors are for each way and chunk: those of its rows that go to the way, and those of the
	// way's that come.
	needed, mirrors [][]list

	columns map[*tensor.Matrix][]float32 // of the kept rows, by the column over the first chunk's
}

// list is some rows of a chunk.
type list struct {
	count int
	rows  *tensor.Matrix // Int32, 1 × count: which; nil of mirrors
	lo    int            // the first of the kept rows that they are, one after the other
}

// of are the kept rows of the list.
func (l list) of(kept *tensor.Matrix) *tensor.Matrix { return kept.RowRange(l.lo, l.lo+l.count) }

// sources are those of a remote block, in runs of one chunk number.
type sources struct {
	rows *tensor.Matrix // Int32, 1 × n: which of the kept rows they are
	runs []run
}

// run is sources lo … hi−1 of a block.
type run struct {
	chunk, lo, hi int
	rows          *tensor.Matrix // Int32, 1 × hi−lo: a part of the sources'
}

// structure is that of a direction, made when it is first asked for.
func (g *Graph) structure(a gnn.Along) (*structure, error) {
	if st := g.made[a]; st != nil {
		return st, nil
	}
	st, err := g.newStructure(a)
	if err == nil {
		g.made[a] = st
	}
	return st, err
}

// newStructure finds which rows the edges of a direction lead from, which of these are kept and which the
// ways exchange, and divides the edges into the chunks' blocks. For each chunk there are three partitions:
// the positions before its own rows, these, and those behind.
func (g *Graph) newStructure(a gnn.Along) (*structure, error) {
	in, out := g.relations(a)
	p := g.positions(in)
	st := &structure{graph: g, columns: map[*tensor.Matrix][]float32{}}
	kept := st.keep(p, in)
	st.exchanged(p, out)
	ids, err := ofKept(st, func(k, row int) int32 { return g.Chunks[k].Vertices()[row] })
	if err != nil {
		return nil, err
	}
	for k, c := range g.Chunks {
		e, needed := edges.Among(g.team, edges.Source{
			Relation: p.into(k, in), Starts: []int{0, p.starts[k], p.starts[k+1], len(p.vertices)},
			Me: 1, Holders: []int{0, 1, 2}, IDs: c.Rows().IDs,
		}, st)
		from := needed[0]
		for _, row := range needed[2] {
			from = append(from, row+int32(p.starts[k+1]))
		}
		var blocks []*sources
		for _, b := range e.Remote() {
			n := b.In.Cols
			s := p.sourcesOf(from[:n], kept)
			if !g.team.Planning() {
				fill(b.IDs.Int32s(), s, ids)
			}
			blocks, from, st.most = append(blocks, s), from[n:], max(st.most, n)
		}
		st.edges, st.sources = append(st.edges, e), append(st.sources, blocks)
	}
	g.share.Unload()
	return st, nil
}

// relations are the edges into the stage's rows in a direction, and those out of them, which are nil with one
// way.
func (g *Graph) relations(a gnn.Along) (in, out *graph.Relation) {
	held := &g.share.Edges
	r := &held.Relations[slices.IndexFunc(held.Relations, func(r partition.Relation) bool { return r.Name == a.Relation })]
	switch {
	case len(held.Starts) == 2 && a.Reversed:
		return r.In.Reversed(held.Rows), nil
	case len(held.Starts) == 2:
		return &r.In, nil
	case a.Reversed:
		return &r.Out, &r.In
	}
	return &r.In, &r.Out
}

// keep finds the rows that are kept, chunk by chunk, and then the mirrors: kept are their numbers by
// position, undefined of rows that are not.
func (st *structure) keep(p *positions, in *graph.Relation) (kept []int32) {
	g := st.graph
	mirrors := p.starts[g.options.Count]
	readByOthers := make([]bool, mirrors)
	for row, chunk := range g.of {
		for _, v := range in.Sources[in.Indptr[row]:in.Indptr[row+1]] {
			if at := int(p.of[v]); at < mirrors && g.options.Chunks[v] != chunk {
				readByOthers[at] = true
			}
		}
	}
	kept = make([]int32, len(p.vertices))
	for k := range g.options.Count {
		l := p.list(k, func(at int) bool {
			kept[at] = int32(st.rows)
			if readByOthers[at] {
				st.rows++
			}
			return readByOthers[at]
		})
		l.lo = st.rows - l.count
		st.own = append(st.own, l)
	}
	for at := mirrors; at < len(kept); at++ {
		kept[at] = int32(st.rows)
		st.rows++
	}
	return kept
}

// exchanged lists what goes to other ways, along the edges out of the stage's rows, and what comes from them.
func (st *structure) exchanged(p *positions, out *graph.Relation) {
	g := st.graph
	ways, k := g.ways.Size(), g.options.Count
	st.needed, st.mirrors = make([][]list, ways), make([][]list, ways)
	lo := st.rows - len(p.vertices) + p.starts[k] // of the first mirror
	for way := range ways {
		first, end := int32(g.share.Edges.Starts[way]), int32(g.share.Edges.Starts[way+1])
		for chunk := range k {
			if way == g.way {
				continue
			}
			st.needed[way] = append(st.needed[way], p.list(chunk, func(at int) bool {
				row := p.row(at)
				targets := out.Sources[out.Indptr[row]:out.Indptr[row+1]]
				i, _ := slices.BinarySearch(targets, first)
				return i < len(targets) && targets[i] < end
			}))
			i := g.group(way, chunk)
			come := list{count: p.starts[i+1] - p.starts[i], lo: lo}
			st.mirrors[way] = append(st.mirrors[way], come)
			lo += come.count
		}
	}
}

// ofKept are values of all kept rows, given those of this way's: the ways tell each other the mirrors'. In a
// plan there are none.
func ofKept[T int32 | float32](st *structure, of func(chunk, row int) T) ([]T, error) {
	g := st.graph
	if g.team.Planning() {
		return nil, nil
	}
	values := make([]T, st.rows)
	for k, l := range st.own {
		for i, row := range l.rows.Int32s() {
			values[l.lo+i] = of(k, int(row))
		}
	}
	send, receive := make([][]byte, g.ways.Size()), make([][]byte, g.ways.Size())
	for way, lists := range st.needed {
		var theirs []T
		for k, l := range lists {
			for _, row := range l.rows.Int32s() {
				theirs = append(theirs, of(k, int(row)))
			}
		}
		send[way] = comm.Bytes(theirs)
		if come := st.mirrors[way]; len(come) > 0 {
			last := come[len(come)-1]
			receive[way] = comm.Bytes(values[come[0].lo : last.lo+last.count])
		}
	}
	return values, g.ways.AllToAll(comm.Setup, send, receive)
}

// fill sets what a block's sources have, given what the kept rows have.
func fill[T int32 | float32](values []T, s *sources, kept []T) {
	for i, row := range s.rows.Int32s() {
		values[i] = kept[row]
	}
}

// Columns implements edges.Others.
func (st *structure) Columns(e *edges.Edges, own func(*edges.Edges) *tensor.Matrix) (columns []*tensor.Matrix, err error) {
	of := make([]*tensor.Matrix, len(st.edges))
	for k, chunk := range st.edges {
		of[k] = own(chunk)
	}
	kept, made := st.columns[of[0]]
	if !made {
		if kept, err = ofKept(st, func(k, row int) float32 { return of[k].Floats()[row] }); err != nil {
			return nil, err
		}
		st.columns[of[0]] = kept
	}
	blocks := st.sources[slices.Index(st.edges, e)]
	for i, b := range e.Remote() {
		columns = append(columns, st.graph.team.Memory.New(tensor.Graph, b.In.Cols, 1))
		if !st.graph.team.Planning() {
			fill(columns[i].Floats(), blocks[i], kept)
		}
	}
	return columns, nil
}
