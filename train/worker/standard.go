package worker

import (
	"math"

	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
	"weft/train/engine"
	"weft/train/setting"
)

// standardNames are the names, in files of weights, of the means and standard deviations of a vertex type's
// features.
func standardNames(types []partition.WholeType, kind int) (means, deviations string) {
	prefix := "features."
	if len(types) > 1 {
		prefix += types[kind].Type + "."
	}
	return prefix + "mean", prefix + "deviation"
}

// OwnNames are the names, in files of weights for a graph of one vertex type, of tensors that belong to no
// model: the means and deviations of features and of values to predict.
func OwnNames() []string {
	means, deviations := standardNames(nil, 0)
	return append(nn.UnitNames(), means, deviations)
}

// StandardIn returns the means and deviations by which weights expect the features of each vertex type to be
// standardised: nil for a type if they expect none. With normalize-features standard they must have all.
func StandardIn(weights nn.State, r *setting.Resolved, whole *partition.Whole) ([]*engine.Standard, error) {
	var all []*engine.Standard
	types := whole.Types
	for kind, t := range types {
		means, deviations := standardNames(types, kind)
		s := &engine.Standard{Means: weights[means].Float32, Deviations: weights[deviations].Float32}
		asked := r.NormalizeFeatures == setting.Standard && t.FeatureColumns > 0 ||
			r.NormalizeFeatures == setting.AutoFeatures && len(s.Means)+len(s.Deviations) > 0
		switch {
		case !asked:
			s = nil
		case len(s.Means) != t.FeatureColumns || len(s.Deviations) != t.FeatureColumns:
			return nil, refusal.Weights.Errorf("the weights lack %s and %s of the %d features that they were "+
				"trained on; was the model trained with --normalize-features standard?", means, deviations,
				t.FeatureColumns)
		case t.FeatureValues > 0:
			return nil, refusal.Weights.Errorf("the weights are of standardised features, and those of the " +
				"graph are sparse; import it with --dense-features")
		}
		all = append(all, s)
	}
	return all, nil
}

// StandardOf returns the means and deviations in the initial weights, for the features of each vertex type
// that are standardised: nil for a type if the weights have none.
func StandardOf(weights nn.State, r *setting.Resolved, whole *partition.Whole) (all []*engine.Standard) {
	types := whole.Types
	for kind := range types {
		means, deviations := standardNames(types, kind)
		s := &engine.Standard{Means: weights[means].Float32, Deviations: weights[deviations].Float32}
		if n := types[kind].FeatureColumns; r.Standardises(&types[kind]) == nil || len(s.Means) != n ||
			len(s.Deviations) != n {
			s = nil
		}
		all = append(all, s)
	}
	return all
}

// standard returns the means and standard deviations of the features of each vertex type that are
// standardised: those that came with initial weights, or else those over all vertices. All workers call it.
// In a plan they are zeros.
func (w *member) standard() (all []*engine.Standard, err error) {
	for kind, t := range w.Share.Whole.Types {
		var s *engine.Standard
		if scaled := w.Standardises(&t); w.Started != nil && w.Started[kind] != nil {
			s = w.Started[kind]
		} else if scaled != nil {
			if s, err = w.standardOf(kind, scaled); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// standardOf is standard for a vertex type. Features that are not scaled have a mean of 0 and a deviation
// of 1.
func (w *member) standardOf(kind int, scaled []bool) (*engine.Standard, error) {
	columns := len(scaled)
	s := &engine.Standard{Means: make([]float32, columns), Deviations: make([]float32, columns)}
	sums := make([]float64, columns+1)
	w.eachOwnRow(kind, func(row []float32) {
		for k, x := range row {
			sums[k] += float64(x)
		}
		sums[columns]++
	})
	if err := w.sum(sums); err != nil {
		return nil, err
	}
	n, means := max(1, sums[columns]), sums[:columns]
	for k := range means {
		means[k] /= n
	}
	squares := make([]float64, columns)
	w.eachOwnRow(kind, func(row []float32) {
		for k, x := range row {
			squares[k] += (float64(x) - means[k]) * (float64(x) - means[k])
		}
	})
	err := w.sum(squares)
	for k := range means {
		if !scaled[k] {
			s.Deviations[k] = 1
			continue
		}
		s.Means[k], s.Deviations[k] = float32(means[k]), float32(math.Sqrt(squares[k]/n))
		if s.Deviations[k] == 0 { // all values of the column are the same
			s.Deviations[k] = 1
		}
	}
	return s, err
}

// eachOwnRow calls f with the features of each vertex of a type in the worker's partition. It does so on only
// one of the workers that have this partition.
func (w *member) eachOwnRow(kind int, f func(row []float32)) {
	const unloadEvery = 1 << 20 // rows
	if w.Groups.Stage > 0 || w.Groups.Slice > 0 {
		return
	}
	v := &w.Share.Types[kind]
	var room []float32
	w.Team.Serial(func() {
		for row := range v.Count {
			features := v.FeatureRow(room, row)
			if v.Arrangement != nil {
				room = features
			}
			f(features)
			if row%unloadEvery == unloadEvery-1 {
				w.Share.Unload()
			}
		}
	})
}

// eachStandard calls f with each tensor of means and deviations, and its name in files of weights.
func (w *member) eachStandard(f func(name string, values []float32)) {
	for kind, s := range w.Standard {
		if s != nil {
			means, deviations := standardNames(w.Share.Whole.Types, kind)
			f(means, s.Means)
			f(deviations, s.Deviations)
		}
	}
}
