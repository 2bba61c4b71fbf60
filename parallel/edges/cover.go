package edges

import (
	"math"
	"slices"
)

// bipartite is a bipartite graph. Left vertex u has edges to the right vertices ends[begins[u]:begins[u+1]],
// in any order, some of them more than once.
type bipartite struct {
	begins []int // where each left vertex's ends begin, and the number of edges
	ends   []int32
	rights int
}

// newBipartite makes a graph of the edges for which each calls its argument. It calls each twice.
func newBipartite(lefts, rights int, each func(edge func(left, right int32))) bipartite {
	g := bipartite{begins: make([]int, lefts+1), rights: rights}
	each(func(u, _ int32) { g.begins[u+1]++ })
	for u := range lefts {
		g.begins[u+1] += g.begins[u]
	}
	g.ends = make([]int32, g.begins[lefts])
	next := slices.Clone(g.begins)
	each(func(u, v int32) {
		g.ends[next[u]] = v
		next[u]++
	})
	return g
}

// minimumCover returns a smallest set of vertices with an end of each edge: a minimum vertex cover. left and
// right say which vertices are in it.
//
// By König's theorem the cover has as many vertices as a maximum matching has edges. Let Z be the vertices
// that alternating paths reach from unmatched left vertices: along any edge to the right, and along an edge
// of the matching back. The cover is the left vertices outside Z and the right vertices in Z. Z is the same
// for each maximum matching (Dulmage and Mendelsohn 1958), so all who know the edges find the same cover, in
// whatever order they have them.
func (g bipartite) minimumCover() (left, right []bool) {
	m := g.maximumMatching() // its last search for levels has visited Z
	left, right = make([]bool, len(m.left)), make([]bool, len(m.right))
	for v, u := range m.right {
		if u != none {
			right[v] = m.level[u] != none
			left[u] = !right[v]
		}
	}
	return left, right
}

// none stands for no vertex, and for no level.
const none = -1

// matching is a set of edges without a common end.
type matching struct {
	bipartite
	left, right []int32 // the other end of each vertex's edge in the matching, or none
	free        []int32 // the left vertices with edges, but without one in the matching
	level       []int32 // of the left vertices, by levels
	queue       []int32 // the left vertices that have a level, by level
	next        []int   // by left vertex: the first edge that augment has not tried
	path        []int32 // the left vertices of augment's path
}

// maximumMatching is the algorithm of Hopcroft and Karp (1973), from a greedy matching. Each phase adds a
// maximal set of shortest augmenting paths without common vertices. There are at most √V phases of V + E
// steps, and in practice few.
func (g bipartite) maximumMatching() *matching {
	m := &matching{bipartite: g, left: make([]int32, len(g.begins)-1), right: make([]int32, g.rights)}
	m.level, m.next = make([]int32, len(m.left)), make([]int, len(m.left))
	m.matchGreedily()
	for m.levels() {
		copy(m.next, m.begins)
		m.free = slices.DeleteFunc(m.free, m.augment)
	}
	return m
}

// matchGreedily takes every edge whose ends are free.
func (m *matching) matchGreedily() {
	fill(m.left, none)
	fill(m.right, none)
	for u := range m.left {
		edges := m.ends[m.begins[u]:m.begins[u+1]]
		if i := slices.IndexFunc(edges, func(v int32) bool { return m.right[v] == none }); i >= 0 {
			m.left[u], m.right[edges[i]] = edges[i], int32(u)
		} else if len(edges) > 0 {
			m.free = append(m.free, int32(u))
		}
	}
}

// levels gives level 0 to the free left vertices. To left vertices that alternating paths reach from them it
// gives the number of matching edges on a shortest path. It goes no deeper than the first free right vertex,
// and reports whether there is one.
func (m *matching) levels() (found bool) {
	fill(m.level, none)
	for _, u := range m.free {
		m.level[u] = 0
	}
	m.queue = append(m.queue[:0], m.free...)
	deepest := int32(math.MaxInt32)
	for i := 0; i < len(m.queue); i++ {
		u := m.queue[i]
		for _, v := range m.ends[m.begins[u]:m.begins[u+1]] {
			switch w := m.right[v]; {
			case w == none:
				deepest = m.level[u]
			case m.level[w] == none && m.level[u] < deepest:
				m.level[w] = m.level[u] + 1
				m.queue = append(m.queue, w)
			}
		}
	}
	return deepest < math.MaxInt32
}

// augment looks for an alternating path from a free left vertex to a free right one that goes one level
// deeper with each edge of the matching. It swaps the path's edges: edges outside the matching come in, and
// the others leave.
func (m *matching) augment(from int32) (found bool) {
	m.path = append(m.path[:0], from)
	for len(m.path) > 0 {
		u := m.path[len(m.path)-1]
		if m.next[u] == m.begins[u+1] {
			m.path = m.path[:len(m.path)-1]
			continue
		}
		v := m.ends[m.next[u]]
		m.next[u]++
		switch w := m.right[v]; {
		case w == none:
			for _, u := range m.path {
				v := m.ends[m.next[u]-1] // the last edge that was tried leads along the path
				m.left[u], m.right[v] = v, u
			}
			return true
		case m.level[w] == m.level[u]+1:
			m.path = append(m.path, w)
		}
	}
	return false
}

func fill(list []int32, value int32) {
	for i := range list {
		list[i] = value
	}
}
