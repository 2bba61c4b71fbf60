package engine

import (
	"slices"

	"weft/autograd"
)

// InputValues returns the features of this worker's rows of a vertex type as the model reads them, in
// Float32: rows × columns, with those of Config.LabelColumns as in a prediction.
func (w *Whole) InputValues(kind int) (values []float32, columns int) {
	w.features[kind].labels.show(0)
	x := inFloat32(autograd.Dense(w.features[kind].On(autograd.NewTape(w.Team))))
	defer x.Drop()
	return slices.Clone(x.Value().ReadFloats()), x.Cols()
}
