package bench

import (
	"weft/kernel"
	"weft/tensor"
)

// arrays makes a kernel's matrices, which are released together.
type arrays struct {
	team *kernel.Team
	made []*tensor.Matrix
}

// element is a matrix with undefined elements.
func (a *arrays) element(e tensor.Element, rows, cols int) *tensor.Matrix {
	m := a.team.Memory.NewElement(tensor.Buffers, e, rows, cols)
	a.made = append(a.made, m)
	return m
}

// matrix is a Float32 matrix of numbers between −1 and 1, of which no two neighbours are alike.
func (a *arrays) matrix(rows, cols int) *tensor.Matrix {
	m := a.element(tensor.Float32, rows, cols)
	values := m.Floats()
	a.each(m, func(i int) { values[i] = float32(int32(scatter(i))) / (1 << 31) })
	return m
}

// ids is an Int32 matrix of numbers from 0 to below.
func (a *arrays) ids(rows, cols, below int) *tensor.Matrix {
	m := a.element(tensor.Int32, rows, cols)
	values := m.Int32s()
	a.each(m, func(i int) { values[i] = int32(scatter(i) % uint32(below)) })
	return m
}

// each calls set for each element.
func (a *arrays) each(m *tensor.Matrix, set func(i int)) {
	probes{a.team}.ranges(m.Len(), lineWords, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			set(i)
		}
	})
}

// scatter spreads consecutive numbers over all 32-bit numbers (Knuth's multiplicative hash).
func scatter(i int) uint32 { return uint32(i) * 2654435769 }

func (a *arrays) zeros(rows, cols int) *tensor.Matrix {
	m := a.element(tensor.Float32, rows, cols)
	a.team.Zero(m)
	return m
}

// filled is a matrix of equal numbers.
func (a *arrays) filled(rows, cols int, value float32) *tensor.Matrix {
	m := a.element(tensor.Float32, rows, cols)
	a.team.Fill(m, value)
	return m
}

// normalization multiplies by less than 1, as what it makes may be normalised over and over.
func (a *arrays) normalization(cols int) kernel.Normalization {
	return kernel.Normalization{
		Mean: a.matrix(1, cols), Rstd: a.matrix(1, cols), Gamma: a.matrix(1, cols),
		Beta: a.matrix(1, cols),
	}
}

// state is a running softmax before any edge.
func (a *arrays) state(rows, heads, width int) *kernel.AttentionState {
	s := a.team.AttentionStart(rows, heads, width, tensor.Float32)
	a.made = append(a.made, s.Maximum, s.Out)
	return s
}

func (a *arrays) release() {
	for _, m := range a.made {
		m.Release()
	}
}
