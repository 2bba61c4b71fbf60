package worker

import (
	"math"

	"weft/internal/refusal"
	"weft/nn"
	"weft/train/engine"
)

// The names of the columns' means and standard deviations in files of weights, with normalize-features
// standard.
const (
	featureMeans      = "features.mean"
	featureDeviations = "features.deviation"
)

// StandardIn returns the means and deviations by which weights expect features of so many columns to be
// standardised.
func StandardIn(weights nn.State, columns int) (*engine.Standard, error) {
	s := &engine.Standard{
		Means:      weights[featureMeans].Float32,
		Deviations: weights[featureDeviations].Float32,
	}
	if len(s.Means) != columns || len(s.Deviations) != columns {
		return nil, refusal.Weights.Errorf("the weights lack %s and %s of the %d features that they were "+
			"trained on; was the model trained with {normalize-features} standard?", featureMeans,
			featureDeviations, columns)
	}
	return s, nil
}

// standard returns the means and standard deviations of the columns of all vertices' features. All workers
// call it. In a plan they are zeros.
func (w *Worker) standard() (*engine.Standard, error) {
	v := &w.Share.Values
	columns := v.Features.Columns
	s := &engine.Standard{Means: make([]float32, columns), Deviations: make([]float32, columns)}
	if w.Team.Planning() {
		return s, nil
	}
	sums := make([]float64, columns+1)
	w.eachOwnRow(func(row []float32) {
		for k, x := range row {
			sums[k] += float64(x)
		}
		sums[columns]++
	})
	if err := w.sum(sums); err != nil {
		return nil, err
	}
	n, means := sums[columns], sums[:columns]
	for k := range means {
		means[k] /= n
	}
	squares := make([]float64, columns)
	w.eachOwnRow(func(row []float32) {
		for k, x := range row {
			squares[k] += (float64(x) - means[k]) * (float64(x) - means[k])
		}
	})
	err := w.sum(squares)
	for k := range means {
		s.Means[k], s.Deviations[k] = float32(means[k]), float32(math.Sqrt(squares[k]/n))
		if s.Deviations[k] == 0 { // all values of the column are the same
			s.Deviations[k] = 1
		}
	}
	return s, err
}

// eachOwnRow calls f with the features of each vertex of the worker's partition, on one of the workers that
// have this partition.
func (w *Worker) eachOwnRow(f func(row []float32)) {
	const unloadEvery = 1 << 20 // rows
	if w.Groups.Stage > 0 || w.Groups.Slice > 0 {
		return
	}
	for row := range w.Share.Values.Rows {
		f(w.Share.Values.Features.Row(row))
		if row%unloadEvery == unloadEvery-1 {
			w.Share.Unload()
		}
	}
}

// withStandard adds the means and deviations to weights.
func (w *Worker) withStandard(weights nn.State) {
	if s := w.Standard; s != nil {
		weights[featureMeans] = nn.Tensor{Shape: []int{len(s.Means)}, Float32: s.Means}
		weights[featureDeviations] = nn.Tensor{Shape: []int{len(s.Deviations)}, Float32: s.Deviations}
	}
}
