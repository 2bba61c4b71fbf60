package reference

import "math"

// Aggregation is a weighted sum over in-edges. Row i has the in-edges e = Indptr[i] … Indptr[i+1]−1 with the
// sources Indices[e]; sources index the rows of x. With only Weights it is also a sparse matrix in compressed
// rows, such as sparse features.
type Aggregation struct {
	Indptr   []int64   // len rows+1
	Indices  []int32   // len E
	Weights  []float64 // len E; nil means 1
	RowScale []float64 // len rows; nil means 1
	ColScale []float64 // len rows of x; nil means 1
	Self     []float64 // len rows; nil means 0
}

// Rows returns the number of destinations.
func (a *Aggregation) Rows() int { return len(a.Indptr) - 1 }

// SpMM adds the aggregation of x to z:
//
//	z_i += rowScale_i · ( Σ_{e: j→i} w_e · colScale_j · x_j + self_i · x_i )
//
// with x sources×C and z rows×C. Self is not multiplied by colScale.
func SpMM(z *Matrix, a *Aggregation, x *Matrix) {
	for i := range a.Rows() {
		sum := make([]float64, x.Cols)
		add := func(factor float64, j int) {
			for c, v := range x.row(j) {
				sum[c] += factor * v
			}
		}
		for e := a.Indptr[i]; e < a.Indptr[i+1]; e++ {
			j := int(a.Indices[e])
			add(or(a.Weights, int(e), 1)*or(a.ColScale, j, 1), j)
		}
		if a.Self != nil {
			add(a.Self[i], i)
		}
		for c, s := range sum {
			z.Add(i, c, or(a.RowScale, i, 1)*s)
		}
	}
}

// SpMMBackward adds the gradient of SpMM with respect to x to dx (the transposed aggregation of dz), and
// returns the gradient with respect to the weights, one per edge:
//
//	dx_j += Σ_{e: j→i} colScale_j · w_e · rowScale_i · dz_i + self_j · rowScale_j · dz_j
//	dw_e  = rowScale_i · colScale_j · ⟨dz_i, x_j⟩
func SpMMBackward(dx *Matrix, a *Aggregation, x, dz *Matrix) (dw []float64) {
	SpMMTranspose(dx, a, dz)
	dw = make([]float64, len(a.Indices))
	for i := range a.Rows() {
		for e := a.Indptr[i]; e < a.Indptr[i+1]; e++ {
			j := int(a.Indices[e])
			for c := range x.Cols {
				dw[e] += or(a.RowScale, i, 1) * or(a.ColScale, j, 1) * dz.At(i, c) * x.At(j, c)
			}
		}
	}
	return dw
}

// SpMMTranspose adds the transposed aggregation of dz to dx: the first line of SpMMBackward's equation.
func SpMMTranspose(dx *Matrix, a *Aggregation, dz *Matrix) {
	for i := range a.Rows() {
		for c := range dz.Cols {
			g := or(a.RowScale, i, 1) * dz.At(i, c)
			for e := a.Indptr[i]; e < a.Indptr[i+1]; e++ {
				j := int(a.Indices[e])
				dx.Add(j, c, or(a.ColScale, j, 1)*or(a.Weights, int(e), 1)*g)
			}
			if a.Self != nil {
				dx.Add(i, c, a.Self[i]*g)
			}
		}
	}
}

// or returns v[i], or otherwise if v is nil.
func or(v []float64, i int, otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return v[i]
}

// Max returns z_ic = max_{j→i} x_jc and arg, row-major rows×C: the source that the maximum came from, the
// smallest id among equals. A row without in-edge has z = 0 and arg = −1.
func Max(indptr []int64, indices []int32, x *Matrix) (z *Matrix, arg []int32) {
	rows := len(indptr) - 1
	z = New(rows, x.Cols)
	arg = make([]int32, rows*x.Cols)
	for i := range rows {
		for c := range x.Cols {
			best, from := math.Inf(-1), int32(-1)
			for _, j := range indices[indptr[i]:indptr[i+1]] {
				v := x.At(int(j), c)
				if from < 0 || v > best || v == best && j < from {
					best, from = v, j
				}
			}
			if from >= 0 {
				z.Set(i, c, best)
			}
			arg[i*x.Cols+c] = from
		}
	}
	return z, arg
}

// MaxBackward returns the gradient of Max for the given number of sources: each dz_ic goes to the one source
// arg_ic.
func MaxBackward(sources int, arg []int32, dz *Matrix) (dx *Matrix) {
	dx = New(sources, dz.Cols)
	for i := range dz.Rows {
		for c := range dz.Cols {
			if j := arg[i*dz.Cols+c]; j >= 0 {
				dx.Add(int(j), c, dz.At(i, c))
			}
		}
	}
	return dx
}
