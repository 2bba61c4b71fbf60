package kernel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// TestParallel: several goroutines hand out work on one team, at once and with pauses of about the time that
// helpers linger. Every piece of work is done once before Parallel returns, and no helper stays.
func TestParallel(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, threads := range []int{1, 2, 3, 8} {
		team := kernel.NewTeam(threads, tensor.NewMeter())
		var callers sync.WaitGroup
		for caller := range 4 {
			callers.Go(func() {
				for round := range 300 {
					n := (caller*31 + round) % 40
					done := make([]atomic.Int32, n)
					team.Parallel(n, func(k int) { done[k].Add(1) })
					for k := range done {
						if got := done[k].Load(); got != 1 {
							t.Errorf("%d threads: piece %d of %d was done %d times", threads, k, n, got)
						}
					}
					if round%10 == caller {
						time.Sleep(time.Duration(round) * time.Microsecond)
					}
				}
			})
		}
		callers.Wait()
	}
	for runtime.NumGoroutine() > before { // runs for ever if a helper stays
		time.Sleep(time.Millisecond)
	}
}

// TestParallelPanic: whichever piece of the work panics, the caller gets the value, and the team goes on
// working.
func TestParallelPanic(t *testing.T) {
	team := kernel.NewTeam(3, tensor.NewMeter())
	for piece := range 20 {
		what := fmt.Sprintf("piece %d", piece)
		var running atomic.Int32
		func() {
			defer func() {
				if got := recover(); got != what {
					t.Errorf("recovered %v, want %q", got, what)
				}
				if running.Load() != 0 {
					t.Error("the caller got the panic while work was under way")
				}
			}()
			team.Parallel(20, func(k int) {
				running.Add(1)
				defer running.Add(-1)
				time.Sleep(50 * time.Microsecond)
				if k == piece {
					panic(what)
				}
			})
		}()
	}
}

// TestParallelFault: every thread reads a mapped file that was cut. The fault is a panic in the caller's
// goroutine.
func TestParallelFault(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	f, err := os.Create(filepath.Join(t.TempDir(), "cut"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(1<<16))
	mapped, err := unix.Mmap(int(f.Fd()), 0, 1<<16, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(mapped) }()
	require.NoError(t, f.Truncate(0))
	team := kernel.NewTeam(3, tensor.NewMeter())
	for range 20 {
		func() {
			defer func() {
				if fault, is := recover().(interface{ Addr() uintptr }); !is {
					t.Errorf("recovered %v, want a fault", fault)
				}
			}()
			team.Parallel(20, func(k int) {
				time.Sleep(50 * time.Microsecond)
				runtime.KeepAlive(mapped[k])
			})
		}()
	}
}
