package comm

import (
	"bytes"
	"testing"
)

// halves is a spool in which messages of 100 bytes or more rest, and all take pages of 10 bytes.
type halves struct{}

type kept []byte

func (halves) Put(_ Kind, message []byte) (Message, error) { return kept(bytes.Clone(message)), nil }

func (halves) Takes(_ Kind, bytes int) (memory int64, rests bool) {
	return int64((bytes + 9) / 10 * 10), bytes >= 100
}

func (m kept) Len() int               { return len(m) }
func (m kept) Ahead()                 {}
func (m kept) Take(into []byte) error { copy(into, m); return nil }
func (m kept) Drop()                  {}

// TestPlannedMessages: a plan counts the memory of messages to and from other workers: all that do not rest
// between two calls of Meet, twice, and of those that rest the largest.
func TestPlannedMessages(t *testing.T) {
	h := PlanHost(0, []int{0, 1}, halves{})
	c := New(h.Transports()[0], 0)
	c.Begin()
	defer c.End()
	for _, n := range []int{1, 42, 100, 111} {
		c.Send(Halo, make([]byte, n), 1)
	}
	c.Meet()
	c.Send(Halo, make([]byte, 3), 1)
	c.Receive(Halo, make([]byte, 15), 1)
	if h.Queued() != 2*(60+20) || h.Largest() != 120 {
		t.Errorf("%d bytes wait and %d rest, want 160 and 120", h.Queued(), h.Largest())
	}
}

// TestShared: ranks of one worker see what others share, and those of another worker do not.
func TestShared(t *testing.T) {
	h := PlanHost(0, []int{0, 0, 1}, halves{})
	seen := make(chan any)
	for rank, end := range h.Transports() {
		go func() {
			c := New(end, 0)
			c.Begin()
			defer c.End()
			g := c.Group(0, 1, 2)
			c.Share("of another group")
			g.Share(rank)
			g.Meet()
			if g.Nearby(rank) || !g.Nearby(1-rank) || g.Nearby(2) {
				seen <- "wrong neighbours"
				return
			}
			seen <- g.Shared(1 - rank)
		}()
	}
	if got := [2]any{<-seen, <-seen}; got != [2]any{1, 0} && got != [2]any{0, 1} {
		t.Errorf("seen %v", got)
	}
}
