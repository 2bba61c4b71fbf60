package planner

import (
	"math"
	"testing"

	"weft/comm"
	"weft/internal/launch"
)

// TestMeasure: all ranks send at once, also where their number is odd, and get the same links.
func TestMeasure(t *testing.T) {
	for _, n := range []int{2, 3} {
		links := make([]Links, n)
		err := launch.Workers(n, 0, func(c *comm.Comm) (err error) {
			links[c.Rank()], err = Measure(c)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if l != links[0] || !(l.Sends > 0 && l.Receives > 0 && l.Latency > 0 && l.Handling >= 0 && l.Eager > 0) || math.IsInf(l.Sends+l.Receives, 0) {
				t.Errorf("%d ranks: %+v, want %+v", n, l, links[0])
			}
		}
	}
}
