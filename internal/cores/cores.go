// Package cores says how many goroutines are to compute at once. All code that starts goroutines for work
// asks it.
package cores

import (
	"runtime"
	"sync"
	"sync/atomic"
)

var (
	once  sync.Once
	added atomic.Int64
)

// Count returns GOMAXPROCS, less what AddProcessor added to it.
func Count() int { return runtime.GOMAXPROCS(0) - int(added.Load()) }

// Divide calls do for about equal parts of 0…n−1, on as many goroutines as Count.
func Divide(n int, do func(from, to int)) {
	parts := Count()
	var wait sync.WaitGroup
	for k := range parts {
		wait.Go(func() { do(n*k/parts, n*(k+1)/parts) })
	}
	wait.Wait()
}

// InOrder calls produce for 0…n−1 on as many goroutines as Count, and consume with each result, in order and
// one at a time. Results wait for their turn, at most two for each goroutine. InOrder ends at the first error
// of consume and returns it.
func InOrder[T any](n int, produce func(k int) T, consume func(k int, result T) error) (err error) {
	workers := min(Count(), n)
	results := make([]chan T, 2*workers) // result k is in channel k modulo their number
	turns := make(chan struct{}, len(results))
	for k := range results {
		results[k] = make(chan T, 1)
		turns <- struct{}{}
	}
	var begun atomic.Int64
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for range turns {
				k := int(begun.Add(1)) - 1
				if k >= n {
					return
				}
				results[k%len(results)] <- produce(k)
			}
		})
	}
	for k := 0; k < n && err == nil; k++ {
		if err = consume(k, <-results[k%len(results)]); err == nil {
			turns <- struct{}{}
		}
	}
	begun.Store(int64(n)) // no goroutine takes a further k
	close(turns)
	wait.Wait()
	return err
}

// AddProcessor gives Go's scheduler one processor more, for a program with as many goroutines in C as there
// are cores: so one processor stays idle. Without an idle one, the scheduler takes the processor from every
// call of C that lasts more than 20 µs. It starts a thread for the processor, finds nothing to do, and looks
// again as soon. On two cores this made kernels of some milliseconds a quarter slower. If goroutines wait for
// each other all the time, one processor more makes them slower. Further calls do nothing.
func AddProcessor() {
	once.Do(func() {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
		added.Store(1)
	})
}
