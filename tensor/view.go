package tensor

import "fmt"

// As returns a view of the same bytes with another element type, in rows × cols that take as many bytes.
func (m *Matrix) As(e Element, rows, cols int) *Matrix {
	if rows*cols*e.Size() != m.Len()*m.Element.Size() {
		panic(fmt.Sprintf("tensor: %d bytes as %d×%d elements of %d", m.Len()*m.Element.Size(),
			rows, cols, e.Size()))
	}
	v := m.view()
	v.Rows, v.Cols, v.Element = rows, cols, e
	return v
}

// Narrow turns a Float32 matrix into a BFloat16 one. The BFloat16 elements must be in the first half of its
// memory already; Narrow gives the other half back. The matrix must have one holder.
func (m *Matrix) Narrow() {
	if m.Element != Float32 || m.retained > 0 || m.meter == nil {
		panic("tensor: only a Float32 matrix with one holder and memory of its own is narrowed")
	}
	m.SetWritable()
	m.Element = BFloat16
	m.meter.shrink(m, pages(m.Rows*m.Cols*m.Element.Size()))
}

// Hold is Reshape for a view that takes over the caller's hold of the matrix: the view's Release releases the
// matrix.
func (m *Matrix) Hold(rows, cols int) *Matrix {
	v := m.Reshape(rows, cols)
	v.held = m
	return v
}

// whole returns the matrix that a view holds, or else the matrix itself.
func (m *Matrix) whole() *Matrix {
	for m != nil && m.held != nil {
		m = m.held
	}
	return m
}
