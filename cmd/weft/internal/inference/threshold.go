package inference

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"weft/internal/refusal"
	"weft/train/predictions"
)

// bestThreshold names the threshold that the run found on validation.
const bestThreshold = "best"

// addThreshold declares the flag.
func addThreshold(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "threshold", "", "of two classes, the `probability` of the second from which a row is of it, "+
		"or best: the one with the largest F1 of validation (default: the likeliest class)")
}

// decide has rows be of the second of two classes from a threshold on.
func (d *predicted) decide(threshold string) error {
	if threshold == "" {
		return nil
	}
	if d.Columns != predictions.Logits || d.numbers != 2 {
		return refusal.Errorf("--threshold %s: is for two classes, and the run predicts others; leave it out", threshold)
	}
	if threshold == bestThreshold {
		if d.asked.Threshold == nil {
			return refusal.Errorf("--threshold %s: the run has none, as where no validation row is of the second class; "+
				"give a probability, as in --threshold 0.3", threshold)
		}
		d.Threshold = &d.asked.Threshold.At
		return nil
	}
	p, err := strconv.ParseFloat(threshold, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return refusal.Errorf("--threshold %s: is a probability, from 0 to 1, or %s", threshold, bestThreshold)
	}
	d.Threshold = &p
	return nil
}

// decision says from where on rows are of the second class; "": the likeliest class is theirs.
func (d *predicted) decision() string {
	if d.Threshold == nil {
		return ""
	}
	return fmt.Sprintf("%s from a probability of %v", nameOf(d.Classes, 1), *d.Threshold)
}
