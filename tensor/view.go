package tensor

import "fmt"

// As is a view of the same bytes as a matrix of another element type, and of rows and columns that take as many
// bytes.
func (m *Matrix) As(e Element, rows, cols int) *Matrix {
	if rows*cols*e.Size() != m.Len()*m.Element.Size() {
		panic(fmt.Sprintf("tensor: %d bytes as %d×%d elements of %d", m.Len()*m.Element.Size(), rows, cols, e.Size()))
	}
	return &Matrix{Rows: rows, Cols: cols, Element: e, Device: m.Device, data: m.Pointer()}
}
