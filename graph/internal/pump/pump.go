// Package pump reads ahead: one goroutine makes the next batch while another takes this one. It joins the
// steps of an import.
package pump

import "sync"

// Pump fills buffers on a goroutine of its own, ahead of the reader that takes them.
type Pump[T any] struct {
	full  chan filled[T]
	free  chan T
	stop  chan struct{}
	ended sync.WaitGroup

	lent bool // the reader has last
	last filled[T]
}

type filled[T any] struct {
	buffer T
	err    error
}

// buffersAhead is the number of buffers of a pump.
const buffersAhead = 3

// New begins to fill buffers. Each is a zero T at first. An error of fill, such as io.EOF, ends the
// filling.
func New[T any](fill func(buffer T) (T, error)) *Pump[T] {
	p := &Pump[T]{
		full: make(chan filled[T], buffersAhead), free: make(chan T, buffersAhead),
		stop: make(chan struct{}),
	}
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
				p.full <- filled[T]{buffer, err} // this never waits: the channel has room for all buffers
				if err != nil {
					return
				}
			}
		}
	})
	return p
}

// Next returns the next buffer, or the error that ended the filling. The buffer is valid until the next call.
func (p *Pump[T]) Next() (T, error) {
	if p.lent {
		p.free <- p.last.buffer
	}
	if p.last.err == nil {
		p.last = <-p.full
	}
	p.lent = p.last.err == nil
	return p.last.buffer, p.last.err
}

// Close ends the filling, and returns after the goroutine has ended.
func (p *Pump[T]) Close() {
	close(p.stop)
	p.ended.Wait()
}
