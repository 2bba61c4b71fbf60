package cores

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
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
			assert.Equal(t, 1, times[k].Load(), "%d of %d was done", k, n)
		}
	}
}

// TestAddProcessor: the scheduler gets one processor more, once, and the count of cores stays.
func TestAddProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	assert.Equal(t, 3, Count(), "cores")
	for range 2 {
		AddProcessor()
		assert.Equal(t, 3, Count())
		assert.Equal(t, 4, runtime.GOMAXPROCS(0))
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
			assert.Equal(t, next, k)
			assert.Equal(t, k*k, result)
			next++
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, n, next)
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
