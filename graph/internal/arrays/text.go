package arrays

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"weft/graph/internal/lines"
	"weft/graph/internal/table"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// numbers reads numbers from text, plain or gzip: in each line a row of equally many, between commas,
// semicolons, tabs or spaces. A first line of words is a header. Lines that begin with # or %, and empty
// lines, are skipped. In a table of one column an empty line is a row, and an empty field is NaN. True and
// False are 1 and 0.
type numbers struct {
	path  string
	size  int64 // bytes of the file
	most  int64 // rows
	lines *lines.Reader

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

	unsure bool // the header has spaces: the next line decides how many columns there are
	blank  int  // lines between them
}

const (
	longestLine = 64 << 20 // bytes
	// Gzip can make a thousand times as much of a file of nothing but repetitions, which is no table. So many
	// values are kept of any file, and so many more for each of its bytes.
	valuesOfAnyFile, valuesOfAByte = 4 << 20, 64
)

// each calls do with the values of each row, which are valid until it returns.
func (t *numbers) each(do func(row []float64) error) (err error) {
	form := lines.Form{Path: t.path, Text: "what numpy.save writes, or CSV", Line: "a row of numbers"}
	form.Longest = longestLine
	if t.lines, err = lines.Open(form); err != nil {
		return err
	}
	defer t.lines.Close()
	for {
		line, err := t.lines.Next()
		switch blank := len(bytes.TrimSpace(line)) == 0; {
		case errors.Is(err, io.EOF) && t.rows == 0:
			return refusal.Errorf("%s: has no row of numbers", t.path)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case isComment(line):
			continue
		case blank && t.unsure:
			t.blank++
			continue
		case blank && (t.columns > 1 || t.ids != nil):
			continue
		}
		row, err := t.parse(line)
		for ; err == nil && row && t.blank > 0; t.blank-- { // in a table of one column these are rows
			err = t.add([]float64{math.NaN()}, do)
		}
		if err == nil && row {
			err = t.add(t.values, do)
		}
		if err != nil {
			return t.lines.Errorf("%w", err)
		}
	}
}

// add adds a row.
func (t *numbers) add(row []float64, do func(row []float64) error) error {
	if t.ids != nil {
		if err := t.ids.Add(t.id, t.lines.Number()); err != nil {
			return err
		}
	}
	t.rows++
	if t.rows > t.most {
		return fmt.Errorf("more than %d rows, one for each vertex that the graph may have", t.most)
	}
	return do(row)
}

func isComment(line []byte) bool {
	return len(bytes.TrimSpace(line)) > 0 && (line[0] == '#' || line[0] == '%')
}

// parse takes the values from a line; row is false for a header.
func (t *numbers) parse(line []byte) (row bool, err error) {
	if t.ids != nil {
		id, rest, more := t.separator.Cut(line)
		if !more {
			return false, fmt.Errorf("1 column, where the header has %d", t.columns+1)
		}
		t.id, line = append(t.id[:0], id...), rest
	}
	if err := t.split(line); err != nil {
		return false, err
	}
	if t.unsure {
		t.sure()
	}
	if row, err := t.nameClass(line); row || err != nil {
		return row, err
	}
	if t.columns > 0 && len(t.fields) != t.columns {
		return false, fmt.Errorf("%d columns, where the lines before have %d", len(t.fields), t.columns)
	}
	first := t.columns == 0
	t.columns = len(t.fields)
	if first && t.key != nil && t.columns > 1 && IsIDColumn(string(t.fields[0])) {
		t.ids = NewRowIDs(t.key)
		t.columns--
		return false, nil
	}
	if single := first && t.isOneName(); single || first && t.isHeader() {
		if len(t.fields[0]) == 0 {
			return false, errors.New("the first column has no name, as pandas writes its index: write it " +
				"with index=False")
		}
		t.names.begin(t.name(line))
		if single {
			t.columns, t.names.spaced = 1, true
			return false, nil
		}
		t.unsure = t.names != nil && t.separator == ' ' && t.columns > 1
		return false, nil
	}
	if t.values, err = memory.Grow(t.values[:0], t.columns); err != nil {
		return false, err
	}
	for _, field := range t.fields {
		x, ok := t.number(field)
		switch {
		case !ok && t.columns > 1:
			return false, fmt.Errorf("%.40q is not a number, as the fields of %d columns are; give the "+
				"names of classes in a file of their own, "+
				"as a column beside that of ids or alone", field, t.columns)
		case !ok && t.as == Values:
			return false, fmt.Errorf("%.40q is not a number, as values to predict are; leave --values out "+
				"for names of classes", field)
		case !ok:
			return false, fmt.Errorf("%.40q is not a number; classes are numbers too, from 0, or all are "+
				"names", field)
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
// has spaces: it has words and numbers.
func (t *numbers) isOneName() bool {
	return t.names != nil && t.columns > 1 && t.separator == ' ' && t.hasWord() && !t.isHeader()
}

// sure decides how many columns labels have if the header has spaces: one, unless the next line has several
// numbers.
func (t *numbers) sure() {
	t.unsure = false
	if len(t.fields) == 1 || t.hasWord() {
		t.columns, t.names.spaced = 1, true
	} else {
		t.blank = 0 // the empty lines separate rows
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

// check refuses a file that expands to more values than a table has. One column has at most as many as there
// may be rows.
func (t *numbers) check(kept int) error {
	if t.columns > 1 && int64(kept) > valuesOfAnyFile+valuesOfAByte*t.size {
		return fmt.Errorf("the %d bytes of the file expand to %d values, as no table does; unpack it if "+
			"it is one", t.size, kept)
	}
	return nil
}

// all reads the table.
func (t *numbers) all() (*npy.Array, error) {
	var values []float64
	err := t.each(func(row []float64) (err error) {
		if values, err = memory.Append(values, row...); err != nil {
			return err
		}
		return t.check(len(values))
	})
	if err != nil {
		return nil, err
	}
	return t.array(values)
}

// array holds values of all rows. If all are integers or truth values, so is the array; but not for labels
// that are values, or are whole and written with a point. A missing value is −1 among integers of one column,
// as a label, and otherwise NaN.
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
		return nil, refusal.In(t.path, err)
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
	return values, refusal.In(t.path, err)
}

// integers reports whether all values are integers, or are missing in a table of one column.
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

// matrix reads the table as features.
func (t *numbers) matrix(keepDense bool) (m *Matrix, err error) {
	c := collector{keepDense: keepDense}
	var values []float32
	err = t.each(func(row []float64) (err error) {
		c.columns = t.columns
		if k := slices.IndexFunc(row, func(x float64) bool { return x != x }); k >= 0 {
			return fmt.Errorf("field %d is empty or no number: give a value for each feature", k+1)
		}
		if values, err = memory.Grow(values[:0], len(row)); err != nil {
			return err
		}
		for _, x := range row {
			values = append(values, float32(x))
		}
		if err := c.add(values); err != nil {
			return err
		}
		return t.check(c.stored())
	})
	if err != nil {
		return nil, err
	}
	m, err = c.matrix()
	if err == nil && t.ids != nil {
		m.ByID = true
		if err = t.ids.Check(); err == nil {
			err = t.ids.features(&m.Features)
		}
	}
	return m, refusal.In(t.path, err)
}
