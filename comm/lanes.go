package comm

// lane identifies messages that are matched in order.
type lane struct{ from, to, tag int }

// lanes are the transfers that wait for their other side, by lane.
type lanes map[lane]*queue

// queue holds the unmatched transfers of a lane: all are sends, or all are receives.
type queue struct {
	sends   bool
	waiting []*transfer
}

// transfer is one side of a message: the Request to send or to receive it.
type transfer struct {
	data    []byte
	done    chan struct{}
	err     error
	message Message // of a SharedWorker: the message that was sent or has come
}

func newTransfer(data []byte) *transfer { return &transfer{data: data, done: make(chan struct{})} }

func (t *transfer) Done() <-chan struct{} { return t.done }

// Err copies, once, a message that has come from the Spool of a SharedWorker.
func (t *transfer) Err() error {
	if p := t.message; p != nil {
		t.message = nil
		t.err = p.Take(t.data)
	}
	return t.err
}

func (t *transfer) finish(err error) {
	t.err = err
	close(t.done)
}

// match takes the oldest transfer of the other side in a lane. If there is none, it returns nil, and
// posted begins to wait.
func (l lanes) match(at lane, posted *transfer, sends bool) (other *transfer) {
	q := l[at]
	switch {
	case q == nil:
		l[at] = &queue{sends, []*transfer{posted}}
		return nil
	case q.sends == sends:
		q.waiting = append(q.waiting, posted)
		return nil
	}
	other = q.waiting[0]
	q.waiting = q.waiting[1:]
	if len(q.waiting) == 0 {
		delete(l, at)
	}
	return other
}

// drop ends the transfers that wait in the lanes for which which is true.
func (l lanes) drop(which func(lane) bool, err error) {
	for at, q := range l {
		if !which(at) {
			continue
		}
		for _, t := range q.waiting {
			if t.message != nil {
				t.message.Drop()
			}
			t.finish(err)
		}
		delete(l, at)
	}
}

// anyLane chooses all lanes.
func anyLane(lane) bool { return true }
