package comm

import (
	"errors"
	"fmt"
	"sync"
)

// Alone is the group of a single worker: its collectives change nothing and send nothing.
func Alone() *Comm { return New(InProcess(1)[0], 0) }

// InProcess connects n ranks that are goroutines of this process. Sender and receiver both call; the second
// to call copies the message from the sender's memory into the receiver's. Nothing is buffered.
func InProcess(n int) []Transport {
	e := &exchange{lanes: map[lane]*queue{}, closed: make([]bool, n)}
	ts := make([]Transport, n)
	for r := range ts {
		ts[r] = &inProcess{e, r}
	}
	return ts
}

// exchange is where the ranks of one process meet.
type exchange struct {
	mu     sync.Mutex
	lanes  map[lane]*queue // lanes in which somebody waits
	closed []bool          // by rank
	err    error           // why everything was aborted
	copies sync.WaitGroup  // in progress
}

// lane identifies messages that are matched in order.
type lane struct{ from, to, tag int }

// queue holds the unmatched requests of a lane: all are sends, or all are receives.
type queue struct {
	sends   bool
	waiting []*transfer
}

// transfer is the Request of one side.
type transfer struct {
	data    []byte
	done    chan struct{}
	err     error
	message Message // of a Host: the message that has come
}

func (t *transfer) Done() <-chan struct{} { return t.done }
func (t *transfer) Err() error            { return t.err }

func (t *transfer) finish(err error) {
	t.err = err
	close(t.done)
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
	mine := &transfer{data: data, done: make(chan struct{})}
	other, err := e.meet(mine, l, sends)
	if err != nil {
		mine.finish(err)
	}
	if other == nil {
		return mine
	}
	defer e.copies.Done()
	from, to := mine, other
	if !sends {
		from, to = other, mine
	}
	if len(from.data) != len(to.data) {
		err = fmt.Errorf("%w: %d bytes were sent where %d are expected", ErrLength, len(from.data), len(to.data))
	} else {
		copy(to.data, from.data)
	}
	from.finish(err)
	to.finish(err)
	return mine
}

// meet takes the other side's transfer, and announces a copy. If there is none yet, mine begins to wait.
func (e *exchange) meet(mine *transfer, l lane, sends bool) (*transfer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return nil, e.err
	}
	if e.closed[l.from] || e.closed[l.to] {
		return nil, errClosed
	}
	q := e.lanes[l]
	if q == nil {
		e.lanes[l] = &queue{sends, []*transfer{mine}}
		return nil, nil
	}
	if q.sends == sends {
		q.waiting = append(q.waiting, mine)
		return nil, nil
	}
	other := q.waiting[0]
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		delete(e.lanes, l)
	}
	e.copies.Add(1)
	return other, nil
}

var errClosed = errors.New("the rank has ended its communication")

func (t *inProcess) Abort(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = fmt.Errorf("%w: %w", ErrAborted, err)
		t.drop(func(lane) bool { return true }, t.err)
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

// drop ends the requests that wait in some lanes.
func (e *exchange) drop(which func(lane) bool, err error) {
	for l, q := range e.lanes {
		if which(l) {
			for _, t := range q.waiting {
				t.finish(err)
			}
			delete(e.lanes, l)
		}
	}
}
