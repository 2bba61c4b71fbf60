package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"weft/tensor"
)

// Activation is an element-wise function. Except for GELU, its derivative follows from its output.
type Activation int32

// The activations. LeakyReLU has slope 0.01, and ELU α = 1. GELU is defined apart.
const (
	Identity  Activation = C.WEFT_IDENTITY
	ReLU      Activation = C.WEFT_RELU
	ELU       Activation = C.WEFT_ELU
	LeakyReLU Activation = C.WEFT_LEAKY_RELU
	Tanh      Activation = C.WEFT_TANH
	Sigmoid   Activation = C.WEFT_SIGMOID
)

// c returns the C name of an activation that kernels compute in one pass with other work.
func (a Activation) c() C.int32_t {
	if a == GELU {
		panic("kernel: GELU in one pass with other things")
	}
	return C.int32_t(a)
}

// Finish is z = mask(act(x + bias)) in one pass, z and x rows × cols, bias 1 × cols or nil. z may be x.
func (t *Team) Finish(z, x, bias *tensor.Matrix, act Activation, m Mask) {
	tensor.SameShape(z, x)
	check("bias", bias, 1, x.Cols)
	args := &C.weft_finish_args{
		z: storage(z), x: storage(x), bias: floats(bias), cols: C.int64_t(x.Cols),
		activation: act.c(), mask: m.c(),
	}
	t.rows(on(C.weft_finish, z, x).streams(z, x), unsafe.Pointer(args), x.Rows, x.Cols)
}

// FinishBackward is dx = dLoss/d(x + bias) of Finish, from the gradient g and the output z. It adds Σ_i dx_i
// to dBias (1 × cols), unless that is nil. dx may be g.
func (t *Team) FinishBackward(dx, dBias, g, z *tensor.Matrix, act Activation, m Mask) {
	tensor.SameShape(dx, g)
	args := &C.weft_finish_back_args{
		dx: storage(dx), g: storage(g), z: storage(z), cols: C.int64_t(g.Cols),
		activation: act.c(), mask: m.c(),
	}
	r := on(C.weft_finish_back, dx, g, z).streams(dx, g)
	if act != Identity {
		r = r.streams(z)
	}
	if dBias == nil {
		t.rows(r, unsafe.Pointer(args), g.Rows, g.Cols)
		return
	}
	sums := t.columnSums(dBias, dx, nil)
	t.chain(g.Rows, g.Cols, link{r, unsafe.Pointer(args), false}, sums.link)
	sums.end()
}

// Add is z = alpha·x + beta·y. z may be x or y.
func (t *Team) Add(z *tensor.Matrix, alpha float32, x *tensor.Matrix, beta float32, y *tensor.Matrix) {
	tensor.SameShape(z, x)
	tensor.SameShape(z, y)
	args := &C.weft_combine_args{
		z: storage(z), x: storage(x), y: storage(y), alpha: C.float(alpha),
		beta: C.float(beta),
	}
	t.rows(on(C.weft_combine, z, x, y).streams(z, x, y), unsafe.Pointer(args), z.Len(), 1)
}

// Axpy is z += alpha·x.
func (t *Team) Axpy(z *tensor.Matrix, alpha float32, x *tensor.Matrix) { t.Add(z, 1, z, alpha, x) }

// Scale is z = alpha·x. z may be x.
func (t *Team) Scale(z *tensor.Matrix, alpha float32, x *tensor.Matrix) {
	tensor.SameShape(z, x)
	args := &C.weft_combine_args{z: storage(z), x: storage(x), alpha: C.float(alpha)}
	t.rows(on(C.weft_combine, z, x).streams(z, x), unsafe.Pointer(args), z.Len(), 1)
}

// Copy is z = x.
func (t *Team) Copy(z, x *tensor.Matrix) { t.Scale(z, 1, x) }

// Convert is z = x, each of them Float32 or BFloat16.
func (t *Team) Convert(z, x *tensor.Matrix) {
	tensor.SameShape(z, x)
	args := &C.weft_convert_args{
		z: either(z), x: either(x), z_type: C.int32_t(typeOf(z)), x_type: C.int32_t(typeOf(x)),
	}
	t.rows(on(C.weft_convert).streams(z, x), unsafe.Pointer(args), z.Len(), 1)
}

// Multiply is z = x ⊙ y, element by element. z may be x or y.
func (t *Team) Multiply(z, x, y *tensor.Matrix) {
	tensor.SameShape(z, x)
	tensor.SameShape(z, y)
	args := &C.weft_combine_args{z: storage(z), x: storage(x), y: storage(y), alpha: 1, multiply: 1}
	t.rows(on(C.weft_combine, z, x, y).streams(z, x, y), unsafe.Pointer(args), z.Len(), 1)
}

// Zero sets all bytes of z to zero.
func (t *Team) Zero(z *tensor.Matrix) { t.fill(z, 0) }

// fill sets every element of a BFloat16 matrix, and every 32-bit word of another, to bits.
func (t *Team) fill(z *tensor.Matrix, bits uint32) {
	r, size := routine{name: C.weft_fill, element: C.WEFT_FLOAT32}.streams(z), 4
	if z.Element == tensor.BFloat16 {
		r.element, size = C.WEFT_BFLOAT16, 2
	}
	args := &C.weft_fill_args{p: (*C.elem)(z.Pointer()), bits: C.uint32_t(bits)}
	t.rows(r, unsafe.Pointer(args), z.Len()*z.Element.Size()/size, 1)
}

// Zeros returns a Float32 matrix of zeros.
func (t *Team) Zeros(kind tensor.Kind, rows, cols int) *tensor.Matrix {
	z := t.Memory.New(kind, rows, cols)
	t.Zero(z)
	return z
}

// Fill sets every element of an Int32, Float32 or BFloat16 matrix.
func (t *Team) Fill(z *tensor.Matrix, value float32) {
	switch z.Element {
	case tensor.Int32:
		t.fill(z, uint32(int32(value)))
	case tensor.Float32:
		t.fill(z, math.Float32bits(value))
	case tensor.BFloat16:
		t.fill(z, uint32(tensor.RoundBFloat16(value)))
	default:
		panic(fmt.Sprintf("kernel: fill of element type %d", z.Element))
	}
}

// ColumnSums adds Σ_i x_ic, or Σ_i x_ic·y_ic where y is given, to sum (1 × cols).
func (t *Team) ColumnSums(sum, x, y *tensor.Matrix) {
	s := t.columnSums(sum, x, y)
	t.overTiles(s.routine, s.args, x.Rows, x.Cols)
	s.end()
}

// SumRows sets sums to Σ_i x_ic, in double precision.
func (t *Team) SumRows(sums []float64, x *tensor.Matrix) {
	partial := t.scratch(tensor.Float64, tiles(x.Rows), x.Cols)
	s := t.tileSums(partial, x, nil)
	t.overTiles(s.routine, s.args, x.Rows, x.Cols)
	t.readTiles(sums, partial)
}

// columnSums are sums over rows. The kernel computes the sums of each tile, and end adds them to the result.
type columnSums struct {
	link
	end func()
}

func (t *Team) columnSums(sum, x, y *tensor.Matrix) columnSums {
	check("sum", sum, 1, x.Cols)
	partial := t.scratch(tensor.Float64, tiles(x.Rows), x.Cols)
	return columnSums{t.tileSums(partial, x, y), func() { t.addTiles(sum, partial) }}
}

// tileSums returns the kernel that sets partial to the sums of each tile's rows.
func (t *Team) tileSums(partial, x, y *tensor.Matrix) link {
	args := &C.weft_column_sum_args{
		tiles: doubles(partial), x: storage(x), y: storage(y),
		rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
	}
	return link{on(C.weft_column_sum, x, y).streams(x, y), unsafe.Pointer(args), true}
}

// SumSquares returns Σ x², in double precision.
func (t *Team) SumSquares(x *tensor.Matrix) float64 {
	n := x.Len()
	partial := t.scratch(tensor.Float64, tiles(n), 1)
	args := &C.weft_column_sum_args{tiles: doubles(partial), x: floats(x), rows: C.int64_t(n), cols: 1}
	t.overTiles(on(C.weft_sum_squares).streams(x), unsafe.Pointer(args), n, 1)
	var sum [1]float64
	t.readTiles(sum[:], partial)
	return sum[0]
}

// NotFinite returns a Sum that is 0 if no element of these matrices, each Float32 or BFloat16, is a NaN or an
// infinity. Otherwise it is another number, or NaN.
func (t *Team) NotFinite(matrices ...*tensor.Matrix) Sum {
	all := 0
	for _, x := range matrices {
		all += tiles(x.Rows)
	}
	return Sum{all, func(partial *tensor.Matrix) { t.notFinite(partial, matrices) }}
}

func (t *Team) notFinite(partial *tensor.Matrix, matrices []*tensor.Matrix) {
	at := 0
	for _, x := range matrices {
		args := &C.weft_column_sum_args{
			tiles: doubles(partial.RowRange(at, partial.Rows)), x: storage(x), rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols),
		}
		t.overTiles(on(C.weft_finite, x).streams(x), unsafe.Pointer(args), x.Rows, x.Cols)
		at += tiles(x.Rows)
	}
}

// HeadVector is a vector of attention a (1 × heads·width) with its scores (rows × heads).
type HeadVector struct{ A, Score *tensor.Matrix }

// HeadDots is score_ih = Σ_c z_ihc · a_hc for z rows × heads·width, for all vectors in one pass over z.
func (t *Team) HeadDots(z *tensor.Matrix, vectors ...HeadVector) {
	heads := vectors[0].Score.Cols
	if heads == 0 {
		return
	}
	links, bytes := make([]link, len(vectors)), routine{}.streams(z)
	for k, v := range vectors {
		check("vector", v.A, 1, z.Cols)
		check("scores", v.Score, z.Rows, heads)
		args := &C.weft_head_dot_args{
			out: floats(v.Score), z: storage(z), a: floats(v.A), heads: C.int64_t(heads),
			width: C.int64_t(z.Cols / heads),
		}
		links[k] = link{on(C.weft_head_dot, z), unsafe.Pointer(args), false}
		bytes = bytes.streams(v.Score)
	}
	links[0].bytes = bytes.bytes
	t.chain(z.Rows, z.Cols, links...)
}

// HeadDot is HeadDots for one vector.
func (t *Team) HeadDot(out, z, a *tensor.Matrix) { t.HeadDots(z, HeadVector{a, out}) }

// HeadGradient has a vector of attention A (1 × heads·width), DA, to which dLoss/dA is added, and DScore =
// dLoss/dscore of its scores (rows × heads).
type HeadGradient struct{ A, DA, DScore *tensor.Matrix }

// HeadDotsBackward is dz_ihc += dscore_ih·a_hc and da_hc += Σ_i dscore_ih·z_ihc, for all vectors in one pass,
// in their order.
func (t *Team) HeadDotsBackward(dz, z *tensor.Matrix, vectors ...HeadGradient) {
	heads := vectors[0].DScore.Cols
	check("dz", dz, z.Rows, z.Cols)
	if heads == 0 {
		return
	}
	var sums, adds []link
	partial, bytes := make([]*tensor.Matrix, len(vectors)), routine{}.streams(z, dz, dz)
	for k, v := range vectors {
		check("vector", v.A, 1, z.Cols)
		check("da", v.DA, 1, z.Cols)
		check("dscore", v.DScore, z.Rows, heads)
		partial[k] = t.scratch(tensor.Float64, tiles(z.Rows), z.Cols)
		from := &C.weft_head_outer_back_args{
			z: storage(z), s: floats(v.DScore), tiles: doubles(partial[k]),
			rows: C.int64_t(z.Rows), heads: C.int64_t(heads), width: C.int64_t(z.Cols / heads),
		}
		to := &C.weft_head_outer_args{z: storage(dz), s: from.s, a: floats(v.A), heads: from.heads, width: from.width}
		sums = append(sums, link{on(C.weft_head_outer_back, z), unsafe.Pointer(from), true})
		adds = append(adds, link{on(C.weft_head_outer, dz), unsafe.Pointer(to), false})
		bytes = bytes.streams(v.DScore)
	}
	sums[0].bytes = bytes.bytes
	t.chain(z.Rows, z.Cols, append(sums, adds...)...)
	for k, v := range vectors {
		t.addTiles(v.DA, partial[k])
	}
}

// HeadDotBackward is HeadDotsBackward for one vector.
func (t *Team) HeadDotBackward(dz, da, s, z, a *tensor.Matrix) {
	t.HeadDotsBackward(dz, z, HeadGradient{A: a, DA: da, DScore: s})
}

// HeadMean is out_ic = mean over heads h of z_ihc, for z rows × heads·width and out rows × width.
func (t *Team) HeadMean(out, z *tensor.Matrix) {
	check("mean", out, z.Rows, out.Cols)
	args := &C.weft_head_mean_args{
		out: storage(out), in: storage(z), heads: C.int64_t(z.Cols / out.Cols),
		width: C.int64_t(out.Cols),
	}
	t.rows(on(C.weft_head_mean, out, z).streams(out, z), unsafe.Pointer(args), z.Rows, z.Cols)
}

// HeadMeanBackward is dz_ihc = g_ic / heads, for g rows × width and dz rows × heads·width.
func (t *Team) HeadMeanBackward(dz, g *tensor.Matrix) {
	check("gradient", g, dz.Rows, g.Cols)
	args := &C.weft_head_mean_args{
		out: storage(dz), in: storage(g), heads: C.int64_t(dz.Cols / g.Cols),
		width: C.int64_t(g.Cols),
	}
	t.rows(on(C.weft_head_mean_back, dz, g).streams(dz, g), unsafe.Pointer(args), dz.Rows, dz.Cols)
}
