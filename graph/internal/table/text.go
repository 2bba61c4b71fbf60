package table

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"weft/graph/internal/lines"
	"weft/graph/internal/pump"
	"weft/internal/foreign"
)

// textReader reads the rows of text.
type textReader struct {
	*Table
	lines     *lines.Reader
	separator Separator // 0: the first row decides
	headed    bool      // a line names the columns
	named     int       // columns that it names
	at        int64     // the line on which the last row begins
	record    []byte    // a row of several lines
	ended     error     // io.EOF after the last row, or why there is no further one
}

// rows are a few rows of text.
type rows struct {
	text   []byte
	fields [][]byte // in text, one row after another
	rows   []textRow
	read   int64 // bytes of the file
}

// textRow says where a row of text ends.
type textRow struct {
	end  int // the end of its fields
	line int64
}

// eachLine reads text. read returns how many bytes of the file have been read. Further rows are read ahead of
// do on a goroutine of their own, unless they may be slow to come, as from a pipe.
func (t *Table) eachLine(text io.Reader, kind foreign.Kind, ahead bool, read func() int64,
	tell func(read int64), choose Choose, do func(*Row) error,
) error {
	form := lines.Form{Path: t.Path, Kind: kind, Text: t.Line, Line: t.Line, Longest: longest}
	l, err := lines.New(text, form)
	if err != nil {
		return err
	}
	defer l.Close()
	r := &textReader{Table: t, lines: l, headed: t.Header}
	row := &Row{Position: Position{path: t.Path}}
	if err := r.begin(row, choose); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if !r.headed {
		if err := do(row); err != nil {
			return err
		}
	}
	buffer := &rows{}
	next := func() (*rows, error) { return r.fill(buffer, 1, read) }
	if ahead {
		p := pump.New(func(b *rows) (*rows, error) { return r.fill(b, rowsAhead, read) })
		defer p.Close()
		next = p.Next
	}
	for {
		b, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		tell(b.read)
		from := 0
		for _, current := range b.rows {
			row.fields, row.At, from = b.fields[from:current.end], current.line, current.end
			if err := do(row); err != nil {
				return err
			}
		}
	}
}

// begin reads the first row, and asks choose whether it names the columns.
func (r *textReader) begin(row *Row, choose Choose) error {
	line, err := r.next()
	if err != nil {
		return err
	}
	row.At, row.separator = r.at, r.separator
	if row.fields, err = r.split(nil, line); err != nil {
		return err
	}
	columns := make([]Column, len(row.fields))
	for k, name := range row.fields {
		columns[k].Name = string(name)
	}
	r.named = len(columns)
	if columns, err = r.withGiven(columns, Any); err == nil {
		row.order, err = choose(columns)
	}
	if err != nil {
		return row.Errorf("%w", err)
	}
	if r.headed = row.order != nil; r.headed {
		row.columns = columns
	}
	return nil
}

// rowsAhead is how many rows are read at a time.
const rowsAhead = 2048

// fill reads the next rows, most at most, into b.
func (r *textReader) fill(b *rows, most int, read func() int64) (*rows, error) {
	if b == nil {
		b = &rows{}
	}
	b.text, b.fields, b.rows = b.text[:0], b.fields[:0], b.rows[:0]
	const enough = 128 << 10 // bytes of text
	for len(b.rows) < most && len(b.text) < enough && r.ended == nil {
		var fields [][]byte
		line, err := r.next()
		if err == nil {
			// If text moves to grow, earlier fields keep the old memory.
			from := len(b.text)
			b.text = append(b.text, line...)
			fields, err = r.split(b.fields, b.text[from:])
		}
		if err != nil {
			r.ended = err
			break
		}
		b.fields = fields
		b.rows = append(b.rows, textRow{len(fields), r.at})
	}
	b.read = read()
	if len(b.rows) == 0 {
		return b, r.ended
	}
	return b, nil
}

// next is the line, or the lines, of the next row. The next call overwrites them.
func (r *textReader) next() ([]byte, error) {
	for {
		line, err := r.lines.Next()
		if err != nil {
			return nil, err
		}
		blank := line
		if len(blank) == 0 || blank[0] <= ' ' {
			blank = bytes.TrimLeft(line, " \t")
		}
		if len(blank) == 0 || !r.headed && (blank[0] == '#' || blank[0] == '%') {
			if r.lines.Number() == 1 && bytes.HasPrefix(line, []byte("%%MatrixMarket")) {
				return nil, r.lines.Errorf("a Matrix Market file counts from 1: write its entries as edges that " +
					"count from 0")
			}
			continue
		}
		r.at = r.lines.Number()
		if r.separator == 0 {
			r.separator = r.Table.separator(line, r.lines)
		}
		// In a list between spaces that has no header a quote may be a letter of a name.
		if (r.headed || r.separator != ' ') && r.separator.goesOn(line, false) {
			return r.whole(line)
		}
		return line, nil
	}
}

// whole is a line, with the following lines into which a quoted field continues.
func (r *textReader) whole(line []byte) ([]byte, error) {
	r.record = append(r.record[:0], line...)
	for inside := true; inside; {
		next, err := r.lines.Next()
		if errors.Is(err, io.EOF) || err == nil && len(r.record)+len(next) > longest {
			return nil, Position{At: r.at, path: r.Path}.Errorf("a field begins with a quote that no other " +
				"closes: close it, or leave the quote out")
		}
		if err != nil {
			return nil, err
		}
		r.record = append(append(r.record, '\n'), next...)
		inside = r.separator.goesOn(next, true)
	}
	return r.record, nil
}

// split appends the fields of a row.
func (r *textReader) split(fields [][]byte, line []byte) ([][]byte, error) {
	refuse := Position{At: r.at, path: r.Path}.Errorf
	if r.separator.hasReturn(line) {
		return nil, refuse(`a line ends as those of old Macs: convert the file, as with tr '\r' '\n'`)
	}
	from := len(fields)
	fields, err := r.separator.Split(fields, line)
	if err != nil {
		return nil, refuse("%w", err)
	}
	if !r.headed || r.named == 0 { // 0: this is the first row
		return fields, nil
	}
	// Every line but the header may end with a separator.
	for n := len(fields); n-from > r.named && len(fields[n-1]) == 0; n-- {
		fields = fields[:n-1]
	}
	if len(fields)-from == r.named {
		for _, col := range r.folderColumns {
			fields = append(fields, col.value)
		}
	}
	return fields, nil
}

// separator is the separator of a table with this first line. A line of one word has one column, whose values
// may have spaces.
func (t *Table) separator(line []byte, l *lines.Reader) Separator {
	const most = 10
	behind := slices.DeleteFunc(l.Behind(line), func(next []byte) bool {
		next = bytes.TrimLeft(next, " \t")
		return len(next) == 0 || !t.Header && (next[0] == '#' || next[0] == '%')
	})
	s := SeparatorOf(line, t.Separators, behind[:min(len(behind), most)]...)
	if s == ' ' && t.Header && bytes.IndexByte(s.trim(line), ' ') < 0 {
		return Separator(t.Separators[0])
	}
	return s
}
