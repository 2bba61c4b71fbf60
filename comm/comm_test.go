package comm

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/internal/assert"
	"weft/internal/trace"
)

// each runs f as every rank of a group of n. The clock runs only while all of them wait, so that all times
// are exact.
func each(t *testing.T, n int, timeout time.Duration, f func(c *Comm) error) []error {
	t.Helper()
	errs := make([]error, n)
	synctest.Test(t, func(*testing.T) {
		var ranks sync.WaitGroup
		for r, transport := range InProcess(n) {
			ranks.Go(func() { errs[r] = f(New(transport, timeout)) })
		}
		ranks.Wait()
	})
	return errs
}

func TestErrorIsOneLineThatNamesEverything(t *testing.T) {
	errs := each(t, 3, 50*time.Millisecond, func(c *Comm) error {
		c.At(7, "convs.1")
		if c.Rank() == 2 {
			return nil // never answers
		}
		if c.Rank() == 0 {
			return c.Receive(Halo, make([]byte, 8), 2).Wait()
		}
		return c.SumDoubles(Statistics, []float64{1, 2, 3})
	})
	for r, want := range []string{
		"rank 0: receive of halo rows, peer rank 2, epoch 7, layer convs.1: no answer in time (50ms): " +
			"rank 2 is stopped, dead or slow: ",
		"rank 1: receive in a sum of statistics, peer rank ",
	} {
		if errs[r] == nil {
			t.Fatalf("rank %d: no error", r)
		}
		got := errs[r].Error()
		if r == 0 && errors.Is(errs[r], ErrAborted) { // the other rank's deadline passed first
			want = "rank 0: receive of halo rows, peer rank 2, epoch 7, layer convs.1: communication was " +
				"aborted: rank 1: "
		}
		if !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("rank %d: %q, want it to begin with %q", r, got, want)
		}
		if !errors.Is(errs[r], ErrTimeout) {
			t.Errorf("rank %d: %v is no timeout", r, errs[r])
		}
	}
}

// An abort ends the waits of all ranks at once: no timer and no deadline passes in between.
func TestAbortOfOneRankEndsAll(t *testing.T) {
	cause := errors.New("a worker failed")
	errs := each(t, 4, time.Minute, func(c *Comm) error {
		var err error
		started := time.Now()
		if c.Rank() == 0 {
			time.Sleep(10 * time.Millisecond)
			c.Abort(cause)
			err = c.Send(ToSlices, nil, 1).Wait() // a later call
		} else {
			err = c.Barrier(Setup)
		}
		if took := time.Since(started); took != 10*time.Millisecond {
			t.Errorf("rank %d ended after %v", c.Rank(), took)
		}
		return err
	})
	for r, err := range errs {
		if !errors.Is(err, cause) || !errors.Is(err, ErrAborted) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestWaiting(t *testing.T) {
	for _, err := range each(t, 2, time.Minute, func(c *Comm) error {
		c.At(3, "convs.0")
		if c.Rank() == 1 {
			time.Sleep(20 * time.Millisecond)
			return c.Send(Halo, []byte("rows"), 0).Wait()
		}
		p := c.Receive(Halo, make([]byte, 4), 1)
		waited := make(chan error, 1)
		go func() { waited <- p.Wait() }()
		time.Sleep(5 * time.Millisecond)
		what, lasted := c.Waiting()
		if what != "receive of halo rows, peer rank 1, epoch 3, layer convs.0" ||
			lasted != 5*time.Millisecond {
			t.Errorf("waiting: %q for %v", what, lasted)
		}
		if err := <-waited; err != nil {
			return err
		}
		if what, lasted := c.Waiting(); what != "" || lasted != 0 {
			t.Errorf("waiting after the end: %q for %v", what, lasted)
		}
		return nil
	}) {
		assert.NoError(t, err)
	}
}

// TestWaited counts the waits of a rank's main goroutine, of any kind and group. It counts those of a
// goroutine beside it only while the rank has no other work.
func TestWaited(t *testing.T) {
	const ms = time.Millisecond
	for _, err := range each(t, 2, time.Minute, func(c *Comm) error {
		group := c.Group(0, 1)
		if c.Rank() == 1 {
			time.Sleep(20 * ms)
			err := group.Send(Halo, []byte("rows"), 0).Wait()
			time.Sleep(20 * ms)
			return errors.Join(err, c.Send(Gradient, []byte("sums"), 0).Wait())
		}
		var asideErr error
		join := c.Beside(func(aside *Comm) { asideErr = aside.Receive(Gradient, make([]byte, 4), 1).Wait() })
		time.Sleep(5 * ms)
		err := group.Receive(Halo, make([]byte, 4), 1).Wait()
		if c.Waited() != 15*ms {
			t.Errorf("waited %v, want 15ms for the rows, and nothing beside", c.Waited())
		}
		time.Sleep(7 * ms)
		join()
		if c.Waited() != 28*ms {
			t.Errorf("waited %v, want 13ms more for what is beside", c.Waited())
		}
		return errors.Join(err, asideErr)
	}) {
		assert.NoError(t, err)
	}
}

func TestClose(t *testing.T) {
	for _, err := range each(t, 3, time.Minute, func(c *Comm) error {
		return errors.Join(c.Group(c.Rank()).Close(), c.Barrier(Halo), c.Close())
	}) {
		assert.NoError(t, err)
	}
	errs := each(t, 2, 30*time.Millisecond, func(c *Comm) error {
		if c.Rank() == 1 {
			return nil // gone
		}
		return c.Close()
	})
	if !errors.Is(errs[0], ErrTimeout) {
		t.Errorf("close without the other rank: %v", errs[0])
	}
}

// TestRecorded: starts and waits are on the track of their goroutine, in any group. Each message has the same
// number at both ends.
func TestRecorded(t *testing.T) {
	var recorders [2]*trace.Recorder
	for _, err := range each(t, 2, time.Minute, func(c *Comm) error {
		r := trace.New(func() time.Duration { return 0 }, 100, nil)
		recorders[c.Rank()] = r
		group := c.Recorded(r).Group(1, 0)
		peer := 1 - group.Rank()
		group.At(3, "convs.0")
		swap := func(c *Comm, k Kind) error {
			sent, came := c.Send(k, make([]byte, 4+peer), peer), c.Receive(k, make([]byte, 5-peer), peer)
			return errors.Join(came.Wait(), came.Wait(), sent.Wait(), sent.Wait())
		}
		err := swap(group, Halo) // before the epoch, and counted
		r.Start(3)
		var asideErr error
		join := group.Beside(func(aside *Comm) { asideErr = swap(aside, HaloGradient) })
		err = errors.Join(err, swap(group, Halo))
		join()
		r.Stop()
		return errors.Join(err, asideErr, swap(group, Halo))
	}) {
		assert.NoError(t, err)
	}
	for rank, r := range recorders {
		events, lost := r.Events()
		got := map[string][]string{}
		for _, e := range events {
			line := fmt.Sprintf("%v: %s", e.Category, e.Name)
			if a := e.Args; a.Kind != "" {
				line += fmt.Sprintf(" (%s, %d bytes, peer %d, number %d)", a.Module, a.Bytes,
					a.Peer-1, a.Message-1)
			}
			got[e.Lane.String()] = append(got[e.Lane.String()], line)
		}
		lines := func(what string, number int) []string {
			sent := fmt.Sprintf(" (convs.0, %d bytes, peer %d, number %d)", 4+rank, 1-rank, number)
			came := fmt.Sprintf(" (convs.0, %d bytes, peer %d, number %d)", 5-rank, 1-rank, number)
			return []string{
				"send: send of " + what + sent, "start: start of receive of " + what + came,
				"receive: receive of " + what + came, "wait: wait for send of " + what + sent,
			}
		}
		want := map[string][]string{
			"work":   append(lines("halo rows", 1), "wait: wait for work beside"),
			"beside": lines("halo gradients", 0),
		}
		if diff := cmp.Diff(want, got); diff != "" || lost > 0 {
			t.Errorf("rank %d: %s", rank, diff)
		}
	}
}

// messages counts the messages of a kind that n ranks send each other in f.
func messages(t *testing.T, n int, k Kind, f func(c *Comm) error) int64 {
	t.Helper()
	var sent atomic.Int64
	for _, err := range each(t, n, time.Minute, func(c *Comm) error {
		defer func() { sent.Add(c.Sent(k).Messages) }()
		return f(c)
	}) {
		assert.NoError(t, err)
	}
	return sent.Load()
}

// TestSentBy: bytes of rows count for the layer that At named, and others for none.
func TestSentBy(t *testing.T) {
	for _, err := range each(t, 2, time.Minute, func(c *Comm) error {
		all := [][]byte{make([]byte, 8), make([]byte, 8)}
		for _, step := range []struct {
			layer string
			kind  Kind
		}{{"a", Halo}, {"b", ToSlices}, {"a", HaloGradient}, {"a", Gradient}, {"b", Stage}} {
			c.At(1, step.layer)
			if err := c.AllGather(step.kind, make([]byte, 8), all); err != nil {
				return err
			}
		}
		assert.Equal(t, map[string]int64{"a": 16, "b": 8}, c.SentBy())
		return nil
	}) {
		assert.NoError(t, err)
	}
}

// TestShortGather: a list of each rank for all goes through rank 0 in set-up, in 2·(N−1) messages, if it has
// at most 256 KiB of all ranks together; else from each to each, in N·(N−1).
func TestShortGather(t *testing.T) {
	const n, most = 4, 256 << 10
	for bytes, want := range map[int]int64{most / n: 2 * (n - 1), most/n + 1: n * (n - 1)} {
		if got := messages(t, n, Setup, func(c *Comm) error {
			all := make([][]byte, n)
			for r := range all {
				all[r] = make([]byte, bytes)
			}
			return c.AllGather(Setup, make([]byte, bytes), all)
		}); got != want {
			t.Errorf("%d bytes of each of %d ranks: %d messages, want %d", bytes, n, got, want)
		}
	}
}

// TestSumInBlocks: a sum works on 4 MiB at a time, which bound the memory for other ranks' terms. Each of two
// ranks sends the other its terms and then its sums.
func TestSumInBlocks(t *testing.T) {
	const block, perBlock = 4 << 20 / 8, 2 * 2
	for values, want := range map[int]int64{
		block: perBlock, block + 2: 2 * perBlock,
		2*block + 2: 3 * perBlock,
	} {
		if got := messages(t, 2, Gradient, func(c *Comm) error {
			return c.SumDoubles(Gradient, make([]float64, values))
		}); got != want {
			t.Errorf("%d numbers are summed in %d messages, want %d", values, got, want)
		}
	}
}
