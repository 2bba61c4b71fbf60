package comm

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weft/internal/assert"
)

// doubled is a Spool in which halo rows and rows of links take twice their bytes. Rows of links may rest.
// Other messages are elsewhere.
type doubled struct{}

type kept []byte

func (doubled) Put(_ Kind, message []byte, _ Path) (Message, error) {
	return kept(bytes.Clone(message)), nil
}

func (doubled) Takes(k Kind, bytes int) (memory int64, rests bool) {
	if k != Halo && k != HaloGradient && k != Links {
		return 0, false
	}
	return 2 * int64(bytes), k == Links
}

func (m kept) Len() int               { return len(m) }
func (m kept) Ahead()                 {}
func (m kept) Take(into []byte) error { copy(into, m); return nil }
func (m kept) Drop()                  {}

// onWorkers runs work as every rank, of which two workers hold those of holders. timeout is that of a
// worker's link.
func onWorkers(t *testing.T, holders []int, timeout time.Duration, spool Spool, work func(end Transport)) {
	t.Helper()
	var workers sync.WaitGroup
	for worker, end := range InProcess(2) {
		workers.Go(func() {
			h := NewSharedWorker(New(end, timeout), holders, spool)
			var members sync.WaitGroup
			for _, transport := range h.Transports() {
				members.Go(func() { work(transport) })
			}
			members.Wait()
			if err := h.Close(); err != nil {
				t.Errorf("worker %d: %v", worker, err)
			}
		})
	}
	workers.Wait()
}

// TestShared: ranks of one worker see what others share, and those of another worker do not.
func TestShared(t *testing.T) {
	h := PlanSharedWorker(0, []int{0, 0, 1}, doubled{})
	seen := make(chan any)
	for rank, end := range h.Transports() {
		go func() {
			c := New(end, 0)
			c.Begin()
			defer c.End()
			g := c.Group(0, 1, 2)
			c.Publish("of another group")
			g.Publish(rank)
			g.LocalBarrier()
			if g.Nearby(rank) || !g.Nearby(1-rank) || g.Nearby(2) {
				seen <- "wrong neighbours"
				return
			}
			seen <- g.Published(1 - rank)
		}()
	}
	if got := [2]any{<-seen, <-seen}; got != [2]any{1, 0} && got != [2]any{0, 1} {
		t.Errorf("seen %v", got)
	}
}

// TestFirstTurn: the lowest rank has the first turn, whichever rank begins last.
func TestFirstTurn(t *testing.T) {
	for range 2000 {
		var turns []int
		h := PlanSharedWorker(0, []int{0, 0, 0}, doubled{})
		h.OnTurn = func(rank int, begins bool) {
			if begins {
				turns = append(turns, rank)
			}
		}
		var all sync.WaitGroup
		for _, end := range h.Transports() {
			all.Go(func() {
				c := New(end, 0)
				c.Begin()
				c.End()
			})
		}
		all.Wait()
		if !slices.Equal(turns, []int{0, 1, 2}) {
			t.Fatalf("turns %v", turns)
		}
	}
}

// TestExposed: a rank sees what the others exposed before the last LocalBarrier, also when these expose more
// already.
func TestExposed(t *testing.T) {
	h := PlanSharedWorker(0, []int{0, 0, 0}, doubled{})
	var wrong atomic.Int32
	var all sync.WaitGroup
	for rank, end := range h.Transports() {
		all.Go(func() {
			c := New(end, 0)
			c.Begin()
			defer c.End()
			for round := range 5 {
				c.Expose([2]int{rank, round})
				c.LocalBarrier()
				for other := range 3 {
					if c.Nearby(other) && c.Exposed(other) != [2]int{other, round} {
						wrong.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	if wrong.Load() > 0 {
		t.Errorf("%d exposed are others than those of the round", wrong.Load())
	}
}

// TestOpposite: ranks are at work together that have the same place on their workers. The last one of a
// worker with fewer ranks stands for those that it lacks.
func TestOpposite(t *testing.T) {
	h := PlanSharedWorker(1, []int{0, 0, 0, 1, 1, 2, 0, 1, 2, 3}, doubled{})
	c := New(h.Transports()[0], 0)
	g := c.Group(0, 2, 3, 4, 5, 6, 7, 8, 9) // on workers 0, 0, 1, 1, 2, 0, 1, 2, 3
	for rank, want := range []int{0, 1, 0, 1, 0, 2, 2, 1, 0} {
		assert.Equal(t, want, g.Turn(rank), "turn of rank %d", rank)
	}
	for r, want := range map[[2]int]int{ // a rank, and one whose worker it asks about
		{0, 2}: 2, {0, 3}: 2, {1, 2}: 3, {5, 3}: 6, {5, 4}: 7, {1, 4}: 7, {4, 0}: 0, {6, 1}: 5, {2, 2}: 2,
		{6, 7}: 7, {7, 0}: 1, {5, 8}: 8, {1, 8}: 8, {8, 7}: 4,
	} {
		assert.Equal(t, want, g.Opposite(r[0], r[1]), "opposite rank %d, with rank %d", r[0], r[1])
	}
}

// noQueue is a Spool that no halo row may come to.
type noQueue struct {
	doubled
	*testing.T
}

func (q noQueue) Put(k Kind, data []byte, p Path) (Message, error) {
	if k == Halo {
		q.Errorf("a message of %d bytes is queued", len(data))
	}
	return q.doubled.Put(k, data, p)
}

// TestUnqueued: a message between ranks at work is sent when its receiver takes it, 10 ms later here, and
// counts as others do. Those of the next ranks follow, and no Spool has any.
func TestUnqueued(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		onWorkers(t, []int{0, 0, 1, 1}, 0, noQueue{T: t}, func(end Transport) {
			c, rank := New(end, 0), end.Rank()
			c.Begin()
			defer c.End()
			c.LocalBarrier()
			defer c.KeepTurn()()
			u, other, data := c.Unqueued(), c.Opposite(rank, (rank+2)%4), []byte{byte(rank)}
			if rank < 2 {
				assert.NoError(t, u.Send(Halo, data, other).Wait())
				assert.Equal(t, time.Duration(10*(rank+1))*ms, time.Since(began), "rank %d has sent", rank)
				assert.Equal(t, Traffic{1, 1}, c.Sent(Halo), "rank %d", rank)
				return
			}
			time.Sleep(10 * ms)
			assert.NoError(t, u.Receive(Halo, data, other).Wait())
			assert.Equal(t, byte(other), data[0], "rank %d received", rank)
		})
	})
}

// TestUnqueuedFails: a message between ranks at work that no rank takes fails after the timeout, and ends
// what its worker waits for.
func TestUnqueuedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for worker, end := range InProcess(2) {
			h := NewSharedWorker(New(end, 0), []int{0, 1}, doubled{})
			if worker == 1 { // which does nothing
				defer h.Abort(ErrTimeout)
				continue
			}
			c := New(h.Transports()[0], time.Second)
			c.Begin()
			defer c.End()
			defer c.KeepTurn()()
			u := c.Unqueued()
			waits := u.Receive(HaloGradient, make([]byte, 1), 1)
			err := u.Send(Halo, make([]byte, 1), 1).Wait()
			want := "rank 0: send of halo rows, peer rank 1: no answer in time (1s)"
			if !errors.Is(err, ErrTimeout) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			if err := waits.Wait(); !errors.Is(err, ErrAborted) {
				t.Errorf("what waited as well: %v", err)
			}
		}
	})
}

// TestUnqueuedInPlan: in a plan all such messages have come and gone. They count as sent, and none is queued.
func TestUnqueuedInPlan(t *testing.T) {
	h := PlanSharedWorker(0, []int{0, 1}, noQueue{T: t})
	c := New(h.Transports()[0], 0)
	c.Begin()
	defer c.End()
	data := []byte{1, 2}
	assert.NoError(t, c.Unqueued().Send(Halo, data, 1).Wait())
	assert.NoError(t, c.Unqueued().Receive(Halo, data, 1).Wait())
	assert.Equal(t, Traffic{2, 1}, c.Sent(Halo))
	assert.Equal(t, []byte{1, 2}, data)
	if all, _, _ := h.Queued(); all != 0 {
		t.Errorf("%d bytes are queued", all)
	}
}

// TestWaitedOfAHost: what a worker with several ranks waits is the time in which none of them is at work,
// whether they give away their turns or keep them. A rank that waits while another works does not count.
func TestWaitedOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		onWorkers(t, []int{0, 0, 1}, 0, doubled{}, func(end Transport) { waitsAndWorks(t, New(end, 0)) })
	})
}

// waitsAndWorks: rank 2, of the other worker, sends to ranks 0 and 1 after 20 ms each. Rank 1 works 5 ms
// while rank 0 waits. Then rank 0 waits once more, and keeps its turn.
func waitsAndWorks(t *testing.T, c *Comm) {
	const ms = time.Millisecond
	c.Begin()
	defer c.End()
	message := make([]byte, 1)
	var err error
	switch c.Rank() {
	case 2:
		for _, to := range []int{0, 1, 0} {
			time.Sleep(20 * ms)
			err = errors.Join(err, c.Send(Halo, message, to).Wait())
		}
	case 1:
		time.Sleep(5 * ms)
		err = c.Receive(Halo, message, 2).Wait()
	case 0:
		err = c.Receive(Halo, message, 2).Wait()
		if got := c.Waited(); got != 15*ms {
			t.Errorf("waited %v for the first message, want 15ms, as rank 1 worked 5ms", got)
		}
		time.Sleep(7 * ms)
		release := c.KeepTurn()
		err = errors.Join(err, c.Receive(Halo, message, 2).Wait())
		release()
		if got := c.Waited(); got != 48*ms {
			t.Errorf("waited %v, want 33ms more with the turn held", got)
		}
		c.Await(func() { time.Sleep(4 * ms) })
		if got := c.Waited(); got != 52*ms {
			t.Errorf("waited %v, want 4ms more for work beside", got)
		}
	}
	assert.NoError(t, err)
}

// TestSlowNeighbour: a rank does not time out while another rank of its worker is at work. Its own time
// begins anew when that has ended.
func TestSlowNeighbour(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		onWorkers(t, []int{0, 0, 1}, 0, doubled{}, func(end Transport) {
			c, message := New(end, 10*ms), make([]byte, 1)
			c.Begin()
			defer c.End()
			var err error
			switch c.Rank() {
			case 0:
				err = c.Receive(Halo, message, 2).Wait()
			case 1:
				time.Sleep(35 * ms)
			case 2:
				time.Sleep(38 * ms)
				err = c.Send(Halo, message, 0).Wait()
			}
			assert.NoError(t, err)
		})
	})
}

// TestCloseHasADeadline: a shared worker whose peer never closes, as its process was killed, fails when
// nothing has moved for its deadline.
func TestCloseHasADeadline(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		ends, began := InProcess(2), time.Now()
		dead := NewSharedWorker(New(ends[1], 0), []int{0, 1}, doubled{})
		h := NewSharedWorker(New(ends[0], 10*ms), []int{0, 1}, doubled{})
		err := h.Close()
		want := "rank 0: end of the links between workers: no answer in time (10ms): a rank died after " +
			"its last epoch; see what the others printed"
		if !errors.Is(err, ErrTimeout) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if took := time.Since(began); took != 20*ms { // what ends the link goes within the first 10 ms
			t.Errorf("after %v, want 20ms", took)
		}
		dead.Abort(err)
	})
}

// lagging keeps messages that take 8 ms to read.
type lagging struct{ doubled }

func (lagging) Put(k Kind, data []byte, p Path) (Message, error) {
	m, err := doubled{}.Put(k, data, p)
	return lags{m}, err
}

type lags struct{ Message }

func (m lags) Take(into []byte) error {
	time.Sleep(8 * time.Millisecond)
	return m.Message.Take(into)
}

// TestCloseWaitsForWhatMoves: the deadline of Close begins anew with each message that goes, so that a long
// queue on a slow link is no failure.
func TestCloseWaitsForWhatMoves(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		onWorkers(t, []int{0, 1}, 10*ms, lagging{}, func(end Transport) {
			c := New(end, 0)
			c.Begin()
			defer c.End()
			if c.Rank() == 0 {
				for range 5 {
					c.Send(Halo, make([]byte, 1), 1)
				}
			}
		})
		if took := time.Since(began); took != 40*ms {
			t.Errorf("after %v, want 40ms", took)
		}
	})
}
