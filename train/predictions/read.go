package predictions

import "slices"

// Read reads a row: with the probabilities of Calibration, if there is one, and the class that these or the
// Threshold say.
func (t *Table) Read(o *Outcome, row []float32) {
	o.Of(t.Columns, row)
	if t.Columns != Logits && t.Columns != LabelLogits {
		return
	}
	if t.Calibration != nil {
		t.Calibration.Apply(o.Probabilities, row, t.Columns == LabelLogits)
		if most := slices.Max(o.Probabilities); most > o.Probabilities[o.Top] {
			o.Top = slices.Index(o.Probabilities, most)
		}
	}
	if t.Threshold != nil && t.Columns == Logits {
		if o.Top = 0; o.Probabilities[1] >= *t.Threshold {
			o.Top = 1
		}
	}
}
