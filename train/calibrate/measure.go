package calibrate

import (
	"math"
	"slices"

	"weft/graph"
	"weft/train/metric"
)

// What a calibration and a threshold come to, among the scores of Evaluate.
const (
	ErrorBefore = metric.CalibrationError + "-before"
	ThresholdF1 = "threshold-f1"
)

// Evaluate is metric.Evaluate, where a run may be calibrated and have a threshold: the calibration error is
// then that of its probabilities, ErrorBefore the model's, and ThresholdF1 the F1 of class 1 of two at the
// threshold. Both may be nil.
func Evaluate(c *Calibration, t *Threshold, logits []float32, l *graph.Labels, rows []int64,
	named ...string,
) (e metric.Evaluation, err error) {
	if e, err = metric.Evaluate(logits, l, rows, named...); err != nil || l.Class == nil {
		return e, err
	}
	if c != nil {
		e.Scores[ErrorBefore] = e.Scores[metric.CalibrationError]
		e.Scores[metric.CalibrationError] = c.Reliability(logits, l, rows).Error()
	}
	if t != nil && l.Classes == 2 {
		e.Scores[ThresholdF1] = F1(c, t.At, logits, l, rows)
	}
	return e, nil
}

// Reliability is that of the probabilities of some rows, which have one class each. c may be nil: these are
// the model's own then.
func (c *Calibration) Reliability(logits []float32, l *graph.Labels, rows []int64) *metric.Reliability {
	if c == nil {
		return metric.ReliabilityOf(logits, l, rows)
	}
	r, p := &metric.Reliability{}, make([]float64, l.Classes)
	for _, v := range rows {
		c.Apply(p, logits[int(v)*l.Classes:][:l.Classes], false)
		sure := slices.Max(p)
		r.Add(sure, int64(slices.Index(p, sure)) == l.Class[v])
	}
	return r
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
