package chunked

import (
	"slices"

	"weft/graph"
)

// positions are an order of the vertices that a direction reads: this way's rows chunk by chunk, and then the
// mirrors, way by way and in each chunk by chunk.
type positions struct {
	graph    *Graph
	vertices []int32 // in the order of the partitions: the one at each position
	of       []int32 // the position of each vertex, in the order of the partitions, that is read
	starts   []int   // the first position of each group, and their number
}

// group is the number of a way's chunk in the order of positions: this way's come first.
func (g *Graph) group(way, chunk int) int {
	switch {
	case way == g.way:
		way = 0
	case way < g.way:
		way++
	}
	return way*g.options.Count + chunk
}

// positions finds those of the edges into the stage's rows.
func (g *Graph) positions(in *graph.Relation) *positions {
	starts, ways := g.share.Edges.Starts, g.ways.Size()
	read := make([]bool, starts[ways])
	for _, v := range in.Sources {
		read[v] = true
	}
	groups := make([][]int32, ways*g.options.Count)
	for way := range ways {
		for v := starts[way]; v < starts[way+1]; v++ {
			if read[v] || way == g.way {
				i := g.group(way, int(g.options.Chunks[v]))
				groups[i] = append(groups[i], int32(v))
			}
		}
	}
	p := &positions{graph: g, vertices: slices.Concat(groups...), of: make([]int32, len(read)), starts: []int{0}}
	for at, v := range p.vertices {
		p.of[v] = int32(at)
	}
	for i, group := range groups {
		p.starts = append(p.starts, p.starts[i]+len(group))
	}
	return p
}

// row is the stage's own row at a position.
func (p *positions) row(at int) int {
	return int(p.vertices[at]) - p.graph.share.Edges.Starts[p.graph.way]
}

// list lists the rows of a chunk that are wanted, given their positions.
func (p *positions) list(chunk int, wanted func(at int) bool) list {
	var rows []int32
	for at := p.starts[chunk]; at < p.starts[chunk+1]; at++ {
		if wanted(at) {
			rows = append(rows, int32(at-p.starts[chunk]))
		}
	}
	return list{count: len(rows), rows: p.graph.int32s(rows)}
}

// sourcesOf are the sources of a block, given their positions.
func (p *positions) sourcesOf(at, kept []int32) *sources {
	rows := make([]int32, len(at))
	for i := range at {
		rows[i] = kept[at[i]]
	}
	s := &sources{rows: p.graph.int32s(rows)}
	column := s.rows.Reshape(len(at), 1)
	chunk := func(i int) int32 { return p.graph.options.Chunks[p.vertices[at[i]]] }
	for lo, i := 0, 0; i < len(at); i++ {
		if hi := i + 1; hi == len(at) || chunk(hi) != chunk(i) {
			s.runs = append(s.runs, run{int(chunk(i)), lo, hi, column.RowRange(lo, hi).Reshape(1, hi-lo)})
			lo = hi
		}
	}
	return s
}

// into are the edges into a chunk's rows, from positions.
func (p *positions) into(chunk int, in *graph.Relation) *graph.Relation {
	r := &graph.Relation{Indptr: []int64{0}}
	if in.Weights != nil {
		r.Weights = []float32{}
	}
	source := func(edge int64) int32 { return p.of[in.Sources[edge]] }
	var edges []int64 // into a row, their sources ascending
	for at := p.starts[chunk]; at < p.starts[chunk+1]; at++ {
		edges = edges[:0]
		for i := in.Indptr[p.row(at)]; i < in.Indptr[p.row(at)+1]; i++ {
			edges = append(edges, i)
		}
		slices.SortStableFunc(edges, func(a, b int64) int { return int(source(a)) - int(source(b)) })
		for _, i := range edges {
			r.Sources = append(r.Sources, source(i))
			if in.Weights != nil {
				r.Weights = append(r.Weights, in.Weights[i])
			}
		}
		r.Indptr = append(r.Indptr, int64(len(r.Sources)))
	}
	return r
}
