package nn

import (
	"slices"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// columnNorm is the common part of the norms that normalise each column over the vertices of all workers: y =
// γ·x̂ + β with x̂ = (x − shift)·rstd. The norms differ in the columns' shift and rstd.
type columnNorm struct {
	gamma, beta *Param // nil: 1 and 0
	moments     *kernel.Moments
	sums        []float64 // two for each column, only within one pass
}

// statistics are the statistics of one pass.
type statistics struct {
	shift, rstd *tensor.Matrix  // 1 × columns; the tape releases them
	inputs      []*autograd.Var // parameters that shift and rstd depend on
	// backward is for shift and rstd that depend on x: dLoss/dx = γ·rstd·(g − meanG − x̂·meanGX), with g =
	// dLoss/dy. It is given the sums over this worker's rows, of g for each column and then of g·x̂, and
	// replaces them by meanG and meanGX. It adds to the gradients of inputs. nil: meanG and meanGX are means
	// over this worker's rows, which are all rows.
	backward func(sums []float64)
}

// emptyStatistics returns statistics without values, which the team will compute.
func emptyStatistics(t *autograd.Tape, columns int) statistics {
	row := func() *tensor.Matrix { return t.Memory().New(tensor.Activations, 1, columns) }
	return statistics{shift: row(), rstd: row()}
}

// ofHost returns statistics that the host has computed.
func (c *columnNorm) ofHost(t *autograd.Tape, shift, rstd []float64,
	backward func(sums []float64),
) statistics {
	return statistics{
		shift: row(t, tensor.Activations, shift), rstd: row(t, tensor.Activations, rstd), backward: backward,
	}
}

func newColumnNorm(width int, gamma, beta *Param) columnNorm {
	return columnNorm{gamma, beta, kernel.NewMoments(width), make([]float64, 2*width)}
}

// momentsOf returns the mean of each column over all rows on all workers, and the sum of squared deviations
// from it. The workers' moments are combined as in Chan, Golub & LeVeque (1979): Σ_w M2_w + n_w·(mean_w −
// mean)².
func (c *columnNorm) momentsOf(x *autograd.Var) (mean, m2 []float64) {
	rows := vertices(x)
	m, n := c.moments, float64(rows.Total)
	x.Tape().Team.Moments(m, x.Value())
	mean, m2 = make([]float64, len(m.Mean)), make([]float64, len(m.Mean))
	for i := range mean {
		mean[i] = m.Mean[i] * float64(m.Count) / n
	}
	rows.Sum(mean)
	for i := range m2 {
		d := m.Mean[i] - mean[i]
		m2[i] = m.M2[i] + float64(m.Count)*d*d
	}
	rows.Sum(m2)
	return mean, m2
}

// vertices returns the rows of x. It panics unless they are vertices.
func vertices(x *autograd.Var) *autograd.RowSet {
	rows := x.RowSet()
	if rows.Total == autograd.NotVertices {
		panic("nn: a norm over all vertices of rows that are not vertices, as in a message function")
	}
	return rows
}

// meansOf turns sums over this worker's rows into means over all rows.
func meansOf(rows *autograd.RowSet, sums []float64) {
	rows.Sum(sums)
	each := 1 / float64(rows.Total)
	for i := range sums {
		sums[i] *= each
	}
}

// forward returns mask(act(y)) for the statistics of this pass.
func (c *columnNorm) forward(x *autograd.Var, use InputUse, act kernel.Activation, mask kernel.Mask,
	s statistics,
) *autograd.Var {
	if act == kernel.GELU {
		return autograd.Finish(c.forward(x, use, kernel.Identity, kernel.Mask{}, s), nil, act, mask)
	}
	vertices(x)
	t := x.Tape()
	cols := x.Cols()
	inputs := append([]*autograd.Var{x}, s.inputs...)
	buffers := []*tensor.Matrix{s.shift, s.rstd}
	norm := kernel.Normalization{Mean: s.shift, Rstd: s.rstd}
	var gamma, beta *autograd.Var
	if c.gamma == nil {
		norm.Gamma = row(t, tensor.Activations, slices.Repeat([]float64{1}, cols))
		norm.Beta = row(t, tensor.Activations, make([]float64, cols))
		buffers = append(buffers, norm.Gamma, norm.Beta)
	} else {
		norm.Gamma, norm.Beta = c.gamma.Value, c.beta.Value
		gamma, beta = c.gamma.On(t), c.beta.On(t)
		inputs = append(inputs, gamma, beta)
	}
	return t.Record(autograd.Op{
		Inputs: inputs, Keeps: []*autograd.Var{x}, Buffers: buffers,
		Forward: func() *tensor.Matrix {
			from, z := x.Value(), output(x, use)
			t.Team.Normalize(z, from, norm, act, mask)
			return z
		},
		Backward: func(g *tensor.Matrix) {
			meanG, meanGX := c.means(t.Team.NormalizeSums(g, x.Value(), norm, act, mask), x, gamma, beta, s)
			t.Team.NormalizeBackward(g, g, x.Value(), norm, meanG, meanGX)
			meanG.Release()
			meanGX.Release()
			x.AddGrad(g)
		},
	})
}

// means returns meanG and meanGX from their sums. It adds to the gradients of γ and β, which may be nil, and
// of s.inputs.
func (c *columnNorm) means(sums kernel.NormalizedSums, x, gamma, beta *autograd.Var, s statistics) (
	meanG, meanGX *tensor.Matrix,
) {
	t, cols := x.Tape(), x.Cols()
	if s.backward != nil {
		sumG, sumGX := c.sums[:cols], c.sums[cols:]
		sums.Read(sumG, sumGX)
		if gamma != nil {
			addGrad(beta, sumG)
			addGrad(gamma, sumGX)
		}
		s.backward(c.sums)
		return row(t, tensor.Buffers, sumG), row(t, tensor.Buffers, sumGX)
	}
	var dGamma, dBeta *tensor.Matrix
	if gamma != nil {
		dGamma, dBeta = gamma.GradSum(), beta.GradSum()
	}
	meanG, meanGX = t.Memory().New(tensor.Buffers, 1, cols), t.Memory().New(tensor.Buffers, 1, cols)
	sums.Finish(dBeta, dGamma, meanG, meanGX, 1/float64(x.RowSet().Total))
	return meanG, meanGX
}

// output returns the matrix for the normalised x. It is the matrix of x if the input is InPlace and the tape
// does not record, because only a backward pass would read x again.
func output(x *autograd.Var, use InputUse) *tensor.Matrix {
	t := x.Tape()
	if t.Recording || use == OutOfPlace {
		return t.NewLike(x, x.Rows(), x.Cols())
	}
	z, _ := x.Take()
	return z
}

// row returns a 1 × n matrix of the values.
func row(t *autograd.Tape, kind tensor.Kind, values []float64) *tensor.Matrix {
	m := t.Memory().New(kind, 1, len(values))
	to := m.WriteFloats()
	for i := range to {
		to[i] = float32(values[i])
	}
	return m
}

// addGrad adds values to the gradient of a row.
func addGrad(v *autograd.Var, values []float64) {
	sum, more := v.GradSum(), row(v.Tape(), tensor.Buffers, values)
	v.Tape().Team.Add(sum, 1, sum, 1, more)
	more.Release()
}
