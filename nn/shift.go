package nn

// A bias that a norm would subtract again is left out of the model, and files hold zeros for it. A file that
// has other values moves the norm's running mean.

// cancelledBias is a bias that the model leaves out, because the norms after it would subtract it again.
type cancelledBias struct {
	name  string
	width int
}

// Shift says that a bias which the model leaves out moves a running mean: Load subtracts Share × the file's
// bias. The model then computes what the model with the bias would. The layer without the bias may belong to
// another stage.
type Shift struct {
	Bias    string
	Share   float32
	Through string // the weight, in × out, that the bias is multiplied by first; empty: none
}

// shift is a Shift of a running mean.
type shift struct {
	Shift
	mean *Buffer
}

// apply moves the mean by a file's bias, projected by the weights of Through if the model has them.
func (s *shift) apply(bias []float32, ps *Params) {
	if by := ps.Named(s.Through); by != nil {
		w := by.Value
		projected := make([]float32, w.Cols)
		for i, weight := range w.ReadFloats() {
			projected[i%w.Cols] += bias[i/w.Cols] * weight
		}
		bias = projected
	}
	mean := s.mean.Write()
	for i, x := range bias {
		mean[i] -= s.Share * x
	}
}

// CancelledBias says that a layer has no bias of this name, because the norms after it would subtract it
// again. Files hold zeros for it. If a file has such a bias, it moves the running means of Shift.
func (ps *Params) CancelledBias(name string, width int) {
	ps.cancelled = append(ps.cancelled, cancelledBias{name, width})
}

// Shift lets loaded biases move the running mean of a batch norm. It does nothing for other norms, which have
// none.
func (ps *Params) Shift(norm Norm, by Shift) {
	if norm, ok := norm.(*BatchNorm); ok {
		ps.shifts = append(ps.shifts, shift{by, norm.runningMean})
	}
}
