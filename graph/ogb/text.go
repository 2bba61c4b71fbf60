package ogb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"weft/graph/internal/pump"
	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// table reads numbers from a gzip file of text: rows of equally many to each line, commas between them, no
// header. The decompression runs on a goroutine of its own.
type table struct {
	path    string
	columns int // of a file without rows, 0 where they were not given
	file    *os.File
	pump    *pump.Pump[[]byte]
	text    []byte    // whole lines that are not read yet
	line    int64     // lines that were read
	values  []float32 // of the last rows
}

const (
	textBuffer  = 256 << 10 // bytes of text that are unpacked at a time
	longestLine = 64 << 20  // bytes
	blockValues = 64 << 10  // numbers that are read at a time
)

// openTable opens a table of so many columns; 0: as many as the first line has.
func openTable(path string, columns int) (*table, error) {
	file, _, err := regular.Open(path)
	if err != nil {
		return nil, refusal.Advise(err, fetchAgain)
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		_ = file.Close()
		return nil, refusal.Errorf("%s: not the gzip file that it should be (%w); %s", path, err, fetchAgain)
	}
	t := &table{path: path, columns: columns, file: file}
	var rest []byte // the begin of a line
	t.pump = pump.New(func(buffer []byte) (lines []byte, err error) {
		lines, rest, err = wholeLines(z, buffer, rest)
		return lines, err
	})
	if err := t.fill(); err != nil && !errors.Is(err, io.EOF) {
		t.Close()
		return nil, err
	}
	if columns == 0 && len(t.text) > 0 {
		t.columns = 1 + bytes.Count(t.text[:bytes.IndexByte(t.text, '\n')], []byte(","))
	}
	return t, nil
}

func (t *table) Close() {
	t.pump.Close()
	_ = t.file.Close()
}

// wholeLines fills a buffer with the rest of the text before and with text from r, up to the end of a line.
// It returns that, and what follows it.
func wholeLines(r io.Reader, buffer, rest []byte) (lines, more []byte, err error) {
	if buffer, err = memory.Grow(buffer[:0], max(textBuffer, 2*len(rest))); err != nil {
		return nil, nil, err
	}
	buffer = append(buffer, rest...)
	for {
		n, err := r.Read(buffer[len(buffer) : cap(buffer)-1]) // with room for the end of the last line
		buffer = buffer[:len(buffer)+n]
		full, end := len(buffer) == cap(buffer)-1, 0
		if full {
			end = bytes.LastIndexByte(buffer, '\n') + 1
		}
		switch {
		case errors.Is(err, io.EOF) && len(buffer) == 0:
			return nil, nil, io.EOF
		case errors.Is(err, io.EOF):
			if buffer[len(buffer)-1] != '\n' {
				buffer = append(buffer, '\n')
			}
			return buffer, nil, nil
		case err != nil:
			return nil, nil, refusal.Damaged("damaged or cut short (%w)", err)
		case end > 0:
			return buffer[:end], append(rest[:0], buffer[end:]...), nil
		case full && len(buffer) > longestLine:
			return nil, nil, fmt.Errorf("a line is longer than %d bytes", longestLine)
		case full:
			if buffer, err = memory.Grow(buffer, len(buffer)); err != nil {
				return nil, nil, err
			}
		}
	}
}

// fill takes the next lines, and returns io.EOF where there are none.
func (t *table) fill() error {
	text, err := t.pump.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return refusal.Errorf("%w; %s", t.located(t.line, err), fetchAgain)
	}
	t.text = text
	return err
}

// located puts the file and the line, counted from 0, before an error.
func (t *table) located(line int64, err error) error {
	return refusal.Errorf("%s:%d: %w", t.path, line+1, err)
}

// ids reads rows of ids, each below the limit of its column, as many as the buffer can hold. It returns
// how many ids these are, and io.EOF after the last row. Empty lines are skipped.
func (t *table) ids(buffer []int32, limits ...int) (n int, err error) {
	for n+t.columns <= len(buffer) {
		if len(t.text) == 0 {
			if err := t.fill(); err != nil {
				if errors.Is(err, io.EOF) && n > 0 {
					return n, nil
				}
				return n, err
			}
		}
		if length := t.parseIDs(buffer[n:n+t.columns], limits); length > 0 {
			t.text = t.text[length:]
			n += t.columns
		} else if err := t.skipBlank(limits); err != nil {
			return n, err
		}
		t.line++
	}
	return n, nil
}

// parseIDs reads the ids of the next line, and returns the length of that; 0 if it is anything else.
func (t *table) parseIDs(ids []int32, limits []int) (length int) {
	const most = 10 // digits of 31 bits
	at, text := 0, t.text
	for c := range ids {
		id, start := uint64(0), at
		for text[at]-'0' <= 9 {
			id = id*10 + uint64(text[at]-'0')
			at++
		}
		if at == start || at-start > most || id >= uint64(limits[c]) {
			return 0
		}
		ids[c] = int32(id)
		if c == len(ids)-1 {
			if text[at] == '\r' {
				at++
			}
			if text[at] != '\n' {
				return 0
			}
		} else if text[at] != ',' {
			return 0
		}
		at++
	}
	return at
}

// skipBlank skips a line that is empty, and says what is wrong with any other.
func (t *table) skipBlank(limits []int) error {
	line, fields := t.cut()
	if len(line) == 0 {
		t.text = t.text[bytes.IndexByte(t.text, '\n')+1:]
		return nil
	}
	if len(fields) != t.columns {
		return t.located(t.line, fmt.Errorf("%d columns, where there are %d", len(fields), t.columns))
	}
	for c, field := range fields {
		if id, err := strconv.ParseUint(string(field), 10, 64); err != nil {
			return t.located(t.line, fmt.Errorf("%.40q is not an id", field))
		} else if id >= uint64(limits[c]) {
			return t.located(t.line, fmt.Errorf("%d is out of the range of %d", id, limits[c]))
		}
	}
	return t.located(t.line, fmt.Errorf("%.40q has more than ids and commas", line)) // such as leading zeros
}

// cut cuts the next line into its fields.
func (t *table) cut() (line []byte, fields [][]byte) {
	line = bytes.TrimRight(t.text[:bytes.IndexByte(t.text, '\n')], "\r")
	return line, bytes.Split(line, []byte(","))
}

// readLines reads the lines of a short file, cut into their fields. Empty ones are skipped.
func readLines(path string) (lines [][]string, err error) {
	t, err := openTable(path, 1)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	const most = 1 << 16 // bytes
	for size := 0; ; t.line++ {
		for len(t.text) == 0 {
			if err := t.fill(); errors.Is(err, io.EOF) {
				return lines, nil
			} else if err != nil {
				return nil, err
			}
		}
		line, fields := t.cut()
		if size += 1 + len(line); size > most {
			return nil, t.located(t.line, fmt.Errorf("more than %d bytes, as no such list has; %s", most, fetchAgain))
		}
		t.text = t.text[bytes.IndexByte(t.text, '\n')+1:]
		if len(line) == 0 {
			continue
		}
		var words []string
		for _, field := range fields {
			words = append(words, string(field))
		}
		lines = append(lines, words)
	}
}

// width returns the number of columns.
func (t *table) width() int { return t.columns }

// rows reads the next rows of numbers, which the call after it overwrites, and returns io.EOF after the last.
// An empty field is NaN, and so is an empty line of one column; other empty lines are skipped.
func (t *table) Next() ([]float32, error) {
	if t.values == nil {
		buffer, err := memory.Grow([]float32{}, max(blockValues, t.columns))
		if err != nil {
			return nil, t.located(t.line, err)
		}
		t.values = buffer[:cap(buffer)]
	}
	n := 0
	for n+t.columns <= len(t.values) {
		if len(t.text) == 0 {
			if err := t.fill(); err != nil {
				if errors.Is(err, io.EOF) && n > 0 {
					break
				}
				return nil, err
			}
		}
		length, err := t.parseNumbers(t.values[n : n+t.columns])
		if err != nil {
			return nil, err
		}
		if length > 0 {
			n += t.columns
			t.text = t.text[length:]
		} else {
			t.text = t.text[bytes.IndexByte(t.text, '\n')+1:]
		}
		t.line++
	}
	return t.values[:n], nil
}

// parseNumbers reads the numbers of the next line, and returns the length of that; 0 where it is to be
// skipped.
func (t *table) parseNumbers(values []float32) (length int, err error) {
	if t.columns > 1 && (t.text[0] == '\n' || t.text[0] == '\r') {
		return 0, nil
	}
	at, text := 0, t.text
	for c := range values {
		x, n, ok := number(text[at:])
		at += n
		end := byte(',')
		if c == len(values)-1 {
			end = '\n'
		}
		if !ok || text[at] != end {
			return 0, t.notNumbers()
		}
		values[c] = float32(x)
		at++
	}
	return at, nil
}

// notNumbers says what is wrong with the next line.
func (t *table) notNumbers() error {
	_, fields := t.cut()
	if len(fields) != t.columns {
		return t.located(t.line, fmt.Errorf("%d columns, where the lines before have %d", len(fields), t.columns))
	}
	for _, field := range fields {
		if _, _, ok := number(append(bytes.Clone(field), '\n')); !ok {
			return t.located(t.line, fmt.Errorf("%.40q is not a number", field))
		}
	}
	return t.located(t.line, errors.New("is no row of numbers"))
}

// where names the row, counted from 0.
func (t *table) where(row int64) string { return fmt.Sprintf("%s:%d", t.path, row+1) }

// powers are the powers of ten that float64 holds exactly.
var powers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// number reads the number that the text begins with, up to a comma or the end of the line, which must come.
// It is the nearest float64: a quotient or product of two numbers that float64 holds exactly is, and strconv
// has the others.
func number(text []byte) (x float64, length int, ok bool) {
	at, negative := 0, text[0] == '-'
	if negative {
		at++
	}
	mantissa, exponent, start := uint64(0), 0, at
	for text[at]-'0' <= 9 {
		mantissa = mantissa*10 + uint64(text[at]-'0')
		at++
	}
	digits := at - start
	if text[at] == '.' {
		at++
		start = at
		for text[at]-'0' <= 9 {
			mantissa = mantissa*10 + uint64(text[at]-'0')
			at++
		}
		exponent = start - at
		digits += at - start
	}
	if text[at] == 'e' && (text[at+1] == '-' || text[at+1] == '+') && text[at+2]-'0' <= 9 && text[at+3]-'0' <= 9 {
		power := int(text[at+2]-'0')*10 + int(text[at+3]-'0')
		if text[at+1] == '-' {
			power = -power
		}
		exponent += power
		at += 4
	}
	const exact = 1 << 53
	ends := text[at] == ',' || text[at] == '\n'
	if !ends || digits == 0 || digits > 19 || mantissa > exact || exponent < -22 || exponent > 22 {
		return slowNumber(text)
	}
	if x = float64(mantissa); exponent < 0 {
		x /= powers[-exponent]
	} else {
		x *= powers[exponent]
	}
	if negative {
		x = -x
	}
	return x, at, true
}

// slowNumber is number for any number, and for none: an empty field is NaN. A carriage return belongs to the
// end of the line.
func slowNumber(text []byte) (x float64, length int, ok bool) {
	length = bytes.IndexAny(text, ",\n")
	field := bytes.TrimRight(text[:length], "\r")
	if text[length] == ',' {
		field = text[:length]
	}
	if len(field) == 0 || string(field) == `""` {
		return math.NaN(), length, true
	}
	x, err := strconv.ParseFloat(string(field), 64)
	return x, length, err == nil
}
