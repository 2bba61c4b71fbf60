// Package calibrate fits, on validation rows alone, probabilities that come true as often as they say, and
// the threshold from which a prediction says a class. A run keeps both with its results, so that a later
// prediction says the same of the same output. The command train calls it at the end of a run. The commands
// predict, evaluate and serve read predictions by what it found.
package calibrate

import (
	"math"
	"slices"

	"weft/graph"
	"weft/internal/refusal"
)

// The methods, as the setting calibrate names them.
const (
	None        = "none"
	Temperature = "temperature" // softmax(z/T), or σ(z/T) of labels (Guo et al. 2017, section 4.2)
	Isotonic    = "isotonic"    // a step function of each probability (Zadrozny and Elkan 2002)
)

// Methods are all of them.
var Methods = []string{None, Temperature, Isotonic}

// Calibration is what was fitted.
type Calibration struct {
	Method string `json:"method"`
	// T divides logits, where the method is Temperature.
	T float64 `json:"temperature,omitempty"`
	// Steps are the functions of probabilities, by class or label, where the method is Isotonic. Of two
	// classes, class 1 alone has one.
	Steps []Steps `json:"isotonic,omitempty"`
}

// Fit fits the probabilities of some rows of logits (rows × columns of the labels) to their labels: one class
// for each row, or several labels. Missing labels do not count. A label that all these rows lack keeps its
// probability.
func Fit(method string, logits []float32, l *graph.Labels, rows []int64) (*Calibration, error) {
	if l.Continuous() {
		return nil, refusal.Errorf("--calibrate %s: values have no probabilities; leave it out", method)
	}
	if len(rows) == 0 {
		return nil, refusal.Errorf("--calibrate %s: nothing is held out for validation; give another split, or leave "+
			"it out", method)
	}
	c := &Calibration{Method: method}
	if method == Temperature {
		c.T = temperature(logits, l, rows)
		return c, nil
	}
	first, last := 0, l.Classes
	if l.Class != nil && l.Classes == 2 {
		first = 1
	}
	probabilities := make([]float64, l.Classes)
	var p, y [][]float64
	for range last - first {
		p, y = append(p, nil), append(y, nil)
	}
	for _, v := range rows {
		raw(probabilities, logits[int(v)*l.Classes:][:l.Classes], 1, l.MultiLabel())
		for k := first; k < last; k++ {
			if truth := truthOf(l, v, k); !math.IsNaN(truth) {
				p[k-first], y[k-first] = append(p[k-first], probabilities[k]), append(y[k-first], truth)
			}
		}
	}
	for k := range p {
		if len(p[k]) == 0 { // no row says whether it has the label
			c.Steps = append(c.Steps, Steps{From: []float64{0, 1}, To: []float64{0, 1}})
			continue
		}
		c.Steps = append(c.Steps, isotonic(p[k], y[k]))
	}
	return c, nil
}

// Apply sets to to the probabilities of a row of logits, one for each column. labels says that a row may have
// several labels; otherwise the columns are classes. With c nil the probabilities are the model's own.
func (c *Calibration) Apply(to []float64, row []float32, labels bool) {
	if labels {
		for k, logit := range row {
			to[k] = c.label(k, logit)
		}
		return
	}
	raw(to, row, c.divisor(), labels)
	switch {
	case !c.steps():
		return
	case len(row) == 2 && len(c.Steps) == 1:
		to[1] = c.Steps[0].At(to[1])
		to[0] = 1 - to[1]
		return
	}
	sum := 0.
	for k, p := range to {
		to[k] = c.Steps[k].At(p)
		sum += to[k]
	}
	for k := range to {
		if sum == 0 { // no class is likely
			to[k] = 1 / float64(len(to))
		} else {
			to[k] /= sum
		}
	}
}

// label is the probability of label k, one of several, whose logit is given.
func (c *Calibration) label(k int, logit float32) float64 {
	p := sigmoid(logit, c.divisor())
	if c.steps() {
		p = c.Steps[k].At(p)
	}
	return p
}

// divisor is what logits are divided by.
func (c *Calibration) divisor() float64 {
	if c == nil || c.steps() {
		return 1
	}
	return c.T
}

// steps reports whether probabilities pass through Steps, and logits are not divided.
func (c *Calibration) steps() bool { return c != nil && c.Method != Temperature }

// probability is that of class or label k in a row of logits, as Apply computes it. p has room for all
// columns. One of several labels needs no other logit.
func (c *Calibration) probability(p []float64, row []float32, k int, labels bool) float64 {
	if labels {
		return c.label(k, row[k])
	}
	c.Apply(p, row, labels)
	return p[k]
}

// Fits refuses a calibration that cannot belong to so many outputs, as a damaged file may have.
func (c *Calibration) Fits(outputs int) error {
	damaged := refusal.Damaged("its calibration is not one of so many classes or labels, %d; train the run "+
		"again", outputs)
	switch {
	case c == nil:
		return nil
	case c.Method == Temperature:
		if !(c.T > 0) || math.IsInf(c.T, 0) {
			return damaged
		}
		return nil
	case c.Method != Isotonic || len(c.Steps) != outputs && (outputs != 2 || len(c.Steps) != 1):
		return damaged
	}
	for _, s := range c.Steps {
		n := len(s.From)
		if n == 0 || n != len(s.To) || !ascends(s.From) || !ascends(s.To) {
			return damaged
		}
	}
	return nil
}

// ascends reports whether numbers are probabilities that do not fall.
func ascends(p []float64) bool { return slices.IsSorted(p) && p[0] >= 0 && p[len(p)-1] <= 1 }

// truthOf is 1 if row v has the class or label k, 0 if not, and NaN if its label is missing.
func truthOf(l *graph.Labels, v int64, k int) float64 {
	switch {
	case l.MultiLabel():
		return float64(l.Multi[int(v)*l.Classes+k])
	case l.Class[v] < 0:
		return math.NaN()
	case l.Class[v] == int64(k):
		return 1
	}
	return 0
}

func sigmoid(logit float32, t float64) float64 { return 1 / (1 + math.Exp(-float64(logit)/t)) }

// raw are the probabilities of logits that are divided by a temperature: softmax, or σ of labels.
func raw(to []float64, row []float32, t float64, labels bool) {
	if labels {
		for k, z := range row {
			to[k] = sigmoid(z, t)
		}
		return
	}
	top, sum := float64(slices.Max(row)), 0.
	for k, z := range row {
		to[k] = math.Exp((float64(z) - top) / t)
		sum += to[k]
	}
	for k := range to {
		to[k] /= sum
	}
}

// temperature is the T at which the labels of rows are likeliest. The mean negative log-likelihood is convex
// in 1/T. Bisection finds the root of its derivative by 1/T, between 1/1000 and 1000.
func temperature(logits []float32, l *graph.Labels, rows []int64) float64 {
	p := make([]float64, l.Classes)
	slope := func(inverse float64) (sum float64) {
		for _, v := range rows {
			row := logits[int(v)*l.Classes:][:l.Classes]
			raw(p, row, 1/inverse, l.MultiLabel())
			for k, z := range row {
				if truth := truthOf(l, v, k); !math.IsNaN(truth) {
					sum += (p[k] - truth) * float64(z)
				}
			}
		}
		return sum
	}
	low, high := math.Log(1e-3), math.Log(1e3)
	for range 60 {
		if middle := (low + high) / 2; slope(math.Exp(middle)) > 0 {
			high = middle
		} else {
			low = middle
		}
	}
	return math.Exp(-(low + high) / 2)
}
