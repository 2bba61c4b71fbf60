package stream

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

const (
	refinePasses = 8
	// imbalance is how much larger than the mean a partition may become.
	imbalance = 1.05
)

// refine moves single vertices to other partitions where this leaves fewer halo rows, which are the vertices
// of others that a partition's edges read. It is label propagation with the partitions as labels (Meyerhenke
// et al., section 4), but counts halo rows in place of edges. Vertices move within groups of partitions.
func (s *passes) refine(parts []int32) error {
	r := s.refinement(parts)
	for pass := range refinePasses {
		moved := 0
		for r.first = 0; int(r.first) < s.K; r.first += group {
			n, err := s.refineGroup(r, pass+1)
			if err != nil {
				return err
			}
			moved += n
		}
		if moved <= s.Vertices/1000 {
			break
		}
	}
	return nil
}

// refineGroup moves vertices between the partitions of a group, and returns how many it moved.
func (s *passes) refineGroup(r *refinement, pass int) (moved int, err error) {
	if err := s.readers(fmt.Sprintf("refining, pass %d, halo rows", pass), r); err != nil {
		return 0, err
	}
	var has counts
	err = s.passOnAll(fmt.Sprintf("refining, pass %d, moves", pass), func() func(int32, []int32) bool {
		var has counts
		return func(v int32, sources []int32) bool { return r.best(v, sources, &has) != r.parts[v] }
	}, func(v int32, sources []int32) {
		if q := r.best(v, sources, &has); q != r.parts[v] {
			r.move(v, q, sources)
			moved++
		}
	})
	return moved, err
}

// readers finds which partitions of the group read which vertices.
func (s *passes) readers(pass string, r *refinement) error {
	clear(r.by)
	return s.passOnAll(pass, func() func(int32, []int32) bool {
		return func(v int32, sources []int32) bool { r.read(v, r.parts[v], sources); return false }
	}, nil)
}

// fewerHaloRows returns those of two partitions that have fewer halo rows.
func (s *passes) fewerHaloRows(a, b []int32) ([]int32, error) {
	rows := [2]int{}
	for i, parts := range [][]int32{a, b} {
		r := s.refinement(parts)
		for r.first = 0; int(r.first) < s.K; r.first += group {
			if err := s.readers("counting halo rows", r); err != nil {
				return nil, err
			}
			for v, by := range r.by {
				rows[i] += bits.OnesCount64(by.any &^ r.bit(parts[v]))
			}
		}
	}
	if rows[1] < rows[0] {
		return b, nil
	}
	return a, nil
}

// group is how many partitions exchange vertices in a pass: a bit for each fits a word. METIS numbers
// neighbouring partitions consecutively.
const group = 64

// refinement holds which partitions of a group read which vertices, and parts, the partition of each vertex.
type refinement struct {
	parts    []int32
	first    int32     // partition of the group
	by       []readers // by vertex
	vertices []int     // by partition
	weights  []func(v int) int32
	load     [][]int64 // by weight, partition: the sum over its vertices
	limit    []int64   // by weight: the largest load that a move may make
}

// readers are the partitions of the group that read a vertex: a bit for each.
type readers struct {
	any     uint64 // partitions with an edge out of it, self loops aside
	several uint64 // partitions with edges to several vertices; a move out of one may leave its bit set
}

// counts has a number for each bit. Word i holds binary digit i of all numbers.
type counts [31]uint64

// add adds one to the numbers of the bits that are set.
func (c *counts) add(set uint64) {
	for i := 0; set != 0; i++ {
		c[i], set = c[i]^set, c[i]&set
	}
}

// count returns the number of a bit, which has so many digits.
func (c *counts) count(bit int32, digits int) (n int) {
	for i, word := range c[:digits] {
		n |= int(word>>bit&1) << i
	}
	return n
}

func (s *passes) refinement(parts []int32) *refinement {
	r := &refinement{
		parts: parts, by: make([]readers, len(parts)), vertices: make([]int, s.K), weights: s.Weights,
	}
	for _, p := range parts {
		r.vertices[p]++
	}
	for _, weight := range s.Weights {
		load := make([]int64, s.K)
		sum := int64(0)
		for v, p := range parts {
			load[p] += int64(weight(v))
			sum += int64(weight(v))
		}
		r.load, r.limit = append(r.load, load), append(r.limit, int64(imbalance*float64(sum)/float64(s.K)))
	}
	return r
}

// bit returns the bit of partition p, 0 if p is not in the group.
func (r *refinement) bit(p int32) uint64 { return 1 << uint32(p-r.first) } // Go shifts by 64 and more to 0

// read notes that partition p, which v is in or moves to, reads v's in-neighbours. It may run on several
// cores.
func (r *refinement) read(v, p int32, sources []int32) {
	b := r.bit(p)
	if b == 0 {
		return
	}
	each(v, sources, func(u int32) {
		by := &r.by[u]
		switch {
		case atomic.LoadUint64(&by.any)&b == 0 && atomic.OrUint64(&by.any, b)&b == 0: // v is the first
		case atomic.LoadUint64(&by.several)&b == 0:
			atomic.OrUint64(&by.several, b)
		}
	})
}

// best returns the partition of the group that leaves the fewest halo rows if v is in it, v's own if none
// leaves fewer. If several leave as few, it takes the one with the fewest vertices.
//
// If v moves from p to q, then p no longer reads the in-neighbours that no other vertex of p reads, and q
// reads those in-neighbours that it neither owns nor reads yet. The row of v is then no halo row for q, but
// is one for p if p has edges out of v.
func (r *refinement) best(v int32, sources []int32, has *counts) int32 {
	p := r.parts[v]
	own := r.bit(p)
	if own == 0 || r.vertices[p] == 1 {
		return p
	}
	last := min(r.first+group, int32(len(r.vertices))) - 1
	all := ^uint64(0) >> (group - 1 - (last - r.first))
	clear(has[:])
	near := r.by[v].any          // partitions that may gain
	alone, common, in := 0, 0, 0 // in-neighbours that p reads for v alone, that all own or read, all
	each(v, sources, func(u int32) {
		in++
		owner, by := r.parts[u], &r.by[u]
		if owner != p && by.several&own == 0 {
			alone++
		}
		with := by.any | r.bit(owner)
		if with == all {
			common++
			return
		}
		near |= with
		has.add(with)
	})
	if r.by[v].any&own != 0 {
		alone-- // p will read v
	}
	to, most := p, 0
	if near&^own == 0 && alone <= 0 {
		return p
	}
	digits := bits.Len(uint(in))
	for q := r.first; q <= last; q++ {
		if q == p || !r.fits(v, q) {
			continue
		}
		saved := alone - (in - common - has.count(q-r.first, digits))
		if r.by[v].any&r.bit(q) != 0 {
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

// move moves v to q, a partition of the same group.
func (r *refinement) move(v, q int32, sources []int32) {
	p := r.parts[v]
	b := r.bit(p)
	each(v, sources, func(u int32) {
		if by := &r.by[u]; by.several&b == 0 {
			by.any &^= b
		}
	})
	r.read(v, q, sources)
	r.parts[v] = q
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
