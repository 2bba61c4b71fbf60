package kernel_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/kernel/reference"
	"weft/tensor"
)

// The conformance suite compares every kernel with package reference, which computes in float64.
// TestConformance runs it at the SIMD level of this process. `make levels` runs it, with this package's other
// tests, at the lower levels, also of oneDNN.
//
// Tolerances. A float32 sum of n products differs from the exact one by at most n·u·Σ|terms|, u = 2⁻²⁴, and
// by about √n·u·Σ|terms| when the roundings are independent; a sum may be off by (8 + 4√n)·u·Σ|terms|, with
// Σ|terms| computed for each element. An element-wise function of a few roundings may be off by a few u of
// the larger of 1 and its value. A longer computation, such as the gradients of attention, may be off by
// 1e-5, some hundred roundings, and by the error of its longest sum, relative to the largest value of its row
// and to a hundredth of the matrix's (terms of about 1 may cancel in a row). Where the order of the
// operations cannot matter, the tests ask for equality.
//
// Kernels over BFloat16 compute in Float32 and round once. The same bounds hold before this rounding, whose
// error is at most 2⁻⁸ of the number.

var conformance = map[string]func(s *suite){
	"spmm":                    conformSpMM,
	"spmm with a hub":         conformSpMMHub,
	"spmm of no rows":         conformSpMMEmpty,
	"sparse times dense":      conformSparseDense,
	"dense form":              conformDensify,
	"max":                     conformMax,
	"attention":               conformAttention,
	"attention with a hub":    conformAttentionHub,
	"attention of no edges":   conformAttentionEmpty,
	"softmax sum":             conformSoftmaxSum,
	"softmax sum with a hub":  conformSoftmaxSumHub,
	"softmax sum of no edges": conformSoftmaxSumEmpty,
	"head dot":                conformHeadDot,
	"head mean":               conformHeadMean,
	"row dots":                conformRowDots,
	"finish":                  conformFinish,
	"gelu":                    conformGELU,
	"combine":                 conformCombine,
	"column sums":             conformColumnSums,
	"sum of squares":          conformSumSquares,
	"fill":                    conformFill,
	"batch norm":              conformBatchNorm,
	"batch statistics":        conformBatchStatistics,
	"running statistics":      conformRunningStatistics,
	"moments":                 conformMoments,
	"layer norm":              conformLayerNorm,
	"cross-entropy":           conformCrossEntropy,
	"binary cross-entropy":    conformBinaryCrossEntropy,
	"hits":                    conformHits,
	"finite":                  conformFinite,
	"pairs":                   conformPairs,
	"above":                   conformAbove,
	"adam":                    conformAdam,
	"sgd":                     conformSGD,
	"product":                 conformMatMul,
	"transposed product":      conformMatMulT,
	"uniform":                 conformUniform,
	"rows":                    conformRows,
	"columns":                 conformColumns,
	"coding":                  conformCoding,
	"head scale":              conformHeadScale,
	"elements":                conformElements,
	"pointwise":               conformPointwise,
	"mapped columns":          conformMapColumns,
	"groups":                  conformGroups,
	"row product":             conformRowProduct,
	"sums of rows":            conformSumRows,
}

// widths are numbers of columns. They have every remainder of every vector length, with and without whole
// vectors before it. They also have the sizes around a batch of random numbers (128) and around the widest
// row that is summed in registers at once (256 with AVX-512), and a row of more than a piece (2048).
var widths = func() (w []int) {
	for c := 1; c <= 40; c++ {
		w = append(w, c)
	}
	return append(w, 41, 63, 64, 65, 100, 127, 128, 129, 256, 257, 300, 500, 2100)
}()

// heights are numbers of rows: none, few, and those around one and two tiles of a reduction.
var heights = []int{0, 1, 2, 3, 1023, 1024, 1025, 2049}

func TestConformance(t *testing.T) {
	for name, run := range conformance {
		t.Run(name, func(t *testing.T) { with(t, run) })
	}
}

// float32Only are the tests of kernels without operands in storage.
var float32Only = []string{"sum of squares", "cross-entropy", "binary cross-entropy", "hits", "adam", "sgd", "pairs", "above", "running statistics"}

func TestConformanceBFloat16(t *testing.T) {
	for name, run := range conformance {
		if !slices.Contains(float32Only, name) {
			t.Run(name, func(t *testing.T) { withStorage(t, tensor.BFloat16, run) })
		}
	}
}

// suite has what a test of kernels needs: a team, random numbers, and matrices in the team's memory.
type suite struct {
	t       *testing.T
	team    *kernel.Team
	r       *rand.Rand
	storage tensor.Element // the type of operands that may be Float32 or BFloat16
}

// reused is the number of bytes of idle memory that one size leaves to the next.
const reused = 64 << 20

func random() *rand.Rand { return rand.New(rand.NewPCG(7, 7)) }

// with runs a test on a team of two threads and gives all memory back.
func with(t *testing.T, run func(s *suite)) {
	t.Helper()
	withStorage(t, tensor.Float32, run)
}

func withStorage(t *testing.T, storage tensor.Element, run func(s *suite)) {
	t.Helper()
	s := &suite{t, kerneltest.Team(t, 2, tensor.NewMeter()), random(), storage}
	defer s.team.Memory.Close()
	assert.Empty(t, kernel.FellBack(s.team, func() { run(s) }))
}

// each runs a test for each of some sizes, with the same random numbers. Matrices reuse the memory of the
// size before, because fresh pages take more time than most kernels.
func (s *suite) each(sizes []int, run func(s *suite, size int)) {
	withStorage(s.t, s.storage, func(s *suite) {
		s.team.Memory.Reserve(reused)
		for _, size := range sizes {
			s.r = random()
			run(s, size)
			s.team.Memory.Clear(reused)
		}
	})
}

func (s *suite) normal(rows, cols int) *tensor.Matrix { return normal(s.team, s.r, rows, cols) }

// stored returns normal numbers of the storage type.
func (s *suite) stored(rows, cols int) *tensor.Matrix { return s.as(s.storage, s.normal(rows, cols)) }

// as returns m's numbers, rounded to an element type, or m itself if it has that type.
func (s *suite) as(element tensor.Element, m *tensor.Matrix) *tensor.Matrix {
	if m.Element == element {
		return m
	}
	c := s.team.Memory.NewElement(tensor.Activations, element, m.Rows, m.Cols)
	for i, v := range numbers(m) {
		if element == tensor.BFloat16 {
			c.BFloat16s()[i] = tensor.RoundBFloat16(v)
		} else {
			c.Floats()[i] = v
		}
	}
	return c
}

// numbers returns the numbers of a Float32 matrix, or copies of a BFloat16 matrix's.
func numbers(m *tensor.Matrix) []float32 {
	if m.Element == tensor.Float32 {
		return m.Floats()
	}
	copies := make([]float32, m.Len())
	for i, bits := range m.BFloat16s() {
		copies[i] = tensor.FromBFloat16(bits)
	}
	return copies
}

// roundoff returns the largest relative error of rounding a number in Float32 to a type; it is 0 for Float32.
func roundoff(e tensor.Element) float64 {
	if e == tensor.BFloat16 {
		return 1.0 / (1 << 8)
	}
	return 0
}

// same reports whether two matrices have the same bits.
func same(a, b *tensor.Matrix) bool { return bytes.Equal(a.Bytes(), b.Bytes()) }

// positive returns numbers between a half and one and a half.
func (s *suite) positive(rows, cols int) *tensor.Matrix {
	m := s.team.Memory.New(tensor.Activations, rows, cols)
	for i := range m.Floats() {
		m.Floats()[i] = .5 + s.r.Float32()
	}
	return m
}

// blank returns NaNs: a kernel that reads what it should only write shows it.
func (s *suite) blank(rows, cols int) *tensor.Matrix { return s.blankOf(tensor.Float32, rows, cols) }

// unwritten is blank, of the storage type.
func (s *suite) unwritten(rows, cols int) *tensor.Matrix { return s.blankOf(s.storage, rows, cols) }

func (s *suite) blankOf(element tensor.Element, rows, cols int) *tensor.Matrix {
	m := s.team.Memory.NewElement(tensor.Activations, element, rows, cols)
	s.team.Fill(m, float32(math.NaN()))
	return m
}

func (s *suite) copy(m *tensor.Matrix) *tensor.Matrix { return clone(s.team, m) }

func clone(team *kernel.Team, m *tensor.Matrix) *tensor.Matrix {
	c := team.Memory.NewElement(tensor.Activations, m.Element, m.Rows, m.Cols)
	copy(c.Bytes(), m.Bytes())
	return c
}

func (s *suite) zeros(rows, cols int) *tensor.Matrix { return s.team.Zeros(tensor.Buffers, rows, cols) }

func (s *suite) ones(rows, cols int) *tensor.Matrix {
	m := s.blank(rows, cols)
	s.team.Fill(m, 1)
	return m
}

// inPlace computes z from x. It fails unless x becomes the same if z is x.
func (s *suite) inPlace(what string, x *tensor.Matrix, run func(z, x *tensor.Matrix)) *tensor.Matrix {
	s.t.Helper()
	z, over := s.unwritten(x.Rows, x.Cols), s.copy(x)
	run(z, x)
	run(over, over)
	if !same(z, over) {
		s.t.Fatalf("%s: in place gives other numbers", what)
	}
	return z
}

// int32s returns a matrix for integers.
func (s *suite) int32s(rows, cols int) *tensor.Matrix {
	return s.team.Memory.NewElement(tensor.Buffers, tensor.Int32, rows, cols)
}

// row returns a matrix with one row of the given values.
func (s *suite) row(values ...float32) *tensor.Matrix {
	m := s.team.Memory.New(tensor.Activations, 1, len(values))
	copy(m.Floats(), values)
	return m
}

func (s *suite) ints(values []int32) *tensor.Matrix {
	m := s.int32s(1, len(values))
	copy(m.Int32s(), values)
	return m
}

// permutation returns a column of 0…n−1 in random order.
func (s *suite) permutation(n int) *tensor.Matrix {
	p := s.counted(n)
	s.r.Shuffle(n, func(i, j int) { p.Int32s()[i], p.Int32s()[j] = p.Int32s()[j], p.Int32s()[i] })
	return p
}

// counted returns a column of 0…n−1.
func (s *suite) counted(n int) *tensor.Matrix {
	p := s.int32s(n, 1)
	for i := range p.Int32s() {
		p.Int32s()[i] = int32(i)
	}
	return p
}

// tangled returns a directed graph on n vertices. Vertex 2 is a hub with so many in-edges, and vertex 4 one
// with as many out-edges. Every 13th vertex has no edge at all. There are self loops and duplicate edges.
func (s *suite) tangled(n, hub int) *kernel.CSR {
	lonely := func(v int) bool { return v%13 == 7 }
	lists := make([][]int32, n)
	add := func(source, target int) {
		if !lonely(source) && !lonely(target) {
			lists[target] = append(lists[target], int32(source))
		}
	}
	for v := range n {
		for range s.r.IntN(6) {
			add(s.r.IntN(n), v)
		}
		if v%5 == 0 {
			add(v, v)
			add((v+1)%n, v)
			add((v+1)%n, v)
		}
	}
	for range hub {
		add(s.r.IntN(n), min(2, n-1))
		add(min(4, n-1), s.r.IntN(n))
	}
	return s.rows(n, lists)
}

// rows makes a matrix from each row's column numbers.
func (s *suite) rows(cols int, lists [][]int32) *kernel.CSR {
	indptr, indices := []int64{0}, []int32{}
	for _, list := range lists {
		slices.Sort(list)
		indices = append(indices, list...)
		indptr = append(indptr, int64(len(indices)))
	}
	return csr(s.team, len(lists), cols, indptr, indices)
}

// list is a row's column numbers.
func list(a *kernel.CSR, row int) []int32 {
	return a.Indices.Int32s()[a.Indptr.Int64s()[row]:a.Indptr.Int64s()[row+1]]
}

// exact returns a matrix in float64, and values a vector; nil stays nil.
func exact(m *tensor.Matrix) *reference.Matrix { return reference.From32(m.Rows, m.Cols, numbers(m)) }

func values(m *tensor.Matrix) []float64 {
	if m == nil {
		return nil
	}
	return reference.Vector(numbers(m))
}

func magnitudes(m *reference.Matrix) *reference.Matrix { return m.Map(math.Abs) }

func magnitudesOf(v []float64) []float64 {
	if v == nil {
		return nil
	}
	return magnitudes(&reference.Matrix{Rows: 1, Cols: len(v), Data: v}).Data
}

const u = 1.0 / (1 << 24) // half a unit in the last place of 1

// sumError returns the allowed error of a sum of n terms, relative to Σ|terms|.
func sumError(n int) float64 { return (8 + 4*math.Sqrt(float64(n))) * u }

// within fails unless each number is within its allowance of the exact one, and then rounded to the matrix's
// type. An allowance of 0 asks for equality. NaN is within no allowance.
func (s *suite) within(what string, matrix *tensor.Matrix, want []float64, allowance func(i int) float64) {
	s.t.Helper()
	got := numbers(matrix)
	if len(got) != len(want) {
		s.t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		allowed := allowance(i)
		if allowed > 0 {
			allowed += roundoff(matrix.Element) * (math.Abs(w) + allowed)
		}
		if d := math.Abs(float64(got[i]) - w); !(d <= allowed) {
			s.t.Fatalf("%s: number %d of %d is %v, want %v: off by %.3g, allowed %.3g", what, i, len(got),
				got[i], w, d, allowed)
		}
	}
}

// sums compares sums with their exact values, given Σ|terms| of each.
func (s *suite) sums(what string, got *tensor.Matrix, want, terms []float64, n int) {
	s.t.Helper()
	s.within(what, got, want, func(i int) float64 { return sumError(n) * terms[i] })
}

// elements compares element-wise results.
func (s *suite) elements(what string, got *tensor.Matrix, want []float64, roundings float64) {
	s.t.Helper()
	s.within(what, got, want, func(i int) float64 { return roundings * u * math.Max(1, math.Abs(want[i])) })
}

// rowwise compares results of longer computations on numbers of about 1, with sums of up to n terms.
func (s *suite) rowwise(what string, got *tensor.Matrix, want *reference.Matrix, n int) {
	s.t.Helper()
	floor := math.Max(1, largest(want.Data)) / 100
	size := make([]float64, want.Rows)
	for i := range size {
		size[i] = largest(want.Data[i*want.Cols:(i+1)*want.Cols]) + floor
	}
	s.within(what, got, want.Data, func(i int) float64 { return (1e-5 + sumError(n)) * size[i/want.Cols] })
}

// vector is rowwise for a vector's gradient, whose elements are sums over all rows. They may cancel
// altogether.
func (s *suite) vector(what string, got *tensor.Matrix, want []float64, n int) {
	s.t.Helper()
	size := math.Max(1, largest(want))
	s.within(what, got, want, func(int) float64 { return (1e-5 + sumError(n)) * size })
}

// largest returns the largest absolute value.
func largest(v []float64) (x float64) {
	for _, w := range v {
		x = math.Max(x, math.Abs(w))
	}
	return x
}

// case_ names a combination in a message.
func case_(parts ...any) string { return strings.TrimSuffix(fmt.Sprintln(parts...), "\n") }
