//go:build !weftdebug

package tensor_test

import (
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
)

// TestExtents: a matrix gets the smallest range that is large enough. If there is none, extents slide
// together.
func TestExtents(t *testing.T) {
	m, d := newOnDevice(t, 10)
	pages := func(n int) *tensor.Matrix {
		x := m.New(tensor.Activations, n, tensor.PageSize/4)
		for i := range x.Floats() {
			x.Floats()[i] = float32(n*10_000 + i)
		}
		return x
	}
	page := func(x *tensor.Matrix) int {
		return int(onDevice(t, m, false, x)[0]-firstAddress) / tensor.PageSize
	}
	a, b, c, e := pages(3), pages(1), pages(1), pages(4)
	assert.Equal(t, []int{0, 3, 4, 5}, []int{page(a), page(b), page(c), page(e)})
	b.Release()
	b = pages(1)
	assert.Equal(t, 3, page(b), "of ranges of 1 page, at 3 and at 9, the first")
	a.Release()
	f := pages(1)
	assert.Equal(t, 9, page(f), "the smallest range")
	f.Release()
	g := pages(4)
	assert.Equal(t, []int{0, 1, 2, 6}, []int{page(b), page(c), page(e), page(g)})
	assert.Equal(t, []int64{tensor.PageSize, tensor.PageSize, 3 * tensor.PageSize, tensor.PageSize}, d.copies)
	for _, x := range []*tensor.Matrix{b, c, e, g} {
		onDevice(t, m, true, x) // so that the host's elements are not valid
		for i, v := range x.ReadFloats() {
			require.Equal(t, float32(x.Rows*10_000+i), v)
		}
	}
	assert.Equal(t, int64(10*tensor.PageSize), m.DeviceUse().PeakBytes)
	assert.Equal(t, "out of memory: 4096 more bytes were refused (the device has 40960 bytes for this worker)",
		failure(func() { pages(1) }).Error())
}
