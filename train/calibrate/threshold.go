package calibrate

import (
	"cmp"
	"math"
	"slices"

	"weft/graph"
	"weft/internal/refusal"
)

// Threshold is the probability of class 1, of two, from which on a prediction says class 1.
type Threshold struct {
	At float64 `json:"at"`
	F1 float64 `json:"f1"` // of class 1, among the rows on which the threshold was found
}

// Half is the threshold of a label that has none.
const Half = 0.5

// fits refuses what is no threshold, as a damaged file may have.
func (t *Threshold) fits() error {
	if t != nil && !(t.At >= 0 && t.At <= 1) {
		return refusal.Damaged("its threshold %v is not a probability; train the run again", t.At)
	}
	return nil
}

// BestThreshold is the threshold with the largest F1 of class 1 among some rows, as by scikit-learn's
// precision_recall_curve. If several have that F1, it is the lowest. It is nil if the labels are not two
// classes, and if no row has class 1.
func BestThreshold(c *Calibration, logits []float32, l *graph.Labels, rows []int64) *Threshold {
	if l.Class == nil || l.Classes != 2 {
		return nil
	}
	return bestThreshold(c, logits, l, rows, 1)
}

// BestThresholds are the thresholds of all labels, where a row may have several. Each has the largest F1 of
// its label among the rows that tell it, as BestThreshold. An entry is nil if no row has the label. The
// result is nil for other labels.
func BestThresholds(c *Calibration, logits []float32, l *graph.Labels, rows []int64) (all []*Threshold) {
	if !l.MultiLabel() {
		return nil
	}
	for k := range l.Classes {
		all = append(all, bestThreshold(c, logits, l, rows, k))
	}
	return all
}

// bestThreshold is the best threshold of one class or label.
func bestThreshold(c *Calibration, logits []float32, l *graph.Labels, rows []int64, k int) *Threshold {
	type scored struct{ p, is float64 }
	var all []scored
	positive, p := 0., make([]float64, l.Classes)
	for _, v := range rows {
		if is := truthOf(l, v, k); !math.IsNaN(is) {
			probability := c.probability(p, logits[int(v)*l.Classes:][:l.Classes], k, l.MultiLabel())
			all, positive = append(all, scored{probability, is}), positive+is
		}
	}
	if positive == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(b.p, a.p) })
	best, hit := &Threshold{F1: -1}, 0.
	for k, row := range all {
		hit += row.is
		if k+1 < len(all) && all[k+1].p == row.p {
			continue
		}
		if f1 := 2 * hit / (float64(k+1) + positive); f1 >= best.F1 {
			best.At, best.F1 = row.p, f1
		}
	}
	return best
}
