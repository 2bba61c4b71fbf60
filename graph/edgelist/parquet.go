package edgelist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"weft/graph"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// rowsPerByte bounds the rows that a file may claim by its size: an edge has an entropy, so that no honest
// one takes less than a fraction of a bit.
const rowsPerByte = 64

// readParquet reads a Parquet file.
func (l *list) readParquet(f io.ReaderAt, size int64, progress graph.Progress) error {
	t := parquetTable{path: l.path, file: f, size: size, progress: progress}
	return t.read(l.parquetColumns, l.readGroup)
}

// parquetTable is a Parquet file of that path and so many bytes.
type parquetTable struct {
	path     string
	file     io.ReaderAt
	size     int64
	progress graph.Progress
}

// read calls group with the columns that choose returns, of each row group, with the number of its rows, and
// that of its first one from 1.
func (t *parquetTable) read(choose func(*parquet.File) ([]*parquet.Column, error), group func(columns []*columnReader, rows, first int64) error) (err error) {
	// The library panics on some damaged files.
	defer func() {
		if p := recover(); p != nil {
			err = refusal.Damaged("%s: a damaged Parquet file: %.200v", t.path, p)
		}
	}()
	f, size := t.file, t.size
	if err := checkFooter(f, size); err != nil {
		return refusal.Errorf("%s: %w", t.path, err)
	}
	file, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return refusal.Errorf("%s: %w", t.path, err)
	}
	columns, err := choose(file)
	if err != nil {
		return err
	}
	most := 1<<20 + rowsPerByte*size
	first := int64(1)
	for i, g := range file.RowGroups() {
		rows := g.NumRows()
		if rows < 0 || first-1 > most-rows {
			return refusal.Errorf("%s: claims more rows than a file of %d bytes can hold", t.path, size)
		}
		chunks := g.ColumnChunks()
		readers := make([]*columnReader, 0, len(columns))
		for _, c := range columns {
			meta := &file.Metadata().RowGroups[i].Columns[c.Index()].MetaData
			if err := checkPages(f, size, meta, c.Optional(), rows); err != nil {
				return refusal.Errorf("%s: column %q: %w", t.path, c.Name(), err)
			}
			readers = append(readers, &columnReader{name: c.Name(), pages: chunks[c.Index()].Pages()})
		}
		err := group(readers, rows, first)
		for _, r := range readers {
			r.close()
		}
		if err != nil {
			return err
		}
		first += rows
		t.progress.Of("reading "+t.path, first-1, file.NumRows())
	}
	return nil
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

// parquetColumns finds source, target, weight, where there is one, and features.
func (l *list) parquetColumns(file *parquet.File) ([]*parquet.Column, error) {
	found := make([]*parquet.Column, roles+len(l.features))
	var names []string
	for _, c := range file.Root().Columns() {
		names = append(names, fmt.Sprintf("%.40q", c.Name()))
		role, known := role([]byte(c.Name()))
		if feature := slices.Index(l.features, c.Name()); feature >= 0 {
			role, known = roles+feature, true
		}
		if !known {
			l.unread = append(l.unread, c.Name())
			continue
		}
		if found[role] != nil {
			return nil, refusal.Errorf("%s: columns %q and %q have one meaning: rename one", l.path, found[role].Name(), c.Name())
		}
		if !c.Leaf() || c.Repeated() || !readable(c.Type().Kind(), role) {
			return nil, refusal.Errorf("%s: column %q does not hold one %s per row",
				l.path, c.Name(), []string{"id", "id", "number"}[min(role, 2)])
		}
		found[role] = c
	}
	if found[0] == nil || found[1] == nil {
		return nil, refusal.Errorf("%s: has columns %s: name those of the edges src and dst (or source and target, or 0 and 1)",
			l.path, strings.Join(names[:min(len(names), 20)], ", "))
	}
	for i, name := range l.features {
		if found[roles+i] == nil {
			return nil, refusal.Errorf("%s: has columns %s, and none is %.40q, which %s asks for", l.path,
				strings.Join(names[:min(len(names), 20)], ", "), name, refusal.Setting("edge-features"))
		}
	}
	if found[2] == nil {
		found = slices.Delete(found, 2, 3)
	}
	return found, nil
}

// readable reports whether a column of that type can be an end of an edge, or a weight or feature.
func readable(kind parquet.Kind, role int) bool {
	switch kind {
	case parquet.Int32, parquet.Int64:
		return true
	case parquet.ByteArray:
		return role < 2
	case parquet.Float, parquet.Double:
		return role >= 2
	}
	return false
}

// readGroup adds the edges of one row group.
func (l *list) readGroup(columns []*columnReader, rows, first int64) error {
	for at := first; at < first+rows; at++ {
		var ends [2]int32
		for i := range ends {
			v, err := columns[i].next()
			if err == nil {
				ends[i], err = l.parquetVertex(v, at)
			}
			if err != nil {
				return l.columnError(columns[i], at, err)
			}
		}
		l.values = l.values[:0]
		for i, c := range columns[2:] {
			v, err := c.next()
			if err != nil {
				return l.columnError(c, at, err)
			}
			if err := l.value(i, len(columns)-2, number(v), at); err != nil {
				return err
			}
		}
		if err := l.add(ends[0], ends[1], at); err != nil {
			return err
		}
	}
	return nil
}

// columnError names the column that an error came from, unless it is a refusal already.
func (l *list) columnError(c *columnReader, at int64, err error) error {
	if refusal.Is(err) {
		return err
	}
	return l.refuse(at, "column %q: %w", c.name, err)
}

// parquetVertex returns the vertex that a value names.
func (l *list) parquetVertex(v parquet.Value, at int64) (int32, error) {
	isText := v.Kind() == parquet.ByteArray
	switch {
	case isText && l.names != nil:
		return l.id(v.ByteArray(), at)
	case isText:
		return 0, l.refuse(at, "%.40q is not a vertex id: give %s if ids are names",
			v.ByteArray(), refusal.Setting("string-ids"))
	case l.names != nil:
		return l.id(strconv.AppendInt(nil, integer(v), 10), at)
	}
	return l.vertex(strconv.AppendInt(nil, integer(v), 10), at)
}

// integer widens a value of an integer column.
func integer(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// number returns the value of a weight or feature.
func number(v parquet.Value) float64 {
	switch v.Kind() {
	case parquet.Float:
		return float64(v.Float())
	case parquet.Double:
		return v.Double()
	}
	return float64(integer(v))
}

// columnReader hands out the values of one column of a row group.
type columnReader struct {
	name   string
	pages  parquet.Pages
	page   parquet.Page
	reader parquet.ValueReader
	buffer [1024]parquet.Value
	values []parquet.Value // those of the buffer that are left
}

// next returns the next value, valid until the next call. A missing value is an error.
func (c *columnReader) next() (parquet.Value, error) {
	v, err := c.nextOrNull()
	if err == nil && v.IsNull() {
		err = fmt.Errorf("a value is missing")
	}
	return v, err
}

// nextOrNull is next, where a value may be missing.
func (c *columnReader) nextOrNull() (parquet.Value, error) {
	for len(c.values) == 0 {
		if c.reader == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return parquet.Value{}, fmt.Errorf("it has fewer values than the table has rows")
			}
			if err != nil {
				return parquet.Value{}, err
			}
			c.page, c.reader = page, page.Values()
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
	_ = c.pages.Close()
}
