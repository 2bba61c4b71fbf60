package kernel

// #include "native/weft.h"
import "C"

import (
	"math"
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

// Moments sets m to the columns' moments over the rows of x.
func (t *Team) Moments(m *Moments, x *tensor.Matrix) {
	moments := t.tileMoments(x)
	defer moments.release()
	merged := moments.mergeThere(&C.weft_merge_moments_args{})
	t.Serial(func() {
		if merged {
			m.Count = x.Rows
			n := moments.mean.Rows
			all := moments.both.RowRange(0, n+1).ReadDoubles() // one copy, so the host waits once
			copy(m.Mean, all[:x.Cols])
			copy(m.M2, all[n*x.Cols:])
		} else {
			moments.merge(m)
		}
	})
}

// tileMoments are the moments of each tile of the rows of a matrix.
type tileMoments struct {
	team     *Team
	x        *tensor.Matrix
	mean, m2 *tensor.Matrix // tiles × columns
	both     *tensor.Matrix // m2 below mean
}

func (t *Team) tileMoments(x *tensor.Matrix) tileMoments {
	n := tiles(x.Rows)
	both := t.scratch(tensor.Float64, 2*n, x.Cols)
	moments := tileMoments{t, x, both.RowRange(0, n), both.RowRange(n, 2*n), both}
	args := &C.weft_moments_args{
		tile_mean: doubles(moments.mean), tile_m2: doubles(moments.m2), x: storage(x),
		rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
	}
	t.overTiles(on(C.weft_moments, x).streams(x), unsafe.Pointer(args), x.Rows, x.Cols)
	return moments
}

func (o tileMoments) release() { o.both.Release() }

// merge sets m to the moments of all rows.
func (o tileMoments) merge(m *Moments) {
	m.Count = 0
	clear(m.Mean)
	clear(m.M2)
	for k := range o.mean.Rows {
		row := func(matrix *tensor.Matrix) []float64 { return matrix.Doubles()[k*o.x.Cols : (k+1)*o.x.Cols] }
		m.Merge(Moments{
			Count: min((k+1)*C.WEFT_TILE, o.x.Rows) - k*C.WEFT_TILE,
			Mean:  row(o.mean), M2: row(o.m2),
		})
	}
}

// mergeThere merges on a device, into the first tile's moments, and sets the further results in the
// arguments. It returns false, and does nothing, if the team does not compute on a device, or if there are no
// rows.
func (o tileMoments) mergeThere(args *C.weft_merge_moments_args) bool {
	if !o.team.backend.has(C.weft_merge_moments) || o.x.Rows == 0 {
		return false
	}
	args.tile_mean, args.tile_m2 = doubles(o.mean), doubles(o.m2)
	args.rows, args.cols = C.int64_t(o.x.Rows), C.int64_t(o.x.Cols)
	o.team.rows(on(C.weft_merge_moments), unsafe.Pointer(args), o.x.Cols, o.mean.Rows)
	return true
}

// BatchStatistics are batch norm's statistics of all rows of x: for each column the mean, and 1/√(variance +
// ε) of the biased variance (1 × cols). Batch (Float64, 2 × cols; nil: none) has the mean of x + added, and
// below it the unbiased variance. added is a row that may be nil.
type BatchStatistics struct{ Mean, Rstd, Batch *tensor.Matrix }

// SetBatchStatistics sets s. On a device the host does not wait for it.
func (t *Team) SetBatchStatistics(s BatchStatistics, x, added *tensor.Matrix, epsilon float64) {
	check("the mean", s.Mean, 1, x.Cols)
	check("rstd", s.Rstd, 1, x.Cols)
	check("the statistics of the batch", s.Batch, 2, x.Cols)
	check("what is added", added, 1, x.Cols)
	moments := t.tileMoments(x)
	defer moments.release()
	if moments.mergeThere(&C.weft_merge_moments_args{
		mean: floats(s.Mean), rstd: floats(s.Rstd), batch: doubles(s.Batch), added: floats(added),
		epsilon: C.double(epsilon),
	}) {
		return
	}
	t.Serial(func() {
		m, n := NewMoments(x.Cols), float64(x.Rows)
		moments.merge(m)
		shift, rstd := s.Mean.WriteFloats(), s.Rstd.WriteFloats()
		more, batch := added.ReadFloats(), s.Batch.WriteDoubles()
		for c, merged := range m.Mean {
			mean := merged * n / n // rounded in the same way as the mean over several workers (package nn)
			d := merged - mean
			m2 := m.M2[c] + n*d*d
			shift[c], rstd[c] = float32(mean), float32(1/math.Sqrt(m2/n+epsilon))
			if added != nil {
				mean += float64(more[c])
			}
			if s.Batch != nil {
				batch[c], batch[x.Cols+c] = mean, m2/math.Max(1, n-1)
			}
		}
	})
}

// SetRunningStatistics computes the shift and rstd by which evaluation normalises: shift = mean − added,
// where added may be nil, and rstd = 1/√(variance + ε). All are 1 × cols. On a device the host does not wait
// for it.
func (t *Team) SetRunningStatistics(shift, rstd, mean, variance, added *tensor.Matrix, epsilon float64) {
	for _, v := range []*tensor.Matrix{rstd, mean, variance, added} {
		check("running statistics", v, 1, shift.Cols)
	}
	if t.backend.has(C.weft_running) {
		args := &C.weft_running_args{
			shift: floats(shift), rstd: floats(rstd), mean: floats(mean), variance: floats(variance),
			added: floats(added), epsilon: C.double(epsilon),
		}
		t.rows(on(C.weft_running), unsafe.Pointer(args), shift.Cols, 1)
		return
	}
	t.Serial(func() {
		from, squares, less := mean.ReadFloats(), variance.ReadFloats(), added.ReadFloats()
		to, scale := shift.WriteFloats(), rstd.WriteFloats()
		for c := range to {
			to[c], scale[c] = from[c], float32(1/math.Sqrt(float64(squares[c])+epsilon))
			if added != nil {
				to[c] -= less[c]
			}
		}
	})
}

// MoveTowards is running += momentum·(batch − running), element by element; batch is Float64.
func (t *Team) MoveTowards(running, batch *tensor.Matrix, momentum float64) {
	tensor.SameShape(running, batch)
	if t.backend.has(C.weft_move) {
		args := &C.weft_move_args{
			running: floats(running), batch: doubles(batch), momentum: C.double(momentum),
		}
		t.rows(on(C.weft_move), unsafe.Pointer(args), running.Len(), 1)
		return
	}
	t.Serial(func() {
		to := running.Floats()
		for i, v := range batch.ReadDoubles() {
			to[i] += float32(momentum * (v - float64(to[i])))
		}
	})
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

// NormalizedSums are Σ g and Σ g·x̂ over the rows, per column, for g = dLoss/dy of Normalize: dβ and dγ. Read
// or Finish ends them.
type NormalizedSums struct {
	team  *Team
	g, gx *tensor.Matrix // tiles × columns
}

// Read returns the sums to the host.
func (s NormalizedSums) Read(sumG, sumGX []float64) {
	s.team.readTiles(sumG, s.g)
	s.team.readTiles(sumGX, s.gx)
}

// Finish adds the sums to dBeta and dGamma, which may be nil. It sets meanG and meanGX to each times the
// sums. All are 1 × cols. On a device the host does not wait for it.
func (s NormalizedSums) Finish(dBeta, dGamma, meanG, meanGX *tensor.Matrix, each float64) {
	for _, result := range []struct{ partial, sum, mean *tensor.Matrix }{
		{s.g, dBeta, meanG}, {s.gx, dGamma, meanGX},
	} {
		s.team.mergeInto(&C.weft_merge_tiles_args{
			z: floats(result.sum), mean: floats(result.mean), each: C.double(each),
		}, result.partial, 0, result.partial.Cols)
		result.partial.Release()
	}
}

// NormalizeSums turns g = dLoss/dz of Normalize into dLoss/dy in place, and returns its sums. It computes y
// and the mask again from x, and does not read z.
func (t *Team) NormalizeSums(g, x *tensor.Matrix, n Normalization, act Activation, m Mask) NormalizedSums {
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
	return NormalizedSums{t, a, b}
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

// copies takes the memory into which calls of layer norm's kernels copy rows like those of x. Rows of Float32
// are not copied.
func (t *Team) copies(x *tensor.Matrix) workspaces {
	if x.Element == tensor.Float32 {
		return workspaces{}
	}
	return t.workspaces(C.weft_layer_norm_workspace(C.int64_t(x.Cols)))
}

// NormGradients are the gradients of LayerNorm's input (in the shape of x), and of its parameters (1 × cols).
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
