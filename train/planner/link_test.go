package planner

import (
	"math"
	"testing"

	"weft/comm"
	"weft/internal/launch"
)

// TestLinkRate: all ranks send at once, also where their number is odd, and get the rate of the slowest.
func TestLinkRate(t *testing.T) {
	for _, n := range []int{2, 3} {
		rates := make([][3]float64, n)
		err := launch.Workers(n, 0, func(c *comm.Comm) (err error) {
			r := &rates[c.Rank()]
			r[0], r[1], r[2], err = LinkRate(c)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rates {
			if r != rates[0] || !(r[0] > 0 && r[1] > 0 && r[2] >= 0) || math.IsInf(r[0], 0) {
				t.Errorf("%d ranks: %v, want %v", n, r, rates[0])
			}
		}
	}
}
