package reference

import "math"

// NormEpsilon is added to variances before the square root, in batch and layer norm.
const NormEpsilon = 1e-5

// BatchNormMomentum is the weight of the newest batch in the running statistics.
const BatchNormMomentum = 0.1

// moments returns the mean and the biased variance (1/n) Σ (v−mean)² of v.
func moments(v []float64) (mean, variance float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		variance += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, variance
}

// normalise returns (v − mean)/√(variance + ε).
func normalise(v []float64, mean, variance float64) []float64 {
	y := make([]float64, len(v))
	for i, x := range v {
		y[i] = (x - mean) / math.Sqrt(variance+NormEpsilon)
	}
	return y
}

// normaliseBackward returns the gradient of v ↦ normalise(v, moments(v)) with y = normalise(v):
//
//	dv_i = (g_i − mean(g) − y_i·mean(g ⊙ y)) / √(variance + ε)
func normaliseBackward(v, g []float64) []float64 {
	mean, variance := moments(v)
	y := normalise(v, mean, variance)
	meanG, meanGY := 0.0, 0.0
	for i := range v {
		meanG += g[i] / float64(len(v))
		meanGY += g[i] * y[i] / float64(len(v))
	}
	dv := make([]float64, len(v))
	for i := range v {
		dv[i] = (g[i] - meanG - y[i]*meanGY) / math.Sqrt(variance+NormEpsilon)
	}
	return dv
}

func column(m *Matrix, j int) []float64 {
	v := make([]float64, m.Rows)
	for i := range v {
		v[i] = m.At(i, j)
	}
	return v
}

func row(m *Matrix, i int) []float64 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// BatchNorm normalises each column over all rows (Ioffe and Szegedy, arXiv 1502.03167), as in training:
//
//	y_ij = γ_j (x_ij − μ_j)/√(σ²_j + ε) + β_j,  μ, σ²: the column's mean and biased variance
//
// and returns the updated running statistics: (1−m)·running + m·batch, with the unbiased variance σ²·n/(n−1).
// n must be above 1.
func BatchNorm(x *Matrix, gamma, beta, runningMean,
	runningVar []float64,
) (y *Matrix, newMean, newVar []float64) {
	y = New(x.Rows, x.Cols)
	newMean, newVar = make([]float64, x.Cols), make([]float64, x.Cols)
	n := float64(x.Rows)
	for j := range x.Cols {
		mean, variance := moments(column(x, j))
		for i, v := range normalise(column(x, j), mean, variance) {
			y.Set(i, j, gamma[j]*v+beta[j])
		}
		newMean[j] = (1-BatchNormMomentum)*runningMean[j] + BatchNormMomentum*mean
		newVar[j] = (1-BatchNormMomentum)*runningVar[j] + BatchNormMomentum*variance*n/(n-1)
	}
	return y, newMean, newVar
}

// BatchNormBackward returns the gradients of BatchNorm's y: with x̂ the normalised column,
//
//	dγ_j = Σ_i dy_ij x̂_ij,  dβ_j = Σ_i dy_ij,  dx_ij = γ_j/√(σ²_j + ε) · (dy_ij − dβ_j/n − x̂_ij dγ_j/n)
func BatchNormBackward(x *Matrix, gamma []float64, dy *Matrix) (dx *Matrix, dgamma, dbeta []float64) {
	dx = New(x.Rows, x.Cols)
	dgamma, dbeta = make([]float64, x.Cols), AddBiasBackward(dy)
	for j := range x.Cols {
		v, g := column(x, j), column(dy, j)
		mean, variance := moments(v)
		for i, u := range normalise(v, mean, variance) {
			dgamma[j] += g[i] * u
		}
		for i, d := range normaliseBackward(v, g) {
			dx.Set(i, j, gamma[j]*d)
		}
	}
	return dx, dgamma, dbeta
}

// BatchNormEval normalises with given statistics: y_ij = γ_j (x_ij − mean_j)/√(variance_j + ε) + β_j.
func BatchNormEval(x *Matrix, gamma, beta, mean, variance []float64) *Matrix {
	y := New(x.Rows, x.Cols)
	for j := range x.Cols {
		for i, v := range normalise(column(x, j), mean[j], variance[j]) {
			y.Set(i, j, gamma[j]*v+beta[j])
		}
	}
	return y
}

// BatchNormEvalBackward returns the gradients of BatchNormEval; the statistics are constants:
//
//	dx_ij = dy_ij γ_j/√(variance_j + ε),  dγ_j = Σ_i dy_ij (x_ij − mean_j)/√(variance_j + ε),  dβ_j = Σ_i dy_ij
func BatchNormEvalBackward(x *Matrix, gamma, mean, variance []float64,
	dy *Matrix,
) (dx *Matrix, dgamma, dbeta []float64) {
	dx = New(x.Rows, x.Cols)
	dgamma, dbeta = make([]float64, x.Cols), AddBiasBackward(dy)
	for j := range x.Cols {
		for i, v := range normalise(column(x, j), mean[j], variance[j]) {
			dgamma[j] += dy.At(i, j) * v
			dx.Set(i, j, dy.At(i, j)*gamma[j]/math.Sqrt(variance[j]+NormEpsilon))
		}
	}
	return dx, dgamma, dbeta
}

// GraphNorm normalises each column over all rows (Cai et al., arXiv 2009.03294), with a learned share α of
// the mean. With o_ij = x_ij − α_j μ_j,
//
//	y_ij = γ_j o_ij/√(mean_i o²_ij + ε) + β_j
func GraphNorm(x *Matrix, gamma, beta, alpha []float64) *Matrix {
	y := New(x.Rows, x.Cols)
	for j := range x.Cols {
		o, spread := shifted(column(x, j), alpha[j])
		for i, v := range o {
			y.Set(i, j, gamma[j]*v/spread+beta[j])
		}
	}
	return y
}

// shifted returns o = v − α·mean(v) and √(mean(o²) + ε).
func shifted(v []float64, alpha float64) (o []float64, spread float64) {
	mean, _ := moments(v)
	o = make([]float64, len(v))
	for i, x := range v {
		o[i] = x - alpha*mean
		spread += o[i] * o[i] / float64(len(v))
	}
	return o, math.Sqrt(spread + NormEpsilon)
}

// GraphNormBackward returns the gradients of GraphNorm: with σ the root,
//
//	dσ = −Σ_i dy_i γ o_i/σ²,  do_i = dy_i γ/σ + dσ·o_i/(n σ),  dα = −μ Σ_i do_i,  dx_i = do_i − α/n Σ_k do_k
func GraphNormBackward(x *Matrix, gamma, alpha []float64,
	dy *Matrix,
) (dx *Matrix, dgamma, dbeta, dalpha []float64) {
	dx = New(x.Rows, x.Cols)
	dgamma, dbeta, dalpha = make([]float64, x.Cols), AddBiasBackward(dy), make([]float64, x.Cols)
	n := float64(x.Rows)
	for j := range x.Cols {
		mean, _ := moments(column(x, j))
		o, spread := shifted(column(x, j), alpha[j])
		dspread, sum := 0.0, 0.0
		for i, v := range o {
			dgamma[j] += dy.At(i, j) * v / spread
			dspread -= dy.At(i, j) * gamma[j] * v / (spread * spread)
		}
		for i, v := range o {
			d := dy.At(i, j)*gamma[j]/spread + dspread*v/(n*spread)
			dx.Set(i, j, d)
			sum += d
		}
		dalpha[j] = -mean * sum
		for i := range o {
			dx.Add(i, j, -alpha[j]/n*sum)
		}
	}
	return dx, dgamma, dbeta, dalpha
}

// PairNorm centres each column, and divides by the root of the rows' mean square length (Zhao and Akoglu,
// arXiv 1909.12223): with o_ij = x_ij − μ_j,
//
//	y_ij = o_ij/√(1/n Σ_kl o²_kl + ε)
func PairNorm(x *Matrix) *Matrix {
	y, square := New(x.Rows, x.Cols), NormEpsilon
	for j := range x.Cols {
		mean, variance := moments(column(x, j))
		square += variance
		for i := range x.Rows {
			y.Set(i, j, x.At(i, j)-mean)
		}
	}
	return y.Map(func(o float64) float64 { return o / math.Sqrt(square) })
}

// PairNormBackward returns the gradient of PairNorm: with σ the root,
//
//	do_ij = dy_ij/σ − o_ij/(n σ³) Σ_kl dy_kl o_kl,  dx_ij = do_ij − mean_k do_kj
func PairNormBackward(x, dy *Matrix) (dx *Matrix) {
	n, square, along := float64(x.Rows), NormEpsilon, 0.0
	o := New(x.Rows, x.Cols)
	for j := range x.Cols {
		mean, variance := moments(column(x, j))
		square += variance
		for i := range x.Rows {
			o.Set(i, j, x.At(i, j)-mean)
			along += dy.At(i, j) * o.At(i, j)
		}
	}
	dx = New(x.Rows, x.Cols)
	for i := range x.Rows {
		for j := range x.Cols {
			dx.Set(i, j, (dy.At(i, j)-o.At(i, j)*along/(n*square))/math.Sqrt(square))
		}
	}
	for j := range x.Cols {
		mean, _ := moments(column(dx, j))
		for i := range x.Rows {
			dx.Add(i, j, -mean)
		}
	}
	return dx
}

// LayerNorm normalises each row over its columns (Ba et al., arXiv 1607.06450):
//
//	y_ij = γ_j (x_ij − μ_i)/√(σ²_i + ε) + β_j,  μ, σ²: the row's mean and biased variance
func LayerNorm(x *Matrix, gamma, beta []float64) *Matrix {
	y := New(x.Rows, x.Cols)
	for i := range x.Rows {
		mean, variance := moments(row(x, i))
		for j, v := range normalise(row(x, i), mean, variance) {
			y.Set(i, j, gamma[j]*v+beta[j])
		}
	}
	return y
}

// LayerNormBackward returns the gradients of LayerNorm: with x̂ the normalised row and g_j = γ_j dy_ij,
//
//	dγ_j = Σ_i dy_ij x̂_ij,  dβ_j = Σ_i dy_ij,  dx_ij = (g_j − mean(g) − x̂_ij mean(g ⊙ x̂_i))/√(σ²_i + ε)
func LayerNormBackward(x *Matrix, gamma []float64, dy *Matrix) (dx *Matrix, dgamma, dbeta []float64) {
	dx = New(x.Rows, x.Cols)
	dgamma, dbeta = make([]float64, x.Cols), AddBiasBackward(dy)
	for i := range x.Rows {
		mean, variance := moments(row(x, i))
		g := make([]float64, x.Cols)
		for j, v := range normalise(row(x, i), mean, variance) {
			dgamma[j] += dy.At(i, j) * v
			g[j] = gamma[j] * dy.At(i, j)
		}
		copy(row(dx, i), normaliseBackward(row(x, i), g))
	}
	return dx, dgamma, dbeta
}
