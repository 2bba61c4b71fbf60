package planner

import (
	"errors"
	"math"
	"net"
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

// LinkRate measures the link between the first and the last rank, which are the likeliest to be on different
// machines: its rate in bytes per second, and its latency in seconds. Rank 0 learns them. All ranks call it
// together.
func LinkRate(c *comm.Comm) (rate, latency float64, err error) {
	const bytes, times = 2 << 20, 3
	data, last := make([]byte, bytes), c.Size()-1
	short, long := math.Inf(1), math.Inf(1)
	for range times {
		for _, sent := range []struct {
			best *float64
			data []byte
		}{{&short, nil}, {&long, data}} {
			start := time.Now()
			switch c.Rank() {
			case 0:
				answer := c.Receive(comm.Setup, nil, last)
				if err = c.Send(comm.Setup, sent.data, last).Wait(); err == nil {
					err = answer.Wait()
				}
			case last:
				if err = c.Receive(comm.Setup, sent.data, 0).Wait(); err == nil {
					err = c.Send(comm.Setup, nil, 0).Wait()
				}
			}
			if err != nil {
				return 0, 0, err
			}
			*sent.best = min(*sent.best, time.Since(start).Seconds())
		}
	}
	return bytes / max(long-short, 1e-9), short / 2, c.Barrier(comm.Setup)
}
