package inference

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weft/internal/refusal"
	"weft/train/predictions"
)

// bestThreshold names the threshold that the run found on validation.
const bestThreshold = "best"

// addThreshold declares the flag.
func addThreshold(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "threshold", "", "of two classes, the `probability` of the second from which a row is of it, "+
		"of several labels that from which a row has each, in --columns class, or best: the one with the largest F1 "+
		"of validation, of each label (default: the likeliest class, and labels above 0.5)")
}

// decide sets the threshold from which on rows have the second of two classes, or each of several labels.
func (p *pass) decide(threshold string) error {
	if threshold == "" {
		return nil
	}
	labels := p.Columns == predictions.LabelLogits
	if !labels && (p.Columns != predictions.Logits || p.numbers != 2) {
		return refusal.Errorf("--threshold %s: is for two classes or several labels, and the run predicts others; leave "+
			"it out", threshold)
	}
	if labels && threshold == bestThreshold {
		if p.asked.Thresholds == nil {
			return refusal.Errorf("--threshold %s: the run has none; give a probability, as in --threshold 0.3", threshold)
		}
		p.Thresholds = p.asked.LabelThresholds()
		return nil
	}
	if threshold == bestThreshold {
		if p.asked.Threshold == nil {
			return refusal.Errorf("--threshold %s: the run has none, as where no validation row is of class %s, the "+
				"second of the two; give a probability of it, as in --threshold 0.3", threshold, predictions.NameOf(p.Classes, 1))
		}
		p.Threshold = &p.asked.Threshold.At
		return nil
	}
	at, err := strconv.ParseFloat(threshold, 64)
	if err != nil || !(at >= 0 && at <= 1) {
		return refusal.Errorf("--threshold %s: is a probability, from 0 to 1, or %s", threshold, bestThreshold)
	}
	p.Threshold = &at
	if labels {
		p.Threshold, p.Thresholds = nil, slices.Repeat([]float64{at}, p.numbers)
	}
	return nil
}

// decision says from where on rows have the second class, or each label; "": they have the likeliest class.
func (p *pass) decision() string {
	var each []string
	for k, at := range p.Thresholds {
		each = append(each, fmt.Sprintf("%s from a probability of %v", predictions.NameOf(p.Classes, k), at))
	}
	if each != nil {
		return strings.Join(each, ", ")
	}
	if p.Threshold == nil {
		return ""
	}
	return fmt.Sprintf("%s from a probability of %v", predictions.NameOf(p.Classes, 1), *p.Threshold)
}
