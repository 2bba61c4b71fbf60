package calibrate

import (
	"cmp"
	"math"
	"slices"

	"weft/graph"
	"weft/internal/refusal"
	"weft/train/metric"
)

// What a calibration and a threshold come to, among the scores of Evaluate.
const (
	ErrorBefore = metric.CalibrationError + "-before"
	ThresholdF1 = "threshold-f1"
)

// Found is what was found of a run on the rows that validate: how it is calibrated, and its thresholds.
type Found struct {
	// Calibration is what was fitted where the setting calibrate asks for it; nil: nothing.
	Calibration *Calibration `json:"calibration,omitempty"`
	// Threshold is the best one of two classes; nil: there are other labels, or none of these validates.
	Threshold *Threshold `json:"threshold,omitempty"`
	// Thresholds are the best one of each label, of several; nil: there are other labels. One is nil where no
	// row has the label.
	Thresholds []*Threshold `json:"thresholds,omitempty"`
}

// Fits refuses what cannot be that of so many outputs, as a damaged file has.
func (f *Found) Fits(outputs int) error {
	err := cmp.Or(f.Calibration.Fits(outputs), f.Threshold.fits())
	if n := len(f.Thresholds); err == nil && n > 0 && n != outputs {
		err = refusal.Damaged("it has %d thresholds of %d labels; train the run again", n, outputs)
	}
	for _, t := range f.Thresholds {
		err = cmp.Or(err, t.fits())
	}
	return err
}

// Evaluate is metric.Evaluate, where a run may be calibrated and have thresholds: the calibration error is
// then that of its probabilities, ErrorBefore the model's, and ThresholdF1 the F1 of class 1 of two at the
// threshold, or the mean of those of several labels.
func (f *Found) Evaluate(logits []float32, l *graph.Labels, rows []int64, named ...string) (
	e metric.Evaluation, err error,
) {
	if e, err = metric.Evaluate(logits, l, rows, named...); err != nil || l.Continuous() {
		return e, err
	}
	if c := f.Calibration; c != nil {
		e.Scores[ErrorBefore] = e.Scores[metric.CalibrationError]
		e.Scores[metric.CalibrationError] = c.Reliability(logits, l, rows).Error()
	}
	switch {
	case l.Class != nil && f.Threshold != nil && l.Classes == 2:
		e.Scores[ThresholdF1] = f.Calibration.F1(f.Threshold.At, logits, l, rows, 1)
	case l.MultiLabel() && len(f.Thresholds) == l.Classes:
		sum := 0.
		for k, t := range f.Thresholds {
			at := Half
			if t != nil {
				at = t.At
			}
			sum += f.Calibration.F1(at, logits, l, rows, k)
		}
		e.Scores[ThresholdF1] = sum / float64(l.Classes)
	}
	return e, nil
}

// Reliability is that of the probabilities of some rows, of their classes or of each of several labels. c may
// be nil: these are the model's own then.
func (c *Calibration) Reliability(logits []float32, l *graph.Labels, rows []int64) *metric.Reliability {
	if c == nil {
		return metric.ReliabilityOf(logits, l, rows)
	}
	r, p := &metric.Reliability{}, make([]float64, l.Classes)
	for _, v := range rows {
		c.Apply(p, logits[int(v)*l.Classes:][:l.Classes], l.MultiLabel())
		if l.MultiLabel() {
			r.AddLabels(p, l.Multi[int(v)*l.Classes:])
			continue
		}
		sure := slices.Max(p)
		r.Add(sure, int64(slices.Index(p, sure)) == l.Class[v])
	}
	return r
}

// F1 is that of a class or label k among some rows, at a threshold of its probability. It is 0 where no row
// has it, or is said to have it, and NaN where there are no rows. c may be nil.
func (c *Calibration) F1(threshold float64, logits []float32, l *graph.Labels, rows []int64, k int) float64 {
	hit, said, is, p := 0., 0., 0., make([]float64, l.Classes)
	if len(rows) == 0 {
		return math.NaN()
	}
	for _, v := range rows {
		truth := truthOf(l, v, k)
		if math.IsNaN(truth) {
			continue
		}
		is += truth
		if c.of(p, logits[int(v)*l.Classes:][:l.Classes], k, l.MultiLabel()) >= threshold {
			said, hit = said+1, hit+truth
		}
	}
	return 2 * hit / max(1, said+is)
}
