package machine

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is what the calling thread has taken of a core.
func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// ProcessorTime is what this process has taken of all cores.
func ProcessorTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// clock reads a clock that every Linux has.
func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic("machine: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// Timed is what work takes of the core of the thread that does it.
func Timed(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	work()
	return threadTime() - start
}
