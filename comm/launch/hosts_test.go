package launch

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"weft/comm"
)

// slow keeps messages that take their time.
type slow struct {
	begun chan struct{}
	ended *atomic.Bool
}

func (s slow) Put(comm.Kind, []byte, comm.Path) (comm.Message, error) { return s, nil }
func (s slow) Takes(comm.Kind, int) (int64, bool)                     { return 0, false }
func (s slow) Len() int                                               { return 1 }
func (s slow) Ahead()                                                 {}
func (s slow) Drop()                                                  {}

func (s slow) Take([]byte) error {
	close(s.begun)
	time.Sleep(50 * time.Millisecond)
	s.ended.Store(true)
	return nil
}

// TestHostsFail: when a rank has failed, nobody reads messages any more whose memory the caller gives back.
func TestHostsFail(t *testing.T) {
	s, fault := slow{make(chan struct{}), &atomic.Bool{}}, errors.New("a fault")
	var shared []*comm.SharedWorker
	for _, end := range comm.InProcess(2) {
		shared = append(shared, comm.NewSharedWorker(comm.New(end, 0), []int{0, 1}, s))
	}
	err := SharedWorkers(shared, 0, func(c *comm.Comm) error {
		if c.Rank() == 0 {
			c.Send(comm.Halo, make([]byte, 1), 1)
		}
		<-s.begun
		return fault
	})
	if !errors.Is(err, fault) || !s.ended.Load() {
		t.Errorf("%v, and the message was read to its end: %v", err, s.ended.Load())
	}
}
