package cores

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestShare: every number is in one part, also where there are fewer than cores.
func TestShare(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for _, n := range []int{0, 1, 2, 3, 7} {
		times := make([]atomic.Int64, n)
		Share(n, func(from, to int) {
			for k := from; k < to; k++ {
				times[k].Add(1)
			}
		})
		for k := range times {
			if got := times[k].Load(); got != 1 {
				t.Errorf("%d of %d was done %d times", k, n, got)
			}
		}
	}
}

// TestSpare: the scheduler gets one processor more, once, and the count of cores stays.
func TestSpare(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	if got := Count(); got != 3 {
		t.Errorf("%d cores, want 3", got)
	}
	for range 2 {
		Spare()
		if Count() != 3 || runtime.GOMAXPROCS(0) != 4 {
			t.Errorf("with a spare: %d cores of %d processors, want 3 of 4", Count(), runtime.GOMAXPROCS(0))
		}
	}
}
