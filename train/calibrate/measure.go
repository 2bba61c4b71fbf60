package calibrate

import (
	"math"

	"weft/graph"
)

// Logits are logarithms of the probabilities of rows, whose softmax these are: for what reads logits. A
// probability of 0 is taken for 10⁻³⁰.
func (c *Calibration) Logits(rows []float32, classes int) []float32 {
	made, p := make([]float32, len(rows)), make([]float64, classes)
	for at := 0; at < len(rows); at += classes {
		c.Apply(p, rows[at:at+classes], false)
		for k := range p {
			made[at+k] = float32(math.Log(max(p[k], 1e-30)))
		}
	}
	return made
}

// F1 is that of class 1 of two among some rows, at a threshold of its probability. It is 0 where no row has
// the class, or is said to have it, and NaN where there are no rows.
func F1(c *Calibration, threshold float64, logits []float32, l *graph.Labels, rows []int64) float64 {
	hit, said, is, p := 0., 0., 0., make([]float64, 2)
	if len(rows) == 0 {
		return math.NaN()
	}
	for _, v := range rows {
		c.Apply(p, logits[2*v:][:2], false)
		truth := truthOf(l, v, 1)
		if math.IsNaN(truth) {
			continue
		}
		is += truth
		if p[1] >= threshold {
			said, hit = said+1, hit+truth
		}
	}
	return 2 * hit / max(1, said+is)
}
