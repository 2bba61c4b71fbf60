package planner

import (
	"errors"
	"math"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weft/comm"
)

// UsualLatency and UsualEager are a Machine's where neither is known: those of Ethernet, and of Open MPI and
// MPICH over TCP.
const (
	UsualLatency = 100e-6
	UsualEager   = 64 << 10
)

// MemoryRate is the rate at which this machine copies memory, in bytes per second.
func MemoryRate() float64 {
	const bytes, times = 32 << 20, 5
	from, to, best := make([]byte, bytes), make([]byte, bytes), math.Inf(1)
	for range times {
		start := time.Now()
		copy(to, from)
		best = min(best, time.Since(start).Seconds())
	}
	return bytes / best
}

// Handling measures the time of a core that a byte takes at each end of a TCP connection, in seconds.
func Handling() (seconds float64, err error) {
	const bytes, write = 64 << 20, 64 << 10
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	before, err := processorTime()
	if err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	go func() {
		to, err := net.Dial("tcp", listener.Addr().String())
		data := make([]byte, write)
		for left := bytes; left > 0 && err == nil; left -= write {
			_, err = to.Write(data)
		}
		if to != nil {
			err = errors.Join(err, to.Close())
		}
		sent <- err
	}()
	from, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	defer from.Close()
	buffer := make([]byte, write)
	for received := 0; received < bytes && err == nil; {
		var n int
		n, err = from.Read(buffer)
		received += n
	}
	if err := errors.Join(err, <-sent); err != nil {
		return 0, err
	}
	after, err := processorTime()
	const ends = 2
	return (after - before).Seconds() / bytes / ends, err
}

// processorTime is what this process has taken of all cores.
func processorTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// LinkRate measures the links while all ranks send at once, each to the rank that is half of all ranks
// further, which is the likeliest to be on another machine. It returns the rate of the slowest in bytes per
// second, its latency in seconds, and the seconds of a core that a byte takes at each end. All ranks call it
// together.
func LinkRate(c *comm.Comm) (rate, latency, handling float64, err error) {
	const bytes, times = 2 << 20, 3
	n := c.Size()
	to, from := (c.Rank()+n/2)%n, (c.Rank()+n-n/2)%n
	data, incoming := make([]byte, bytes), make([]byte, bytes)
	short, long := math.Inf(1), math.Inf(1)
	used := time.Duration(0)
	for range times {
		for _, size := range []int{0, bytes} {
			if err := c.Barrier(comm.Setup); err != nil {
				return 0, 0, 0, err
			}
			before, err := processorTime()
			if err != nil {
				return 0, 0, 0, err
			}
			start := time.Now()
			received := c.Receive(comm.Setup, incoming[:size], from)
			if err := errors.Join(c.Send(comm.Setup, data[:size], to).Wait(), received.Wait()); err != nil {
				return 0, 0, 0, err
			}
			all, err := comm.Gather(c, comm.Setup, time.Since(start).Seconds())
			if err != nil {
				return 0, 0, 0, err
			}
			after, err := processorTime()
			if err != nil {
				return 0, 0, 0, err
			}
			if size == 0 {
				short = min(short, slices.Max(all))
				used -= after - before
			} else {
				long = min(long, slices.Max(all))
				used += after - before
			}
		}
	}
	const ends = 2
	all, err := comm.Gather(c, comm.Setup, used.Seconds()/(ends*times*bytes))
	return bytes / max(long-short, 1e-9), short, max(0, slices.Max(all)), err
}
