package planner

import (
	"math"
	"testing"

	"weft/internal/assert"
	"weft/internal/trace"
)

// log is the steps of a worker, made one after the other.
type log struct {
	steps []trace.Event
	begun map[trace.Category]int
}

// kernel is a call that takes so many seconds, on a track.
func (l *log) kernel(track, seconds int) *log {
	return l.step(track, trace.Compute, trace.Args{Shape: trace.Shape{seconds}})
}

// starts starts to send or to receive the next message to or from a peer.
func (l *log) starts(track int, c trace.Category, peer, bytes int) *log {
	if l.begun == nil {
		l.begun = map[trace.Category]int{}
	}
	l.begun[c]++
	return l.step(track, c, trace.Args{
		Peer: trace.At(peer), Bytes: int64(bytes), Message: trace.At(l.begun[c]),
	})
}

// waits waits for the end of a send (Wait) or of a receive (Receive), the number-th of all.
func (l *log) waits(track int, c trace.Category, peer, number int) *log {
	return l.step(track, c, trace.Args{Peer: trace.At(peer), Message: trace.At(number)})
}

func (l *log) reaches(track int, p trace.Point) *log {
	return l.step(track, trace.Signal, trace.Args{Point: p})
}

func (l *log) after(track int, p trace.Point) *log {
	return l.step(track, trace.After, trace.Args{Point: p})
}

func (l *log) step(track int, c trace.Category, a trace.Args) *log {
	lane := trace.Lane{}
	lane.Number = track
	l.steps = append(l.steps, trace.Event{Lane: lane, Category: c, Args: a})
	return l
}

// send and receive are a whole message.
func (l *log) send(peer, bytes int) *log {
	l.starts(0, trace.Send, peer, bytes)
	return l.waits(0, trace.Wait, peer, l.begun[trace.Send])
}

func (l *log) receive(peer, bytes int) *log {
	l.starts(0, trace.Start, peer, bytes)
	return l.waits(0, trace.Receive, peer, l.begun[trace.Start])
}

// TestReplay: workers that compute and send, in times by hand.
func TestReplay(t *testing.T) {
	usual := Machine{Cores: 1, Threads: 1, Sharers: 1, Links: Links{Sends: 10, Receives: 10}}
	slow, shared, eager := usual, usual, usual
	handling := usual
	handling.Handling = .05
	slowly := usual
	slowly.Handling = .2
	slow.Latency, shared.Sharers, eager.Eager = .5, 2, 20
	l := func() *log { return &log{} }
	for name, c := range map[string]struct {
		machine Machine
		logs    []*log
		end     float64
		work    []Work // computes, transfers, waits
	}{
		"a kernel": {usual, []*log{l().kernel(0, 3)}, 3, []Work{{3, 0, 0}}},
		"nothing":  {usual, []*log{l(), l()}, 0, []Work{{}, {}}},
		// The sender is late by 2 s, and 20 bytes take 2 s.
		"a message": {
			usual, []*log{l().kernel(0, 2).send(1, 20), l().receive(0, 20)}, 4, []Work{{2, 2, 0}, {0, 2, 2}},
		},
		// The bytes wait for the receiver.
		"a receiver that is late": {
			usual, []*log{l().send(1, 20), l().kernel(0, 2).receive(0, 20)}, 4, []Work{{0, 2, 2}, {2, 2, 0}},
		},
		"a short message to one": {
			eager, []*log{l().send(1, 20), l().kernel(0, 2).receive(0, 20)}, 2, []Work{{0, 2, 0}, {2, 0, 0}},
		},
		"latency": {
			slow, []*log{l().send(1, 0).send(1, 10), l().receive(0, 0).receive(0, 10)}, 2,
			[]Work{{0, 2, 0}, {0, 2, 0}},
		},
		// Two chunks pass two stages: each is idle for one of three times, as (stages−1)/(chunks+stages−1).
		"a bubble": {
			Machine{
				Cores: 1, Threads: 1, Sharers: 1, Links: Links{Sends: math.Inf(1), Receives: math.Inf(1)},
			},
			[]*log{
				l().kernel(0, 1).send(1, 8).kernel(0, 1).send(1, 8),
				l().receive(0, 8).kernel(0, 1).receive(0, 8).kernel(0, 1),
			},
			3,
			[]Work{{2, 0, 1}, {2, 0, 1}},
		},
		// Two messages to one worker have half of its link each, and so have two from one worker.
		"many to one": {
			usual,
			[]*log{l().send(2, 10), l().send(2, 10), l().starts(0, trace.Start, 0, 10).receiveAnother(1,
				10).waits(0, trace.Receive, 0, 1)},
			2,
			[]Work{{0, 2, 0}, {0, 2, 0}, {0, 2, 0}},
		},
		"one to many": {
			usual,
			[]*log{
				l().starts(0, trace.Send, 1, 10).starts(0, trace.Send, 2, 20).waits(0, trace.Wait, 1, 1),
				l().receive(0, 10), l().receive(0, 20),
			},
			3,
			[]Work{{0, 2, 1}, {0, 2, 1}, {0, 3, 0}},
		},
		// Messages in both directions do not share.
		"both ways": {usual, []*log{
			l().starts(0, trace.Send, 1, 10).receive(1, 10),
			l().starts(0, trace.Send, 0, 10).receive(0, 10),
		}, 1, []Work{{0, 1, 0}, {0, 1, 0}}},
		// Messages between two workers keep their order: the second takes 2 s after the first.
		"one after the other": {
			usual,
			[]*log{
				l().starts(0, trace.Send, 1, 10).starts(0, trace.Send, 1, 20).waits(0, trace.Wait, 1, 2),
				l().starts(0, trace.Start, 0, 10).receive(0, 20),
			},
			3,
			[]Work{{0, 3, 0}, {0, 3, 0}},
		},
		// Beside 3 s of kernels a message of 2 s is hidden; beside 1 s of them it is not.
		"hidden": {
			usual,
			[]*log{l().reaches(0, 1).after(1, 1).starts(1, trace.Send, 1, 20).waits(1, trace.Wait, 1,
				1).reaches(1, 2).kernel(0, 3).after(0, 2), l().receive(0, 20)},
			3,
			[]Work{{3, 0, 0}, {0, 2, 1}},
		},
		"not hidden": {
			usual,
			[]*log{l().reaches(0, 1).after(1, 1).starts(1, trace.Send, 1, 20).waits(1, trace.Wait, 1,
				1).reaches(1, 2).kernel(0, 1).after(0, 2), l().receive(0, 20)},
			2,
			[]Work{{1, 1, 0}, {0, 2, 0}},
		},
		// Two workers of a machine have half a core each until the shorter has ended.
		"a core for two": {
			shared, []*log{l().kernel(0, 1), l().kernel(0, 2)}, 3, []Work{{2, 0, 1}, {3, 0, 0}},
		},
		// 10 bytes a second take .05 s of a core each, half a core at each end. A kernel of 1 s and the
		// message get 2/3 of what they want: when the kernel ends, 10 bytes are left.
		"handling": {
			handling,
			[]*log{
				l().starts(0, trace.Send, 1, 20).kernel(0, 1).waits(0, trace.Wait, 1, 1),
				l().receive(0, 20),
			},
			2.5,
			[]Work{{1.5, 1, 0}, {0, 2.5, 0}},
		},
		// A byte takes .2 s of the one thread that handles a worker's messages.
		"one thread":       {slowly, []*log{l().send(1, 20), l().receive(0, 20)}, 4, []Work{{0, 4, 0}, {0, 4, 0}}},
		"before the epoch": {usual, []*log{l().after(0, 9).kernel(0, 1)}, 1, []Work{{1, 0, 0}}},
	} {
		var steps [][]trace.Event
		for _, l := range c.logs {
			steps = append(steps, l.steps)
		}
		work, end, err := Replay(steps, c.machine,
			func(_ int, e *trace.Event) float64 { return float64(e.Args.Shape[0]) })
		if err != nil || math.Abs(end-c.end) > 1e-6 {
			t.Errorf("%s: %v s, %v; want %v", name, end, err, c.end)
			continue
		}
		for w := range work {
			for d := range work[w] {
				if math.Abs(work[w][d]-c.work[w][d]) > 1e-6 {
					t.Errorf("%s: worker %d: %v, want %v", name, w, work[w], c.work[w])
					break
				}
			}
		}
	}
}

// receiveAnother starts the first receive from another peer.
func (l *log) receiveAnother(peer, bytes int) *log {
	l.step(0, trace.Start, trace.Args{Peer: trace.At(peer), Bytes: int64(bytes), Message: trace.At(1)})
	return l.waits(0, trace.Receive, peer, 1)
}

// TestStuck: steps that wait for each other are an error, and not an endless loop.
func TestStuck(t *testing.T) {
	waits := (&log{}).receive(0, 8)
	_, _, err := Replay([][]trace.Event{nil, waits.steps},
		Machine{Cores: 1, Threads: 1, Sharers: 1, Links: Links{Sends: 1, Receives: 1}}, nil)
	assert.Error(t, err, "a message that nobody sends has come")
}

// TestTimes: what workers do is divided into what limits an epoch, by hand: of two workers that compute 4 and
// 2 s of an epoch of 6 s, one waits for bytes for 2 s and the other for 1 s, and the other for the first for
// 3 s. One second of it, the mean is 3, is that the first computes more.
func TestTimes(t *testing.T) {
	work := []Work{{4, 2, 0}, {2, 1, 3}}
	for pipeline, want := range map[bool]Times{
		false: {Epoch: 6, Compute: 3, Link: 1.5, Imbalance: 1, Wait: .5},
		true:  {Epoch: 6, Compute: 3, Link: 1.5, Imbalance: 1, Bubble: .5},
	} {
		if got := timesOf(work, 6, pipeline); got != want || got.LimitedBy() != "compute" {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for want, times := range map[string]Times{
		"link": {Compute: 1, Link: 2}, "imbalance": {Imbalance: 1}, "bubble": {Compute: 1, Bubble: 1.1},
		"wait": {Wait: 3, Compute: 2, Link: 2},
	} {
		assert.Equal(t, want, times.LimitedBy(), "%+v is limited by", times)
	}
}
