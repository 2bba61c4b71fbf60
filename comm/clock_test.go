package comm_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/comm"
	"weft/comm/commtest"
	"weft/internal/assert"
)

// TestClockOffset: the estimate is exact if messages take equally long in both directions. Otherwise its
// error is at most the uncertainty. The fastest of several messages counts.
func TestClockOffset(t *testing.T) {
	const ms = time.Millisecond
	ahead := []time.Duration{0, 3 * time.Hour, -40 * ms} // of each rank's clock
	for _, c := range []struct {
		name      string
		takes     func(to, message int) time.Duration
		error     time.Duration
		uncertain time.Duration
	}{
		{"even", func(int, int) time.Duration { return 5 * ms }, 0, 5 * ms},
		{"uneven", func(to, _ int) time.Duration {
			return 2*ms + time.Duration(min(to, 1))*6*ms
		}, -3 * ms, 5 * ms},
		{"of all speeds", func(_, message int) time.Duration {
			return time.Duration(9-message%7) * ms
		}, 0, 3 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var all sync.WaitGroup
				for rank, end := range comm.InProcess(len(ahead)) {
					sent := map[int]int{} // to each rank
					slow := commtest.Record(end, func(e commtest.Event) {
						if e.Send && !e.Ended {
							time.Sleep(c.takes(e.Peer, sent[e.Peer]))
							sent[e.Peer]++
						}
					})
					all.Go(func() {
						clock := func() time.Duration { return time.Since(began) + ahead[rank] }
						offset, uncertainty, err := comm.New(slow, time.Hour).ClockOffset(comm.Setup, clock)
						assert.NoError(t, err)
						off, within := -ahead[rank]+c.error, c.uncertain
						if rank == 0 {
							off, within = 0, 0
						}
						if offset != off || uncertainty != within {
							t.Errorf("rank %d: %v within %v, want %v within %v", rank, offset,
								uncertainty, off, within)
						}
					})
				}
				all.Wait()
			})
		})
	}
}
