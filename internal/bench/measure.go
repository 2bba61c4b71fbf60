package bench

import (
	"math"
	"slices"
	"time"
)

const (
	// shortest is how long a sample is at least; shorter work is repeated in it.
	shortest = time.Millisecond
	// warm is the time up to which work depends on what the caches hold; it is run once untimed before each sample.
	warm = 20 * time.Millisecond
	// fewest and most are how many samples are taken.
	fewest, most = 3, 25
)

// alternate returns the median seconds of several pieces of work, run in turn for about the budget.
func (b *bench) alternate(budget time.Duration, works ...func()) []float64 {
	medians := make([]float64, len(works))
	for i, samples := range b.rounds(budget, works...) {
		medians[i] = median(samples)
	}
	return medians
}

// rounds runs several pieces of work in turn, again and again for about the budget, and returns the seconds of each in each round.
func (b *bench) rounds(budget time.Duration, works ...func()) [][]float64 {
	least := fewest
	if b.Quick {
		budget, least = 0, 2
	}
	times := make([]int, len(works))
	samples := make([][]float64, len(works))
	for i, work := range works {
		once := timed(1, work) // takes fresh pages and fills the caches
		if once < warm.Seconds() {
			once = timed(1, work)
		}
		times[i] = int(math.Ceil(math.Min(100, shortest.Seconds()/math.Max(once, 1e-9))))
		if b.Quick {
			times[i] = 1
		}
	}
	for start := time.Now(); len(samples[0]) < least || (len(samples[0]) < most && time.Since(start) < budget); {
		for i, work := range works {
			if last := len(samples[i]); last == 0 || samples[i][last-1] < warm.Seconds() {
				work()
			}
			samples[i] = append(samples[i], timed(times[i], work))
		}
	}
	return samples
}

// timed is the mean seconds of the work, run so many times.
func timed(times int, work func()) float64 {
	start := time.Now()
	for range times {
		work()
	}
	return math.Max(time.Since(start).Seconds(), 1e-9) / float64(times)
}

// median is the middle of the values, the mean of the two middle ones of an even number.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
