package ogb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"weft/graph/internal/lines"
	"weft/graph/internal/table"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// text reads numbers from a gzip file of text: rows of equally many in each line, with commas between them,
// and no header.
type text struct {
	lines   *lines.Reader
	path    string
	columns int // of a file without rows; 0: not given
	first   []byte
	ahead   bool      // the first line has been read and not taken
	values  []float32 // of the last rows
}

const (
	longestLine = 64 << 20 // bytes
	blockValues = 64 << 10 // numbers that are read at a time
)

// form is the form of all files of text.
func form(path string) lines.Form {
	return lines.Form{
		Path: path, Kind: foreign.Gzip, Text: "rows of numbers", Line: "a row of numbers",
		Longest: longestLine,
	}
}

// openText opens a table of so many columns; 0: as many as the first line has.
func openText(path string, columns int) (t *text, err error) {
	t = &text{path: path, columns: columns}
	if t.lines, err = lines.Open(form(path)); err != nil {
		return nil, refusal.Advise(err, fetchAgain)
	}
	t.first, err = t.line()
	if err != nil && !errors.Is(err, io.EOF) {
		t.Close()
		return nil, err
	}
	t.ahead = err == nil
	if t.ahead && columns == 0 {
		t.columns = 1 + bytes.Count(t.first, []byte(","))
	}
	return t, nil
}

func (t *text) Close() { _ = t.lines.Close() }

// line returns the next line, and io.EOF if there is none.
func (t *text) line() (line []byte, err error) {
	if t.ahead {
		t.ahead = false
		return t.first, nil
	}
	line, err = t.lines.Next()
	return line, refusal.Advise(err, fetchAgain)
}

// ids reads rows of ids, each below the limit of its column, as many as the buffer can hold. It returns how
// many ids it has read, and io.EOF after the last row. It skips empty lines.
func (t *text) ids(buffer []int32, limits ...int) (n int, err error) {
	for n+t.columns <= len(buffer) {
		line, err := t.line()
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if err != nil {
			return n, err
		}
		if len(line) == 0 {
			continue
		}
		if err := parseIDs(buffer[n:n+t.columns], line, limits); err != nil {
			return n, t.lines.Errorf("%w", err)
		}
		n += t.columns
	}
	return n, nil
}

// parseIDs reads the ids of a line.
func parseIDs(ids []int32, line []byte, limits []int) error {
	const most = 10 // digits of 31 bits
	at := 0
	for c := range ids {
		id := uint64(0)
		start := at
		for at < len(line) && line[at]-'0' <= 9 {
			id = id*10 + uint64(line[at]-'0')
			at++
		}
		last := c == len(ids)-1
		ends := last == (at == len(line)) && (last || line[at] == ',')
		if at == start || at-start > most || id >= uint64(limits[c]) || !ends {
			return notIDs(line, limits)
		}
		ids[c] = int32(id)
		at++
	}
	return nil
}

// notIDs says what is wrong with a line.
func notIDs(line []byte, limits []int) error {
	fields := bytes.Split(line, []byte(","))
	if len(fields) != len(limits) {
		return fmt.Errorf("%d columns, where there are %d", len(fields), len(limits))
	}
	for c, field := range fields {
		if id, err := strconv.ParseUint(string(field), 10, 64); err != nil {
			return fmt.Errorf("%.40q is not an id", field)
		} else if id >= uint64(limits[c]) {
			return fmt.Errorf("%d is out of the range of %d", id, limits[c])
		}
	}
	return fmt.Errorf("%.40q has more than ids and commas", line) // such as leading zeros
}

// readLines reads the lines of a short file, cut into their fields. Empty ones are skipped.
func readLines(path string) (all [][]string, err error) {
	const most = 1 << 16 // bytes
	size := 0
	err = lines.Each(form(path), func(line []byte, _ int64) error {
		size += 1 + len(line)
		if size > most {
			return fmt.Errorf("more than %d bytes, as no such list has", most)
		}
		all = append(all, strings.Split(string(line), ","))
		return nil
	})
	return all, refusal.Advise(err, fetchAgain)
}

// width returns the number of columns.
func (t *text) width() int { return t.columns }

// Next reads the next rows of numbers, which the next call overwrites, and returns io.EOF after the last. An
// empty field is NaN, and so is an empty line of one column. It skips other empty lines.
func (t *text) Next() ([]float32, error) {
	if t.values == nil {
		buffer, err := memory.Grow([]float32{}, max(blockValues, t.columns))
		if err != nil {
			return nil, t.lines.Errorf("%w", err)
		}
		t.values = buffer[:cap(buffer)]
	}
	n := 0
	for n+t.columns <= len(t.values) {
		line, err := t.line()
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(line) == 0 && t.columns > 1 {
			continue
		}
		if err := t.parse(t.values[n:n+t.columns], line); err != nil {
			return nil, t.lines.Errorf("%w", err)
		}
		n += t.columns
	}
	return t.values[:n], nil
}

// parse reads the numbers of a line.
func (t *text) parse(values []float32, line []byte) error {
	rest := line
	for c := range values {
		end := bytes.IndexByte(rest, ',')
		more := end >= 0
		if !more {
			end = len(rest)
		}
		x, ok := number(rest[:end])
		if !ok || more == (c == len(values)-1) {
			return t.notNumbers(line)
		}
		values[c] = float32(x)
		rest = rest[min(end+1, len(rest)):]
	}
	return nil
}

// notNumbers says what is wrong with a line.
func (t *text) notNumbers(line []byte) error {
	fields := bytes.Split(line, []byte(","))
	if len(fields) != t.columns {
		return fmt.Errorf("%d columns, where the lines before have %d", len(fields), t.columns)
	}
	for _, field := range fields {
		if _, ok := number(field); !ok {
			return fmt.Errorf("%.40q is not a number", field)
		}
	}
	return errors.New("is no row of numbers")
}

// number is the number in a field; NaN if the field is empty.
func number(field []byte) (x float64, ok bool) {
	if len(field) == 0 || string(field) == `""` {
		return math.NaN(), true
	}
	return table.Number(field)
}

// where names the row, counted from 0.
func (t *text) where(row int64) string { return fmt.Sprintf("%s:%d", t.path, row+1) }
