package comm

import (
	"errors"
	"testing"
	"testing/synctest"

	"weft/internal/assert"
)

// TestWhen: a message goes when its memory is ready, after those before it, and nobody waits for that. One
// that fails ends those after it.
func TestWhen(t *testing.T) {
	broken := errors.New("broken")
	for _, late := range []int{0, 1} { // the rank whose memory is
		synctest.Test(t, func(t *testing.T) {
			ends := InProcess(2)
			from, to := New(ends[0], 0), New(ends[1], 0)
			gates := []chan error{make(chan error), make(chan error), make(chan error), nil}
			data, into := []byte{1, 2, 3, 4}, make([]byte, 4)
			var all [2][]*Pending
			for k, gate := range gates {
				var ready [2]func() error
				if gate != nil {
					ready[late] = func() error { return <-gate }
				}
				all[0] = append(all[0], from.SendWhen(Halo, data[k:k+1], ready[0], 1))
				all[1] = append(all[1], to.ReceiveWhen(Halo, into[k:k+1], ready[1], 0))
			}
			came := func(want int) {
				synctest.Wait()
				for k, p := range all[late] {
					select {
					case <-p.request.Done():
						assert.Equal(t, true, k < want, "message %d has gone", k)
					default:
						assert.Equal(t, false, k < want, "message %d has not gone", k)
					}
				}
			}
			came(0)
			gates[1] <- nil
			came(0)
			gates[0] <- nil
			came(2)
			assert.Equal(t, []byte{1, 2, 0, 0}, into)
			assert.Equal(t, 1, len(from.end.postponed)+len(to.end.postponed), "streams of which one waits")
			gates[2] <- broken
			came(4)
			assert.Equal(t, []byte{1, 2, 0, 0}, into)
			for _, p := range all[late][2:] {
				assert.ErrorIs(t, p.Wait(), broken)
			}
		})
	}
}

// TestPlaced: a message whose memory was not ready holds up none that is asked for when it has its place.
func TestPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := InProcess(2)
		from, to := New(ends[0], 0), New(ends[1], 0)
		first := from.SendWhen(Halo, []byte{1}, func() error { return nil }, 1)
		synctest.Wait()
		second := from.SendWhen(Halo, []byte{2}, nil, 1)
		if _, postponed := second.request.(*postponed); postponed {
			t.Error("the second is made in a goroutine of its own")
		}
		into := make([]byte, 2)
		for k, p := range []*Pending{first, second} {
			assert.NoError(t, to.Receive(Halo, into[k:k+1], 0).Wait())
			assert.NoError(t, p.Wait())
		}
		assert.Equal(t, []byte{1, 2}, into)
	})
}
