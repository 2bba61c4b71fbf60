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

// sorter brings edges into the order of a store: by target, then by source, edges of the same two ends in the
// order in which they came. It takes little memory, whatever their number: the targets are divided into
// ranges, the edges into each range wait in a file, and one range at a time is sorted in memory.
type sorter struct {
	sorting
	low, high int  // the targets
	shift     uint // log₂ of the targets of a range
	ranges    []waiting
	// duplicates are the given edges that single left out.
	duplicates int64
}

// sorting is how a sorter works.
type sorting struct {
	file    *chunks
	columns int   // of edge features
	single  bool  // of edges of the same two ends the first stays, and a given one before one that was added
	budget  int64 // bytes of edges that are sorted at a time, where they have several targets
}

// chunks is a file of chunks of words.
type chunks struct {
	file *os.File
	end  int64
}

// waiting are the edges into a range of targets, in the order in which they came: those of the chunks, and
// the last ones. An edge is its target, its key, and its features as bits.
type waiting struct {
	chunks []int64 // where they lie in the file
	last   []uint32
}

// An edge's key is twice the source, and one more if the edge was added.
const (
	given uint32 = iota
	added
)

const (
	wordBytes    = 4
	chunkWords   = 32 << 10 // about
	mostRanges   = 1024
	rangeBytes   = 8 << 20 // of edges, about
	rangeTargets = 1 << 20 // at most
	maxShift     = 31
	sortBudget   = 128 << 20
)

// newSorter begins to sort about so many edges into the targets low…high−1. A range has at most 2^most
// targets.
func newSorter(how sorting, low, high int, about int64, most uint) *sorter {
	s := &sorter{sorting: how, low: low, high: high}
	targets := int64(high - low)
	want := max(about/(rangeBytes/wordBytes)*int64(s.words()), targets/rangeTargets, 1)
	s.shift = min(most, uint(bits.Len64(uint64((targets-1)/min(want, mostRanges)))))
	s.ranges = make([]waiting, (targets-1)>>s.shift+1)
	return s
}

// words is how many an edge has.
func (s *sorting) words() int { return 2 + s.columns }

// chunk is how many words a chunk has, those of whole edges.
func (s *sorting) chunk() int { return max(1, chunkWords/s.words()) * s.words() }

// memory is what about so many edges take at most until they are sorted.
func (s *sorter) memory(about int64) int64 {
	chunk := int64(s.chunk()) * wordBytes
	return min(int64(len(s.ranges))*chunk, about*int64(s.words())*wordBytes+chunk)
}

// add takes an edge, with its features.
func (s *sorter) add(source, target int32, kind uint32, features []float32) error {
	r := &s.ranges[(int(target)-s.low)>>s.shift]
	r.last = append(r.last, uint32(target), uint32(source)<<1|kind)
	for _, x := range features {
		r.last = append(r.last, math.Float32bits(x))
	}
	if len(r.last) < s.chunk() {
		return nil
	}
	r.chunks = append(r.chunks, s.file.end)
	data := wordsAsBytes(r.last)
	if _, err := s.file.file.WriteAt(data, s.file.end); err != nil {
		return fmt.Errorf("writing edges that wait to be sorted: %w", err)
	}
	s.file.end += int64(len(data))
	r.last = r.last[:0]
	return nil
}

// wordsAsBytes is the memory of words.
func wordsAsBytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), wordBytes*len(words))
}

// rows are the in-neighbours of consecutive vertices: their in-degrees, their sources, ascending, and the
// features of these edges.
type rows struct {
	indegree, sources []int32
	features          []float32
}

// room is the memory in which edges are sorted.
type room struct {
	words []uint32
	ends  []int64 // of the edges into a target
	// keys are those of the edges, by target, each above the edge's place in words.
	keys []uint64
	rows rows
}

// each calls emit with the rows of all targets, which it may use until it returns. The edges are gone then.
func (s *sorter) each(emit func(rows) error) error { return s.eachIn(&room{}, emit) }

func (s *sorter) eachIn(m *room, emit func(rows) error) error {
	for k := range s.ranges {
		r := &s.ranges[k]
		low := s.low + k<<s.shift
		high := min(s.high, low+1<<s.shift)
		words := len(r.chunks)*s.chunk() + len(r.last)
		var err error
		if s.shift > 0 && int64(words)*wordBytes > s.budget {
			err = s.divide(r, low, high, words, m, emit)
		} else {
			err = s.sort(r, low, high, words, m, emit)
		}
		if err != nil {
			return err
		}
		*r = waiting{}
	}
	return nil
}

// divide sorts the edges into targets low…high−1, in smaller ranges.
func (s *sorter) divide(r *waiting, low, high, words int, m *room, emit func(rows) error) error {
	smaller := newSorter(s.sorting, low, high, int64(words/s.words()), s.shift-1)
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
	chunk := make([]uint32, s.chunk())
	for _, at := range r.chunks {
		if err := s.file.read(chunk, at); err != nil {
			return err
		}
		if err := again(chunk); err != nil {
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

func (c *chunks) read(words []uint32, at int64) error {
	if _, err := c.file.ReadAt(wordsAsBytes(words), at); err != nil {
		return fmt.Errorf("reading edges that wait to be sorted: %w", err)
	}
	return nil
}

// sort sorts the edges into targets low…high−1, and emits their rows.
func (s *sorter) sort(r *waiting, low, high, words int, m *room, emit func(rows) error) error {
	edges, targets := words/s.words(), high-low
	if err := m.grow(edges, targets, s); err != nil {
		return err
	}
	for k, at := range r.chunks {
		if err := s.file.read(m.words[k*s.chunk():(k+1)*s.chunk()], at); err != nil {
			return err
		}
	}
	copy(m.words[len(r.chunks)*s.chunk():], r.last)
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

// begin is where the keys of a target begin.
func (m *room) begin(t int) int64 {
	if t == 0 {
		return 0
	}
	return m.ends[t-1]
}

// row adds the row of the next target, whose keys ascend.
func (s *sorter) row(m *room, keys []uint64) {
	before, degree := len(m.rows.sources), 0
	last := uint64(math.MaxUint64) // key of the edge before
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

// grow makes room for so many edges into so many targets, and empties the rows.
func (m *room) grow(edges, targets int, s *sorter) (err error) {
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

// sized is a slice of so many elements, of any value.
func sized[T any](s []T, n int) ([]T, error) {
	s, err := memory.Grow(s[:0], n)
	if err != nil {
		return nil, err
	}
	return s[:n], nil
}
