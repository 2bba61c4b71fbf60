package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"weft/graph/internal/pump"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// rowsPerByte bounds the rows that a file may claim, by its size. A row group of a million equal values, with
// a dictionary and a run of its index, takes some 250 bytes. A graph also has other columns, such as its ids.
const rowsPerByte = 1 << 12

// mostRows is the largest number of rows of a file of so many bytes.
func mostRows(size int64) int64 { return 1<<20 + rowsPerByte*size }

// eachParquet reads a Parquet file of so many bytes. It tells how many of them the rows read stand for.
func (t *Table) eachParquet(f io.ReaderAt, size int64, tell func(read int64), choose Choose,
	do func(*Row) error,
) (err error) {
	// The library panics on some damaged files.
	defer func() {
		if recover() != nil {
			err = errPanics(t.Path)
		}
	}()
	refuse := func(err error) error { return refusal.In(t.Path, err) }
	if err := checkFooter(f, size); err != nil {
		return refuse(err)
	}
	file, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return refuse(orDamaged(err, errMetadata))
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
	row.columns = make([]Column, len(order))
	row.logical = make([]*format.LogicalType, len(order))
	for k, column := range order {
		row.columns[k] = columns[column]
		if column < len(all) {
			row.logical[k] = all[column].Type().LogicalType()
		}
	}
	groups := &groups{
		Table: t, file: file, at: f, size: size, row: row, columns: all, order: order, group: -1,
		most: mostRows(size),
	}
	defer groups.close()
	ahead := pump.New(groups.fill)
	defer ahead.Close()
	for {
		b, err := ahead.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		row.batch = b.columns
		for row.in = range b.rows {
			row.At++
			if err := do(row); err != nil {
				return err
			}
		}
		tell(int64(float64(size) * float64(row.At) / float64(max(1, file.NumRows()))))
	}
}

// errPanics is the refusal of a file on which the library panics.
func errPanics(path string) error {
	return refusal.In(path, errDamaged("is a damaged Parquet file"))
}

// errDamaged refuses a file that is not as it was written.
func errDamaged(what string) error {
	return refusal.Damaged("%s: restore the file, or write it again", what)
}

// orDamaged is an error of the library if the file cannot be read, or has a text that is too long. Otherwise
// it is damage, which is said in weft's words.
func orDamaged(err, damage error) error {
	path := (*fs.PathError)(nil)
	if errors.As(err, &path) || errors.Is(err, errLong) || refusal.IsDamaged(err) {
		return err
	}
	return damage
}

// groups decodes the rows of a Parquet file, one row group after another.
type groups struct {
	*Table
	file    *parquet.File
	at      io.ReaderAt
	size    int64
	columns []*parquet.Column // of the file
	order   []int             // the columns that are read, in order
	row     *Row              // has the names of these columns
	most    int64             // the most rows that such a file may have

	group   int // the group that is being read
	readers []*columnReader
	left    int64 // rows of the group
	before  int64 // rows of the groups up to and including this one
}

// fill decodes the next rows.
func (g *groups) fill(b *batch) (_ *batch, err error) {
	// The library panics on some damaged files.
	defer func() {
		if recover() != nil {
			err = errPanics(g.Path)
		}
	}()
	for g.left == 0 {
		g.close()
		if g.group++; g.group == len(g.file.RowGroups()) {
			return b, io.EOF
		}
		if err := g.open(g.file.RowGroups()[g.group]); err != nil {
			return b, err
		}
	}
	if b == nil {
		b = &batch{columns: make([]columnBatch, len(g.readers))}
	}
	b.rows = int(min(g.left, int64(max(fewestRows, batchValues/max(1, len(g.readers))))))
	for k, c := range g.readers {
		if read, err := c.fill(&b.columns[k], b.rows); err != nil {
			at := Position{path: g.Path, parquet: true, At: g.before - g.left + int64(read) + 1}
			return b, at.Errorf("column %q: %w", g.row.columns[k].Name, orDamaged(err, errPage))
		}
	}
	g.left -= int64(b.rows)
	return b, nil
}

// open begins to read a row group, whose pages it checks.
func (g *groups) open(group parquet.RowGroup) error {
	rows := group.NumRows()
	if rows < 0 || g.before > g.most-rows {
		return refusal.In(g.Path, errDamaged(fmt.Sprintf("claims more rows than a file of %d bytes can hold", g.size)))
	}
	chunks, need := group.ColumnChunks(), int64(0)
	for _, column := range g.order {
		if column >= len(g.columns) {
			always := g.folderColumns[column-len(g.columns)].always()
			g.readers = append(g.readers, &columnReader{always: always})
			continue
		}
		c := g.columns[column]
		if isNull(c) {
			g.readers = append(g.readers, &columnReader{always: parquet.NullValue()})
			continue
		}
		meta := &g.file.Metadata().RowGroups[g.group].Columns[c.Index()].MetaData
		more, err := checkPages(g.at, g.size, meta, c.Optional(), g.before, rows)
		if err == nil {
			need += more
			err = memory.Need(need)
		}
		if err != nil {
			return refusal.In(g.Path, fmt.Errorf("column %q: %w", c.Name(), err))
		}
		g.readers = append(g.readers, &columnReader{
			pages: chunks[c.Index()].Pages(), text: c.Type().Kind() == parquet.ByteArray,
		})
	}
	g.left, g.before = rows, g.before+rows
	return nil
}

func (g *groups) close() {
	for _, c := range g.readers {
		c.close()
	}
	g.readers = g.readers[:0]
}

// kindOf is the kind of a column of Parquet.
func kindOf(c *parquet.Column) Kind {
	switch {
	case !c.Leaf() || c.Repeated():
		return Nested
	case isNull(c):
		return Words
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

// isNull reports whether a column has no value by its type, as Arrow writes a column without one.
func isNull(c *parquet.Column) bool {
	logical := c.Type().LogicalType()
	if logical == nil {
		return false
	}
	_, is := logical.Value.(*format.NullType)
	return is
}

// checkFooter looks at the file's metadata before the library does.
func checkFooter(f io.ReaderAt, size int64) error {
	const magic, tail = 4, 8 // at the start; at the end the length of the footer and the magic again
	if size < magic+tail {
		return errDamaged("is too short for a Parquet file")
	}
	var end [tail]byte
	if _, err := f.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != "PAR1" || length > size-magic-tail {
		return errDamaged("is a Parquet file that is cut short, or encrypted")
	}
	const growth = 512 // an empty structure has one byte in the file
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
func integer(v *parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// Rows of Parquet are decoded so many values at a time, and fewestRows at least.
const (
	batchValues = 4096
	fewestRows  = 16
)

// batch is a few rows, by column.
type batch struct {
	columns []columnBatch
	rows    int
}

// columnBatch is the values of a column, null where missing, with the pages to which they belong.
type columnBatch struct {
	values []parquet.Value
	pages  []parquet.Page
}

// columnReader reads the values of one column of a row group.
type columnReader struct {
	pages  parquet.Pages // nil: all values are equal, as a folder gives them, or a type without values
	always parquet.Value // that value
	page   parquet.Page
	reader parquet.ValueReader
	text   bool // a text may be too long
}

// fill reads the next n values into a batch. With an error it returns how many values come before it.
func (c *columnReader) fill(b *columnBatch, n int) (read int, err error) {
	b.release()
	if len(b.values) < n {
		b.values = make([]parquet.Value, n)
	}
	if c.pages == nil {
		for k := range n {
			b.values[k] = c.always
		}
		return n, nil
	}
	for read < n {
		if c.reader == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return read, errDamaged("it has fewer values than the table has rows")
			}
			if err != nil {
				return read, err
			}
			c.page, c.reader = page, page.Values()
		}
		parquet.Retain(c.page)
		b.pages = append(b.pages, c.page)
		m, err := c.reader.ReadValues(b.values[read:n])
		if errors.Is(err, io.EOF) {
			parquet.Release(c.page)
			c.page, c.reader = nil, nil
		} else if err != nil {
			return read, err
		} else if m == 0 {
			return read, io.ErrNoProgress
		}
		for k := read; c.text && k < read+m; k++ {
			if len(b.values[k].ByteArray()) > longest {
				return k, errLong
			}
		}
		read += m
	}
	return read, nil
}

// release gives back the pages of the values.
func (b *columnBatch) release() {
	for _, page := range b.pages {
		parquet.Release(page)
	}
	b.pages = b.pages[:0]
}

func (c *columnReader) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	if c.pages != nil {
		_ = c.pages.Close()
	}
}
