package arrays

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"weft/graph/internal/pump"
	"weft/internal/memory"
	"weft/internal/npy"
)

// Rows are the rows of an array with one dimension or more, as float32. They are read in blocks, ahead of
// whoever takes them.
type Rows struct {
	npy.Header
	Columns int // 1 of a vector
	entry   *Entry
	pump    *pump.Pump[[]float32]
}

// OpenRows opens an array, and begins to read it.
func OpenRows(open func() (*Entry, error)) (*Rows, error) {
	e, err := open()
	if err != nil {
		return nil, err
	}
	blocks, err := npy.NewBlocks(e, e.Size)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	r := &Rows{Header: blocks.Header, Columns: 1, entry: e}
	for _, n := range blocks.Shape[min(1, len(blocks.Shape)):] {
		r.Columns *= n
	}
	r.pump = pump.New(func(buffer []float32) ([]float32, error) {
		block, err := blocks.Next()
		if err != nil {
			return nil, cmp.Or(e.sumAtEnd(err), err)
		}
		rows, err := block.Float32s()
		if err != nil {
			return nil, err
		}
		if buffer, err = memory.Grow(buffer[:0], len(rows)); err != nil {
			return nil, err
		}
		return append(buffer, rows...), nil
	})
	return r, nil
}

// Next returns the next rows, row-major, which the next call may overwrite, and io.EOF after the last. At the
// end the checksum of the entry has been compared.
func (r *Rows) Next() ([]float32, error) { return r.pump.Next() }

// Close closes the entry.
func (r *Rows) Close() {
	r.pump.Close()
	_ = r.entry.Close()
}

// sumAtEnd compares the checksum of an entry, if err says that it has come to its end.
func (e *Entry) sumAtEnd(err error) error {
	if !errors.Is(err, io.EOF) {
		return nil
	}
	return e.Sum()
}

// EndsReader reads the ends of edges.
type EndsReader interface {
	// Next returns the ends of the next edges, which the next call may overwrite, and io.EOF after the last.
	Next() (source, target []int32, err error)
	Close()
}

// Ends are the ends of the edges in an array of integers, 2 × E or E × 2, or in two vectors. They are read in
// blocks, ahead of whoever takes them. If the sources lie before the targets, two readers read the array side
// by side.
type Ends struct {
	EndsOptions
	entries []*Entry
	ends    []*pump.Pump[[]int32] // of sources and of targets, or of both together
	both    [2][]int32            // of edges whose two ends lie together
	left    [2][]int32            // if they lie apart: what has been read and not taken
}

// EndsOptions say how Ends are read.
type EndsOptions struct {
	Open  func() (*Entry, error) // opens the array again
	ByEnd bool                   // the array is 2 × E
	Low   int64                  // the smallest id
	High  [2]int64               // of sources and of targets: one more than the largest id
	// Outside makes the refusal of an element that is not within these bounds.
	Outside func(element int, id, high int64) error
}

// OpenEnds begins to read the ends of edges, from an array of one of these shapes.
func OpenEnds(o EndsOptions) (*Ends, error) {
	e := &Ends{EndsOptions: o}
	if err := e.open(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// OpenVectors begins to read the ends of edges from two vectors of equal length, of sources and of targets.
// The options are those of OpenEnds, without Open.
func OpenVectors(open [2]func() (*Entry, error), o EndsOptions) (*Ends, error) {
	e := &Ends{EndsOptions: o}
	for k := range open {
		e.Open = open[k]
		from, err := e.once()
		if err != nil {
			e.Close()
			return nil, err
		}
		e.ends = append(e.ends, from.ids(0, o.Low, [2]int64{o.High[k], o.High[k]}, o.Outside))
	}
	return e, nil
}

func (e *Ends) open() error {
	first, err := e.once()
	if err != nil {
		return err
	}
	if len(first.Shape) != 2 {
		return fmt.Errorf("has shape %v, where edges have two ends", first.Shape)
	}
	apart, edges := e.ByEnd != first.Fortran, first.Shape[0]
	if e.ByEnd {
		edges = first.Shape[1]
	}
	first.Flat()
	if !apart {
		e.ends = append(e.ends, first.ids(0, e.Low, e.High, e.Outside))
		return nil
	}
	second, err := e.once()
	if err != nil {
		return err
	}
	second.Flat()
	first.Keep(edges)
	e.ends = append(e.ends, first.ids(0, e.Low, [2]int64{e.High[0], e.High[0]}, e.Outside))
	e.ends = append(e.ends, second.ids(edges, e.Low, [2]int64{e.High[1], e.High[1]}, e.Outside))
	return nil
}

// reading is an array that is read once.
type reading struct {
	*npy.Blocks
	entry *Entry
}

// once opens the array again.
func (e *Ends) once() (*reading, error) {
	entry, err := e.Open()
	if err != nil {
		return nil, err
	}
	e.entries = append(e.entries, entry)
	blocks, err := npy.NewBlocks(entry, entry.Size)
	return &reading{blocks, entry}, err
}

// ids reads the elements ahead, except the first skip. outside refuses an element that is below low, or not
// below the high of its place, even or odd.
func (r *reading) ids(skip int, low int64, high [2]int64,
	outside func(element int, id, high int64) error,
) *pump.Pump[[]int32] {
	return pump.New(func(ids []int32) ([]int32, error) {
		if err := r.Skip(skip); err != nil {
			return nil, err
		}
		skip = 0
		block, err := r.Next()
		if err != nil {
			return nil, cmp.Or(r.entry.sumAtEnd(err), err)
		}
		wide, err := block.Int64s()
		if err != nil {
			return nil, err
		}
		if ids, err = memory.Grow(ids[:0], len(wide)); err != nil {
			return nil, err
		}
		for k, id := range wide {
			if id < low || id >= high[k%2] {
				return nil, outside(block.Element(k), id, high[k%2])
			}
			ids = append(ids, int32(id))
		}
		return ids, nil
	})
}

// Next implements EndsReader. At the end the checksums of the entry hold.
func (e *Ends) Next() (source, target []int32, err error) {
	for k, p := range e.ends {
		if len(e.left[k]) > 0 {
			continue
		}
		var failed error
		e.left[k], failed = p.Next()
		if failed != nil && !errors.Is(failed, io.EOF) {
			return nil, nil, failed
		}
		err = cmp.Or(err, failed)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(e.ends) == 2 {
		n := min(len(e.left[0]), len(e.left[1]))
		source, target = e.left[0][:n], e.left[1][:n]
		e.left = [2][]int32{e.left[0][n:], e.left[1][n:]}
		return source, target, nil
	}
	e.both = [2][]int32{e.both[0][:0], e.both[1][:0]}
	for k := 0; k+1 < len(e.left[0]); k += 2 {
		e.both[0], e.both[1] = append(e.both[0], e.left[0][k]), append(e.both[1], e.left[0][k+1])
	}
	e.left[0] = nil
	return e.both[0], e.both[1], nil
}

// Close closes the entries.
func (e *Ends) Close() {
	for _, p := range e.ends {
		p.Close()
	}
	for _, entry := range e.entries {
		_ = entry.Close()
	}
}

// CSREnds are the ends of the edges of a sparse matrix: from its rows to its columns.
type CSREnds struct {
	bounds []int64 // of the rows
	file   *reading
	ids    *pump.Pump[[]int32] // of the columns
	row    int                 // of the next edge
	at     int64               // its number
	rows   []int32
}

// OpenCSR begins to read the ends of the edges of a sparse matrix, given the bounds of its rows. Its columns
// are in an open entry, which is closed on failure. outside refuses an element that is no column.
func OpenCSR(m *CSR, e *Entry, outside func(element int, id, high int64) error) (*CSREnds, error) {
	blocks, err := npy.NewBlocks(e, e.Size)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	file, high := &reading{blocks, e}, int64(m.Columns)
	return &CSREnds{bounds: m.Indptr, file: file, ids: file.ids(0, 0, [2]int64{high, high}, outside)}, nil
}

// Next implements EndsReader.
func (c *CSREnds) Next() (source, target []int32, err error) {
	if target, err = c.ids.Next(); err != nil {
		return nil, nil, err
	}
	c.rows = c.rows[:0]
	for range target {
		for c.at == c.bounds[c.row+1] {
			c.row++
		}
		c.rows = append(c.rows, int32(c.row))
		c.at++
	}
	return c.rows, target, nil
}

// Close closes the entry.
func (c *CSREnds) Close() {
	c.ids.Close()
	_ = c.file.entry.Close()
}
