package edges

import (
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/kernel"
	"weft/tensor"
)

// Halo says what travels between two partitions in a linear aggregation.
type Halo uint8

const (
	// HaloRows sends the rows of all sources.
	HaloRows Halo = iota
	// HaloCover sends the rows of some sources, and for each destination the partial sum of the other edges.
	// A minimum vertex cover of the edges decides: of each edge an end is in the cover, and travels (pre- and
	// post-aggregation; SuperGNN, arXiv 2411.16025). If both ends are in the cover, the row travels, and the
	// edge is in no sum.
	HaloCover
	// HaloAuto is HaloCover between two partitions if that saves at least a tenth of the rows, and otherwise
	// HaloRows.
	HaloAuto
)

// HaloNames are the names of the choices.
var HaloNames = []string{HaloRows: "rows", HaloCover: "cover", HaloAuto: "auto"}

func (h Halo) String() string { return HaloNames[h] }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Halo) UnmarshalText(text []byte) error { return suggest.Parse(h, text, HaloNames) }

// cut says what travels along the edges from one partition to another: the rows of some sources, and partial
// sums for the destinations of all other edges.
type cut struct {
	row     []bool // by source: its row travels
	sources int    // how many sources have edges
	rows    int    // how many sources' rows travel
}

// cut returns what travels along the edges for which each calls its argument. The partitions at both ends
// compute the same.
func (h Halo) cut(sources, destinations int, each func(edge func(source, destination int32))) *cut {
	from, to := newNumbering(sources), newNumbering(destinations)
	type edge struct{ source, destination int32 }
	var edges []edge
	each(func(u, v int32) { edges = append(edges, edge{from.number(u), to.number(v)}) })
	row, sums := newBipartite(from.n, to.n, func(add func(left, right int32)) {
		for _, e := range edges {
			add(e.source, e.destination)
		}
	}).minimumCover()
	c := &cut{row: make([]bool, sources), sources: from.n, rows: count(row)}
	const least = 10 // HaloAuto saves at least one of so many rows
	all := h == HaloAuto && (c.rows+count(sums))*least > c.sources*(least-1)
	if all {
		c.rows = c.sources
	}
	for u, i := range from.numbers {
		c.row[u] = i != none && (all || row[i])
	}
	return c
}

// numbering numbers some vertices in the order in which they come.
type numbering struct {
	numbers []int32 // by vertex: its number, or none
	n       int
}

func newNumbering(vertices int) *numbering {
	m := &numbering{numbers: make([]int32, vertices)}
	fill(m.numbers, none)
	return m
}

// number returns the number of a vertex, and assigns the next one to a new vertex.
func (m *numbering) number(v int32) int32 {
	if m.numbers[v] == none {
		m.numbers[v] = int32(m.n)
		m.n++
	}
	return m.numbers[v]
}

func count(list []bool) (n int) {
	for _, in := range list {
		if in {
			n++
		}
	}
	return n
}

// sendList is what travels from this worker's partition to another.
type sendList struct {
	rows []int32  // the rows that travel, ascending
	sums []*Block // the partial sums of each message; nil: it has none
}

// cutFrom returns what travels along the span's edges, from the rows of partition q into the own rows; nil:
// all rows travel.
func (s *Source) cutFrom(q int, at *span) (*cut, error) {
	if s.Halo == HaloRows {
		return nil, nil
	}
	start := int32(s.Starts[q])
	c := s.Halo.cut(s.Starts[q+1]-s.Starts[q], len(at.to), func(edge func(source, destination int32)) {
		at.each(func(v int, k int64) { edge(at.r.Sources[k]-start, int32(v)) })
	})
	return c, s.checkHalo(s.Me, q, c.sources)
}

// sendListTo returns what travels from the own rows to partition q. The span has the edges of s.Back to q.
func (e *Edges) sendListTo(s *Source, q int, at *span) (*sendList, error) {
	start, destinations := int32(s.BackStarts[q]), s.BackStarts[q+1]-s.BackStarts[q]
	c := s.Halo.cut(len(at.to), destinations, func(edge func(source, destination int32)) {
		at.each(func(u int, k int64) { edge(int32(u), at.r.Sources[k]-start) })
	})
	if err := s.checkHalo(q, s.Me, c.sources); err != nil {
		return nil, err
	}
	o := &sendList{}
	for u, travels := range c.row {
		if travels {
			o.rows = append(o.rows, int32(u))
		}
	}
	sums := func(f func(row int, item int32, k int64)) {
		at.each(func(u int, k int64) {
			if !c.row[u] {
				f(u, at.r.Sources[k]-start, k)
			}
		})
	}
	o.sums, _ = newBlocks(e.team, sums, nil, outline{
		peer: s.Holders[q], items: destinations, rows: len(at.to), allRows: len(at.to), before: c.rows,
		step: messageRows(s.sources()), relation: at.r, data: WithoutFeatures,
	})
	for _, b := range o.sums {
		if b != nil {
			b.Out = newOut(e.team, b.In)
			b.toRows(len(at.to))
		}
	}
	return o, nil
}

// toRows renumbers the columns of Out from rows of In to local rows.
func (b *Block) toRows(rows int) {
	b.Out.Cols = rows
	if b.Targets == nil {
		return
	}
	columns, targets := b.Out.Indices.WriteInt32s(), b.Targets.ReadInt32s()
	for i, column := range columns {
		columns[i] = targets[column]
	}
}

// checkHalo refuses a share in which edges lead from rows rows of partition q into partition p, if the stored
// partition has another number.
func (s *Source) checkHalo(p, q, rows int) error {
	if want := s.HaloRows[p][q]; rows != want {
		return refusal.Graph.Errorf("partition %d needs %d rows of partition %d, where the stored "+
			"partition says %d; partition the graph again", p, rows, q, want)
	}
	return nil
}

// Len is the number of rows of the message.
func (m *Message) Len() int {
	if m.Sums == nil {
		return m.Rows.Cols
	}
	return m.Rows.Cols + m.Sums.In.Cols
}

// Pack writes a message: the listed rows of x, and then the partial sums. For a message without sums the
// Operator may be zero.
func (o Operator) Pack(team *kernel.Team, z *tensor.Matrix, m *Message, x *tensor.Matrix) {
	team.Gather(z, x, m.Rows)
	if m.Sums != nil {
		o.PackSums(team, z.RowRange(m.Rows.Cols, m.Len()), m, x)
	}
}

// PackSums writes only the partial sums of a message.
func (o Operator) PackSums(team *kernel.Team, z *tensor.Matrix, m *Message, x *tensor.Matrix) {
	team.SpMM(z, o.matrix(m.Sums.Out), x, o.factors[m.Sums].backward, kernel.Replace)
}

// Unpack is the transpose of Pack. It adds to dx what the gradients g of a message's rows contribute. scratch
// (Float32) has room for Edges.MostSpread rows.
func (o Operator) Unpack(team *kernel.Team, dx *tensor.Matrix, m *Message, g, scratch *tensor.Matrix) {
	team.ScatterAdd(dx, g, m.Rows)
	if m.Sums != nil {
		o.UnpackSums(team, dx, m, g.RowRange(m.Rows.Cols, m.Len()), scratch)
	}
}

// UnpackSums is the transpose of PackSums. It adds to dx what the gradients g of the sums contribute.
func (o Operator) UnpackSums(team *kernel.Team, dx *tensor.Matrix, m *Message, g, scratch *tensor.Matrix) {
	b := m.Sums
	if b.Targets == nil {
		team.SpMM(dx, o.matrix(b.In), g, o.factors[b].forward, kernel.Accumulate)
		return
	}
	some := scratch.Prefix(b.In.Rows, g.Cols)
	team.SpMM(some, o.matrix(b.In), g, o.factors[b].forward, kernel.Replace)
	team.ScatterAdd(dx, some, b.Targets)
}
