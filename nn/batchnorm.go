package nn

import (
	"math"

	"weft/autograd"
	"weft/kernel"
)

const normMomentum = 0.1

// BatchNorm normalises each column over all vertices (Ioffe & Szegedy 2015), as PyTorch's BatchNorm1d with
// its defaults: y = γ·(x − mean)/√(var + 1e-5) + β. Training uses the batch's mean and biased variance. It
// also moves the running statistics by a tenth towards the batch's mean and unbiased variance. Evaluation
// uses the running statistics. The batch is all rows on all workers.
type BatchNorm struct {
	columnNorm
	runningMean, runningVar *Buffer
	batches                 *Buffer
	mean, variance          []float64 // of each column in the last training pass; the variance is unbiased
}

// NewBatchNorm makes a batch norm of the given width. Its tensors are called path.module.weight and so on, as
// in PyG.
func NewBatchNorm(ps *Params, path string, width int) *BatchNorm {
	path += ".module"
	b := &BatchNorm{
		columnNorm: newColumnNorm(width, ps.Bias(path+".weight", width, Constant(1)),
			ps.Bias(path+".bias", width, Constant(0))),
		runningMean: ps.Buffer(path+".running_mean", width, 0),
		runningVar:  ps.Buffer(path+".running_var", width, 1),
		batches:     ps.Counter(path + ".num_batches_tracked"), mean: make([]float64, width),
		variance: make([]float64, width),
	}
	ps.OnCommit(b.commit)
	return b
}

// Forward returns mask(act(y)), where y is the normalised x.
func (b *BatchNorm) Forward(x *autograd.Var, use Use, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	if x.Tape().Training {
		return b.forward(x, use, act, mask, b.batch(x))
	}
	return b.forward(x, use, act, mask, b.running())
}

// batch returns the statistics of the rows.
func (b *BatchNorm) batch(x *autograd.Var) statistics {
	rows := vertices(x)
	n := float64(x.RowSet().Total)
	mean, m2 := b.momentsOf(x)
	rstd := make([]float64, len(m2))
	for c, sum := range m2 {
		rstd[c] = 1 / math.Sqrt(sum/n+normEpsilon)
		b.mean[c], b.variance[c] = mean[c], sum/math.Max(1, n-1)
	}
	return statistics{shift: mean, rstd: rstd, backward: func(sums []float64) { meansOf(rows, sums) }}
}

// running returns the running statistics. They are constants.
func (b *BatchNorm) running() statistics {
	s := statistics{backward: func(sums []float64) { clear(sums) }}
	for c, variance := range b.runningVar.Values {
		s.shift = append(s.shift, float64(b.runningMean.Values[c]))
		s.rstd = append(s.rstd, 1/math.Sqrt(float64(variance)+normEpsilon))
	}
	return s
}

// commit moves the running statistics towards those of the last training pass.
func (b *BatchNorm) commit() {
	mean, variance := b.runningMean.Values, b.runningVar.Values
	for c := range mean {
		mean[c] += float32(normMomentum * (b.mean[c] - float64(mean[c])))
		variance[c] += float32(normMomentum * (b.variance[c] - float64(variance[c])))
	}
	*b.batches.Count++
}
