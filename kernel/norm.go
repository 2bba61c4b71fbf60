package kernel

// #include "weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// Moments are the mean of each column and the sum of squared deviations from it, over Count rows.
type Moments struct {
	Count    int
	Mean, M2 []float64
}

// Merge joins the moments of further rows (Chan, Golub & LeVeque 1979): no difference of large squares is taken.
func (m *Moments) Merge(o Moments) {
	if o.Count == 0 {
		return
	}
	n := float64(m.Count + o.Count)
	for c := range m.Mean {
		d := o.Mean[c] - m.Mean[c]
		m.Mean[c] += d * float64(o.Count) / n
		m.M2[c] += o.M2[c] + d*d*float64(m.Count)*float64(o.Count)/n
	}
	m.Count += o.Count
}

// Moments computes the columns' moments over the rows of x.
func (t *Team) Moments(x *tensor.Matrix) Moments {
	sum := Moments{Mean: make([]float64, x.Cols), M2: make([]float64, x.Cols)}
	n := tiles(x.Rows)
	mean, m2 := t.scratch(tensor.Float64, n, x.Cols), t.scratch(tensor.Float64, n, x.Cols)
	args := &C.weft_norm_args{x: floats(x), tile_mean: doubles(mean), tile_m2: doubles(m2), rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols)}
	t.overTiles(C.weft_batch_stats, unsafe.Pointer(args), x.Rows, x.Cols)
	if !t.plan {
		for k := range n {
			row := func(m *tensor.Matrix) []float64 { return m.Doubles()[k*x.Cols : (k+1)*x.Cols] }
			sum.Merge(Moments{Count: min((k+1)*C.WEFT_TILE, x.Rows) - k*C.WEFT_TILE, Mean: row(mean), M2: row(m2)})
		}
	}
	mean.Release()
	m2.Release()
	return sum
}

// Normalize is z = gamma·(x − mean)·rstd + beta per column; the four are 1 × cols. z may be x.
func (t *Team) Normalize(z, x, mean, rstd, gamma, beta *tensor.Matrix) {
	tensor.SameShape(z, x)
	args := &C.weft_norm_args{
		z: floats(z), x: floats(x), mean: floats(mean), rstd: floats(rstd), gamma: floats(gamma), beta: floats(beta),
		rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
	}
	t.rows(C.weft_batch_norm, unsafe.Pointer(args), x.Rows, x.Cols)
}

// NormalizeSums returns Σ g and Σ g·x̂ over the rows, per column: dβ and dγ of Normalize.
func (t *Team) NormalizeSums(g, x, mean, rstd *tensor.Matrix) (sumG, sumGX []float64) {
	sumG, sumGX = make([]float64, x.Cols), make([]float64, x.Cols)
	a, b := t.scratch(tensor.Float64, tiles(x.Rows), x.Cols), t.scratch(tensor.Float64, tiles(x.Rows), x.Cols)
	args := &C.weft_norm_args{
		x: floats(x), g: floats(g), mean: floats(mean), rstd: floats(rstd), tiles: doubles(a), tiles2: doubles(b),
		rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
	}
	t.overTiles(C.weft_batch_back_sums, unsafe.Pointer(args), x.Rows, x.Cols)
	t.mergeTiles(a, func(c int, s float64) { sumG[c] = s })
	t.mergeTiles(b, func(c int, s float64) { sumGX[c] = s })
	a.Release()
	b.Release()
	return sumG, sumGX
}

// NormalizeBackward is dx = gamma·rstd·(g − meanG − x̂·meanGX), where meanG and meanGX are the means of g and g·x̂ over all rows
// that mean and rstd were taken from (1 × cols). dx may be g.
func (t *Team) NormalizeBackward(dx, g, x, mean, rstd, gamma, meanG, meanGX *tensor.Matrix) {
	tensor.SameShape(dx, x)
	args := &C.weft_norm_args{
		z: floats(dx), x: floats(x), g: floats(g), mean: floats(mean), rstd: floats(rstd), gamma: floats(gamma),
		sum_g: floats(meanG), sum_gx: floats(meanGX), rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
	}
	t.rows(C.weft_batch_back, unsafe.Pointer(args), x.Rows, x.Cols)
}

// LayerNorm is z = gamma·x̂ + beta with x̂ normalised per row; mean and rstd (rows × 1) are written for the backward pass.
func (t *Team) LayerNorm(z, x, mean, rstd, gamma, beta *tensor.Matrix, epsilon float64) {
	tensor.SameShape(z, x)
	args := &C.weft_norm_args{
		z: floats(z), x: floats(x), row_mean: floats(mean), row_rstd: floats(rstd), gamma: floats(gamma), beta: floats(beta),
		rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols), epsilon: C.float(epsilon),
	}
	t.rows(C.weft_layer_norm, unsafe.Pointer(args), x.Rows, x.Cols)
}

// LayerNormBackward is dx, with dgamma and dbeta (1 × cols) added to. dx may be g.
func (t *Team) LayerNormBackward(dx, dgamma, dbeta, g, x, mean, rstd, gamma *tensor.Matrix) {
	tensor.SameShape(dx, x)
	a, b := t.scratch(tensor.Float64, tiles(x.Rows), x.Cols), t.scratch(tensor.Float64, tiles(x.Rows), x.Cols)
	args := &C.weft_norm_args{
		z: floats(dx), x: floats(x), g: floats(g), row_mean: floats(mean), row_rstd: floats(rstd), gamma: floats(gamma),
		tiles: doubles(a), tiles2: doubles(b), rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
	}
	t.overTiles(C.weft_layer_back, unsafe.Pointer(args), x.Rows, x.Cols)
	t.mergeTiles(a, func(c int, s float64) { dbeta.Floats()[c] += float32(s) })
	t.mergeTiles(b, func(c int, s float64) { dgamma.Floats()[c] += float32(s) })
	a.Release()
	b.Release()
}
