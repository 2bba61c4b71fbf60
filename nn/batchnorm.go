package nn

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
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
	// last is 2 × columns: the mean and the unbiased variance of the last training pass; nil: nothing moves
	// the running statistics
	last *tensor.Matrix
}

// BatchNormOptions are PyTorch's settings of a batch norm, and the names of its tensors; an empty name stands
// for none. A norm has Weight and Bias or neither, and Mean and Variance or neither. Norms with the same
// names share the tensors.
type BatchNormOptions struct {
	Weight, Bias, Mean, Variance, Batches string
	Epsilon, Momentum                     float64
	// Cumulative replaces the momentum by 1/(number of batches so far), PyTorch's momentum=None.
	Cumulative bool
	// Times is how often a step moves the running statistics; 0: once. A layer that the module computes again
	// moves them more often
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
	b := &BatchNorm{options: o}
	var gamma, beta *Param
	if o.Weight != "" {
		gamma, beta = ps.shared(o.Weight, width, 1), ps.shared(o.Bias, width, 0)
	}
	b.columnNorm = newColumnNorm(width, gamma, beta)
	if o.Mean != "" {
		b.runningMean, b.runningVar = ps.Running(o.Mean, width, 0), ps.Running(o.Variance, width, 1)
		if ps.like == nil && !ps.again {
			b.last = ps.team.Memory.NewElement(tensor.Parameters, tensor.Float64, 2, width)
			ps.OnCommit(func() { b.commit(ps.team) }, b.last)
		}
	}
	if o.Batches != "" {
		b.batches = ps.Counter(o.Batches)
	}
	return b
}

// Forward returns mask(act(y)), where y is the normalised x.
func (b *BatchNorm) Forward(x *autograd.Var, use InputUse, act kernel.Activation,
	mask kernel.Mask,
) *autograd.Var {
	return b.Biased(x, nil, use, act, mask)
}

// Biased is Forward for x + bias, a row that may be nil. With the batch's statistics y does not depend on the
// bias, whose gradient then is exactly 0. With the running statistics the bias has a gradient.
func (b *BatchNorm) Biased(x, bias *autograd.Var, use InputUse, act kernel.Activation,
	mask kernel.Mask,
) *autograd.Var {
	if x.Tape().Training || b.runningMean == nil {
		return b.forward(x, use, act, mask, b.batch(x, bias))
	}
	var added *tensor.Matrix
	if bias != nil {
		added = bias.Value()
	}
	if bias != nil && bias.RequiresGrad() {
		if use == OutOfPlace {
			x = autograd.Copy(x)
		}
		x, use = autograd.Finish(x, bias, kernel.Identity, kernel.Mask{}), InPlace
		added = nil
	}
	return b.forward(x, use, act, mask, b.running(x.Tape(), added))
}

// batch returns the statistics of the rows of x. Those that commit will move the running statistics by have
// the mean of x + bias.
func (b *BatchNorm) batch(x, bias *autograd.Var) statistics {
	rows, t := vertices(x), x.Tape()
	var added *tensor.Matrix
	if bias != nil {
		added = bias.Value()
	}
	if rows.Peers == nil {
		s := emptyStatistics(t, x.Cols())
		t.Team.SetBatchStatistics(kernel.BatchStatistics{Mean: s.shift, Rstd: s.rstd, Batch: b.last},
			x.Value(), added, b.options.Epsilon)
		return s
	}
	n := float64(rows.Total)
	mean, m2 := b.momentsOf(x)
	rstd, last := make([]float64, len(m2)), slices.Concat(mean, m2)
	for c, sum := range m2 {
		rstd[c], last[len(m2)+c] = 1/math.Sqrt(sum/n+b.options.Epsilon), sum/math.Max(1, n-1)
	}
	if added != nil {
		for c, more := range values(added) {
			last[c] += more
		}
	}
	if b.last != nil {
		copy(b.last.WriteDoubles(), last)
	}
	return b.ofHost(t, mean, rstd, func(sums []float64) { meansOf(rows, sums) })
}

// running returns the running statistics, which are those of x + added, as statistics of x. They are
// constants.
func (b *BatchNorm) running(t *autograd.Tape, added *tensor.Matrix) statistics {
	s := emptyStatistics(t, b.runningMean.Len())
	s.backward = func(sums []float64) { clear(sums) }
	t.Team.SetRunningStatistics(s.shift, s.rstd, b.runningMean.Matrix, b.runningVar.Matrix, added,
		b.options.Epsilon)
	return s
}

// commit moves the running statistics towards those of the last training pass.
func (b *BatchNorm) commit(t *kernel.Team) {
	for range max(1, b.options.Times) {
		b.move(t)
	}
}

// move moves the running statistics once.
func (b *BatchNorm) move(t *kernel.Team) {
	if b.batches != nil {
		*b.batches.Count++
	}
	momentum := b.options.Momentum
	if b.options.Cumulative {
		momentum = 1 / float64(*b.batches.Count)
	}
	t.MoveTowards(b.runningMean.Matrix, b.last.RowRange(0, 1), momentum)
	t.MoveTowards(b.runningVar.Matrix, b.last.RowRange(1, 2), momentum)
}
