package calibrate

import (
	"cmp"
	"math"
	"slices"

	"weft/graph"
	"weft/internal/refusal"
	"weft/train/metric"
)

// Names of scores of Evaluate that tell how good a calibration and a threshold are.
const (
	ErrorBefore = metric.CalibrationError + "-before"
	ThresholdF1 = "threshold-f1"
)

// Found is what the validation rows of a run gave: its calibration, and its thresholds.
type Found struct {
	// Calibration is fitted if the setting calibrate asks for it; else nil.
	Calibration *Calibration `json:"calibration,omitempty"`
	// Threshold is the best threshold for two classes; nil: there are other labels, or no validation row has
	// one.
	Threshold *Threshold `json:"threshold,omitempty"`
	// Thresholds are the best threshold of each label, where a row may have several; nil: there are other
	// labels. An entry is nil if no row has the label.
	Thresholds []*Threshold `json:"thresholds,omitempty"`
}

// Fits refuses what cannot belong to a model of so many outputs, as a damaged file may have.
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

// LabelThresholds are the probabilities of Thresholds, Half for a label that has none.
func (f *Found) LabelThresholds() (all []float64) {
	for _, t := range f.Thresholds {
		at := Half
		if t != nil {
			at = t.At
		}
		all = append(all, at)
	}
	return all
}

// Evaluate is metric.Evaluate for a run that may be calibrated and have thresholds. The calibration error is
// then the error of the calibrated probabilities, and ErrorBefore that of the model's own. ThresholdF1 is the
// F1 of class 1 of two at the threshold, or the mean F1 of several labels.
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
		for k, at := range f.LabelThresholds() {
			sum += f.Calibration.F1(at, logits, l, rows, k)
		}
		e.Scores[ThresholdF1] = sum / float64(l.Classes)
	}
	return e, nil
}

// Reliability is how often the probabilities of some rows come true: of their classes, or of each of several
// labels. With c nil the probabilities are the model's own.
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

// F1 is the F1 of class or label k among some rows, at a threshold of its probability. It is 0 if no row has
// it, or is predicted to have it, and NaN without rows. c may be nil.
func (c *Calibration) F1(threshold float64, logits []float32, l *graph.Labels, rows []int64, k int) float64 {
	hit, predicted, is, p := 0., 0., 0., make([]float64, l.Classes)
	if len(rows) == 0 {
		return math.NaN()
	}
	for _, v := range rows {
		truth := truthOf(l, v, k)
		if math.IsNaN(truth) {
			continue
		}
		is += truth
		if c.probability(p, logits[int(v)*l.Classes:][:l.Classes], k, l.MultiLabel()) >= threshold {
			predicted, hit = predicted+1, hit+truth
		}
	}
	return 2 * hit / max(1, predicted+is)
}
