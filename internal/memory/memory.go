// Package memory refuses work that this process has no memory for. Go's runtime dies if an allocation fails,
// and the system kills a process that passes one of its limits. A program recovers from neither, so Need asks
// about both limits before. Readers of files call it.
package memory

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"unsafe"

	"golang.org/x/sys/unix"

	"weft/internal/refusal"
)

// Need refuses bytes beyond those in use that a limit does not leave: the limit of Go's runtime
// (debug.SetMemoryLimit, GOMEMLIMIT) or one of the process (ulimit -v, -d). Garbage does not count against
// the first, as the runtime collects it in time. The error has no subject: the caller puts the file or flag
// in front.
func Need(bytes int64) error {
	left := Left()
	if bytes > left {
		runtime.GC()
		left = Left()
	}
	if bytes <= left {
		return needAddresses(bytes)
	}
	return refusal.Errorf("needs %s of memory, and this process has %s left of %s: allow it more (ulimit, "+
		"control group, machine), or give it less", amount(bytes), amount(left),
		amount(debug.SetMemoryLimit(-1)))
}

// Grow returns s with capacity for n more elements. If s has too little, Grow allocates a slice that is
// larger by at least a quarter.
func Grow[E any](s []E, n int) ([]E, error) {
	if n <= cap(s)-len(s) {
		return s, nil
	}
	return grow(s, n)
}

// Append is append to a slice that Grow has made large enough.
func Append[E any](s []E, more ...E) ([]E, error) {
	s, err := Grow(s, len(more))
	if err != nil {
		return s, err
	}
	return append(s, more...), nil
}

func grow[E any](s []E, n int) ([]E, error) {
	const least = 1 << 10
	capacity := len(s) + max(n, len(s)/4, least)
	if err := Need(int64(unsafe.Sizeof(*new(E))) * int64(capacity)); err != nil {
		return s, err
	}
	grown := make([]E, len(s), capacity)
	copy(grown, s)
	return grown, nil
}

// GrowTo is Grow for a slice that has all elements in the end, as its file claims; 0: the file does not say.
// GrowTo doubles the capacity until an eighth of them was read. Then it allocates the rest.
func GrowTo[E any](s []E, n int, all int64) ([]E, error) {
	size := len(s) + n
	switch {
	case size <= cap(s):
		return s, nil
	case int64(size) > all:
		return grow(s, n)
	}
	const known = 8
	size *= 2
	if int64(size) > all/known {
		size = int(all)
	}
	if err := Need(int64(unsafe.Sizeof(*new(E))) * int64(size)); err != nil {
		return s, err
	}
	return append(make([]E, 0, size), s...), nil
}

// AppendTo is append to a slice that GrowTo has made large enough.
func AppendTo[E any](s, more []E, all int64) ([]E, error) {
	s, err := GrowTo(s, len(more), all)
	if err != nil {
		return s, err
	}
	return append(s, more...), nil
}

// Left returns the number of bytes that Go's runtime may allocate beyond what is in use. Garbage that is not
// collected yet is in use.
func Left() int64 { return max(debug.SetMemoryLimit(-1)-inUse(), 0) }

// needAddresses tries whether the system gives so many bytes of addresses. Addresses that the runtime already
// has do not help: they may be in pieces.
func needAddresses(bytes int64) error {
	const slack = 128 << 20 // the runtime takes arenas of 64 MiB, at multiples of 64 MiB
	mapping, err := unix.Mmap(-1, 0, int(bytes+slack), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		err = unix.Munmap(mapping)
	}
	if err != nil {
		return refusal.Errorf("needs %s of memory, and the limits of this process do not leave them (%w): "+
			"allow it more (ulimit -v, -d), or give it less", amount(bytes), err)
	}
	return nil
}

func amount(bytes int64) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
}

// Free gives garbage back to the system, for work that needs the memory. A heap below 256 MiB and small
// beside the limit stays: to collect it and take fresh pages costs more.
func Free() {
	const small, share = 256 << 20, 8
	if reserved, _ := heap(); reserved >= min(small, debug.SetMemoryLimit(-1)/share) {
		debug.FreeOSMemory()
	}
}

// inUse returns the bytes that the runtime holds and cannot use again without a collection.
func inUse() int64 {
	reserved, free := heap()
	return reserved - free
}

// heap returns the bytes that the runtime holds of the system, and how many of these it can use again.
func heap() (reserved, free int64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	value := func(k int) int64 { return int64(samples[k].Value.Uint64()) }
	return value(0) - value(2), value(1)
}
