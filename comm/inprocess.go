package comm

import (
	"errors"
	"fmt"
	"sync"
)

// Alone is the group of a single worker: its collectives change nothing and send nothing.
func Alone() *Comm { return New(InProcess(1)[0], 0) }

// InProcess connects n ranks that are goroutines of this process. Sender and receiver both call. The second
// to call copies the message from the sender's memory into the receiver's. Nothing is buffered.
func InProcess(n int) []Transport {
	e := &exchange{lanes: lanes{}, closed: make([]bool, n)}
	ts := make([]Transport, n)
	for r := range ts {
		ts[r] = &inProcess{e, r}
	}
	return ts
}

// exchange is where the ranks of one process meet.
type exchange struct {
	mu sync.Mutex
	lanes
	closed []bool         // by rank
	err    error          // why everything was aborted
	copies sync.WaitGroup // in progress
}

type inProcess struct {
	*exchange
	rank int
}

func (t *inProcess) Rank() int { return t.rank }
func (t *inProcess) Size() int { return len(t.closed) }

func (t *inProcess) Send(data []byte, to, tag int) Request {
	return t.post(data, lane{t.rank, to, tag}, true)
}

func (t *inProcess) Receive(data []byte, from, tag int) Request {
	return t.post(data, lane{from, t.rank, tag}, false)
}

// post matches the oldest request of the other side, or waits in the lane's queue.
func (e *exchange) post(data []byte, l lane, sends bool) Request {
	posted := newTransfer(data)
	other, err := e.takeMatch(posted, l, sends)
	if err != nil {
		posted.finish(err)
	}
	if other == nil {
		return posted
	}
	defer e.copies.Done()
	from, to := posted, other
	if !sends {
		from, to = other, posted
	}
	if len(from.data) != len(to.data) {
		err = fmt.Errorf("%w: %d bytes were sent where %d are expected", ErrLength,
			len(from.data), len(to.data))
	} else {
		copy(to.data, from.data)
	}
	from.finish(err)
	to.finish(err)
	return posted
}

// takeMatch takes the other side's transfer, and announces a copy. Without such a transfer, posted begins
// to wait.
func (e *exchange) takeMatch(posted *transfer, l lane, sends bool) (*transfer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return nil, e.err
	}
	if e.closed[l.from] || e.closed[l.to] {
		return nil, errClosed
	}
	other := e.match(l, posted, sends)
	if other != nil {
		e.copies.Add(1)
	}
	return other, nil
}

var errClosed = errors.New("the rank has ended its communication")

func (t *inProcess) Abort(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = fmt.Errorf("%w: %w", ErrAborted, err)
		t.drop(anyLane, t.err)
	}
	t.mu.Unlock()
	t.copies.Wait()
}

func (t *inProcess) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed[t.rank] = true
	t.drop(func(l lane) bool { return l.from == t.rank || l.to == t.rank }, errClosed)
	return t.err
}
