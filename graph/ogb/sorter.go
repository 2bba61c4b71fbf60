package ogb

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"unsafe"

	"weft/internal/cores"
	"weft/internal/memory"
)

// sorter sorts edges into the order of a store: by target, then by source, and parallel edges in the order
// in which they were added. Its memory does not depend on their number (an external sort): it divides the
// targets into ranges, writes the edges into each range to a file, and then sorts one range at a time in
// memory.
type sorter struct {
	sortOptions
	low, high int  // the targets are low … high−1
	shift     uint // log₂ of the number of targets in a range
	ranges    []unsorted
	// duplicates counts the given edges that single dropped.
	duplicates int64
}

// sortOptions are the settings of a sorter.
type sortOptions struct {
	file    *batchFile
	columns int   // of edge features
	single  bool  // keep one of parallel edges: the first given edge, or the first added edge if none is given
	budget  int64 // bytes of edges that are sorted at a time; one target may take more
}

// batchFile is a file of batches of edges, as words of 32 bits.
type batchFile struct {
	file *os.File
	end  int64
}

// unsorted has the edges into a range of targets in the order in which they were added: full batches in the
// file, and the last edges in memory. The words of an edge are its target, its key, and the bits of its
// features.
type unsorted struct {
	batches []int64 // offset of each batch in the file
	last    []uint32
}

// An edge's key is 2·source + kind. A given edge is in the source files; an added edge is the reverse of one.
const (
	given uint32 = iota
	added
)

const (
	wordBytes    = 4
	batchWords   = 32 << 10 // approximate size of a batch
	mostRanges   = 1024
	rangeBytes   = 8 << 20 // approximate size of a range's edges
	rangeTargets = 1 << 20 // largest number of targets in a range
	maxShift     = 31
	sortBudget   = 128 << 20
)

// newSorter returns a sorter for about so many edges into targets low … high−1. A range has at most 2^most
// targets.
func newSorter(how sortOptions, low, high int, about int64, most uint) *sorter {
	s := &sorter{sortOptions: how, low: low, high: high}
	targets := int64(high - low)
	want := max(about/(rangeBytes/wordBytes)*int64(s.words()), targets/rangeTargets, 1)
	s.shift = min(most, uint(bits.Len64(uint64((targets-1)/min(want, mostRanges)))))
	s.ranges = make([]unsorted, (targets-1)>>s.shift+1)
	return s
}

// words returns the number of words of an edge.
func (s *sortOptions) words() int { return 2 + s.columns }

// batch returns the number of words of a batch: a multiple of an edge's words.
func (s *sortOptions) batch() int { return max(1, batchWords/s.words()) * s.words() }

// memoryFor returns a bound of the bytes that about so many edges take in memory before they are sorted.
func (s *sorter) memoryFor(about int64) int64 {
	batch := int64(s.batch()) * wordBytes
	return min(int64(len(s.ranges))*batch, about*int64(s.words())*wordBytes+batch)
}

// add adds an edge with its features.
func (s *sorter) add(source, target int32, kind uint32, features []float32) error {
	r := &s.ranges[(int(target)-s.low)>>s.shift]
	r.last = append(r.last, uint32(target), uint32(source)<<1|kind)
	for _, x := range features {
		r.last = append(r.last, math.Float32bits(x))
	}
	if len(r.last) < s.batch() {
		return nil
	}
	r.batches = append(r.batches, s.file.end)
	data := wordsAsBytes(r.last)
	if _, err := s.file.file.WriteAt(data, s.file.end); err != nil {
		return fmt.Errorf("writing edges that wait to be sorted: %w", err)
	}
	s.file.end += int64(len(data))
	r.last = r.last[:0]
	return nil
}

// wordsAsBytes returns the memory of words as bytes.
func wordsAsBytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), wordBytes*len(words))
}

// rows are the edges into consecutive vertices: the in-degree of each, the sources of each, ascending, and
// the features of these edges.
type rows struct {
	indegree, sources []int32
	features          []float32
}

// sortBuffers are the buffers for the edges of one range.
type sortBuffers struct {
	words []uint32
	ends  []int64 // by target: the end of its edges in keys
	// keys has for each edge, by target, its key (upper half) and its index among the edges (lower half).
	keys []uint64
	rows rows
}

// each sorts all edges and calls emit with the rows of consecutive targets, until all targets have come. The
// rows are valid until emit returns. The sorter is empty afterwards.
func (s *sorter) each(emit func(rows) error) error { return s.eachIn(&sortBuffers{}, emit) }

func (s *sorter) eachIn(m *sortBuffers, emit func(rows) error) error {
	for k := range s.ranges {
		r := &s.ranges[k]
		low := s.low + k<<s.shift
		high := min(s.high, low+1<<s.shift)
		words := len(r.batches)*s.batch() + len(r.last)
		var err error
		if s.shift > 0 && int64(words)*wordBytes > s.budget {
			err = s.divide(r, low, high, words, m, emit)
		} else {
			err = s.sort(r, low, high, words, m, emit)
		}
		if err != nil {
			return err
		}
		*r = unsorted{}
	}
	return nil
}

// divide sorts the edges into targets low … high−1 by a sorter with smaller ranges, and emits their rows.
func (s *sorter) divide(r *unsorted, low, high, words int, m *sortBuffers, emit func(rows) error) error {
	smaller := newSorter(s.sortOptions, low, high, int64(words/s.words()), s.shift-1)
	features := make([]float32, s.columns)
	again := func(words []uint32) error {
		for ; len(words) > 0; words = words[s.words():] {
			for c := range features {
				features[c] = math.Float32frombits(words[2+c])
			}
			if err := smaller.add(int32(words[1]>>1), int32(words[0]), words[1]&1, features); err != nil {
				return err
			}
		}
		return nil
	}
	batch := make([]uint32, s.batch())
	for _, at := range r.batches {
		if err := s.file.read(batch, at); err != nil {
			return err
		}
		if err := again(batch); err != nil {
			return err
		}
	}
	if err := again(r.last); err != nil {
		return err
	}
	err := smaller.eachIn(m, emit)
	s.duplicates += smaller.duplicates
	return err
}

func (c *batchFile) read(words []uint32, at int64) error {
	if _, err := c.file.ReadAt(wordsAsBytes(words), at); err != nil {
		return fmt.Errorf("reading edges that wait to be sorted: %w", err)
	}
	return nil
}

// sort sorts the edges into targets low … high−1 in memory, and emits their rows.
func (s *sorter) sort(r *unsorted, low, high, words int, m *sortBuffers, emit func(rows) error) error {
	edges, targets := words/s.words(), high-low
	if err := m.grow(edges, targets, s); err != nil {
		return err
	}
	for k, at := range r.batches {
		if err := s.file.read(m.words[k*s.batch():(k+1)*s.batch()], at); err != nil {
			return err
		}
	}
	copy(m.words[len(r.batches)*s.batch():], r.last)
	// A counting sort by target
	for at := 0; at < words; at += s.words() {
		m.ends[int(m.words[at])-low+1]++
	}
	for t := range targets {
		m.ends[t+1] += m.ends[t]
	}
	for at := 0; at < words; at += s.words() {
		next := &m.ends[int(m.words[at])-low]
		m.keys[*next] = uint64(m.words[at+1])<<32 | uint64(at/s.words())
		*next++
	}
	cores.Share(targets, func(from, to int) {
		for t := from; t < to; t++ {
			slices.Sort(m.keys[m.begin(t):m.ends[t]])
		}
	})
	for t := range targets {
		s.row(m, m.keys[m.begin(t):m.ends[t]])
	}
	return emit(m.rows)
}

// begin returns the index of a target's first key.
func (m *sortBuffers) begin(t int) int64 {
	if t == 0 {
		return 0
	}
	return m.ends[t-1]
}

// row adds the row of the next target, whose keys ascend.
func (s *sorter) row(m *sortBuffers, keys []uint64) {
	before, degree := len(m.rows.sources), 0
	last := uint64(math.MaxUint64) // key of the previous edge
	for _, k := range keys {
		key := k >> 32
		if s.single && degree > 0 && key>>1 == last>>1 {
			if uint32(key)&1 == given {
				s.duplicates++
			}
			continue
		}
		last = key
		degree++
		m.rows.sources = append(m.rows.sources, int32(key>>1))
		at := int(uint32(k))*s.words() + 2
		for _, word := range m.words[at : at+s.columns] {
			m.rows.features = append(m.rows.features, math.Float32frombits(word))
		}
	}
	m.rows.indegree = append(m.rows.indegree, int32(len(m.rows.sources)-before))
}

// grow makes the buffers large enough for so many edges into so many targets, and empties the rows.
func (m *sortBuffers) grow(edges, targets int, s *sorter) (err error) {
	if edges > math.MaxInt32 {
		return fmt.Errorf("%d edges into one vertex", edges)
	}
	if m.words, err = sized(m.words, edges*s.words()); err != nil {
		return err
	}
	if m.keys, err = sized(m.keys, edges); err != nil {
		return err
	}
	if m.ends, err = sized(m.ends, targets+1); err != nil {
		return err
	}
	clear(m.ends)
	if m.rows.indegree, err = memory.Grow(m.rows.indegree[:0], targets); err != nil {
		return err
	}
	if m.rows.sources, err = memory.Grow(m.rows.sources[:0], edges); err != nil {
		return err
	}
	m.rows.features, err = memory.Grow(m.rows.features[:0], edges*s.columns)
	return err
}

// sized returns a slice of n elements with undefined values, in the memory of s if it is large enough.
func sized[T any](s []T, n int) ([]T, error) {
	s, err := memory.Grow(s[:0], n)
	if err != nil {
		return nil, err
	}
	return s[:n], nil
}
