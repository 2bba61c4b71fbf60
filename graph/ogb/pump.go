package ogb

import "sync"

// pump fills buffers on a goroutine of its own, a few ahead of whoever takes them.
type pump[T any] struct {
	full  chan filled[T]
	free  chan T
	stop  chan struct{}
	ended sync.WaitGroup

	lent bool // last is with the taker
	last filled[T]
}

type filled[T any] struct {
	buffer T
	err    error
}

// buffersAhead is how many buffers a pump has.
const buffersAhead = 3

// newPump begins to fill buffers, each of which is a zero T at first. The error of fill, io.EOF for one, ends
// the filling.
func newPump[T any](fill func(buffer T) (T, error)) *pump[T] {
	p := &pump[T]{full: make(chan filled[T], buffersAhead), free: make(chan T, buffersAhead), stop: make(chan struct{})}
	for range buffersAhead {
		var empty T
		p.free <- empty
	}
	p.ended.Go(func() {
		for {
			select {
			case <-p.stop:
				return
			case buffer := <-p.free:
				buffer, err := fill(buffer)
				p.full <- filled[T]{buffer, err} // has room for all buffers
				if err != nil {
					return
				}
			}
		}
	})
	return p
}

// next is the next buffer, which belongs to the taker until it asks for another, or the error that ended the
// filling.
func (p *pump[T]) next() (T, error) {
	if p.lent {
		p.free <- p.last.buffer
	}
	if p.last.err == nil {
		p.last = <-p.full
	}
	p.lent = p.last.err == nil
	return p.last.buffer, p.last.err
}

// close ends the filling, and returns when it has ended.
func (p *pump[T]) close() {
	close(p.stop)
	p.ended.Wait()
}
