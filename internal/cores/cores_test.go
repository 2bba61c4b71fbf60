package cores

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestDivide: every number is in one part, also where there are fewer than cores.
func TestDivide(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for _, n := range []int{0, 1, 2, 3, 7} {
		times := make([]atomic.Int64, n)
		Divide(n, func(from, to int) {
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

// TestInOrder: each result is consumed once and in order, few wait, and an error ends the work.
func TestInOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for _, n := range []int{0, 1, 2, 100} {
		var ahead atomic.Int64
		next := 0
		err := InOrder(n, func(k int) int {
			if waiting := ahead.Add(1); waiting > 7 { // two for each of three, and the one that is consumed
				t.Errorf("%d results wait", waiting)
			}
			return k * k
		}, func(k, result int) error {
			ahead.Add(-1)
			if k != next || result != k*k {
				t.Errorf("result %d is %d, where that of %d is due", k, result, next)
			}
			next++
			return nil
		})
		if err != nil || next != n {
			t.Errorf("%d of %d results, %v", next, n, err)
		}
	}
	full := errors.New("full")
	var produced atomic.Int64
	err := InOrder(1000, func(int) int { produced.Add(1); return 0 }, func(k, _ int) error {
		if k == 5 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || produced.Load() > 20 {
		t.Errorf("%v after %d results", err, produced.Load())
	}
}
