package nn

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/tensor"
)

// Units are the means and standard deviations of the values that a regression predicts, column by column. The
// model's output z stands for the value mean + deviation·z, so that the loss does not depend on the values'
// units.
type Units struct{ mean, deviation *Buffer }

// The names of the tensors of Units in files of weights. Each has a number for each column.
const (
	unitMeans      = "target.mean"
	unitDeviations = "target.deviation"
)

// UnitNames returns these names.
func UnitNames() []string { return []string{unitMeans, unitDeviations} }

// The names of the units of edges' features.
const (
	edgeMeans      = "edge_features.mean"
	edgeDeviations = "edge_features.deviation"
)

// EdgeUnitNames returns these names.
func EdgeUnitNames() []string { return []string{edgeMeans, edgeDeviations} }

// NewUnits adds units of so many columns to a set: means of 0 and deviations of 1. A state without units,
// such as that of a PyTorch module, leaves them as they are.
func NewUnits(ps *Params, columns int) *Units {
	return newUnits(ps, columns, unitMeans, unitDeviations)
}

// NewEdgeUnits is NewUnits for the features of edges, which the model reads as standard scores.
func NewEdgeUnits(ps *Params, columns int) *Units {
	return newUnits(ps, columns, edgeMeans, edgeDeviations)
}

func newUnits(ps *Params, columns int, means, deviations string) *Units {
	buffer := func(name string, value float32) *Buffer {
		return ps.buffer(&Buffer{Name: name, Values: slices.Repeat([]float32{value}, columns), Keeps: true})
	}
	return &Units{buffer(means, 0), buffer(deviations, 1)}
}

// UnitsIn returns the number of columns of the Units that a state holds, 0 if it holds none.
func UnitsIn(state State) int { return len(state[unitMeans].Float32) }

// UnitIn returns the deviation of a column of the Units that a state holds, 1 if it holds none.
func UnitIn(state State, column int) float32 {
	if UnitsIn(state) == 0 {
		return 1
	}
	return state[unitDeviations].Float32[column]
}

// Set sets the units. A deviation of 0, of a column whose values are all the same, becomes 1.
func (u *Units) Set(means, deviations []float64) {
	for k := range means {
		u.mean.Values[k], u.deviation.Values[k] = float32(means[k]), float32(deviations[k])
		if u.deviation.Values[k] == 0 {
			u.deviation.Values[k] = 1
		}
	}
}

// Means returns the mean of each column.
func (u *Units) Means() []float32 { return u.mean.Values }

// Deviations returns the standard deviation of each column.
func (u *Units) Deviations() []float32 { return u.deviation.Values }

// Predict turns the model's output, rows × columns, into values, in place.
func (u *Units) Predict(output *tensor.Matrix) {
	z := output.WriteFloats()
	for i := range z {
		k := i % output.Cols
		z[i] = u.mean.Values[k] + u.deviation.Values[k]*z[i]
	}
}

// Standardise turns values, rows × columns, into standard scores, in place.
func (u *Units) Standardise(values []float32) {
	for i, y := range values {
		values[i] = float32(u.standard(i%len(u.mean.Values), y))
	}
}

// standard returns the standard score of a value of column k.
func (u *Units) standard(k int, y float32) float64 {
	return (float64(y) - float64(u.mean.Values[k])) / float64(u.deviation.Values[k])
}

// Distance is a loss that depends on the difference d between an output and its target. It returns ℓ(d) and
// dℓ/dd.
type Distance func(d float64) (loss, slope float64)

// Squared is d² (PyTorch's mse_loss).
func Squared(d float64) (loss, slope float64) { return d * d, 2 * d }

// Absolute is |d| (l1_loss), with slope 0 at 0.
func Absolute(d float64) (loss, slope float64) {
	switch {
	case d > 0:
		return d, 1
	case d < 0:
		return -d, -1
	}
	return 0, 0
}

// Huber is d²/2 up to |d| = 1, and |d| − ½ beyond (Huber 1964; huber_loss with delta 1).
func Huber(d float64) (loss, slope float64) {
	if math.Abs(d) <= 1 {
		return d * d / 2, d
	}
	loss, slope = Absolute(d)
	return loss - .5, slope
}

// Values are the targets of a regression.
type Values struct {
	Rows     *tensor.Matrix // Float32, rows × columns, NaN for a missing value
	Units    *Units
	Distance Distance
}

// Loss returns this worker's part of the mean loss over the listed rows (Int32, 1 × n) of all workers: the
// mean over the values that are not missing. All workers have total such values. Both ends of a difference
// are standard scores.
func (y Values) Loss(output *autograd.Var, rows *tensor.Matrix, total float64) float64 {
	return y.loss(nil, output, rows, total)
}

// LossGradient returns Loss and dLoss/doutput.
func (y Values) LossGradient(output *autograd.Var, rows *tensor.Matrix,
	total float64,
) (float64, *tensor.Matrix) {
	g := output.Tape().Team.Zeros(tensor.Gradients, output.Rows(), output.Cols())
	return y.loss(g, output, rows, total), g
}

// loss also adds the gradient to g, unless g is nil. It goes over the rows in their order, so the number of
// threads changes no bit.
func (y Values) loss(g *tensor.Matrix, output *autograd.Var, rows *tensor.Matrix,
	total float64,
) (sum float64) {
	z, targets := output.Value().ReadFloats(), y.Rows.ReadFloats()
	if total == 0 {
		return 0
	}
	var gradients []float32
	if g != nil {
		gradients = g.WriteFloats()
	}
	columns := y.Rows.Cols
	for _, row := range rows.ReadInt32s() {
		for k := range columns {
			at := int(row)*columns + k
			if targets[at] != targets[at] { // missing
				continue
			}
			loss, slope := y.Distance(float64(z[at]) - y.Units.standard(k, targets[at]))
			sum += loss
			if g != nil {
				gradients[at] = float32(slope / total)
			}
		}
	}
	return sum / total
}
