package pump

import (
	"sync"
	"sync/atomic"
)

// Sink empties buffers on a goroutine of its own, behind the writer that fills them.
type Sink[T any] struct {
	full  chan T
	free  chan T
	err   atomic.Pointer[error]
	ended sync.WaitGroup
}

// NewSink begins to empty buffers in the order in which they are put. After an error of empty it takes
// buffers and drops them.
func NewSink[T any](empty func(buffer T) error) *Sink[T] {
	s := &Sink[T]{full: make(chan T, buffersAhead), free: make(chan T, buffersAhead)}
	for range buffersAhead {
		var buffer T
		s.free <- buffer
	}
	s.ended.Go(func() {
		for buffer := range s.full {
			if s.err.Load() == nil {
				if err := empty(buffer); err != nil {
					s.err.Store(&err)
				}
			}
			s.free <- buffer
		}
	})
	return s
}

// Take returns a buffer to fill, which is a zero T at first, or the error of an earlier buffer.
func (s *Sink[T]) Take() (T, error) {
	buffer := <-s.free
	if err := s.err.Load(); err != nil {
		s.free <- buffer
		return buffer, *err
	}
	return buffer, nil
}

// Put hands over a buffer from Take.
func (s *Sink[T]) Put(buffer T) { s.full <- buffer }

// Close waits until the buffers are empty, and returns the error of one.
func (s *Sink[T]) Close() error {
	close(s.full)
	s.ended.Wait()
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}
