package planner

import (
	"bytes"
	"math"
	"time"

	"weft/comm"
	"weft/kernel/machine"
)

// Links are the connections by which messages move between workers.
type Links struct {
	Sends    float64 `json:"send_bytes_per_second"`    // of a worker
	Receives float64 `json:"receive_bytes_per_second"` // of a worker
	Latency  float64 `json:"latency_seconds"`          // before the first byte of a message
	Handling float64 `json:"handling_seconds"`         // seconds of a core for a byte, at each end
	// Eager is the largest message that does not wait for its receiver, in bytes. It is reported, and no
	// prediction uses it.
	Eager int64 `json:"eager_bytes"`
}

// eager is Links.Eager between processes: package mpi has so many bytes in flight on a link.
const eager = 16 * 60 << 10

// OfRate returns links that send and receive at a rate in bytes per second, with the latency of Ethernet.
//
// Handling follows from how package mpi waits. It polls until a part of a message in flight has come or left:
// it spins, and then sleeps between polls for an eighth of the wait so far. It sleeps no less than Linux lets
// a thread sleep, and no more than a millisecond. In a wait of T seconds it polls
//
//	8·ln(1 + min(T, 8 ms)/(8·60 µs)) + max(0, T − 8 ms)/1 ms
//
// times, for 25 µs each. Copies take .3 ns for a byte in any case. Measure finds 4.2 to 4.5 ns at 100 Mbit/s
// between virtual hosts on an Intel Xeon, 1.2 to 1.6 at 1 Gbit/s, .8 at 2.5 Gbit/s, .4 at 580 MB/s, and .3 at
// 1.6 GB/s.
func OfRate(rate float64) Links {
	const (
		spinning, poll          = 20e-6, 25e-6
		shortest, longest, part = 60e-6, 1e-3, 8 // of a sleep; a sleep is 1/part of the wait so far
		copies                  = .3e-9
		bytes                   = 60 << 10
		ends                    = 2
	)
	wait := bytes / rate
	grow := min(wait, part*longest) // how long the sleeps grow
	polls := part*math.Log1p(grow/(part*shortest)) + (wait-grow)/longest
	return Links{rate, rate, 100e-6, max(copies, (spinning+poll*polls)/(ends*bytes)), eager}
}

// InMemory returns the links between workers of this process.
func InMemory() Links {
	rate := machine.CopyRate()
	return Links{Sends: rate, Receives: rate}
}

// Measure measures links. All ranks send at once, each to the rank half of all ranks further, which is most
// likely on another machine. Rate and latency are those of the slowest rank, and the handling is the mean.
// Then all others send to the first rank. It takes at most three seconds if links send 100 kbit/s or more.
// All ranks call it together, and get the same Links.
func Measure(c *comm.Comm) (l Links, err error) {
	const (
		first, most = 4 << 10, 16 << 20 // bytes of a message
		enough      = .2                // seconds of a message that is long enough
		times       = 3
	)
	p := &probe{Comm: c, data: bytes.Repeat([]byte{1}, most), incoming: bytes.Repeat([]byte{1}, most)}
	latency, idle, err := p.best(p.ring, 0, 2*times)
	size := first
	for size < most && err == nil {
		var took float64
		if took, _, err = p.ring(size); took >= enough {
			break
		}
		size *= 2
	}
	if err != nil {
		return l, err
	}
	ring, used, err := p.best(p.ring, size, times)
	if err != nil {
		return l, err
	}
	star, _, err := p.best(p.star, size, times-1)
	return timed{latency, ring, star, idle, used}.links(size), err
}

// timed is how many seconds messages take: latency for an empty message, ring for messages in a ring, and
// star for messages to the first rank. idle and used are the seconds of a core that a rank uses, for empty
// messages and for messages in a ring.
type timed struct{ latency, ring, star, idle, used float64 }

// links are the Links that follow from times of messages of so many bytes.
func (t timed) links(size int) Links {
	rate := func(seconds float64) float64 { return float64(size) / max(seconds-t.latency, 1e-9) }
	const ends = 2 // each byte is handled when it leaves, and when it comes
	return Links{rate(t.ring), rate(t.star), t.latency, max(0, t.used-t.idle) / float64(ends*size), eager}
}

// probe moves messages between all ranks at once.
type probe struct {
	*comm.Comm
	data, incoming []byte
}

// ring sends and receives a message of so many bytes.
func (p *probe) ring(size int) (took, used float64, err error) {
	n := p.Size()
	return p.move(size, []int{(p.Rank() + n/2) % n}, []int{(p.Rank() + n - n/2) % n})
}

// star sends the first rank so many bytes in equal messages.
func (p *probe) star(size int) (took, used float64, err error) {
	n := p.Size()
	if p.Rank() > 0 {
		return p.move(size/(n-1), []int{0}, nil)
	}
	var others []int
	for rank := 1; rank < n; rank++ {
		others = append(others, rank)
	}
	return p.move(size/(n-1), nil, others)
}

// best moves messages several times. It returns the shortest time, and the mean of the cores' time.
func (p *probe) best(move func(int) (float64, float64, error), size,
	times int,
) (took, used float64, err error) {
	took = math.Inf(1)
	for range times {
		t, u, err := move(size)
		if err != nil {
			return 0, 0, err
		}
		took, used = min(took, t), used+u/float64(times)
	}
	return took, used, nil
}

// move sends and receives messages of so many bytes. took is the seconds of the slowest rank, and used the
// mean seconds of cores that the ranks have used.
func (p *probe) move(size int, to, from []int) (took, used float64, err error) {
	if err := p.Barrier(comm.Setup); err != nil {
		return 0, 0, err
	}
	before := machine.ProcessorTime()
	start := time.Now()
	var moving []*comm.Pending
	for i, rank := range from {
		moving = append(moving, p.Receive(comm.Setup, p.incoming[i*size:(i+1)*size], rank))
	}
	for _, rank := range to {
		moving = append(moving, p.Send(comm.Setup, p.data[:size], rank))
	}
	for _, m := range moving {
		if err := m.Wait(); err != nil {
			return 0, 0, err
		}
	}
	seconds := time.Since(start).Seconds()
	all, err := comm.Gather(p.Comm, comm.Setup, seconds, (machine.ProcessorTime() - before).Seconds())
	for i := 0; i < len(all); i += 2 {
		took, used = max(took, all[i]), used+all[i+1]/float64(p.Size())
	}
	return took, used, err
}
