package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// rowsPerByte bounds the rows that a file may claim by its size: an edge has an entropy, so that no honest
// one takes less than a fraction of a bit.
const rowsPerByte = 64

// eachParquet reads a Parquet file of so many bytes, and tells how many of them stand for the rows read.
func (t *Table) eachParquet(f io.ReaderAt, size int64, tell func(read int64), choose Choose,
	do func(*Row) error,
) (err error) {
	// The library panics on some damaged files.
	defer func() {
		if p := recover(); p != nil {
			err = refusal.Damaged("%s: a damaged Parquet file: %.200v", t.Path, p)
		}
	}()
	refuse := func(err error) error { return refusal.In(t.Path, err) }
	if err := checkFooter(f, size); err != nil {
		return refuse(err)
	}
	file, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return refuse(err)
	}
	all := file.Root().Columns()
	columns := make([]Column, len(all))
	for k, c := range all {
		columns[k] = Column{c.Name(), kindOf(c)}
	}
	columns, err = t.withGiven(columns, Words)
	if err != nil {
		return refuse(err)
	}
	order, err := choose(columns)
	if err != nil {
		return refuse(err)
	}
	row := &Row{Position: Position{path: t.Path, parquet: true}}
	row.values = make([]parquet.Value, len(order))
	row.columns = make([]Column, len(order))
	row.logical = make([]*format.LogicalType, len(order))
	for k, column := range order {
		row.columns[k] = columns[column]
		if column < len(all) {
			row.logical[k] = all[column].Type().LogicalType()
		}
	}
	most := 1<<20 + rowsPerByte*size
	for i, g := range file.RowGroups() {
		rows := g.NumRows()
		if rows < 0 || row.At > most-rows {
			return refusal.Errorf("%s: claims more rows than a file of %d bytes can hold", t.Path, size)
		}
		chunks := g.ColumnChunks()
		readers := make([]*columnReader, len(order))
		need := int64(0)
		for k, column := range order {
			if column >= len(all) {
				readers[k] = &columnReader{always: t.given[column-len(all)].parquet()}
				continue
			}
			c := all[column]
			meta := &file.Metadata().RowGroups[i].Columns[c.Index()].MetaData
			more, err := checkPages(f, size, meta, c.Optional(), row.At, rows)
			if err == nil {
				need += more
				err = memory.Need(need)
			}
			if err != nil {
				return refuse(fmt.Errorf("column %q: %w", c.Name(), err))
			}
			readers[k] = &columnReader{pages: chunks[c.Index()].Pages()}
		}
		err := row.each(readers, rows, do)
		for _, r := range readers {
			r.close()
		}
		if err != nil {
			return err
		}
		tell(int64(float64(size) * float64(row.At) / float64(max(1, file.NumRows()))))
	}
	return nil
}

// each calls do with the next rows of Parquet, so many, of these columns.
func (r *Row) each(columns []*columnReader, rows int64, do func(*Row) error) (err error) {
	for range rows {
		r.At++
		for k, c := range columns {
			if r.values[k], err = c.next(); err != nil {
				return r.ColumnErrorf(k, "%w", err)
			}
			if v := r.values[k]; v.Kind() == parquet.ByteArray && len(v.ByteArray()) > longest {
				return r.ColumnErrorf(k, "%w", errLong)
			}
		}
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// kindOf is what a column of Parquet holds.
func kindOf(c *parquet.Column) Kind {
	if !c.Leaf() || c.Repeated() {
		return Nested
	}
	switch c.Type().Kind() {
	case parquet.FixedLenByteArray:
		if scaleOf(c.Type().LogicalType()) >= 0 {
			return Reals
		}
		return Nested
	case parquet.Int32, parquet.Int64:
		return Integers
	case parquet.Float, parquet.Double:
		return Reals
	case parquet.ByteArray, parquet.Int96:
		return Words
	case parquet.Boolean:
		return Truths
	}
	return Nested
}

// checkFooter looks at the file's metadata before the library does.
func checkFooter(f io.ReaderAt, size int64) error {
	const magic, tail = 4, 8 // at the start; at the end the length of the footer and the magic again
	if size < magic+tail {
		return fmt.Errorf("is too short for a Parquet file")
	}
	var end [tail]byte
	if _, err := f.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != "PAR1" || length > size-magic-tail {
		return refusal.Damaged("is a Parquet file that is cut short, or encrypted")
	}
	const growth = 512 // an empty structure is one byte in the file
	if err := memory.Need(growth * length); err != nil {
		return err
	}
	footer := make([]byte, length)
	if _, err := f.ReadAt(footer, size-tail-length); err != nil {
		return err
	}
	m := metadata{data: footer}
	return m.structure(0)
}

// integer widens a value of an integer column.
func integer(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// columnReader hands out the values of one column of a row group.
type columnReader struct {
	pages  parquet.Pages
	page   parquet.Page
	reader parquet.ValueReader
	buffer [1024]parquet.Value
	values []parquet.Value // those of the buffer that are left
	always parquet.Value   // of a column that a folder gives: without pages
}

// next returns the next value, null where it is missing. It is valid until the next call.
func (c *columnReader) next() (parquet.Value, error) {
	if c.pages == nil {
		return c.always, nil
	}
	for len(c.values) == 0 {
		if c.reader == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return parquet.Value{}, fmt.Errorf("it has fewer values than the table has rows")
			}
			if err != nil {
				return parquet.Value{}, err
			}
			c.page = page
			c.reader = page.Values()
		}
		n, err := c.reader.ReadValues(c.buffer[:])
		c.values = c.buffer[:n]
		if errors.Is(err, io.EOF) {
			if n == 0 {
				c.release()
			}
		} else if err != nil {
			return parquet.Value{}, err
		} else if n == 0 {
			return parquet.Value{}, io.ErrNoProgress
		}
	}
	v := c.values[0]
	c.values = c.values[1:]
	return v, nil
}

func (c *columnReader) release() {
	parquet.Release(c.page)
	c.page, c.reader = nil, nil
}

func (c *columnReader) close() {
	if c.page != nil {
		c.release()
	}
	if c.pages != nil {
		_ = c.pages.Close()
	}
}
