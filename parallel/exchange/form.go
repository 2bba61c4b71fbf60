package exchange

import (
	"weft/kernel"
	"weft/tensor"
)

// Form describes from what the rows of a message are taken. A message holds the rows of one matrix after
// those of another.
type Form []Columns

// Columns describe the columns of one matrix in a message.
type Columns struct {
	Count   int
	Element tensor.Element // Float32 or BFloat16
	// Format is the number format in which a row is sent.
	Format kernel.Format
	// Sent (Int32, 1 × n, ascending) lists the columns that are sent; nil: all. The receiver sets the others
	// to zero.
	Sent *tensor.Matrix
}

// FormOf is the form of messages with rows of these matrices as they are stored.
func FormOf(matrices []*tensor.Matrix) (f Form) {
	for _, m := range matrices {
		f = append(f, Columns{Count: m.Cols, Element: m.Element})
	}
	return f
}

// Stored is the form of the same rows sent as they are stored.
func (f Form) Stored() (s Form) {
	for _, c := range f {
		c.Format, c.Sent = kernel.AsStored, nil
		s = append(s, c)
	}
	return s
}

// Encodes reports whether rows are sent in another form than the stored one.
func (f Form) Encodes() bool {
	for _, c := range f {
		if element, _ := c.row(); element != c.Element || c.Sent != nil {
			return true
		}
	}
	return false
}

// row is the element type of a row in a message, and its number of elements.
func (c Columns) row() (tensor.Element, int) {
	count := c.Count
	if c.Sent != nil {
		count = c.Sent.Cols
	}
	return c.Format.Row(c.Element, count)
}

// Element is the element type of a message: the smallest among its parts. It does not depend on numbers of
// columns.
func (f Form) Element() tensor.Element {
	smallest := tensor.Float32
	for _, c := range f {
		if e := c.Format.Unit(c.Element); e.Size() < smallest.Size() {
			smallest = e
		}
	}
	return smallest
}

// Width is the number of elements of a message for each row.
func (f Form) Width() (n int) {
	for _, c := range f {
		element, width := c.row()
		n += width * element.Size() / f.Element().Size()
	}
	return n
}

// Bytes is the number of bytes of a message for each row.
func (f Form) Bytes() int { return f.Width() * f.Element().Size() }

// New makes n buffers for messages of so many rows.
func (f Form) New(memory *tensor.Meter, n, rows int) []*tensor.Matrix {
	return Buffers(memory, n, f.Element(), rows, f.Width())
}

// Parts returns the parts of a message, or of its buffer, with the rows of each matrix. Parts of larger
// elements come first, so that they are aligned.
func (f Form) Parts(message *tensor.Matrix) []*tensor.Matrix {
	flat := message.Reshape(message.Len(), 1)
	at := 0
	parts := make([]*tensor.Matrix, len(f))
	for _, element := range []tensor.Element{tensor.Float32, tensor.BFloat16, tensor.Byte} {
		for i, c := range f {
			its, width := c.row()
			if its != element {
				continue
			}
			end := at + message.Rows*width*its.Size()/message.Element.Size()
			parts[i] = flat.RowRange(at, end).As(its, message.Rows, width)
			at = end
		}
	}
	return parts
}

// Encode makes a message from rows as they are stored. draws gives the Draws for each matrix.
func (f Form) Encode(team *kernel.Team, message, stored *tensor.Matrix, draws func(matrix int) kernel.Draws) {
	from := f.Stored().Parts(stored)
	for i, part := range f.Parts(message) {
		f[i].Encode(team, part, from[i], nil, draws(i))
	}
}

// Decode makes rows as they are stored from a message.
func (f Form) Decode(team *kernel.Team, stored, message *tensor.Matrix) {
	f.DecodeInto(team, f.Stored().Parts(stored), message)
}

// DecodeInto makes rows of each matrix from a message, in Float32 or BFloat16.
func (f Form) DecodeInto(team *kernel.Team, to []*tensor.Matrix, message *tensor.Matrix) {
	for i, part := range f.Parts(message) {
		f[i].Decode(team, to[i], part, nil, kernel.Replace)
	}
}

// Encode writes the listed rows of x into a part of a message, in the columns' Format. d keys the random
// rounding.
func (c Columns) Encode(team *kernel.Team, part, x, rows *tensor.Matrix, d kernel.Draws) {
	team.Encode(c.Format, part, x, rows, c.Sent, d)
}

// Decode writes a part of a message into the listed rows of z, or adds it to them. If it overwrites z and the
// part lacks some columns, these become zero in z.
func (c Columns) Decode(team *kernel.Team, z, part, rows *tensor.Matrix, to kernel.Output) {
	if c.Sent != nil && to == kernel.Replace {
		team.Zero(z)
	}
	team.Decode(c.Format, z, part, rows, c.Sent, to)
}
