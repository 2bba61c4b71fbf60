package comm

import "testing"

// TestQueued: a plan bounds what waits between two workers by the messages of two rounds, each way. A slow
// link still has those of the round before, and the other worker may be a round ahead. Messages of
// all-to-alls are received before others are sent, and do not count.
func TestQueued(t *testing.T) {
	h := PlanSharedWorker(0, []int{0, 1}, doubled{})
	c := New(h.Transports()[0], 0)
	c.Begin()
	defer c.End()
	for _, bytes := range []int{5, 8, 3} {
		c.LocalBarrier()
		for range 2 {
			c.Send(Halo, make([]byte, bytes), 1)
		}
		c.Receive(HaloGradient, make([]byte, 10), 1)
		c.Send(Links, make([]byte, 100+bytes), 1)
		c.Send(ToRows, make([]byte, 1000), 1)
		c.Receive(ToSlices, make([]byte, 1000), 1)
	}
	all, stay, rest := h.Queued()
	if want := int64(2 * 2 * (8 + 8 + 10 + 108)); all != want {
		t.Errorf("%d bytes in all, want %d", all, want)
	}
	if want := int64(2 * 2 * (8 + 8 + 10)); stay != want {
		t.Errorf("%d bytes stay, want %d", stay, want)
	}
	if want := int64(2 * 2 * 108); rest != want {
		t.Errorf("%d bytes may rest, want %d", rest, want)
	}
	if got := h.Largest(); got != 2*108 {
		t.Errorf("the largest message that rests takes %d bytes, want %d", got, 2*108)
	}
}
