package bench

import (
	"math"
	"slices"
	"time"
)

const (
	// shortest is how long a sample is at least, and part how much of the longest work's: shorter work is
	// repeated in it, so that what the machine does beside it weighs as much as for the longest.
	shortest, part = time.Millisecond, 0.1
	// warm is the time up to which work depends on what the caches hold; it is run once untimed before each
	// sample.
	warm = 20 * time.Millisecond
	// fewest and most are how many samples are taken.
	fewest, most = 3, 25
)

// work is what is done one part after another and timed by part: a kernel, or the probes that stand for it.
// What a part finds in a cache is what the other parts leave there, as in a kernel that needs all their
// matrices.
type work []func()

// rounds runs several pieces of work in turn, again and again for about the budget, and returns the seconds
// of each by part and by round.
func (b *bench) rounds(budget time.Duration, works ...work) [][][]float64 {
	least := fewest
	if b.Quick {
		budget, least = 0, 2
	}
	times := make([]int, len(works))
	samples := make([][][]float64, len(works))
	last := make([]float64, len(works)) // seconds of a whole work
	for i, w := range works {
		samples[i] = make([][]float64, len(w))
		last[i] = sum(w.timed(1)) // takes fresh pages and fills the caches
		if last[i] < warm.Seconds() {
			last[i] = sum(w.timed(1))
		}
	}
	for i := range works {
		times[i] = int(
			math.Ceil(math.Min(100, max(shortest.Seconds(), part*slices.Max(last))/math.Max(last[i], 1e-9))))
		if b.Quick {
			times[i] = 1
		}
	}
	start := time.Now()
	for round := 0; round < least || (round < most && time.Since(start) < budget); round++ {
		for i, w := range works {
			if round == 0 || last[i] < warm.Seconds() {
				w.timed(1)
			}
			seconds := w.timed(times[i])
			for p, s := range seconds {
				samples[i][p] = append(samples[i][p], s)
			}
			last[i] = sum(seconds)
		}
	}
	return samples
}

// timed is the mean seconds of each part, of so many runs of the work.
func (w work) timed(times int) []float64 {
	seconds := make([]float64, len(w))
	for range times {
		for p, run := range w {
			start := time.Now()
			run()
			seconds[p] += math.Max(time.Since(start).Seconds(), 1e-9) / float64(times)
		}
	}
	return seconds
}

func sum(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// median is the middle of the values, the mean of the two middle ones of an even number.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
