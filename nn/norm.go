package nn

import (
	"math"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// Norm normalises a layer's output.
type Norm interface {
	// Forward returns mask(act(y)), where y is the normalised x. It is one pass but for GELU.
	Forward(x *autograd.Var, use Use, act kernel.Activation, mask kernel.Mask) *autograd.Var
}

// Use says what becomes of a norm's input.
type Use int

const (
	// GiveAway says that the input is not used afterwards. If the tape does not record, the result reuses its
	// memory.
	GiveAway Use = iota
	// LeaveWhole says that the input is read again, as by a residual connection around the norm.
	LeaveWhole
)

const (
	normEpsilon  = 1e-5
	normMomentum = 0.1
)

// BatchNorm normalises each column over all vertices (Ioffe & Szegedy 2015), as PyTorch's BatchNorm1d with
// its defaults: y = γ·(x − mean)/√(var + 1e-5) + β. Training uses the batch's mean and biased variance. It
// also moves the running statistics by a tenth towards the batch's mean and unbiased variance. Evaluation
// uses the running statistics. The batch is all rows on all workers.
type BatchNorm struct {
	gamma, beta             *Param
	runningMean, runningVar *Buffer
	batches                 *Buffer
	moments                 *kernel.Moments
	sums                    []float64 // two for each column, only within one pass
	batch                   []float64 // mean and unbiased variance of each column in the last training pass
}

// NewBatchNorm makes a batch norm of the given width. Its tensors are called path.module.weight and so on, as
// in PyG.
func NewBatchNorm(ps *Params, path string, width int) *BatchNorm {
	path += ".module"
	b := &BatchNorm{
		gamma: ps.Bias(path+".weight", width, Constant(1)), beta: ps.Bias(path+".bias", width, Constant(0)),
		runningMean: ps.Buffer(path+".running_mean", width, 0), runningVar: ps.Buffer(path+".running_var", width, 1),
		batches: ps.Counter(path + ".num_batches_tracked"), moments: kernel.NewMoments(width), sums: make([]float64, 2*width),
		batch: make([]float64, 2*width),
	}
	ps.OnCommit(b.commit)
	return b
}

// RunningMean returns the mean that evaluation uses.
func (b *BatchNorm) RunningMean() *Buffer { return b.runningMean }

// Forward returns mask(act(y)), where y is the normalised x.
func (b *BatchNorm) Forward(x *autograd.Var, use Use, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	if act == kernel.GELU {
		return autograd.Finish(b.Forward(x, use, kernel.Identity, kernel.Mask{}), nil, act, mask)
	}
	t, rows := x.Tape(), x.RowSet()
	if rows.Total == autograd.NotVertices {
		panic("nn: batch norm of rows that are not vertices, as in a message function")
	}
	cols := x.Cols()
	mean, rstd := t.Memory().New(tensor.Activations, 1, cols), t.Memory().New(tensor.Activations, 1, cols)
	if t.Training {
		b.batchStatistics(x, mean, rstd)
	} else if !t.Team.Planning() {
		for c := range cols {
			mean.Floats()[c] = b.runningMean.Values[c]
			rstd.Floats()[c] = float32(1 / math.Sqrt(float64(b.runningVar.Values[c])+normEpsilon))
		}
	}
	norm := kernel.Normalization{Mean: mean, Rstd: rstd, Gamma: b.gamma.Value, Beta: b.beta.Value}
	gamma, beta := b.gamma.On(t), b.beta.On(t)
	batch := t.Training
	return t.Record(autograd.Op{
		Inputs: []*autograd.Var{x, gamma, beta}, Keeps: []*autograd.Var{x}, Buffers: []*tensor.Matrix{mean, rstd},
		Forward: func() *tensor.Matrix {
			from, z := x.Value(), output(x, use)
			t.Team.Normalize(z, from, norm, act, mask)
			return z
		},
		Backward: func(g *tensor.Matrix) {
			sumG, sumGX := b.sums[:cols], b.sums[cols:]
			t.Team.NormalizeSums(sumG, sumGX, g, x.Value(), norm, act, mask)
			addScaled(t, beta.GradSum(), sumG, 1)
			addScaled(t, gamma.GradSum(), sumGX, 1)
			// Running statistics are constants, so the two means drop out of the gradient.
			meanG, meanGX := t.Team.Zeros(tensor.Buffers, 1, cols), t.Team.Zeros(tensor.Buffers, 1, cols)
			if batch {
				rows.Sum(b.sums)
				addScaled(t, meanG, sumG, 1/float64(rows.Total))
				addScaled(t, meanGX, sumGX, 1/float64(rows.Total))
			}
			t.Team.NormalizeBackward(g, g, x.Value(), norm, meanG, meanGX)
			meanG.Release()
			meanGX.Release()
			x.AddGrad(g)
		},
	})
}

// output returns the matrix for the normalised x. It is the matrix of x if x was given away and the tape does
// not record; only a backward pass would read x again.
func output(x *autograd.Var, use Use) *tensor.Matrix {
	t := x.Tape()
	if t.Recording || use == LeaveWhole {
		return t.NewLike(x, x.Rows(), x.Cols())
	}
	z, _ := x.Take()
	return z
}

// commit moves the running statistics towards those of the last training pass.
func (b *BatchNorm) commit() {
	mean, variance := b.runningMean.Values, b.runningVar.Values
	for c := range mean {
		mean[c] += float32(normMomentum * (b.batch[c] - float64(mean[c])))
		variance[c] += float32(normMomentum * (b.batch[len(mean)+c] - float64(variance[c])))
	}
	*b.batches.Count++
}

// batchStatistics fills mean and rstd from all rows on all workers. It combines the workers' means and sums
// of squared deviations as in Chan, Golub & LeVeque: Σ_w M2_w + n_w·(mean_w − mean)².
func (b *BatchNorm) batchStatistics(x *autograd.Var, mean, rstd *tensor.Matrix) {
	t, rows := x.Tape(), x.RowSet()
	m, n := b.moments, float64(rows.Total)
	t.Team.Moments(m, x.Value())
	center, spread := b.sums[:len(m.Mean)], b.sums[len(m.Mean):]
	for c := range center {
		center[c] = m.Mean[c] * float64(m.Count) / n
	}
	rows.Sum(center)
	for c := range spread {
		d := m.Mean[c] - center[c]
		spread[c] = m.M2[c] + float64(m.Count)*d*d
	}
	rows.Sum(spread)
	if t.Team.Planning() {
		return
	}
	for c := range center {
		mean.Floats()[c] = float32(center[c])
		rstd.Floats()[c] = float32(1 / math.Sqrt(spread[c]/n+normEpsilon))
		b.batch[c], b.batch[len(center)+c] = center[c], spread[c]/math.Max(1, n-1)
	}
}

// addScaled adds scale·values to a row.
func addScaled(t *autograd.Tape, to *tensor.Matrix, values []float64, scale float64) {
	if t.Team.Planning() {
		return
	}
	for i, v := range values {
		to.Floats()[i] += float32(v * scale)
	}
}

// LayerNorm normalises each row over its columns (Ba et al. 2016), with PyTorch's epsilon of 1e-5. It is
// PyG's LayerNorm with mode="node".
type LayerNorm struct {
	gamma, beta *Param
}

// NewLayerNorm makes a layer norm of the given width. Its tensors are called path.weight and path.bias.
func NewLayerNorm(ps *Params, path string, width int) *LayerNorm {
	return &LayerNorm{ps.Bias(path+".weight", width, Constant(1)), ps.Bias(path+".bias", width, Constant(0))}
}

// Forward returns mask(act(y)), where y is the normalised x.
func (l *LayerNorm) Forward(x *autograd.Var, use Use, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	if act == kernel.GELU {
		return autograd.Finish(l.Forward(x, use, kernel.Identity, kernel.Mask{}), nil, act, mask)
	}
	t := x.Tape()
	norm := kernel.Normalization{
		Mean: t.Memory().New(tensor.Activations, x.Rows(), 1), Rstd: t.Memory().New(tensor.Activations, x.Rows(), 1),
		Gamma: l.gamma.Value, Beta: l.beta.Value,
	}
	gamma, beta := l.gamma.On(t), l.beta.On(t)
	return t.Record(autograd.Op{
		Inputs: []*autograd.Var{x, gamma, beta}, Keeps: []*autograd.Var{x}, Buffers: []*tensor.Matrix{norm.Mean, norm.Rstd},
		Forward: func() *tensor.Matrix {
			from, z := x.Value(), output(x, use)
			t.Team.LayerNorm(z, from, norm, normEpsilon, act, mask)
			return z
		},
		Backward: func(g *tensor.Matrix) {
			t.Team.LayerNormBackward(kernel.NormGradients{X: g, Gamma: gamma.GradSum(), Beta: beta.GradSum()}, g, x.Value(), norm, act, mask)
			x.AddGrad(g)
		},
	})
}
