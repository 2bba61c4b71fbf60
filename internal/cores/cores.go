// Package cores says how many goroutines are to compute at once.
package cores

import (
	"runtime"
	"sync"
	"sync/atomic"
)

var (
	once  sync.Once
	spare atomic.Int64
)

// Count is GOMAXPROCS, without what Spare added to it.
func Count() int { return runtime.GOMAXPROCS(0) - int(spare.Load()) }

// Share calls do for about equal parts of 0…n−1, on as many goroutines as Count.
func Share(n int, do func(from, to int)) {
	parts := Count()
	var wait sync.WaitGroup
	for k := range parts {
		wait.Go(func() { do(n*k/parts, n*(k+1)/parts) })
	}
	wait.Wait()
}

// Spare gives Go's scheduler one processor more, for a program that has as many goroutines in C as there are
// cores: one stays idle then. Where none does, the scheduler takes the processor away from every call of C
// that lasts more than 20 µs, starts a thread for it that finds nothing to do, and looks again as soon: on
// two cores, kernels of some milliseconds took a quarter longer. Where goroutines wait for each other all the
// time, a processor more makes them slower. Further calls do nothing.
func Spare() {
	once.Do(func() {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
		spare.Store(1)
	})
}
