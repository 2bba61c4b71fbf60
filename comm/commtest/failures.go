package commtest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"weft/comm"
)

// timeout tests that, if rank 1 never answers, the others get an error that names it, after the deadline and
// not before.
func timeout(c *comm.Comm) error {
	c.At(12, "convs.2")
	const limit = 300 * time.Millisecond // the case's limit
	if c.Rank() == 1 {
		return nil
	}
	start := time.Now()
	err := c.Receive(comm.Halo, make([]byte, 100), 1).Wait()
	took := time.Since(start)
	want := comm.Error{
		Rank: c.Rank(), Peer: 1, Operation: "receive of halo rows",
		Epoch: 12, Layer: "convs.2",
	}
	if err := isError(err, want); err != nil {
		return err
	}
	if !errors.Is(err, comm.ErrTimeout) {
		return fmt.Errorf("not a timeout: %w", err)
	}
	if took < limit && !errors.Is(err, comm.ErrAborted) {
		return fmt.Errorf("failed after %v, before the limit of %v", took, limit)
	}
	return failsNow(c)
}

// barrierTimeout tests a barrier without rank 1, which rank 0's error names. Rank 2 waits for the answer of
// rank 0, longer than rank 0 waits.
func barrierTimeout(c *comm.Comm) error {
	const limit = 300 * time.Millisecond // the case's limit
	switch c.Rank() {
	case 0:
		time.Sleep(100 * time.Millisecond)
		return isError(c.Barrier(comm.Setup),
			comm.Error{Rank: 0, Peer: 1, Operation: "receive in a barrier of set-up data"})
	case 2:
		start := time.Now()
		if err := c.Barrier(comm.Setup); !errors.Is(err, comm.ErrAborted) && time.Since(start) < 2*limit {
			return fmt.Errorf("did not wait for rank 0: %w", err)
		}
	}
	return nil
}

// sendTimeout tests that a send that nobody receives ends at the deadline.
func sendTimeout(c *comm.Comm) error {
	c.At(1, "")
	if c.Rank() == 1 {
		return nil
	}
	err := c.Send(comm.Stage, make([]byte, 10), 1).Wait()
	if err := isError(err, comm.Error{
		Rank: 0, Peer: 1, Operation: "send of stage boundaries",
		Epoch: 1,
	}); err != nil {
		return err
	}
	if !errors.Is(err, comm.ErrTimeout) {
		return fmt.Errorf("not a timeout: %w", err)
	}
	return failsNow(c)
}

var errCause = errors.New("out of memory")

// abort tests that an abort ends every rank's waits: another goroutine aborts while the rank waits in several
// goroutines. A deadline would give another error.
func abort(c *comm.Comm) error {
	waits := make(chan error)
	for _, k := range []comm.Kind{comm.Halo, comm.ToRows, comm.Stage} {
		c.Beside(func(aside *comm.Comm) {
			waits <- aside.Receive(k, make([]byte, 100), (c.Rank()+1)%c.Size()).Wait()
		})
	}
	sums := make(chan error)
	c.Beside(func(aside *comm.Comm) { // rank 0 takes no part
		if c.Rank() == 0 {
			sums <- errCause
			return
		}
		sums <- aside.SumDoubles(comm.Gradient, make([]float64, 100))
	})
	time.Sleep(50 * time.Millisecond) // in one process: until all of them wait
	c.Abort(errCause)
	for _, wait := range []chan error{waits, waits, waits, sums} {
		if err := <-wait; !errors.Is(err, errCause) {
			return fmt.Errorf("want the errCause of the abort, got: %w", err)
		}
	}
	return failsNow(c)
}

// wrongLength tests that a receive fails if the message has another length.
func wrongLength(sent, expected int) func(c *comm.Comm) error {
	return func(c *comm.Comm) error {
		if c.Rank() == 0 {
			c.Send(comm.Halo, make([]byte, sent), 1)
			return nil
		}
		err := c.Receive(comm.Halo, make([]byte, expected), 0).Wait()
		if !errors.Is(err, comm.ErrLength) {
			return fmt.Errorf("%d bytes where %d are expected: %w", sent, expected, err)
		}
		return isError(err, comm.Error{Rank: 1, Peer: 0, Operation: "receive of halo rows"})
	}
}

// isError compares an error with a wanted one, which has no reason.
func isError(err error, want comm.Error) error {
	var got *comm.Error
	if !errors.As(err, &got) {
		return fmt.Errorf("not an *Error: %w", err)
	}
	if strings.Contains(got.Error(), "\n") {
		return fmt.Errorf("more than one line: %q", got.Error())
	}
	plain := *got
	plain.Err = nil
	if plain != want {
		return fmt.Errorf("error %+v, want %+v", plain, want)
	}
	return nil
}

// failsNow tests that after an error every call fails with that error at once.
func failsNow(c *comm.Comm) error {
	peer := (c.Rank() + 1) % c.Size()
	for _, p := range []*comm.Pending{
		c.Send(comm.ToRows, []byte{1}, peer),
		c.Receive(comm.ToRows, []byte{1}, peer),
	} {
		if err := p.Wait(); !errors.Is(err, comm.ErrAborted) {
			return fmt.Errorf("a call after the error: %w", err)
		}
	}
	return nil
}
