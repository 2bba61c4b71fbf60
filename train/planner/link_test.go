package planner

import (
	"math"
	"testing"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestMeasure: all ranks send at once, also where their number is odd, and get the same links.
func TestMeasure(t *testing.T) {
	for _, n := range []int{2, 3} {
		links := make([]Links, n)
		err := launch.Workers(n, 0, func(c *comm.Comm) (err error) {
			links[c.Rank()], err = Measure(c)
			return err
		})
		require.NoError(t, err)
		for _, l := range links {
			if l != links[0] || !(l.Sends > 0 && l.Receives > 0 && l.Latency > 0 && l.Handling >= 0 &&
				l.Eager > 0) || math.IsInf(l.Sends+l.Receives, 0) {
				t.Errorf("%d ranks: %+v, want %+v", n, l, links[0])
			}
		}
	}
}

// TestLinks: rates, latency and handling of measured seconds by hand, and those of a given rate. Package mpi
// has 16 messages of 60 KiB in flight.
func TestLinks(t *testing.T) {
	const inFlight = 983_040
	for _, c := range []struct{ got, want Links }{
		{
			timed{latency: .5, ring: 2.5, star: 1, idle: .25, used: .75}.links(1000),
			Links{500, 2000, .5, .00025, inFlight},
		},
		{
			timed{latency: .5, ring: 2.5, star: 1, idle: .5, used: .25}.links(1000),
			Links{500, 2000, .5, 0, inFlight},
		},
	} {
		assert.Equal(t, c.want, c.got)
	}
	// By hand, at 60 KiB in 8 ms 8·ln(1 + 1/.06) polls take 574 µs, after 20 of spinning; in 9 ms one more.
	for rate, polling := range map[float64]float64{7.68e6: 594.4e-6, 60 << 10 / 9e-3: 619.4e-6} {
		got := OfRate(rate)
		assert.Near(t, polling/(2*60<<10), got.Handling, 1e-12, "handling")
		got.Handling = 0
		assert.Equal(t, Links{rate, rate, 1e-4, 0, inFlight}, got)
	}
	// As Measure finds it between virtual hosts, at these rates in bytes per second.
	for rate, found := range map[float64]float64{
		12e6: 4.3e-9, 120e6: 1.4e-9, 295e6: .82e-9, 580e6: .44e-9, 1.6e9: .31e-9, 12e9: .3e-9,
	} {
		assert.Near(t, 1, OfRate(rate).Handling/found, .12, rate)
	}
}
