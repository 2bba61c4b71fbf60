package table

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"weft/graph"
	"weft/internal/foreign"
	"weft/internal/number"
	"weft/internal/refusal"
)

// Table is an open table with names of columns.
type Table struct {
	Path     string
	Progress graph.Progress
	// Separators are the separators of text. The first of them that a line has separates columns; without
	// any, spaces do.
	Separators string
	// Line is what a line of text should be, such as "a list of edges".
	Line string
	// Header says that the first line of text names the columns. Otherwise lines that begin with # or % are
	// comments, up to a header.
	Header bool
	// Pipe says that the table is read only once, so that it may be a named pipe.
	Pipe bool

	folderColumns []folderColumn   // columns that the folders of the part add
	progress      func(read int64) // takes the bytes read of that part; nil: Progress takes them
}

// Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
}

// Kind is what a column holds.
type Kind int

// The kinds of columns. Only columns of text are of Any kind: their fields decide.
const (
	Any Kind = iota
	Integers
	Reals
	Words
	Truths
	Nested // not one value in each row
)

// Choose says which of the columns are read, and in which order. In a text file the names of the columns are
// the fields of the first line. If Choose returns nil, that line is no header but a row, and all columns are
// read.
type Choose func(columns []Column) (order []int, err error)

// EachOf is Each for an open file, which it reads from the beginning.
func (t *Table) EachOf(file *os.File, choose Choose, do func(*Row) error) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	tell := t.progress
	if tell == nil {
		tell = func(read int64) { t.Progress.Report("reading "+t.Path, read, info.Size()) }
	}
	r := &counted{Reader: file}
	text := bufio.NewReaderSize(r, 64<<10)
	start, _ := text.Peek(foreign.Head) // an error comes again
	switch kind := foreign.Recognize(start); {
	case kind == foreign.Parquet:
		return t.eachParquet(file, info.Size(), tell, choose, do)
	case kind != foreign.Unknown && !kind.Compressed():
		return kind.Refuse(t.Path, t.Line+", as CSV or Parquet")
	case strings.HasSuffix(strings.ToLower(t.Path), ".parquet"):
		return refusal.In(t.Path, errDamaged("does not start as a Parquet file does"))
	default:
		ahead := info.Mode().IsRegular()
		return t.eachLine(text, kind, ahead, r.read.Load, tell, choose, do)
	}
}

// longest is the largest number of bytes of a row of text, or of a text in Parquet.
const longest = 1 << 20

// Position is the place of a row.
type Position struct {
	At      int64 // the line, or the row of Parquet, from 1
	parquet bool
	path    string
}

// String is the position in the file.
func (p Position) String() string {
	if p.parquet {
		return fmt.Sprintf("row %d", p.At)
	}
	return fmt.Sprintf("line %d", p.At)
}

// Errorf is a refusal of the row.
func (p Position) Errorf(format string, args ...any) error {
	if p.parquet {
		return refusal.Errorf("%s: %v: %w", p.path, p, fmt.Errorf(format, args...))
	}
	return refusal.Errorf("%s:%d: %w", p.path, p.At, fmt.Errorf(format, args...))
}

// Row is a row of a table. It is valid until the next row.
type Row struct {
	Position
	separator Separator
	order     []int    // the chosen fields of text; nil: all
	fields    [][]byte // of text
	columns   []Column // of Parquet the chosen columns, of text all that have names
	logical   []*format.LogicalType
	batch     []columnBatch // of Parquet
	in        int           // the row in the batch
	digits    []byte        // of the last integer
}

// Len is the number of values.
func (r *Row) Len() int { return max(len(r.fields), len(r.batch)) }

// value is the value of a column of Parquet.
func (r *Row) value(column int) *parquet.Value { return &r.batch[column].values[r.in] }

// Kind is what a column holds.
func (r *Row) Kind(column int) Kind {
	if !r.parquet {
		return Any
	}
	return r.columns[column].Kind
}

// Field is the value of a column as a table of text would have it: integers, numbers, true and false, dates
// of ISO 8601. nil: it is missing in Parquet. It is valid until the next call for a column.
func (r *Row) Field(column int) []byte {
	switch {
	case !r.parquet && r.order == nil:
		return r.fields[column]
	case !r.parquet:
		return r.fields[r.order[column]]
	}
	v := r.value(column)
	if v.IsNull() {
		return nil
	}
	r.digits = r.digits[:0]
	switch v.Kind() {
	case parquet.Boolean:
		r.digits = strconv.AppendBool(r.digits, v.Boolean())
	case parquet.Float:
		r.digits = appendNumber(r.digits, float64(v.Float()), 32)
	case parquet.Double:
		r.digits = appendNumber(r.digits, v.Double(), 64)
	case parquet.Int32, parquet.Int64:
		r.digits = appendInteger(r.digits, integer(v), r.logical[column])
	case parquet.Int96: // nanoseconds of a day, and the day's astronomical number
		at := v.Int96()
		epoch := int64(2440588)
		seconds := (int64(at[2]) - epoch) * 24 * 60 * 60
		r.digits = appendTime(r.digits, time.Unix(seconds, int64(at[1])<<32|int64(at[0])))
	case parquet.FixedLenByteArray: // a decimal, in two's complement
		n := new(big.Int).SetBytes(v.ByteArray())
		if n.Bit(8*len(v.ByteArray())-1) == 1 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v.ByteArray()))))
		}
		r.digits = appendDecimal(r.digits, n.Append(nil, 10), scaleOf(r.logical[column]))
	default:
		return Trim(v.ByteArray())
	}
	return r.digits
}

// Decimal is a field of the row. If semicolons separate the columns and the field is a number with a decimal
// comma, it has a point instead. It is valid until the next call for a column.
func (r *Row) Decimal(field []byte) []byte {
	comma := -1
	if r.separator == ';' {
		comma = bytes.IndexByte(field, ',')
	}
	if comma < 0 {
		return field
	}
	r.digits = append(r.digits[:0], field...)
	r.digits[comma] = '.'
	if _, ok := Number(r.digits); !ok {
		return field
	}
	return r.digits
}

// appendNumber appends a number of so many bits. A whole number is written as an integer: pandas makes floats
// of ids if one is missing.
func appendNumber(to []byte, x float64, bits int) []byte {
	form := byte('g')
	if x == math.Trunc(x) && math.Abs(x) < 1<<63 {
		form = 'f'
	}
	return strconv.AppendFloat(to, x, form, -1, bits)
}

// appendInteger appends the text of an integer, by the logical type of its column.
func appendInteger(to []byte, n int64, logical *format.LogicalType) []byte {
	if logical == nil {
		return strconv.AppendInt(to, n, 10)
	}
	switch annotation := logical.Value.(type) {
	case *format.DateType: // days
		return time.Unix(n*24*60*60, 0).UTC().AppendFormat(to, time.DateOnly)
	case *format.TimestampType:
		per := int64(time.Second / annotation.Unit.Value.Duration()) // how many make a second
		seconds := n / per
		if n%per < 0 {
			seconds--
		}
		return appendTime(to, time.Unix(seconds, (n-seconds*per)*int64(annotation.Unit.Value.Duration())))
	case *format.DecimalType:
		return appendDecimal(to, strconv.AppendInt(nil, n, 10), scaleOf(logical))
	case *format.IntType:
		if bits := unsigned(logical); bits > 0 {
			return strconv.AppendUint(to, uint64(n)<<(64-bits)>>(64-bits), 10)
		}
	}
	return strconv.AppendInt(to, n, 10)
}

// unsigned is the number of bits of a column's integers if they have no sign; 0: they have one.
func unsigned(logical *format.LogicalType) int {
	if logical == nil {
		return 0
	}
	if intType, ok := logical.Value.(*format.IntType); ok && !intType.IsSigned && intType.BitWidth >= 0 &&
		intType.BitWidth <= 64 {
		return int(intType.BitWidth)
	}
	return 0
}

// appendTime appends a time in UTC.
func appendTime(to []byte, at time.Time) []byte {
	return at.UTC().AppendFormat(to, "2006-01-02T15:04:05.999999999")
}

// scaleOf is how many digits of a decimal follow its point; −1: it is no decimal that Parquet knows.
func scaleOf(logical *format.LogicalType) int {
	const most = 76 // digits of the longest
	if logical == nil {
		return -1
	}
	if decimal, ok := logical.Value.(*format.DecimalType); ok && decimal.Scale >= 0 && decimal.Scale <= most {
		return int(decimal.Scale)
	}
	return -1
}

// appendDecimal appends a whole number, divided by a power of ten.
func appendDecimal(to, digits []byte, scale int) []byte {
	if scale <= 0 {
		return append(to, digits...)
	}
	if digits[0] == '-' {
		to, digits = append(to, '-'), digits[1:]
	}
	if lacking := scale + 1 - len(digits); lacking > 0 {
		digits = append(bytes.Repeat([]byte("0"), lacking), digits...)
	}
	point := len(digits) - scale
	return append(append(append(to, digits[:point]...), '.'), digits[point:]...)
}

// Number is the number in a column. For text it is the nearest float32.
func (r *Row) Number(column int) (float64, error) {
	if !r.parquet {
		return single(r.Decimal(r.Field(column)))
	}
	switch v := r.value(column); v.Kind() {
	case parquet.Float:
		return float64(v.Float()), nil
	case parquet.Double:
		return v.Double(), nil
	case parquet.FixedLenByteArray, parquet.Int96, parquet.ByteArray:
		return number.Parse(string(r.Field(column)), 64)
	default:
		if logical := r.logical[column]; scaleOf(logical) >= 0 || unsigned(logical) > 0 {
			return number.Parse(string(r.Field(column)), 64)
		}
		return float64(integer(v)), nil
	}
}

// Integer is the value of a column of Parquet that holds plain integers with a sign.
func (r *Row) Integer(column int) (n int64, there bool) {
	if !r.parquet || r.columns[column].Kind != Integers || r.value(column).IsNull() {
		return 0, false
	}
	if logical := r.logical[column]; logical != nil {
		if intType, is := logical.Value.(*format.IntType); !is || !intType.IsSigned {
			return 0, false
		}
	}
	return integer(r.value(column)), true
}

// Missing reports whether a value is missing in Parquet.
func (r *Row) Missing(column int) bool { return r.parquet && r.value(column).IsNull() }

// ColumnErrorf is a refusal of a value of Parquet.
func (r *Row) ColumnErrorf(column int, format string, args ...any) error {
	return r.Errorf("column %q: %w", r.columns[column].Name, fmt.Errorf(format, args...))
}

// counted counts the bytes of a file that are read. What decompresses them reads on a goroutine of its own.
type counted struct {
	io.Reader
	read atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}
