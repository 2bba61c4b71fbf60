package predictions

import "math"

// Outcome is what a row of numbers says of classes or labels, in double precision.
type Outcome struct {
	row           []float32
	number        int       // of the edge, in the graph or in its file
	Top           int       // the first of the likeliest classes
	Probabilities []float64 // of classes or labels
	own           []float64 // the model's own probabilities, where an order asked for them
	before        *Outcome  // of the same vertex before; nil: there was none
}

// Of reads a row, of the model's own probabilities.
func (o *Outcome) Of(c Columns, row []float32) { (&Table{Columns: c}).Read(o, row) }

// margin is the largest probability less the second largest. If there is one class only, it is that
// probability.
func (o *Outcome) margin() float64 {
	first, second := 0., 0.
	for _, p := range o.Probabilities {
		first, second = max(first, p), max(second, min(first, p))
	}
	return first - second
}

// entropy is that of the probabilities, in nats.
func (o *Outcome) entropy() float64 {
	sum := 0.
	for _, p := range o.Probabilities {
		if p > 0 {
			sum -= p * math.Log(p)
		}
	}
	return sum
}

// Number is that of an answer with one number.
func (o *Outcome) Number(a Answer) float32 {
	switch a {
	case Probability:
		return float32(o.Probabilities[o.Top])
	case Margin:
		return float32(o.margin())
	case Entropy:
		return float32(o.entropy())
	case Change:
		return float32(o.change())
	}
	return o.row[0]
}
