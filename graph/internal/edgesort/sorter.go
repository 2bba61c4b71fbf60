// Package edgesort sorts more edges than memory holds into the order of a store. Package streamed adds edges
// as an importer reads them, and takes them sorted into the store.
package edgesort

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"unsafe"

	"weft/graph"
	"weft/graph/internal/pump"
	"weft/internal/cores"
	"weft/internal/memory"
)

// Sorter sorts edges into the order of a store: by target, then by source, and parallel edges in the order in
// which they were added. Its memory does not depend on their number (an external sort). It divides the
// targets into ranges, writes the edges into each range to a file, and then sorts one range at a time in
// memory.
type Sorter struct {
	Options
	batches   *batches
	low, high int  // the targets are low … high−1
	shift     uint // log₂ of the number of targets in a range
	most      int  // ranges
	ranges    []unsorted
	// Duplicates counts the original edges that Single dropped.
	Duplicates int64
}

// Options are the settings of a Sorter.
type Options struct {
	Scratch  *os.File // an empty file for edges that wait, with the words of each
	Kept     int64    // bytes of edges that wait in memory; others wait in the file
	Weighted bool     // edges have weights
	Columns  int      // of edge features
	Labelled bool     // edges have labels, as numbers
	Divided  bool     // edges have values that divide them
	// Single keeps one of parallel edges: the first original edge, or else the first added edge.
	Single bool
	// Budget is how many bytes of edges are sorted at a time. As many bytes of ends of targets may be added.
	// One target may take more. Three such parts are in memory. 0: 64 MB, or less if memory is scarce.
	Budget int64
}

// unsorted has the edges into a range of targets in the order in which they were added: full batches in the
// file, and the last edges in memory. The words of an edge are its target, its key, the bits of its weight
// and features, its label, and the two halves of the value that divides.
type unsorted struct {
	batches []int64 // where each batch is
	last    []uint32
}

// An edge's key is 2·source + kind. An original edge is in the source files, and
// an added edge is the reverse of one.
const (
	original uint32 = iota
	added
)

const (
	wordBytes   = 4
	batchWords  = 32 << 10 // approximate size of a batch
	mostRanges  = 1024
	rangeBytes  = 8 << 20 // approximate size of a range's edges
	mostTargets = 1 << 20 // of a range
	targetBytes = 16      // of a target's ends
	sortBudget  = 64 << 20
)

// New returns a sorter for about so many edges into targets below high.
func New(o Options, high int, about int64) *Sorter {
	if o.Budget == 0 {
		o.Budget = min(sortBudget, memory.Left()/24)
	}
	return newSorter(o, newBatches(o.Scratch, min(o.Kept, about*int64(o.words())*wordBytes)), 0, high, about)
}

// newSorter returns a sorter for about so many edges into targets low … high−1. Its ranges have one target
// each at first. They grow when there would be too many, as the number of targets may be unknown.
func newSorter(o Options, b *batches, low, high int, about int64) *Sorter {
	s := &Sorter{Options: o, batches: b, low: low, high: high}
	s.most = int(min(max(1, about*int64(s.words())/(rangeBytes/wordBytes)), mostRanges))
	return s
}

// Close gives back the memory of edges that wait. The scratch file is the caller's.
func (s *Sorter) Close() { s.batches.close() }

// Limit lowers the number of targets. All edges must lead into these.
func (s *Sorter) Limit(high int) { s.high = high }

// words returns the number of words of an edge.
func (s *Options) words() int {
	n := 2 + s.Columns
	if s.Weighted {
		n++
	}
	if s.Labelled {
		n++
	}
	if s.Divided {
		n += 2
	}
	return n
}

// batch returns the number of words of a batch: a multiple of an edge's words.
func (s *Options) batch() int { return max(1, batchWords/s.words()) * s.words() }

// Memory bounds the bytes that about so many edges take in memory before they are sorted.
func (s *Sorter) Memory(about int64) int64 {
	batch := int64(s.batch()) * wordBytes
	return min(int64(s.most)*batch, about*int64(s.words())*wordBytes+batch)
}

// Add adds edges and, if both is set, the reverse of each.
func (s *Sorter) Add(e *graph.Edges, both bool) error {
	edge, features := make([]uint32, s.words()), floatsAsWords(e.Features)
	values := edge[2:]
	if s.Weighted {
		values = edge[3:]
	}
	for k, source := range e.Source {
		target := e.Target[k]
		if s.Weighted {
			edge[2] = math.Float32bits(e.Weights[k])
		}
		rest := values[copy(values[:s.Columns], features[k*s.Columns:]):]
		if s.Labelled {
			rest[0] = uint32(e.Labels[k])
			rest = rest[1:]
		}
		if s.Divided {
			bits := math.Float64bits(e.SplitBy[k])
			rest[0], rest[1] = uint32(bits), uint32(bits>>32)
		}
		edge[0], edge[1] = uint32(target), uint32(source)<<1+original
		if err := s.add(edge); err != nil {
			return err
		}
		if !both {
			continue
		}
		edge[0], edge[1] = uint32(source), uint32(target)<<1|added
		if err := s.add(edge); err != nil {
			return err
		}
	}
	return nil
}

// add adds an edge by its words.
func (s *Sorter) add(edge []uint32) error {
	k := (int(edge[0]) - s.low) >> s.shift
	if k >= len(s.ranges) {
		if err := s.reach(edge[0]); err != nil {
			return err
		}
		k = (int(edge[0]) - s.low) >> s.shift
	}
	r := &s.ranges[k]
	r.last = append(r.last, edge...)
	if len(r.last) < s.batch() {
		return nil
	}
	batch, err := s.batches.write(r.last)
	if err != nil {
		return err
	}
	r.batches = append(r.batches, batch)
	r.last = r.last[:0]
	return nil
}

// reach makes a range for a target. If there would be too many ranges, it joins pairs of them.
func (s *Sorter) reach(target uint32) error {
	for (int(target)-s.low)>>s.shift >= s.most {
		s.shift++
		smaller := s.ranges
		s.ranges = make([]unsorted, (len(smaller)+1)/2)
		for k := range s.ranges {
			s.ranges[k] = smaller[2*k]
		}
		for k := 1; k < len(smaller); k += 2 {
			into := &s.ranges[k/2]
			into.batches = append(into.batches, smaller[k].batches...)
			for edge := range slices.Chunk(smaller[k].last, s.words()) {
				if err := s.add(edge); err != nil {
					return err
				}
			}
		}
	}
	for k := (int(target) - s.low) >> s.shift; len(s.ranges) <= k; {
		s.ranges = append(s.ranges, unsorted{})
	}
	return nil
}

// floatsAsWords returns the memory of floats as words.
func floatsAsWords(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// sortBuffers are the buffers for the edges of one range.
type sortBuffers struct {
	words []uint32
	ends  []int64 // by target: the end of its edges in keys
	// keys has for each edge, by target, its key (upper half) and its index among the edges (lower half).
	keys []uint64
	rows graph.Relation
}

// bounded are the edges into targets low … high−1, which fit in the memory for them.
type bounded struct {
	unsorted
	low, high int
}

// Each sorts all edges and calls emit with the rows of consecutive targets, until all targets have come. The
// rows are valid until emit returns. Meanwhile the next rows are sorted. Afterwards the sorter is empty.
func (s *Sorter) Each(emit func(*graph.Relation) error) error {
	next, stop := iter.Pull2(s.bounded)
	defer stop()
	ahead := pump.New(func(m *sortBuffers) (*sortBuffers, error) {
		r, err, more := next()
		switch {
		case err != nil:
			return m, err
		case !more:
			return m, io.EOF
		case m == nil:
			m = &sortBuffers{}
		}
		return m, s.sort(&r, m)
	})
	defer ahead.Close()
	for {
		m, err := ahead.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := emit(&m.rows); err != nil {
			return err
		}
	}
}

// bounded yields the edges by consecutive ranges of targets, each of which fits in the memory for it.
func (s *Sorter) bounded(yield func(bounded, error) bool) {
	for low, k := s.low, 0; low < s.high; k++ {
		r, high := unsorted{}, min(s.high, low+s.targets()) // behind the last range no target has an edge
		if k < len(s.ranges) {
			r, s.ranges[k] = s.ranges[k], unsorted{}
			high = min(s.high, low+1<<s.shift)
		}
		fits := int64(r.words(s))*wordBytes <= s.Budget && high-low <= s.targets()
		if fits || s.shift == 0 {
			if !yield(bounded{r, low, high}, nil) {
				return
			}
		} else if !s.divide(&r, low, high, yield) {
			return
		}
		low = high
	}
}

// targets is how many targets a range may have.
func (s *Sorter) targets() int { return int(max(1, min(mostTargets, s.Budget/targetBytes))) }

// words is how many words the edges have.
func (r *unsorted) words(s *Sorter) int { return len(r.batches)*s.batch() + len(r.last) }

// divide yields edges by smaller ranges of targets, from low … high−1. It reports whether to go on.
func (s *Sorter) divide(r *unsorted, low, high int, yield func(bounded, error) bool) (more bool) {
	smaller := newSorter(s.Options, s.batches, low, high, int64(r.words(s)/s.words()))
	smaller.most = max(smaller.most, 2, (high-low)/s.targets()+1)
	again := func(words []uint32) error {
		for edge := range slices.Chunk(words, s.words()) {
			if err := smaller.add(edge); err != nil {
				return err
			}
		}
		return nil
	}
	batch := make([]uint32, s.batch())
	for _, at := range r.batches {
		err := s.batches.read(batch, at)
		if err == nil {
			err = again(batch)
		}
		if err != nil {
			return yield(bounded{}, err)
		}
	}
	if err := again(r.last); err != nil {
		return yield(bounded{}, err)
	}
	more = true
	smaller.bounded(func(r bounded, err error) bool {
		more = yield(r, err)
		return more
	})
	return more
}

// sort sorts edges in memory into rows.
func (s *Sorter) sort(r *bounded, m *sortBuffers) error {
	words, targets := r.words(s), r.high-r.low
	if err := m.grow(words/s.words(), targets, s); err != nil {
		return err
	}
	for k, at := range r.batches {
		if err := s.batches.read(m.words[k*s.batch():(k+1)*s.batch()], at); err != nil {
			return err
		}
	}
	copy(m.words[len(r.batches)*s.batch():], r.last)
	// A counting sort by target
	for at := 0; at < words; at += s.words() {
		m.ends[int(m.words[at])-r.low+1]++
	}
	for t := range targets {
		m.ends[t+1] += m.ends[t]
	}
	for at := 0; at < words; at += s.words() {
		next := &m.ends[int(m.words[at])-r.low]
		m.keys[*next] = uint64(m.words[at+1])<<32 | uint64(at/s.words())
		*next++
	}
	cores.Divide(targets, func(from, to int) {
		for t := from; t < to; t++ {
			keys := m.keys[m.begin(t):m.ends[t]]
			slices.Sort(keys)
			s.place(m, keys, int(m.begin(t)))
			m.rows.Indptr[t+1] = m.ends[t]
		}
	})
	if s.Single {
		s.compact(m, targets)
	}
	return nil
}

// begin returns the index of a target's first key.
func (m *sortBuffers) begin(t int) int64 {
	if t == 0 {
		return 0
	}
	return m.ends[t-1]
}

// place writes the edges of some keys to their rows, from a place on.
func (s *Sorter) place(m *sortBuffers, keys []uint64, at int) {
	rows, columns, features := &m.rows, s.Columns, floatsAsWords(m.rows.Features.Dense)
	for i, k := range keys {
		rows.Sources[at+i] = int32(k >> 33)
		values := m.words[int(uint32(k))*s.words()+2 : (int(uint32(k))+1)*s.words()]
		if s.Weighted {
			rows.Weights[at+i] = math.Float32frombits(values[0])
			values = values[1:]
		}
		copy(features[(at+i)*columns:], values[:columns])
		values = values[columns:]
		if s.Labelled {
			rows.Labels.Class[at+i] = int64(int32(values[0]))
			values = values[1:]
		}
		if s.Divided {
			rows.SplitBy.Values[at+i] = math.Float64frombits(uint64(values[1])<<32 | uint64(values[0]))
		}
	}
}

// compact keeps the first of parallel edges, whose keys ascend: an original edge, if there is one.
func (s *Sorter) compact(m *sortBuffers, targets int) {
	rows, columns, kept := &m.rows, s.Columns, 0
	for t := range targets {
		first := kept
		for at := int(m.begin(t)); at < int(m.ends[t]); at++ {
			source := rows.Sources[at]
			if kept > first && rows.Sources[kept-1] == source {
				if uint32(m.keys[at]>>32)&1 == original {
					s.Duplicates++
				}
				continue
			}
			rows.Sources[kept] = source
			if s.Weighted {
				rows.Weights[kept] = rows.Weights[at]
			}
			copy(rows.Features.Dense[kept*columns:(kept+1)*columns], rows.Features.Dense[at*columns:])
			if s.Labelled {
				rows.Labels.Class[kept] = rows.Labels.Class[at]
			}
			if s.Divided {
				rows.SplitBy.Values[kept] = rows.SplitBy.Values[at]
			}
			kept++
		}
		rows.Indptr[t+1] = int64(kept)
	}
	rows.Sources, rows.Features.Dense = rows.Sources[:kept], rows.Features.Dense[:kept*columns]
	if s.Weighted {
		rows.Weights = rows.Weights[:kept]
	}
	if s.Labelled {
		rows.Labels.Class = rows.Labels.Class[:kept]
	}
	if s.Divided {
		rows.SplitBy.Values = rows.SplitBy.Values[:kept]
	}
}

// grow makes the buffers large enough for so many edges into so many targets, and empties the rows.
func (m *sortBuffers) grow(edges, targets int, s *Sorter) (err error) {
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
	rows := &m.rows
	if rows.Indptr, err = sized(rows.Indptr, targets+1); err != nil {
		return err
	}
	rows.Indptr[0], rows.Features.Columns = 0, s.Columns
	if rows.Sources, err = sized(rows.Sources, edges); err != nil {
		return err
	}
	if s.Weighted {
		if rows.Weights, err = sized(rows.Weights, edges); err != nil {
			return err
		}
	}
	if s.Labelled {
		if rows.Labels.Class, err = sized(rows.Labels.Class, edges); err != nil {
			return err
		}
	}
	if s.Divided {
		if rows.SplitBy == nil {
			rows.SplitBy = &graph.SplitBy{}
		}
		if rows.SplitBy.Values, err = sized(rows.SplitBy.Values, edges); err != nil {
			return err
		}
	}
	rows.Features.Dense, err = sized(rows.Features.Dense, edges*s.Columns)
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
