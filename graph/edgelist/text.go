package edgelist

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"weft/internal/foreign"
	"weft/internal/refusal"
)

// bufferSize is also the longest line that is read.
const bufferSize = 1 << 20

// text is the form of a text file, which its first line of data sets.
type text struct {
	separator byte  // ',', ';' or '\t'; ' ' means any number of spaces and tabs
	columns   int   // 2, or 3 with weights, and the number of features; 0 before the first line
	first     int64 // the line of the first edge
	// order is where a header says that source, target, weight (if there is one) and features stand; nil:
	// source, target and weight stand in that order
	order []int
}

// readText reads lines of edges.
func (l *list) readText(r *bufio.Reader) error {
	var form text
	most := roles + len(l.features)
	fields, edge := make([][]byte, most+1), make([][]byte, most)
	for number := int64(1); ; number++ {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return l.refuse(number, "the line is longer than %d bytes, which is no list of edges", bufferSize)
		case errors.Is(err, io.EOF) && len(line) == 0:
			if form.order == nil && l.names != nil {
				return l.checkFirst(form.first)
			}
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return refusal.Damaged("%s:%d: %w: the file is damaged or cut short", l.path, number, err)
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte(foreign.ByteOrderMark))
			if bytes.HasPrefix(line, []byte("%%MatrixMarket")) {
				return l.refuse(number, "a Matrix Market file counts from 1: write its entries as edges that count from 0")
			}
		}
		line = bytes.TrimRight(line, "\r\n")
		if blank := bytes.TrimLeft(line, " \t"); len(blank) == 0 || blank[0] == '#' || blank[0] == '%' {
			continue
		}
		first := form.separator == 0
		if first {
			form.separator = separator(line, l.names != nil)
		}
		n := form.split(line, fields)
		if first && l.isHeader(fields[:n]) {
			if form.order, err = l.header(fields[:n], number); err != nil {
				return err
			}
			form.columns = n
			continue
		}
		if form.columns == 0 {
			form.columns, form.first = n, number
		}
		switch {
		case form.order == nil && len(l.features) > 0:
			return l.refuse(number, "there is no header, and %s needs the names of columns: put a line before with a name for each column",
				refusal.Setting("edge-features"))
		case form.order != nil && n != form.columns && len(l.features) > 0:
			return l.refuse(number, "%s: the header names %d", columns(n, most), form.columns)
		case n != form.columns || n < 2 || n > most:
			return l.refuse(number, "%s: each line has a source, a target and, all or none, a weight", columns(n, most))
		}
		copy(edge, fields)
		for role, column := range form.order {
			edge[role] = fields[column]
		}
		if err := l.parse(edge[:n], number); err != nil {
			return err
		}
	}
}

// columns says how many columns a line has, where more than most are not counted.
func columns(n, most int) string {
	switch {
	case n == 1:
		return "1 column"
	case n > most:
		return fmt.Sprintf("more than %d columns", most)
	}
	return strconv.Itoa(n) + " columns"
}

// separator returns the first of comma, semicolon and, where vertices have names, tab that the line has,
// else ' '.
func separator(line []byte, names bool) byte {
	for _, s := range []byte(",;\t") {
		if bytes.IndexByte(line, s) >= 0 && (s != '\t' || names) {
			return s
		}
	}
	return ' '
}

// split cuts the line into fields, whose number it returns. If it fills all of them, the last one says that
// there are too many.
func (t *text) split(line []byte, fields [][]byte) int {
	n := 0
	for n < len(fields) {
		line = t.trim(line)
		if len(line) == 0 && t.separator == ' ' {
			return n
		}
		field, rest, more := t.cut(line)
		fields[n] = field
		n++
		if !more {
			return n
		}
		line = rest
	}
	return n
}

// cut takes the first field off a line; more says that a separator follows it.
func (t *text) cut(line []byte) (field, rest []byte, more bool) {
	if len(line) > 0 && line[0] == '"' {
		if field, rest, ok := unquote(line); ok {
			rest = t.trim(rest)
			switch {
			case len(rest) == 0:
				return field, nil, false
			case t.separator == ' ':
				return field, rest, true
			case rest[0] == t.separator:
				return field, rest[1:], true
			}
		}
	}
	end := bytes.IndexByte(line, t.separator)
	if t.separator == ' ' {
		end = bytes.IndexAny(line, " \t")
	}
	if end < 0 {
		return t.trim(line), nil, false
	}
	return t.trim(line[:end]), line[end+1:], true
}

// trim takes spaces off both ends, and tabs where they do not separate columns.
func (t *text) trim(b []byte) []byte {
	space := func(c byte) bool { return c == ' ' || c == '\t' && t.separator != '\t' }
	for len(b) > 0 && space(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && space(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// unquote takes a field in double quotes off a line that starts with one; a quote inside is written twice
// (RFC 4180).
func unquote(line []byte) (field, rest []byte, ok bool) {
	for i := 1; i < len(line); i++ {
		if line[i] != '"' {
			continue
		}
		if i+1 < len(line) && line[i+1] == '"' {
			i++
			continue
		}
		return bytes.ReplaceAll(line[1:i], []byte(`""`), []byte(`"`)), line[i+1:], true
	}
	return nil, nil, false
}

// parse adds the edge of a line's fields.
func (l *list) parse(fields [][]byte, number int64) error {
	var ends [2]int32
	for i := range ends {
		var err error
		if l.names != nil {
			ends[i], err = l.id(fields[i], number)
		} else {
			ends[i], err = l.vertex(fields[i], number)
		}
		if err != nil {
			return err
		}
	}
	l.values = l.values[:0]
	for i, field := range fields[2:] {
		x, err := strconv.ParseFloat(string(field), 32)
		if err != nil {
			return l.refuse(number, "%s %.40q is not a number that fits 32 bits", l.what(i, len(fields)-2), field)
		}
		if err := l.value(i, len(fields)-2, x, number); err != nil {
			return err
		}
	}
	return l.add(ends[0], ends[1], number)
}

// vertex reads a decimal id.
func (l *list) vertex(field []byte, number int64) (int32, error) {
	id := int64(0)
	for _, c := range field {
		if c < '0' || c > '9' || id >= math.MaxInt32/10+1 {
			id = -1
			break
		}
		id = id*10 + int64(c-'0')
	}
	if len(field) == 0 || id < 0 || id >= math.MaxInt32 {
		return 0, l.refuse(number, "%.40q is not a vertex id below %d: give %s if ids are names",
			field, math.MaxInt32, refusal.Setting("string-ids"))
	}
	return int32(id), nil
}
