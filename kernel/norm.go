package kernel

// #include "native/weft.h"
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

// NewMoments returns the moments of no rows.
func NewMoments(cols int) *Moments {
	return &Moments{Mean: make([]float64, cols), M2: make([]float64, cols)}
}

// Merge joins the moments of further rows (Chan, Golub & LeVeque 1979): no difference of large squares is
// taken.
func (m *Moments) Merge(o Moments) {
	if o.Count == 0 {
		return
	}
	share := float64(o.Count) / float64(m.Count+o.Count)
	both := share * float64(m.Count)
	for c, mean := range o.Mean {
		d := mean - m.Mean[c]
		m.Mean[c] += d * share
		m.M2[c] += o.M2[c] + d*d*both
	}
	m.Count += o.Count
}

// Moments makes m the columns' moments over the rows of x.
func (t *Team) Moments(m *Moments, x *tensor.Matrix) {
	m.Count = 0
	clear(m.Mean)
	clear(m.M2)
	n := tiles(x.Rows)
	mean, m2 := t.scratch(tensor.Float64, n, x.Cols), t.scratch(tensor.Float64, n, x.Cols)
	args := &C.weft_moments_args{
		tile_mean: doubles(mean), tile_m2: doubles(m2), x: storage(x),
		rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
	}
	t.overTiles(on(C.weft_moments, x).streams(x), unsafe.Pointer(args), x.Rows, x.Cols)
	t.Host(func() {
		for k := range n {
			row := func(of *tensor.Matrix) []float64 { return of.Doubles()[k*x.Cols : (k+1)*x.Cols] }
			m.Merge(Moments{
				Count: min((k+1)*C.WEFT_TILE, x.Rows) - k*C.WEFT_TILE,
				Mean:  row(mean), M2: row(m2),
			})
		}
	})
	mean.Release()
	m2.Release()
}

// Normalization is y = gamma·x̂ + beta with x̂ = (x − mean)·rstd. Gamma and Beta are 1 × cols; so are Mean
// and Rstd for Normalize, and rows × 1 for LayerNorm.
type Normalization struct {
	Mean, Rstd, Gamma, Beta *tensor.Matrix
}

func (n Normalization) c(cols int) C.weft_normalization {
	for _, v := range []*tensor.Matrix{n.Mean, n.Rstd, n.Gamma, n.Beta} {
		check("normalization", v, 1, cols)
	}
	return C.weft_normalization{
		mean: floats(n.Mean), rstd: floats(n.Rstd), gamma: floats(n.Gamma),
		beta: floats(n.Beta),
	}
}

// Normalize is z = mask(act(y)) in one pass, with y normalised per column. z may be x.
func (t *Team) Normalize(z, x *tensor.Matrix, n Normalization, act Activation, m Mask) {
	tensor.SameShape(z, x)
	args := &C.weft_normalize_args{
		z: storage(z), x: storage(x), norm: n.c(x.Cols), cols: C.int64_t(x.Cols),
		activation: act.c(), mask: m.c(),
	}
	t.rows(on(C.weft_normalize, z, x).streams(z, x), unsafe.Pointer(args), x.Rows, x.Cols)
}

// NormalizeSums turns g = dLoss/dz of Normalize into dLoss/dy, in place. sumG and sumGX become its Σ over the
// rows and that of dLoss/dy·x̂, per column: dβ and dγ. It computes y and the mask again from x and reads no
// z.
func (t *Team) NormalizeSums(sumG, sumGX []float64, g, x *tensor.Matrix, n Normalization,
	act Activation, m Mask,
) {
	tensor.SameShape(g, x)
	a, b := t.scratch(tensor.Float64, tiles(x.Rows), x.Cols), t.scratch(tensor.Float64, tiles(x.Rows), x.Cols)
	args := &C.weft_normalize_sums_args{
		tile_g: doubles(a), tile_gx: doubles(b), g: storage(g), x: storage(x), norm: n.c(x.Cols),
		rows: C.int64_t(x.Rows),
		cols: C.int64_t(x.Cols), activation: act.c(), mask: m.c(),
	}
	r := on(C.weft_normalize_sums, g, x).streams(g, x)
	if act != Identity || m.Active() {
		r = r.streams(g)
	}
	t.overTiles(r, unsafe.Pointer(args), x.Rows, x.Cols)
	t.readTiles(sumG, a)
	t.readTiles(sumGX, b)
}

// NormalizeBackward is dx = gamma·rstd·(g − meanG − x̂·meanGX) for g = dLoss/dy from NormalizeSums, where
// meanG and meanGX are the means of g and g·x̂ over all rows that mean and rstd were taken from (1 × cols).
// dx may be g.
func (t *Team) NormalizeBackward(dx, g, x *tensor.Matrix, n Normalization, meanG, meanGX *tensor.Matrix) {
	tensor.SameShape(dx, x)
	args := &C.weft_normalize_back_args{
		dx: storage(dx), g: storage(g), x: storage(x), norm: n.c(x.Cols), mean_g: floats(meanG),
		mean_gx: floats(meanGX),
		cols:    C.int64_t(x.Cols),
	}
	t.rows(on(C.weft_normalize_back, dx, g, x).streams(dx, g, x), unsafe.Pointer(args), x.Rows, x.Cols)
}

// LayerNorm is z = mask(act(y)) in one pass, with y normalised per row. The rows' mean and rstd are written
// into n, for the backward pass. z may be x.
func (t *Team) LayerNorm(z, x *tensor.Matrix, n Normalization, epsilon float64, act Activation, m Mask) {
	tensor.SameShape(z, x)
	args := &C.weft_layer_norm_args{
		z: storage(z), mean: floats(n.Mean), rstd: floats(n.Rstd), x: storage(x), gamma: floats(n.Gamma),
		beta: floats(n.Beta),
		cols: C.int64_t(x.Cols), epsilon: C.float(epsilon), activation: act.c(), mask: m.c(),
	}
	workspaces := t.copies(x)
	args.workspaces = workspaces.c()
	t.rows(on(C.weft_layer_norm, z, x).streams(z, x), unsafe.Pointer(args), x.Rows, x.Cols)
	workspaces.release()
}

// copies takes what calls of layer norm's kernels copy rows like x's into. Rows of Float32 are not copied.
func (t *Team) copies(x *tensor.Matrix) workspaces {
	if x.Element == tensor.Float32 {
		return workspaces{}
	}
	return t.workspaces(C.weft_layer_norm_workspace(C.int64_t(x.Cols)))
}

// NormGradients are the gradients of LayerNorm's input (like x), and of its parameters (1 × cols).
type NormGradients struct{ X, Gamma, Beta *tensor.Matrix }

// LayerNormBackward sets d.X for g = dLoss/dz of LayerNorm, and adds to d.Gamma and d.Beta. d.X may be g.
func (t *Team) LayerNormBackward(d NormGradients, g, x *tensor.Matrix, n Normalization,
	act Activation, m Mask,
) {
	tensor.SameShape(d.X, x)
	a, b := t.scratch(tensor.Float64, tiles(x.Rows), x.Cols), t.scratch(tensor.Float64, tiles(x.Rows), x.Cols)
	args := &C.weft_layer_back_args{
		dx: storage(d.X), tile_g: doubles(a), tile_gx: doubles(b), g: storage(g), x: storage(x),
		mean: floats(n.Mean), rstd: floats(n.Rstd),
		gamma: floats(n.Gamma), beta: floats(n.Beta), rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
		activation: act.c(), mask: m.c(),
	}
	workspaces := t.copies(x)
	args.workspaces = workspaces.c()
	t.overTiles(on(C.weft_layer_back, d.X, g, x).streams(d.X, g, x), unsafe.Pointer(args), x.Rows, x.Cols)
	workspaces.release()
	t.addTiles(d.Beta, a)
	t.addTiles(d.Gamma, b)
}
