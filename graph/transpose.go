package graph

import (
	"errors"
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"weft/internal/cores"
	"weft/internal/memory"
)

// Transposer reverses the edges of a relation, for one range of sources after the other, and holds no more
// than a range in memory. A range takes a pass over the rows, on all cores: each row is read from where the
// range before ended. The edges of a range are first put into buckets of consecutive sources, so that both
// steps write to places that are in the cache.
type Transposer struct {
	parts  []*Relation // consecutive rows; sources ascend within a row
	starts []int       // the first row of each part, and the number of rows
	guard  func(func() error) error
	unload func()
	next   []int64 // by row: the first of its edges that was not listed
	shares []int   // bounds of the rows that each core reads
	most   int64   // edges of a range

	places [][]int64 // core → bucket → edges, then the place of its next edge
	bucket []int64   // → its first edge, and the number of edges
	edges  []uint64  // source and row, by bucket
	values []float32 // their weights
	listed *Relation
	before *Relation // what List returned before
}

const (
	transposedBytes = 3 << 26 // of edges that a Transposer holds
	bucketBits      = 9       // of the number of buckets
	passedEdges     = 1 << 26 // after so many, read or not, the pages of mapped files are given back
)

// NewTransposer begins to reverse the edges of consecutive rows, which lie in several parts. Weights come
// along, edge features do not. guard runs what reads the parts, as Graph.Guard does, and unload gives the
// pages of their mapped files back, as Graph.Unload does.
func NewTransposer(parts []*Relation, guard func(func() error) error, unload func()) (*Transposer, error) {
	t := &Transposer{
		parts: parts, starts: []int{0}, guard: guard, unload: unload,
		places: make([][]int64, cores.Count()),
	}
	t.listed, t.before = &Relation{}, &Relation{}
	all := int64(0)
	for p, r := range parts {
		t.starts = append(t.starts, t.starts[p]+r.rows())
		all += int64(len(r.Sources))
	}
	rows := t.starts[len(parts)]
	bytes := int64(8 + 2*4) // of an edge
	if t.weighted() {
		bytes += 4 + 2*4
	}
	t.most = min(transposedBytes, memory.Left()/4) / bytes
	return t, guard(func() error {
		t.next = make([]int64, 0, rows)
		t.shares = []int{0}
		before := int64(0)
		for p, r := range parts {
			t.next = append(t.next, r.Indptr[:r.rows()]...)
			for len(t.shares) < len(t.places) {
				due := all*int64(len(t.shares))/int64(len(t.places)) - before
				if due > int64(len(r.Sources)) {
					break
				}
				t.shares = append(t.shares,
					t.starts[p]+sort.Search(r.rows(), func(row int) bool { return r.Indptr[row] >= due }))
			}
			before += int64(len(r.Sources))
		}
		t.shares = append(t.shares, rows)
		return nil
	})
}

// Most returns the number of edges that List should be asked for at once.
func (t *Transposer) Most() int64 { return t.most }

func (t *Transposer) weighted() bool { return len(t.parts) > 0 && t.parts[0].Weights != nil }

// List lists the out-edges of the sources lo … hi−1, ascending: their rows in order. Each call begins where
// the one before ended, or later. The call after the next overwrites the result.
func (t *Transposer) List(lo, hi int) (*Relation, error) {
	shift := uint(max(0, bits.Len(uint(hi-lo))-bucketBits))
	buckets := (hi-lo)>>shift + 1
	err := t.each(func(core int, r *Relation, row, at int) {
		places, k, end := t.places[core], t.next[at], r.Indptr[row+1]
		for k < end && int(r.Sources[k]) < lo {
			k++
		}
		t.next[at] = k
		for _, u := range r.Sources[k:end] {
			if int(u) >= hi {
				break
			}
			places[(int(u)-lo)>>shift]++
		}
	}, func(core int) {
		t.places[core] = slices.Grow(t.places[core][:0], buckets)[:buckets]
		clear(t.places[core])
	})
	if err != nil {
		return nil, err
	}
	edges := int64(0)
	t.bucket = t.bucket[:0]
	for b := range buckets {
		t.bucket = append(t.bucket, edges)
		for _, places := range t.places {
			places[b], edges = edges, edges+places[b]
		}
	}
	t.bucket = append(t.bucket, edges)
	t.edges = slices.Grow(t.edges[:0], int(edges))[:edges]
	if t.weighted() {
		t.values = slices.Grow(t.values[:0], int(edges))[:edges]
	}
	err = t.each(func(core int, r *Relation, row, at int) {
		places, k, end := t.places[core], t.next[at], r.Indptr[row+1]
		for ; k < end; k++ {
			u := int(r.Sources[k])
			if u >= hi {
				break
			}
			place := &places[(u-lo)>>shift]
			t.edges[*place] = uint64(u-lo)<<32 | uint64(at)
			if r.Weights != nil {
				t.values[*place] = r.Weights[k]
			}
			*place++
		}
		t.next[at] = k
	}, func(int) {})
	if err != nil {
		return nil, err
	}
	t.listed, t.before = t.before, t.listed
	t.sort(hi-lo, shift)
	return t.listed, nil
}

// sort lists the edges of the buckets, each of 2^shift sources out of so many.
func (t *Transposer) sort(sources int, shift uint) {
	out, edges := t.listed, len(t.edges)
	out.Indptr = slices.Grow(out.Indptr[:0], sources+1)[:sources+1]
	out.Indptr[0] = 0
	out.Sources = slices.Grow(out.Sources[:0], edges)[:edges]
	if t.weighted() {
		out.Weights = slices.Grow(out.Weights[:0], edges)[:edges]
	}
	var taken atomic.Int64
	var wait sync.WaitGroup
	for range cores.Count() {
		wait.Go(func() {
			next := make([]int64, 1<<shift)
			for b := int(taken.Add(1)) - 1; b < len(t.bucket)-1; b = int(taken.Add(1)) - 1 {
				low := b << shift
				t.sortBucket(t.bucket[b], t.bucket[b+1], low, next[:max(0, min(1<<shift, sources-low))])
			}
		})
	}
	wait.Wait()
}

// sortBucket lists the edges from first to end, whose sources begin with low. next has a place for each.
func (t *Transposer) sortBucket(first, end int64, low int, next []int64) {
	clear(next)
	for _, e := range t.edges[first:end] {
		next[int(e>>32)-low]++
	}
	at := first
	for s, n := range next {
		next[s] = at
		at += n
		t.listed.Indptr[low+s+1] = at
	}
	for k, e := range t.edges[first:end] {
		place := &next[int(e>>32)-low]
		t.listed.Sources[*place] = int32(uint32(e))
		if t.weighted() {
			t.listed.Weights[*place] = t.values[first+int64(k)]
		}
		*place++
	}
}

// each calls visit for each row, on all cores, and begin on each core before.
func (t *Transposer) each(visit func(core int, r *Relation, row, at int), begin func(core int)) error {
	errs := make([]error, len(t.places))
	var wait sync.WaitGroup
	for core := range t.places {
		wait.Go(func() {
			errs[core] = t.guard(func() error {
				begin(core)
				passed := int64(0)
				for p, r := range t.parts {
					from, to := max(t.shares[core], t.starts[p]), min(t.shares[core+1], t.starts[p+1])
					for at := from; at < to; at++ {
						row := at - t.starts[p]
						visit(core, r, row, at)
						passed += r.Indptr[row+1] - r.Indptr[row]
						if passed > passedEdges {
							t.unload()
							passed = 0
						}
					}
				}
				return nil
			})
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
