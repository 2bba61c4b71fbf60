package planner

import (
	"math"
	"testing"

	"weft/internal/assert"
	"weft/internal/trace"
)

// TestSteady: two workers compute for ten seconds in an epoch, and send each other a message that the other
// waits for in the next epoch. An epoch takes as long as the longer of the two.
func TestSteady(t *testing.T) {
	const seconds = 10
	for _, bytes := range []int{300, 1700} { // at 100 a second
		steps := make([][]trace.Event, 2)
		for worker := range steps {
			// the last number of the epoch before
			l := &log{begun: map[trace.Category]int{trace.Start: 4, trace.Send: 4}}
			l.waits(0, trace.Receive, 1-worker, 4).starts(0, trace.Start, 1-worker, bytes)
			l.waits(0, trace.Wait, 1-worker, 4).starts(0, trace.Send, 1-worker, bytes)
			steps[worker] = l.kernel(0, seconds).steps
		}
		m := Machine{Cores: 2, Threads: 1, Sharers: 2, Links: Links{Sends: 100, Receives: 100}}
		work, end, err := Steady(steps, m, func(_ int, e *trace.Event) float64 {
			return float64(e.Args.Shape[0])
		})
		wire := float64(bytes) / m.Sends
		if want := max(seconds, wire); err != nil || math.Abs(end-want) > 1e-6 {
			t.Fatalf("%d bytes: %v seconds, %v, want %v", bytes, end, err, want)
		}
		for _, w := range work {
			assert.Near(t, seconds, w[computes], 1e-6, "%d bytes", bytes)
			assert.Near(t, max(0, wire-seconds), w[transfers], 1e-6, "%d bytes", bytes)
		}
	}
}
