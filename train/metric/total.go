package metric

import (
	"math"

	"weft/comm"
)

// total is a sum of terms, with the sum of what rounding took from it (Neumaier 1974, by Knuth's two-sum).
// Both together have twice the digits of a float64, so that the order of the terms does not show: the metric
// of a run is that of its evaluation to the last digit, whatever workers had which rows.
type total struct{ sum, lost float64 }

func (t *total) add(term float64) {
	sum := t.sum + term
	added := sum - t.sum
	t.lost += (t.sum - (sum - added)) + (term - added)
	t.sum = sum
}

func (t *total) value() float64 {
	if math.IsInf(t.sum, 0) { // then lost is NaN
		return t.sum
	}
	return t.sum + t.lost
}

// valuesOf returns the value of each total over all workers.
func valuesOf(c *comm.Comm, totals []total) ([]float64, error) {
	terms := make([]float64, 0, 2*len(totals))
	for _, t := range totals {
		terms = append(terms, t.sum, t.lost)
	}
	all, err := comm.Gather(c, comm.Statistics, terms...)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(totals))
	for i := range totals {
		var t total
		for at := 2 * i; at < len(all); at += len(terms) {
			t.add(all[at])
			t.add(all[at+1])
		}
		values[i] = t.value()
	}
	return values, nil
}
