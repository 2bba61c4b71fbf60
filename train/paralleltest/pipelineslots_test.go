package paralleltest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/parallel/axis"
	"weft/train/engine"
)

// The order in which the stages of a pipeline work.

// TestPipelineSchedule, 4: "result independent of goroutine timing; run with -race and random delays". Each
// worker's messages are delayed at random, before they are sent and before they are complete.
func TestPipelineSchedule(t *testing.T) {
	s := newStaged(t, "gcnii", Grid(3, 2, 2), 4)
	s.spec.Dropout, s.options.ChunkOrder = .4, axis.Shuffle
	want := s.train(t)
	for seed := range uint64(4) {
		s.wrap = func(tr comm.Transport) comm.Transport {
			return &delayed{Transport: tr, random: rand.New(rand.NewPCG(seed, uint64(tr.Rank())))}
		}
		bitwise(t, fmt.Sprintf("delays of seed %d", seed), s.train(t), want)
	}
}

// delayed delays messages: other goroutines run before a message is complete, at random for longer than they
// have work.
type delayed struct {
	comm.Transport
	mu     sync.Mutex
	random *rand.Rand
}

// Send delays in a goroutine of its own. Messages of one tag keep their order.
func (d *delayed) Send(data []byte, to, tag int) comm.Request {
	return d.late(d.Transport.Send(data, to, tag))
}

// Receive delays like Send.
func (d *delayed) Receive(data []byte, from, tag int) comm.Request {
	return d.late(d.Transport.Receive(data, from, tag))
}

func (d *delayed) late(r comm.Request) comm.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &lateRequest{Request: r, done: make(chan struct{})}
	n := 1 << d.random.IntN(11)
	for range d.random.IntN(50) {
		runtime.Gosched()
	}
	go func() {
		<-r.Done()
		for range n {
			runtime.Gosched()
		}
		close(l.done)
	}()
	return l
}

type lateRequest struct {
	comm.Request
	done chan struct{}
}

// Done is closed after the transport's Done.
func (l *lateRequest) Done() <-chan struct{} { return l.done }

// TestPipelineSlots, 17: "idle slots per stage = 2(S−1) of 2(K+S−1)". A chunk's work takes one slot forward
// and one backward. Messages count the slots. Work ends in the slot in which its result is sent. It begins
// one slot after its input was sent, or after the stage finished the previous chunk.
func TestPipelineSlots(t *testing.T) {
	for _, c := range []struct{ stages, chunks int }{{2, 1}, {2, 8}, {3, 5}, {4, 16}} {
		s := newStaged(t, "gcn", Grid(c.stages, 1, 1), c.chunks)
		s.spec.Layers, s.epochs = c.stages, 1
		times := &slots{at: make([]int, c.stages), sent: map[lane]int{}, asked: map[lane]int{}}
		s.wrap = func(tr comm.Transport) comm.Transport { return &slotted{tr, times, map[lane]int{}} }
		var got []int
		s.trained = func(e engine.Config) {
			times.mu.Lock()
			defer times.mu.Unlock()
			got = append(got, times.at[e.Groups.Stage])
		}
		s.train(t)
		if last, want := slices.Max(got), 2*(c.chunks+c.stages-1); last != want {
			t.Errorf("%d stages, %d chunks: the pass takes %d slots, want %d", c.stages, c.chunks, last, want)
		}
	}
}

// slots are the times of messages between stages.
type slots struct {
	mu   sync.Mutex
	at   []int        // each stage's time
	sent map[lane]int // when a message was sent
	// asked is when the receiver was ready for the message.
	asked map[lane]int
}

// lane identifies a message: the number-th message from a stage to another.
type lane struct{ from, to, number int }

// slotted counts the slots of a stage.
type slotted struct {
	comm.Transport
	*slots
	count map[lane]int // of messages, by lanes of number 0
}

func (s *slotted) next(from, to int) lane {
	l := lane{from: from, to: to}
	s.count[l]++
	l.number = s.count[l]
	return l
}

// Send ends a slot of work.
func (s *slotted) Send(data []byte, to, tag int) comm.Request {
	if comm.KindOf(tag) != comm.Stage {
		return s.Transport.Send(data, to, tag)
	}
	me, l := s.Rank(), s.next(s.Rank(), to)
	s.mu.Lock()
	s.at[me]++
	s.sent[l] = s.at[me]
	s.mu.Unlock()
	return &slot{
		Request: s.Transport.Send(data, to, tag), slots: s.slots,
		waited: func() { s.at[me] = max(s.at[me], s.asked[l]) },
	}
}

// Receive begins a slot of work when it is waited for. The last stage does not send the result.
func (s *slotted) Receive(data []byte, from, tag int) comm.Request {
	if comm.KindOf(tag) != comm.Stage {
		return s.Transport.Receive(data, from, tag)
	}
	me, l := s.Rank(), s.next(from, s.Rank())
	s.mu.Lock()
	s.asked[l] = s.at[me]
	s.mu.Unlock()
	return &slot{Request: s.Transport.Receive(data, from, tag), slots: s.slots, waited: func() {
		s.at[me] = max(s.at[me], s.sent[l])
		if me == 0 || me == s.Size()-1 {
			s.at[me]++
		}
	}}
}

// slot is a message that advances its worker's slot when it is waited for.
type slot struct {
	comm.Request
	*slots
	waited func()
	once   sync.Once
}

// Err is asked for once the message was waited for.
func (r *slot) Err() error {
	r.once.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waited()
	})
	return r.Request.Err()
}
