package arrays

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"sync/atomic"

	"weft/graph/internal/lines"
	"weft/graph/internal/table"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// numbers reads numbers from text, plain or gzip, a row of equally many to each line, between commas,
// semicolons, tabs or spaces. A first line of words is a header. Lines that begin with # or %, and empty
// ones, are skipped; but for one column an empty line is a row, and an empty field is NaN. True and False are
// 1 and 0.
type numbers struct {
	path  string
	most  int64    // rows
	file  *counted // what was read of the file
	lines *lines.Reader
	ahead [][]byte // lines that were read to understand the first one

	separator table.Separator // 0 before the first line
	columns   int
	rows      int64
	fields    [][]byte
	values    []float64   // of the last line
	words     bool        // there is a True or False
	pointed   bool        // there is a number with a point, as 2.0
	as        Meaning     // of labels
	names     *classNames // nil: words are refused
	key       *Key        // nil: an id is a number as any other
	ids       *RowIDs     // of the rows; nil: row v is vertex v
	id        []byte      // of the last line
}

// counted counts the bytes that are read, ahead of the table where they are compressed.
type counted struct {
	r io.Reader
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

const (
	longestLine = 64 << 20 // bytes
	// Gzip makes a thousand times as much of a file of nothing but repetitions, which is no table: this many
	// values are kept of any file, and this many for each of its bytes.
	valuesOfAnyFile, valuesOfAByte = 4 << 20, 64
)

// newNumbers begins a table of at most so many rows, of text or, if that is the kind, of gzip. Errors name the
// path.
func newNumbers(r io.Reader, kind foreign.Kind, path string, most int64) (*numbers, error) {
	t := &numbers{path: path, most: most, file: &counted{r: r}}
	form := lines.Form{Path: path, Kind: kind, Text: "what numpy.save writes, or CSV", Line: "a row of numbers", Longest: longestLine}
	var err error
	if t.lines, err = lines.New(t.file, form); err != nil {
		return nil, err
	}
	return t, nil
}

// next returns the next row, which the call after it overwrites, and io.EOF after the last.
func (t *numbers) next() ([]float64, error) {
	for {
		line, err := t.line()
		switch {
		case errors.Is(err, io.EOF) && t.rows == 0:
			return nil, refusal.Errorf("%s: has no row of numbers", t.path)
		case err != nil:
			return nil, err
		}
		blank := len(bytes.TrimSpace(line)) == 0
		if blank && (t.columns > 1 || t.ids != nil) || isComment(line) {
			continue
		}
		row, err := t.parse(line)
		if err != nil {
			return nil, err
		}
		if !row {
			continue
		}
		if t.ids != nil {
			if err := t.ids.Add(t.id, t.lines.Number()); err != nil {
				return nil, t.lines.Errorf("%w", err)
			}
		}
		if t.rows++; t.rows > t.most {
			return nil, t.lines.Errorf("more than %d rows, one for each vertex that the graph may have", t.most)
		}
		return t.values, nil
	}
}

// line returns the next line, which the call after it may overwrite.
func (t *numbers) line() ([]byte, error) {
	if len(t.ahead) == 0 {
		return t.lines.Next()
	}
	line := t.ahead[0]
	t.ahead = t.ahead[1:]
	return line, nil
}

func isComment(line []byte) bool {
	return len(bytes.TrimSpace(line)) > 0 && (line[0] == '#' || line[0] == '%')
}

// parse takes the values from a line; row is false for a header.
func (t *numbers) parse(line []byte) (row bool, err error) {
	if t.ids != nil {
		id, rest, more := t.separator.Cut(line)
		if !more {
			return false, t.lines.Errorf("1 column, where the header has %d", t.columns+1)
		}
		t.id, line = append(t.id[:0], id...), rest
	}
	if err := t.split(line); err != nil {
		return false, t.lines.Errorf("%w", err)
	}
	if row, err := t.nameClass(line); row || err != nil {
		return row, err
	}
	if t.columns > 0 && len(t.fields) != t.columns {
		return false, t.lines.Errorf("%d columns, where the lines before have %d", len(t.fields), t.columns)
	}
	first := t.columns == 0
	t.columns = len(t.fields)
	if first && t.key != nil && t.columns > 1 && IsIDColumn(string(t.fields[0])) {
		t.ids = NewRowIDs(t.key)
		t.columns--
		return false, nil
	}
	if one := first && t.isOneName(); one || first && t.isHeader() {
		if len(t.fields[0]) == 0 {
			return false, t.lines.Errorf("the first column has no name, as pandas writes its index: write it with index=False")
		}
		t.names.begin(t.name(line))
		if one {
			t.columns, t.names.spaced = 1, true
			return false, nil
		}
		return false, t.narrow()
	}
	if t.values, err = memory.Grow(t.values[:0], t.columns); err != nil {
		return false, t.lines.Errorf("%w", err)
	}
	for _, field := range t.fields {
		x, ok := t.number(field)
		switch {
		case !ok && t.columns > 1:
			return false, t.lines.Errorf("%.40q is not a number, as the fields of %d columns are; give the names of classes in a file of their own, "+
				"as a column beside that of ids or alone", field, t.columns)
		case !ok && t.as == Values:
			return false, t.lines.Errorf("%.40q is not a number, as values to predict are; leave %s out for names of classes", field, refusal.Setting("values"))
		case !ok:
			return false, t.lines.Errorf("%.40q is not a number; classes are numbers too, from 0, or all are names", field)
		}
		t.pointed = t.pointed || bytes.IndexByte(field, '.') >= 0
		t.values = append(t.values, x)
		t.names.number(x)
	}
	return true, nil
}

// isHeader reports whether a line has words, and no number.
func (t *numbers) isHeader() bool {
	words := false
	for _, field := range t.fields {
		if len(field) == 0 {
			continue
		}
		if _, ok := t.number(field); ok {
			return false
		}
		words = true
	}
	return words
}

// isOneName reports whether the first line of labels is the name of a class, or of their column, although it
// has spaces: words and numbers.
func (t *numbers) isOneName() bool {
	return t.names != nil && t.columns > 1 && t.separator == ' ' && t.hasWord() && !t.isHeader()
}

// narrow is called after a header. Labels whose header has spaces have one column, unless the next line has
// several numbers.
func (t *numbers) narrow() error {
	if t.names == nil || t.separator != ' ' || t.columns < 2 {
		return nil
	}
	for {
		line, err := t.lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		t.ahead = append(t.ahead, bytes.Clone(line))
		if len(bytes.TrimSpace(line)) == 0 || isComment(line) {
			continue
		}
		if err := t.split(line); err != nil {
			return t.lines.Errorf("%w", err)
		}
		if len(t.fields) == 1 || t.hasWord() {
			t.columns, t.names.spaced = 1, true
		}
		return nil
	}
}

// hasWord reports whether a field of the line is no number.
func (t *numbers) hasWord() bool {
	return slices.ContainsFunc(t.fields, func(field []byte) bool { _, ok := t.number(field); return !ok })
}

// split cuts a line into fields.
func (t *numbers) split(line []byte) (err error) {
	if t.separator == 0 {
		t.separator = table.SeparatorOf(line, ",;\t")
	}
	t.fields, err = t.separator.Split(t.fields[:0], line)
	if len(t.fields) == 0 {
		t.fields = append(t.fields, nil)
	}
	return err
}

// number returns the value of a field.
func (t *numbers) number(field []byte) (x float64, ok bool) {
	switch string(field) {
	case "":
		return math.NaN(), true
	case "True", "true", "TRUE":
		t.words = true
		return 1, true
	case "False", "false", "FALSE":
		t.words = true
		return 0, true
	}
	return table.Number(field)
}

// check refuses a file that expands to more values than a table does. One column has no more than there may
// be rows.
func (t *numbers) check(kept int) error {
	if t.columns > 1 && int64(kept) > valuesOfAnyFile+valuesOfAByte*t.file.n.Load() {
		return refusal.Errorf("%s: its first %d bytes expand to %d values, as no table does; unpack it if it is one", t.path, t.file.n.Load(), kept)
	}
	return nil
}

// all reads the rest of the table.
func (t *numbers) all() (*npy.Array, error) {
	var values []float64
	for {
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			return t.array(values)
		}
		if err != nil {
			return nil, err
		}
		if values, err = memory.Grow(values, len(row)); err != nil {
			return nil, t.lines.Errorf("%w", err)
		}
		values = append(values, row...)
		if err := t.check(len(values)); err != nil {
			return nil, err
		}
	}
}

// array holds values of all rows: integers or truth values where all values are, but not of labels that are
// values, or are whole and written with a point. A missing one is −1 among integers of one column, as a
// label, and NaN elsewhere.
func (t *numbers) array(values []float64) (*npy.Array, error) {
	values, err := t.sorted(values)
	if err != nil {
		return nil, err
	}
	shape := []int{int(t.rows)}
	if t.columns > 1 {
		shape = append(shape, t.columns)
	}
	if err := memory.Need(8 * int64(len(values))); err != nil { // another type has as many bytes, or fewer
		return nil, refusal.Errorf("%s: %w", t.path, err)
	}
	truth := !slices.ContainsFunc(values, func(x float64) bool { return x != 0 && x != 1 })
	// Three ids or more are not all 0 and 1.
	switch few := len(values) < 3; {
	case t.as == Values:
		return npy.New(values, shape...), nil
	case truth && t.words:
		return npy.New(convert(values, func(x float64) bool { return x == 1 }), shape...), nil
	case truth && !few:
		return npy.New(convert(values, func(x float64) uint8 { return uint8(x) }), shape...), nil
	case t.integers(values) && (t.as != PerhapsWhole || !t.pointed):
		return npy.New(convert(values, func(x float64) int64 {
			if math.IsNaN(x) {
				return -1
			}
			return int64(x)
		}), shape...), nil
	}
	return npy.New(values, shape...), nil
}

// sorted returns the values of all rows in the order of the vertices.
func (t *numbers) sorted(values []float64) ([]float64, error) {
	if t.ids == nil {
		return values, nil
	}
	err := t.ids.Check()
	if err == nil {
		values, err = inOrder(t.ids, values, t.columns)
	}
	if err != nil {
		return nil, refusal.Errorf("%s: %w", t.path, err)
	}
	return values, nil
}

// integers reports whether all values are, or are missing in a table of one column.
func (t *numbers) integers(values []float64) bool {
	const exact = 1 << 53
	return !slices.ContainsFunc(values, func(x float64) bool {
		if math.IsNaN(x) {
			return t.columns > 1
		}
		return x != math.Trunc(x) || math.Abs(x) > exact
	})
}

func convert[T any](values []float64, to func(float64) T) []T {
	v := make([]T, len(values))
	for k, x := range values {
		v[k] = to(x)
	}
	return v
}

// matrix reads the rest of the table as features.
func (t *numbers) matrix(keepDense bool) (*Matrix, error) {
	c := collector{keepDense: keepDense}
	var values []float32
	for {
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			m, err := c.matrix()
			if err == nil && t.ids != nil {
				m.ByID = true
				err = t.ids.Check()
			}
			if err == nil && t.ids != nil {
				err = t.ids.features(&m.Features)
			}
			if err != nil {
				return nil, refusal.Errorf("%s: %w", t.path, err)
			}
			return m, nil
		}
		if err != nil {
			return nil, err
		}
		c.columns = t.columns
		if k := slices.IndexFunc(row, func(x float64) bool { return x != x }); k >= 0 {
			return nil, t.lines.Errorf("field %d is empty or no number: give a value for each feature", k+1)
		}
		if values, err = memory.Grow(values[:0], len(row)); err != nil {
			return nil, t.lines.Errorf("%w", err)
		}
		for _, x := range row {
			values = append(values, float32(x))
		}
		if err := c.add(values); err != nil {
			return nil, t.lines.Errorf("%w", err)
		}
		if err := t.check(c.stored()); err != nil {
			return nil, err
		}
	}
}
