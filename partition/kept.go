package partition

import (
	"slices"

	"weft/graph"
)

// Kept are the shares of a graph without some edges of relations from the first vertex type to itself. The
// vertices stay.
type Kept struct{ rule func(*Share) rule }

// rule reports whether to keep an edge.
type rule = func(relation, source, target int32) bool

// Places maps vertices of the first type to positions: the vertices sorted by partition, then by id.
type Places struct {
	Starts []int   // len K+1: the first position of each partition, and V
	IDs    []int32 // the vertex at each position; nil: its position
	Of     []int32 // the position of each vertex; nil: the vertex
}

// Keep returns the shares with the edges that the rule accepts. The rule's relation counts as in
// Edges.Relations, and its source and target are vertices. Edges between other vertex types stay. Each pass
// over a share calls rule once.
func Keep(rule func(*Share) rule) *Kept { return &Kept{rule} }

// ID returns the vertex at a position.
func (p *Places) ID(position int32) int32 {
	if p.IDs == nil {
		return position
	}
	return p.IDs[position]
}

// Position returns the position of a vertex.
func (p *Places) Position(vertex int32) int32 {
	if p.Of == nil {
		return vertex
	}
	return p.Of[vertex]
}

// Vertices returns the number of vertices.
func (p *Places) Vertices() int { return p.Starts[len(p.Starts)-1] }

// Of is a share with the kept edges. It holds the arrays of s: do not use it after s is closed. It reads no
// other share: what others need of its rows follows from the edges in the opposite direction. So HaloRows and
// HaloRowsOut of the kept relations are complete in the row and in the column of s's own partition only.
func (k *Kept) Of(s *Share) (*Share, error) {
	places, err := s.Places()
	if err != nil {
		return nil, err
	}
	kept, keep, count := *s, k.rule(s), newHaloCounter(s)
	kept.Edges.Relations = slices.Clone(s.Edges.Relations)
	for i := range kept.Edges.Relations {
		r, which := &kept.Edges.Relations[i], int32(i)
		if !r.Own() {
			continue
		}
		r.In, err = r.In.Where(func(_ int64, source, row int32) bool {
			return keep(which, places.ID(source), s.Values.ID(int(row)))
		})
		if err == nil && len(places.Starts) > 2 {
			r.Out, err = r.Out.Where(func(_ int64, target, row int32) bool {
				return keep(which, s.Values.ID(int(row)), places.ID(target))
			})
			r.HaloRows, r.HaloRowsOut = count.halos(&r.In, &r.Out)
		}
		if err != nil {
			return nil, err
		}
	}
	return &kept, nil
}

// Own reports whether the relation goes from the first vertex type to itself.
func (r *Relation) Own() bool { return r.Source == 0 && r.Target == 0 }

// haloCounter counts the halos of a share's own relations.
type haloCounter struct {
	me      int
	holder  []int32 // by position: its partition
	seen    []bool  // by position; all false between two counts
	reached []int32 // by partition: the last row with an edge to it, counted from 1
}

func newHaloCounter(s *Share) *haloCounter {
	starts := s.Edges.Starts
	c := &haloCounter{me: s.Edges.P, reached: make([]int32, len(starts)-1)}
	if c.partitions() == 1 {
		return c
	}
	c.holder, c.seen = make([]int32, starts[c.partitions()]), make([]bool, starts[c.partitions()])
	for q := range c.partitions() {
		for at := starts[q]; at < starts[q+1]; at++ {
			c.holder[at] = int32(q)
		}
	}
	return c
}

func (c *haloCounter) partitions() int { return len(c.reached) }

// halos are HaloRows and HaloRowsOut of a relation with those edges.
func (c *haloCounter) halos(in, out *graph.Relation) (rows, rowsOut [][]int) {
	ends, reach := c.count(in)
	endsOut, reachOut := c.count(out)
	return c.pairs(ends, reachOut), c.pairs(endsOut, reach)
}

// count counts by partition the vertices at the other ends of the edges, and the own rows that have an edge
// to or from it. The partition itself has none.
func (c *haloCounter) count(r *graph.Relation) (ends, rows []int) {
	ends, rows = make([]int, c.partitions()), make([]int, c.partitions())
	clear(c.reached)
	row := int32(0)
	for k, end := range r.Sources {
		for r.Indptr[row+1] <= int64(k) {
			row++
		}
		q := c.holder[end]
		if int(q) == c.me {
			continue
		}
		if !c.seen[end] {
			c.seen[end] = true
			ends[q]++
		}
		if c.reached[q] != row+1 {
			c.reached[q] = row + 1
			rows[q]++
		}
	}
	for _, end := range r.Sources {
		c.seen[end] = false
	}
	return ends, rows
}

// pairs is a matrix (K × K) with that row and that column of the own partition. Other rows without a count
// are one slice.
func (c *haloCounter) pairs(needs, needed []int) [][]int {
	all := slices.Repeat([][]int{make([]int, c.partitions())}, c.partitions())
	for q, n := range needed {
		if n > 0 {
			all[q] = make([]int, c.partitions())
			all[q][c.me] = n
		}
	}
	all[c.me] = needs
	return all
}
