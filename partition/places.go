package partition

import "slices"

// Places maps vertices to positions: the vertices sorted by partition, then by id.
type Places struct {
	Starts    []int   // len K+1: the first position of each partition, and V
	IDs       []int32 // the vertex at each position; nil: its position
	Positions []int32 // the position of each vertex; nil: the vertex
}

// newPlaces returns the places of vertices in k partitions. parts has the partition of each vertex.
func newPlaces(parts []int32, k int) *Places {
	p := &Places{
		Starts: make([]int, k+1), IDs: make([]int32, len(parts)), Positions: make([]int32, len(parts)),
	}
	for _, q := range parts {
		p.Starts[q+1]++
	}
	for q := range k {
		p.Starts[q+1] += p.Starts[q]
	}
	next := slices.Clone(p.Starts)
	for v, q := range parts {
		p.IDs[next[q]], p.Positions[v] = int32(v), int32(next[q])
		next[q]++
	}
	return p
}

// in returns the vertices of partition q, ascending.
func (p *Places) in(q int) []int32 { return p.IDs[p.Starts[q]:p.Starts[q+1]:p.Starts[q+1]] }

// ID returns the vertex at a position.
func (p *Places) ID(position int32) int32 {
	if p.IDs == nil {
		return position
	}
	return p.IDs[position]
}

// Position returns the position of a vertex.
func (p *Places) Position(vertex int32) int32 {
	if p.Positions == nil {
		return vertex
	}
	return p.Positions[vertex]
}

// Vertices returns the number of vertices.
func (p *Places) Vertices() int { return p.Starts[len(p.Starts)-1] }

// merged returns the places of vertices of several types, which are numbered one type after another.
func merged(types []*Places) *Places {
	if len(types) == 1 {
		return types[0]
	}
	k := len(types[0].Starts) - 1
	m := &Places{Starts: make([]int, k+1)}
	for _, t := range types {
		for p, start := range t.Starts {
			m.Starts[p] += start
		}
	}
	if k == 1 {
		return m
	}
	m.Positions = make([]int32, m.Vertices())
	for p := range k {
		first := int32(0)
		for _, t := range types {
			for position := t.Starts[p]; position < t.Starts[p+1]; position++ {
				m.IDs = append(m.IDs, first+t.ID(int32(position)))
			}
			first += int32(t.Vertices())
		}
	}
	for position, v := range m.IDs {
		m.Positions[v] = int32(position)
	}
	return m
}

// Numbering numbers the vertices of some types, those of one type after another. With the first type alone
// vertices keep their ids.
type Numbering struct {
	Kinds  []int   // the types, ascending
	Starts []int32 // the first number of each type, and that of all vertices
}

// Number returns the numbering of some vertex types, ascending; nil: of the first.
func (w *Whole) Number(kinds []int) Numbering {
	if kinds == nil {
		kinds = []int{0}
	}
	n := Numbering{Kinds: kinds, Starts: []int32{0}}
	for i, kind := range kinds {
		n.Starts = append(n.Starts, n.Starts[i]+int32(w.Types[kind].Vertices))
	}
	return n
}

// Vertices returns the number of vertices.
func (n *Numbering) Vertices() int { return int(n.Starts[len(n.Kinds)]) }

// Range returns the numbers of the vertices of a type: from lo to hi−1.
func (n *Numbering) Range(kind int) (lo, hi int32) {
	i := slices.Index(n.Kinds, kind)
	return n.Starts[i], n.Starts[i+1]
}

// List returns the numbers of a share's vertices of these types, ascending. places gives the rows of each
// type that are listed, nil for all rows. A nil result stands for all vertices of the graph. Nobody may write
// to the list.
func (n *Numbering) List(s *Share, places func(kind int) []int32) (numbers []int32) {
	types := s.Edges.Types
	all := func(kind int) bool { return places(kind) == nil && types[kind].IDs == nil }
	if !slices.ContainsFunc(n.Kinds, func(kind int) bool { return !all(kind) }) {
		return nil
	}
	ids := func(kind int) []int32 {
		if list := places(kind); list != nil {
			return types[kind].Vertices(list)
		}
		return types[kind].IDs
	}
	if len(n.Kinds) == 1 {
		return ids(n.Kinds[0])
	}
	numbers = []int32{}
	for i, kind := range n.Kinds {
		if all(kind) {
			for row := range types[kind].Rows {
				numbers = append(numbers, n.Starts[i]+int32(row))
			}
			continue
		}
		for _, v := range ids(kind) {
			numbers = append(numbers, n.Starts[i]+v)
		}
	}
	return numbers
}
