package calibrate

import (
	"cmp"
	"math"
	"slices"

	"weft/graph"
	"weft/internal/refusal"
)

// Threshold is where predictions of one of two classes begin to say class 1: at its probability or above.
type Threshold struct {
	At float64 `json:"at"`
	F1 float64 `json:"f1"` // of class 1 among the rows that it was found on
}

// Fits refuses a threshold that is none, as a damaged file has.
func (t *Threshold) Fits() error {
	if t != nil && !(t.At >= 0 && t.At <= 1) {
		return refusal.Damaged("its threshold %v is not a probability; train the run again", t.At)
	}
	return nil
}

// BestThreshold is the one with the largest F1 of class 1 among some rows, as of scikit-learn's
// precision_recall_curve. Of several it is the lowest. It is nil where there are other labels than of two
// classes, and where no row has class 1.
func BestThreshold(c *Calibration, logits []float32, l *graph.Labels, rows []int64) *Threshold {
	if l.Class == nil || l.Classes != 2 {
		return nil
	}
	type scored struct{ p, is float64 }
	var all []scored
	positive, p := 0., make([]float64, 2)
	for _, v := range rows {
		c.Apply(p, logits[2*v:][:2], false)
		if is := truthOf(l, v, 1); !math.IsNaN(is) {
			all, positive = append(all, scored{p[1], is}), positive+is
		}
	}
	if positive == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(b.p, a.p) })
	best, hit := &Threshold{F1: -1}, 0.
	for k, of := range all {
		hit += of.is
		if k+1 < len(all) && all[k+1].p == of.p {
			continue
		}
		if f1 := 2 * hit / (float64(k+1) + positive); f1 >= best.F1 {
			best.At, best.F1 = of.p, f1
		}
	}
	return best
}
