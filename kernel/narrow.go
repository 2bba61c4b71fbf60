package kernel

import "weft/tensor"

// narrowedFirst is the number of elements that Narrow rounds one by one.
const narrowedFirst = 1 << 10

// Narrow rounds a Float32 matrix to BFloat16 in its own memory, and gives back half of it. Elements n … 2n−1
// lie behind all bytes that they are written to. So such ranges, which double in length, are rounded by all
// threads.
func (t *Team) Narrow(m *tensor.Matrix) {
	from, n := m.Reshape(m.Len(), 1), m.Len()
	to := from.As(tensor.BFloat16, 2*n, 1).RowRange(0, n)
	first := min(n, narrowedFirst)
	t.Serial(func() {
		for i, x := range from.Floats()[:first] {
			to.BFloat16s()[i] = tensor.RoundBFloat16(x)
		}
	})
	for lo := first; lo < n; lo *= 2 {
		hi := min(2*lo, n)
		t.Convert(to.RowRange(lo, hi), from.RowRange(lo, hi))
	}
	m.Narrow()
}
