package nn

import (
	"math"

	"weft/autograd"
	"weft/kernel"
)

// BatchNorm normalises each column over all vertices (Ioffe & Szegedy 2015), as PyTorch's BatchNorm1d: y =
// γ·(x − mean)/√(var + ε) + β. Training uses the batch's mean and biased variance. It also moves the running
// statistics by the momentum towards the batch's mean and unbiased variance. Evaluation uses the running
// statistics. The batch is all rows on all workers.
type BatchNorm struct {
	columnNorm
	options                 BatchNormOptions
	runningMean, runningVar *Buffer // nil: evaluation uses the batch's statistics, too
	batches                 *Buffer
	mean, variance          []float64 // of each column in the last training pass; the variance is unbiased
}

// BatchNormOptions are PyTorch's settings of a batch norm, and the names of its tensors; an empty name stands
// for none. Weight and Bias, and Mean and Variance, are there together. Norms of the same names share them.
type BatchNormOptions struct {
	Weight, Bias, Mean, Variance, Batches string
	Epsilon, Momentum                     float64
	// Cumulative replaces the momentum by 1/(number of batches so far), PyTorch's momentum=None.
	Cumulative bool
	// Times is how often a step moves the running statistics, as a layer that is computed again does; 0: once
	Times int
}

// NewBatchNorm makes a batch norm of the given width, with PyTorch's defaults. Its tensors are called
// path.module.weight and so on, as in PyG.
func NewBatchNorm(ps *Params, path string, width int) *BatchNorm {
	path += ".module"
	return NewBatchNormOf(ps, BatchNormOptions{
		Weight: path + ".weight", Bias: path + ".bias", Mean: path + ".running_mean",
		Variance: path + ".running_var", Batches: path + ".num_batches_tracked",
		Epsilon: normEpsilon, Momentum: .1,
	}, width)
}

// NewBatchNormOf makes a batch norm of the given width.
func NewBatchNormOf(ps *Params, o BatchNormOptions, width int) *BatchNorm {
	b := &BatchNorm{options: o, mean: make([]float64, width), variance: make([]float64, width)}
	var gamma, beta *Param
	if o.Weight != "" {
		gamma, beta = ps.shared(o.Weight, width, 1), ps.shared(o.Bias, width, 0)
	}
	b.columnNorm = newColumnNorm(width, gamma, beta)
	if o.Mean != "" {
		b.runningMean, b.runningVar = ps.Buffer(o.Mean, width, 0), ps.Buffer(o.Variance, width, 1)
		ps.OnCommit(b.commit, b.mean, b.variance)
	}
	if o.Batches != "" {
		b.batches = ps.Counter(o.Batches)
	}
	return b
}

// Forward returns mask(act(y)), where y is the normalised x.
func (b *BatchNorm) Forward(x *autograd.Var, use Use, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	return b.Biased(x, nil, use, act, mask)
}

// Biased is Forward for x + bias, a row that may be nil. With the batch's statistics y does not depend on the
// bias, and so its gradient is 0, without rounding. With the running ones it has a gradient.
func (b *BatchNorm) Biased(x, bias *autograd.Var, use Use, act kernel.Activation,
	mask kernel.Mask,
) *autograd.Var {
	added := make([]float64, x.Cols())
	if bias != nil {
		added = values(bias.Value())
	}
	if x.Tape().Training || b.runningMean == nil {
		return b.forward(x, use, act, mask, b.batch(x, added))
	}
	if bias != nil && bias.Wants() {
		if use == LeaveWhole {
			x = autograd.Copy(x)
		}
		x, use = autograd.Finish(x, bias, kernel.Identity, kernel.Mask{}), GiveAway
		clear(added)
	}
	return b.forward(x, use, act, mask, b.running(added))
}

// batch returns the statistics of the rows, of which x + added has the mean that is noted.
func (b *BatchNorm) batch(x *autograd.Var, added []float64) statistics {
	rows := vertices(x)
	n := float64(x.RowSet().Total)
	mean, m2 := b.momentsOf(x)
	rstd := make([]float64, len(m2))
	for c, sum := range m2 {
		rstd[c] = 1 / math.Sqrt(sum/n+b.options.Epsilon)
		b.mean[c], b.variance[c] = mean[c]+added[c], sum/math.Max(1, n-1)
	}
	return statistics{shift: mean, rstd: rstd, backward: func(sums []float64) { meansOf(rows, sums) }}
}

// running returns the running statistics of x + added, for x. They are constants.
func (b *BatchNorm) running(added []float64) statistics {
	s := statistics{backward: func(sums []float64) { clear(sums) }}
	for c, variance := range b.runningVar.Values {
		s.shift = append(s.shift, float64(b.runningMean.Values[c])-added[c])
		s.rstd = append(s.rstd, 1/math.Sqrt(float64(variance)+b.options.Epsilon))
	}
	return s
}

// commit moves the running statistics towards those of the last training pass.
func (b *BatchNorm) commit() {
	for range max(1, b.options.Times) {
		b.move()
	}
}

// move moves the running statistics once.
func (b *BatchNorm) move() {
	mean, variance := b.runningMean.Values, b.runningVar.Values
	if b.batches != nil {
		*b.batches.Count++
	}
	momentum := b.options.Momentum
	if b.options.Cumulative {
		momentum = 1 / float64(*b.batches.Count)
	}
	for c := range mean {
		mean[c] += float32(momentum * (b.mean[c] - float64(mean[c])))
		variance[c] += float32(momentum * (b.variance[c] - float64(variance[c])))
	}
}
