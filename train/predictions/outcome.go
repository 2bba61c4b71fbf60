package predictions

import "math"

// Outcome is what a row of numbers says about classes or labels, in double precision.
type Outcome struct {
	row           []float32
	number        int       // of the edge, in the graph or in its file
	Top           int       // the first of the likeliest classes
	Probabilities []float64 // of classes or labels
	own           []float64 // the model's own probabilities, if an order asks for them
	before        *Outcome  // the outcome of the same vertex in the earlier prediction; nil: there was none
}

// Read reads a row, with the model's own probabilities.
func (o *Outcome) Read(c Columns, row []float32) { (&Table{Columns: c}).Read(o, row) }

// margin is the largest probability minus the second largest. With one class it is that class's probability.
func (o *Outcome) margin() float64 {
	first, second := 0., 0.
	for _, p := range o.Probabilities {
		first, second = max(first, p), max(second, min(first, p))
	}
	return first - second
}

// entropy is the entropy of the probabilities, in nats.
func (o *Outcome) entropy() float64 {
	sum := 0.
	for _, p := range o.Probabilities {
		if p > 0 {
			sum -= p * math.Log(p)
		}
	}
	return sum
}

// Number is the number of an answer that is one number.
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
