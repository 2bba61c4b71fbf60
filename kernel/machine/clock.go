package machine

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the time that the calling thread has had a core.
func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// ProcessorTime returns the time that this process has had cores, over all threads.
func ProcessorTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// clock reads a clock that every Linux has.
func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic("machine: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// Timed calls work, and returns the time that its thread had a core for it.
func Timed(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	work()
	return threadTime() - start
}
