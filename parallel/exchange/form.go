package exchange

import (
	"slices"

	"weft/tensor"
)

// Form describes what the rows of a message are taken from. A message holds one matrix's rows after the
// other's.
type Form []Columns

// Columns are those of one matrix.
type Columns struct {
	Count   int
	Element tensor.Element // Float32 or BFloat16
}

// FormOf is the form of messages with rows of these matrices.
func FormOf(of []*tensor.Matrix) (f Form) {
	for _, m := range of {
		f = append(f, Columns{m.Cols, m.Element})
	}
	return f
}

// Element is the element type of a message: the smallest of its parts'.
func (f Form) Element() tensor.Element {
	if slices.ContainsFunc(f, func(c Columns) bool { return c.Element == tensor.BFloat16 }) {
		return tensor.BFloat16
	}
	return tensor.Float32
}

// Width is the number of elements of a message for each row.
func (f Form) Width() (n int) {
	for _, c := range f {
		n += c.Count * c.Element.Size() / f.Element().Size()
	}
	return n
}

// New makes n buffers for messages of so many rows.
func (f Form) New(memory *tensor.Meter, n, rows int) []*tensor.Matrix {
	return Buffers(memory, n, f.Element(), rows, f.Width())
}

// Parts returns the part of a message, or of its buffer, that holds the rows of each matrix. Float32 parts
// come first, so that their elements are aligned.
func (f Form) Parts(message *tensor.Matrix) []*tensor.Matrix {
	flat, at, parts := message.Reshape(message.Len(), 1), 0, make([]*tensor.Matrix, len(f))
	for _, element := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
		for i, c := range f {
			if c.Element != element {
				continue
			}
			end := at + message.Rows*c.Count*c.Element.Size()/message.Element.Size()
			parts[i] = flat.RowRange(at, end).As(c.Element, message.Rows, c.Count)
			at = end
		}
	}
	return parts
}
