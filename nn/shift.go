package nn

// A bias that a norm would subtract again is left out of the model, and files hold zeros for it. A file that
// has other values moves the norm's running mean.

// cancelledBias is a bias that the model leaves out, because the norms after it would subtract it again.
type cancelledBias struct {
	name  string
	width int
}

// Shift says that a running mean is moved by a file's bias × Share where the model leaves that bias out. The
// model then computes what one with the bias does. The layer that leaves it out may be one of another stage.
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

// apply moves the mean by a file's bias.
func (s *shift) apply(bias []float32, ps *Params) {
	if by := ps.Named(s.Through); by != nil {
		w := by.Value
		through := make([]float32, w.Cols)
		for i, weight := range w.ReadFloats() {
			through[i%w.Cols] += bias[i/w.Cols] * weight
		}
		bias = through
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

// Shift has loaded biases move the running mean of a norm. Other norms have none.
func (ps *Params) Shift(norm Norm, by Shift) {
	if norm, ok := norm.(*BatchNorm); ok {
		ps.shifts = append(ps.shifts, shift{by, norm.runningMean})
	}
}
