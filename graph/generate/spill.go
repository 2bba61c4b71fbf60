package generate

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spilled has the edges of several passes in a file, so that they are drawn once. The edges of a pass lie
// together, and among them the edges that a worker has drawn. They are keys: the target, counted from the
// first target of the pass, and below it the source.
type spilled[K key] struct {
	m      *rowMaker
	file   *os.File
	passes []pass
	start  [][]int64 // pass → worker → its first edge; the next worker's is the end
}

// spillBatch is the largest number of edges that a worker keeps for a pass before it writes them.
const spillBatch = 1 << 16

// spill draws all edges and writes them to a file.
func spill[K key](m *rowMaker, passes []pass, file *os.File, tell func(drawn int64)) (*spilled[K], error) {
	s := &spilled[K]{m: m, file: file, passes: passes}
	passOf := make([]int32, len(m.counts[0])) // bucket → pass
	var position int64
	for n := range passes {
		starts := make([]int64, 0, len(m.counts)+1)
		for _, counts := range m.counts {
			starts = append(starts, position)
			for b := s.first(n); b < passes[n].end; b++ {
				passOf[b] = int32(n)
				position += counts[b]
			}
		}
		s.start = append(s.start, append(starts, position))
	}
	batch := int(min(spillBatch, max(1, m.budget/int64(2*keyBytes[K]()*len(m.counts)*len(passes)))))
	failed := make([]error, len(m.counts))
	var last []func()
	m.each(func(worker int) func(source, target []uint32) {
		waiting := make([][]K, len(passes))
		next := make([]int64, len(passes))
		low := make([]uint32, len(passes))
		for n := range passes {
			waiting[n] = make([]K, 0, batch)
			next[n] = s.start[n][worker]
			low[n] = uint32(s.first(n) << m.shift)
		}
		write := func(n int32) {
			if failed[worker] == nil {
				_, failed[worker] = file.WriteAt(keysAsBytes(waiting[n]), next[n]*int64(keyBytes[K]()))
			}
			next[n] += int64(len(waiting[n]))
			waiting[n] = waiting[n][:0]
		}
		last = append(last, func() {
			for n := range waiting {
				write(int32(n))
			}
		})
		shift, sourceBits := m.shift, m.sourceBits()
		return func(source, target []uint32) {
			for i, t := range target[:len(source)] {
				n := passOf[t>>shift]
				waiting[n] = append(waiting[n], K(t-low[n])<<sourceBits|K(source[i]))
				if len(waiting[n]) == batch {
					write(n)
				}
			}
		}
	}, tell)
	for _, write := range last {
		write()
	}
	if err := cmp.Or(failed...); err != nil {
		return nil, fmt.Errorf("writing edges that wait to be sorted: %w", err)
	}
	return s, nil
}

// first returns the first bucket of a pass.
func (s *spilled[K]) first(pass int) int {
	if pass == 0 {
		return 0
	}
	return s.passes[pass-1].end
}

// each reads the edges of a pass, as rowMaker.each draws them. Then it gives their room on the disk back, so
// that a store may take it.
func (s *spilled[K]) each(pass int, visitor visitor) error {
	start := s.start[pass]
	low := uint32(s.first(pass) << s.m.shift)
	sourceBits := s.m.sourceBits()
	below := K(1)<<sourceBits - 1
	failed := make([]error, len(start)-1)
	var wait sync.WaitGroup
	for worker := range failed {
		visit := visitor(worker)
		wait.Go(func() {
			keys := make([]K, spillBatch)
			var source, target [batchEdges]uint32
			for at, end := start[worker], start[worker+1]; at < end; at += int64(len(keys)) {
				keys = keys[:min(int64(len(keys)), end-at)]
				if _, err := s.file.ReadAt(keysAsBytes(keys), at*int64(keyBytes[K]())); err != nil {
					failed[worker] = fmt.Errorf("reading edges that wait to be sorted: %w", err)
					return
				}
				for i := 0; i < len(keys); i += batchEdges {
					some := keys[i:min(i+batchEdges, len(keys))]
					for k, key := range some {
						source[k], target[k] = uint32(key&below), uint32(key>>sourceBits)+low
					}
					visit(source[:len(some)], target[:len(some)])
				}
			}
		})
	}
	wait.Wait()
	if err := cmp.Or(failed...); err != nil {
		return err
	}
	size := int64(keyBytes[K]())
	// A file system that cannot do this keeps the bytes until the file is closed.
	_ = unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, start[0]*size,
		(start[len(start)-1]-start[0])*size)
	return nil
}

// keyBytes is the size of a key.
func keyBytes[K key]() int { return int(unsafe.Sizeof(K(0))) }

// keysAsBytes returns the memory of keys as bytes.
func keysAsBytes[K key](keys []K) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(keys))), keyBytes[K]()*len(keys))
}
