package chunked

import (
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/partition"
	"weft/tensor"
)

// structure describes one direction of a relation: the edges into each chunk, and the stored rows, which
// chunks read of each other. The stored rows are in the order of the chunk numbers. For each number, the rows
// of this replica's chunk that another chunk reads come first. The mirrors follow: the rows of other
// replicas' chunks that this replica reads.
type structure struct {
	graph          *Graph
	source, target int            // vertex types
	edges          []*edges.Edges // of each chunk
	// sources has, by chunk and remote block, the positions of the block's sources among the stored rows:
	// Int32, 1 × n.
	sources [][]*tensor.Matrix
	most    int                // the largest number of sources of a remote block
	stored  []span             // by chunk number: its stored rows and mirrors
	spans   [][]span           // by replica and chunk number: the stored rows of that chunk
	own     []*tensor.Matrix   // by chunk: its rows that are stored: Int32, 1 × n
	needed  [][]*tensor.Matrix // by other replica and chunk: the rows that have mirrors there: Int32, 1 × n
}

// span is the range of stored rows lo … hi−1.
type span struct{ lo, hi int }

func (s span) rows() int { return s.hi - s.lo }

func (s span) view(stored *tensor.Matrix) *tensor.Matrix { return stored.RowRange(s.lo, s.hi) }

// rows returns the number of stored rows.
func (st *structure) rows() int { return st.stored[len(st.stored)-1].hi }

// structure returns the structure of a direction, and makes it at the first call.
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

func (g *Graph) newStructure(a gnn.Along) (*structure, error) {
	in, out := g.relations(a)
	st := &structure{graph: g}
	st.source, st.target = g.Chunks[0].part.Ends(a)
	position := st.findStored(in)
	st.exchanged(out)
	ids, err := ofStored(st, func(k int) []int32 {
		sources := g.kinds[st.source]
		return sources.shareRows.Vertices(sources.rows[k])
	})
	if err != nil {
		return nil, err
	}
	for k, c := range g.Chunks {
		g.team.Memory.NextTurn(true)
		rows := c.part.Types()
		among := edges.Source{IDs: rows[st.target].IDs, Own: c.aggregator.Places(st.target)}
		if st.source != st.target {
			among.Ends, among.SourceIDs = edges.TwoTypes, rows[st.source].IDs
			among.OwnSources = c.aggregator.Places(st.source)
		}
		e, needed := edges.Among(g.team, st.into(k, in, position), rows[st.source].Here, st.rows(), among, st)
		var sources []*tensor.Matrix
		for _, b := range e.Remote() {
			list := needed[:b.In.Cols]
			needed = needed[b.In.Cols:]
			rows := kernel.List(g.team, tensor.Graph, list)
			copy(b.IDs.WriteInt32s(), listed(ids, rows))
			sources = append(sources, rows)
			st.most = max(st.most, len(list))
		}
		st.edges, st.sources = append(st.edges, e), append(st.sources, sources)
	}
	g.share.Unload()
	return st, nil
}

// relations returns the edges into the share's rows in a direction, and the edges out of them. With one
// replica out is nil.
func (g *Graph) relations(a gnn.Along) (in, out *graph.Relation) {
	stored := &g.share.Edges
	r := &stored.Relations[slices.IndexFunc(stored.Relations,
		func(r partition.Relation) bool { return r.Name == a.Relation })]
	switch sources := &stored.Types[r.Source]; {
	case len(sources.Starts) == 2 && a.Reversed:
		return r.In.Reversed(sources.Rows), nil
	case len(sources.Starts) == 2:
		return &r.In, nil
	case a.Reversed:
		return &r.Out, &r.In
	}
	return &r.In, &r.Out
}

// isOwn reports whether a source, in the order of the partitions, is a row of this replica's chunk k.
func (st *structure) isOwn(v int32, k int) bool {
	g := st.graph
	starts := g.kinds[st.source].shareRows.Starts
	return g.chunks.chunk(st.source, int(v)) == int32(k) && int(v) >= starts[g.me] && int(v) < starts[g.me+1]
}

// findStored finds the rows that a chunk of this replica reads but does not own. position has, for each
// vertex in the order of the partitions, its place among the stored rows. It is undefined for vertices
// without a stored row.
func (st *structure) findStored(in *graph.Relation) (position []int32) {
	g := st.graph
	sources := g.kinds[st.source]
	starts := sources.shareRows.Starts
	n := st.graph.replicas.Size()
	read := make([]bool, starts[n])
	for k, rows := range g.kinds[st.target].rows {
		for _, row := range rows {
			for _, v := range in.Sources[in.Indptr[row]:in.Indptr[row+1]] {
				read[v] = read[v] || !st.isOwn(v, k)
			}
		}
	}
	lists := make([][]int32, g.chunks.Count*n) // by chunk number, and from this replica on
	for i := range n {
		replica := (g.me + i) % n
		for v := starts[replica]; v < starts[replica+1]; v++ {
			if k := int(g.chunks.chunk(st.source, v)); read[v] {
				lists[k*n+i] = append(lists[k*n+i], int32(v))
			}
		}
	}
	position = make([]int32, starts[n])
	st.spans = make([][]span, n)
	at := 0
	for k := range g.chunks.Count {
		first := at
		for i, list := range lists[k*n : (k+1)*n] {
			lo := at
			for _, v := range list {
				position[v] = int32(at)
				at++
			}
			replica := (g.me + i) % n
			st.spans[replica] = append(st.spans[replica], span{lo, at})
		}
		st.stored = append(st.stored, span{first, at})
		own := lists[k*n]
		for i, v := range own {
			own[i] = sources.inChunk[int(v)-starts[g.me]]
		}
		st.own = append(st.own, kernel.List(g.team, tensor.Graph, own))
	}
	return position
}

// exchanged lists the rows that other replicas read, along the edges out of the stage's rows.
func (st *structure) exchanged(out *graph.Relation) {
	g, starts := st.graph, st.graph.kinds[st.target].shareRows.Starts
	st.needed = make([][]*tensor.Matrix, g.replicas.Size())
	for replica := range st.needed {
		if replica == g.me {
			continue
		}
		for _, rows := range g.kinds[st.source].rows {
			var list []int32
			for i, row := range rows {
				targets := out.Sources[out.Indptr[row]:out.Indptr[row+1]]
				at, _ := slices.BinarySearch(targets, int32(starts[replica]))
				if at < len(targets) && int(targets[at]) < starts[replica+1] {
					list = append(list, int32(i))
				}
			}
			st.needed[replica] = append(st.needed[replica], kernel.List(g.team, tensor.Graph, list))
		}
	}
}

// into returns the edges into a chunk's rows. It numbers sources: first the chunk's rows, then the stored
// rows.
func (st *structure) into(k int, in *graph.Relation, position []int32) *graph.Relation {
	g, sources, into := st.graph, st.graph.kinds[st.source], st.graph.kinds[st.target].rows[k]
	r, own := &graph.Relation{Indptr: []int64{0}}, len(sources.rows[k])
	if in.Weights != nil {
		r.Weights = []float32{}
	}
	columns := int64(0)
	if g.env.EdgeData == edges.WithFeatures {
		columns, r.Features.Columns = int64(in.Features.Columns), in.Features.Columns
	}
	edges := int64(0)
	for _, row := range into {
		edges += in.Indptr[row+1] - in.Indptr[row]
	}
	r.Sources = make([]int32, 0, edges)
	// the number of the source, then the position in the row: parallel edges keep their order
	var keys []uint64
	for _, row := range into {
		first := in.Indptr[row]
		keys = keys[:0]
		for i, v := range in.Sources[first:in.Indptr[row+1]] {
			number := own + int(position[v])
			if st.isOwn(v, k) {
				number = int(sources.inChunk[int(v)-sources.shareRows.Starts[g.me]])
			}
			keys = append(keys, uint64(number)<<32|uint64(i))
		}
		slices.Sort(keys)
		for _, key := range keys {
			k := first + int64(uint32(key))
			r.Sources = append(r.Sources, int32(key>>32))
			if in.Weights != nil {
				r.Weights = append(r.Weights, in.Weights[k])
			}
			r.Features.Dense = append(r.Features.Dense, in.Features.Dense[k*columns:(k+1)*columns]...)
		}
		r.Indptr = append(r.Indptr, int64(len(r.Sources)))
	}
	return r
}

// ofStored returns a value for each stored row; in a plan it is 0. chunkValues returns the values of a
// chunk's rows. The replicas send each other the values of the mirrors.
func ofStored[T int32 | float32](st *structure, chunkValues func(chunk int) []T) ([]T, error) {
	g := st.graph
	n := g.replicas.Size()
	values := make([]T, st.rows())
	sent, received := make([][]T, n), make([][]T, n)
	for replica, lists := range st.needed {
		for k, rows := range lists {
			sent[replica] = append(sent[replica], listed(chunkValues(k), rows)...)
			received[replica] = append(received[replica], make([]T, st.spans[replica][k].rows())...)
		}
	}
	if err := comm.AllToAllOf(g.replicas, comm.Setup, sent, received); err != nil {
		return nil, err
	}
	for k, rows := range st.own {
		received[g.me] = append(received[g.me], listed(chunkValues(k), rows)...)
	}
	for replica, theirs := range received {
		for _, s := range st.spans[replica] {
			theirs = theirs[copy(values[s.lo:s.hi], theirs):]
		}
	}
	return values, nil
}

// listed returns the values of the listed rows; in a plan they are 0.
func listed[T int32 | float32](all []T, rows *tensor.Matrix) []T {
	values := make([]T, rows.Cols)
	for i, row := range rows.ReadInt32s() {
		values[i] = all[row]
	}
	return values
}

// Columns implements edges.Others.
func (st *structure) Columns(e *edges.Edges,
	own func(*edges.Edges) *tensor.Matrix,
) (columns []*tensor.Matrix, err error) {
	stored, err := ofStored(st, func(k int) []float32 { return own(st.edges[k]).ReadFloats() })
	if err != nil {
		return nil, err
	}
	for _, sources := range st.sources[slices.Index(st.edges, e)] {
		column := st.graph.team.Memory.New(tensor.Graph, sources.Cols, 1)
		copy(column.WriteFloats(), listed(stored, sources))
		columns = append(columns, column)
	}
	return columns, nil
}
