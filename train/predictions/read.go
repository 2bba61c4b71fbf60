package predictions

import (
	"slices"

	"weft/train/calibrate"
)

// Said are the labels, of several, that a row is predicted to have.
func (t *Table) Said(outcome *Outcome) (labels []int) {
	for k, p := range outcome.Probabilities {
		if t.Thresholds == nil && p > calibrate.Half || t.Thresholds != nil && p >= t.Thresholds[k] {
			labels = append(labels, k)
		}
	}
	return labels
}

// Read reads a row: with the probabilities of Calibration, if there is one, and the class that these or the
// Threshold give.
func (t *Table) Read(o *Outcome, row []float32) {
	o.row, o.Top, o.Probabilities = row, 0, o.Probabilities[:0]
	switch t.Columns {
	case Values, Embedding:
		return
	case Probabilities:
		for _, p := range row {
			o.Probabilities = append(o.Probabilities, float64(p))
		}
	default:
		o.Probabilities = slices.Grow(o.Probabilities, len(row))[:len(row)]
		t.Calibration.Apply(o.Probabilities, row, t.Columns == LabelLogits)
	}
	if t.Columns == LabelLogits {
		return
	}
	o.Top = slices.Index(row, slices.Max(row))
	if most := slices.Max(o.Probabilities); t.Calibration != nil && most > o.Probabilities[o.Top] {
		o.Top = slices.Index(o.Probabilities, most)
	}
	if t.Threshold != nil && t.Columns == Logits {
		if o.Top = 0; o.Probabilities[1] >= *t.Threshold {
			o.Top = 1
		}
	}
}
