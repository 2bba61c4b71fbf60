package stream

import (
	"fmt"
	"math/bits"
)

const (
	refinePasses = 8
	// imbalance is how much larger than the mean a partition may become.
	imbalance = 1.05
)

// refine moves single vertices to other partitions where this leaves fewer halo rows, which are the vertices
// of others that a partition's edges read. It is label propagation with the partitions as labels (Meyerhenke
// et al., section 4), but counts halo rows in place of edges.
func (s *passes) refine(of []int32) error {
	r := s.refinement(of)
	for pass := range refinePasses {
		clear(r.readers)
		clear(r.several)
		err := s.pass(fmt.Sprintf("refining, pass %d, halo rows", pass+1), func(v int32, sources []int32) { r.read(v, of[v], sources) })
		if err != nil {
			return err
		}
		moved := 0
		err = s.pass(fmt.Sprintf("refining, pass %d, moves", pass+1), func(v int32, sources []int32) {
			if q := r.best(v, sources); q != of[v] {
				r.move(v, q, sources)
				moved++
			}
		})
		if err != nil {
			return err
		}
		if moved <= s.Vertices/1000 {
			break
		}
	}
	return nil
}

// refinement holds which partitions read which vertices. Partition p is bit p mod 64. Two partitions that
// share a bit are taken for one: with more than 64 partitions some moves gain less than they seem to.
type refinement struct {
	of       []int32
	readers  []uint64 // by vertex: the partitions that have an edge out of it, but for self loops
	several  []uint64 // those that have edges to several vertices. A move out of one may leave its bit set
	vertices []int    // by partition
	weights  []func(v int) int32
	load     [][]int64 // by weight, partition: the sum over its vertices
	limit    []int64   // by weight: the largest load that a move may make
	shared   []int32   // of the vertex at hand, by bit: in-neighbours whose rows the partition has
}

func (s *passes) refinement(of []int32) *refinement {
	r := &refinement{
		of: of, readers: make([]uint64, len(of)), several: make([]uint64, len(of)),
		vertices: make([]int, s.K), weights: s.Weights, shared: make([]int32, 64),
	}
	for _, p := range of {
		r.vertices[p]++
	}
	for _, weight := range s.Weights {
		load, sum := make([]int64, s.K), int64(0)
		for v, p := range of {
			load[p] += int64(weight(v))
			sum += int64(weight(v))
		}
		r.load, r.limit = append(r.load, load), append(r.limit, int64(imbalance*float64(sum)/float64(s.K)))
	}
	return r
}

func bit(p int32) uint64 { return 1 << (p % 64) }

// read notes that partition p, which v is in or moves to, reads v's in-neighbours.
func (r *refinement) read(v, p int32, sources []int32) {
	each(v, sources, func(u int32) {
		r.several[u] |= r.readers[u] & bit(p)
		r.readers[u] |= bit(p)
	})
}

// best returns the partition that leaves the fewest halo rows if v is in it, v's own if none leaves fewer. Of
// several it takes the one with the fewest vertices.
//
// If v moves from p to q, then p no longer reads the in-neighbours that no other vertex of p reads, and q
// reads those in-neighbours that it neither owns nor reads yet. The row of v is then not a halo row for q, but
// is one for p if p has edges out of v.
func (r *refinement) best(v int32, sources []int32) int32 {
	p := r.of[v]
	if r.vertices[p] == 1 {
		return p
	}
	all := ^uint64(0)
	if n := len(r.vertices); n < 64 {
		all = 1<<n - 1
	}
	clear(r.shared)
	near := r.readers[v]             // partitions that may gain
	everywhere, alone, in := 0, 0, 0 // in-neighbours whose rows all partitions have, that v reads alone, all
	each(v, sources, func(u int32) {
		in++
		if r.of[u] != p && r.several[u]&bit(p) == 0 {
			alone++
		}
		has := r.readers[u] | bit(r.of[u])
		if has == all {
			everywhere++
			return
		}
		near |= has
		for ; has != 0; has &= has - 1 {
			r.shared[bits.TrailingZeros64(has)]++
		}
	})
	to, most := p, 0
	if r.readers[v]&bit(p) != 0 {
		alone-- // the row of v becomes one that p reads
	}
	if near&^bit(p) == 0 && alone <= 0 {
		return p
	}
	for q := range int32(len(r.vertices)) {
		if q == p || !r.fits(v, q) {
			continue
		}
		saved := alone - (in - everywhere - int(r.shared[q%64]))
		if r.readers[v]&bit(q) != 0 {
			saved++
		}
		if saved > most || saved == most && to != p && r.vertices[q] < r.vertices[to] {
			to, most = q, saved
		}
	}
	return to
}

// fits reports whether v may move to q.
func (r *refinement) fits(v, q int32) bool {
	for c, weight := range r.weights {
		if w := int64(weight(int(v))); w > 0 && r.load[c][q]+w > r.limit[c] {
			return false
		}
	}
	return true
}

// move moves v to q.
func (r *refinement) move(v, q int32, sources []int32) {
	p := r.of[v]
	each(v, sources, func(u int32) {
		if r.several[u]&bit(p) == 0 {
			r.readers[u] &^= bit(p)
		}
	})
	r.read(v, q, sources)
	r.of[v] = q
	r.vertices[p]--
	r.vertices[q]++
	for c, weight := range r.weights {
		w := int64(weight(int(v)))
		r.load[c][p] -= w
		r.load[c][q] += w
	}
}

// each calls f once for each in-neighbour of v but itself.
func each(v int32, sources []int32, f func(u int32)) {
	for i, u := range sources {
		if u != v && (i == 0 || sources[i-1] != u) {
			f(u)
		}
	}
}
