//go:build !weftdebug

package tensor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"weft/internal/assert"
	"weft/internal/require"
)

// scanned is idle memory as a list by address. Each step looks at the whole list.
type scanned []span

func (d *scanned) put(s span) {
	all := append(*d, s)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(uintptr(a.start), uintptr(b.start)) })
	*d = all[:1]
	for _, s := range all[1:] {
		if last := &(*d)[len(*d)-1]; last.end() == s.start {
			last.size += s.size
		} else {
			*d = append(*d, s)
		}
	}
}

func (d *scanned) take(size int) unsafe.Pointer {
	best := -1
	for i, s := range *d {
		if s.size >= size && (best < 0 || s.size < (*d)[best].size) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	p := (*d)[best].start
	if (*d)[best] = (span{unsafe.Add(p, size), (*d)[best].size - size}); (*d)[best].size == 0 {
		*d = slices.Delete(*d, best, best+1)
	}
	return p
}

// TestIdleIsTheSmallest: memory is taken from the smallest range that is large enough, and from the first of
// equal ones, as a search through all ranges finds it.
func TestIdleIsTheSmallest(t *testing.T) {
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 0))
		memory := acquire(200 * PageSize)
		defer giveBack(memory, 200*PageSize)
		got, want := newIdle(), scanned{}
		var taken []span
		for at := range 20 { // every other range of 5 pages
			s := span{unsafe.Add(memory, 10*at*PageSize), 5 * PageSize}
			got.put(s)
			want.put(s)
		}
		for step := range 500 {
			if len(taken) > 0 && chance.IntN(2) == 0 {
				k := chance.IntN(len(taken))
				got.put(taken[k])
				want.put(taken[k])
				taken = slices.Delete(taken, k, k+1)
				continue
			}
			size := (1 + chance.IntN(4)) * PageSize
			p := got.take(size)
			require.Equal(t, want.take(size), p, fmt.Sprintf("step %d of seed %d", step, seed))
			if p != nil {
				taken = append(taken, span{p, size})
			}
		}
		sum := int64(0)
		for _, s := range want {
			sum += int64(s.size)
		}
		assert.Equal(t, sum, got.bytes)
		for range want { // the smallest range is also given back first
			smallest := slices.MinFunc(want, func(a, b span) int { return cmp.Compare(a.size, b.size) })
			s, _ := got.cut(1 << 30)
			require.Equal(t, smallest, s)
			want = slices.DeleteFunc(want, func(o span) bool { return o == s })
		}
	}
}

// TestIdleWork: the work to release and take again the memory of thousands of parameters grows with the
// logarithm of their number, in whatever order they are released.
func TestIdleWork(t *testing.T) {
	for name, step := range map[string]int{"forward": 1, "backward": -1, "scattered": 7919} {
		const matrices = 1 << 14
		memory := acquire(2 * matrices * PageSize)
		defer giveBack(memory, 2*matrices*PageSize)
		d := newIdle()
		for i := range matrices {
			at := (i*step%matrices + matrices) % matrices
			d.put(span{unsafe.Add(memory, 2*at*PageSize), PageSize})
		}
		for range matrices {
			require.Equal(t, true, d.take(PageSize) != nil)
		}
		assert.Equal(t, int64(0), d.bytes)
		// a random search tree has a depth of about 2 ln n = 19 on average
		if most := 120 * matrices; d.ranges.looked > most {
			t.Errorf("%s: %d ranges were looked at, %d at most are to be", name, d.ranges.looked, most)
		}
	}
}
