// Package table reads the rows of tables of text, and the columns of Parquet files. The readers of tables, of
// labels beside other files, and of datasets call it.
package table

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"weft/graph/columns"
	"weft/internal/memory"
	"weft/internal/number"
)

// Separator is the character between the fields of a line: a comma, a semicolon or a tab. A space stands for
// any number of spaces and tabs.
type Separator byte

// SeparatorOf returns the separator of a line, one of among, or a space if the line has none of them. It is
// the last one that the following lines have equally often, or else the one that the line has most often.
// Names contain commas more often than semicolons, and these more often than tabs, so the separators are in
// this order.
func SeparatorOf(line []byte, among string, behind ...[]byte) Separator {
	best := Separator(' ')
	most := 0
	for k := len(among) - 1; k >= 0; k-- {
		s := Separator(among[k])
		n := s.count(line)
		other := func(next []byte) bool { return s.count(next) != n }
		if n > 0 && len(behind) > 0 && !slices.ContainsFunc(behind, other) {
			return s
		}
		if n > most {
			best, most = s, n
		}
	}
	return best
}

// count counts the separators of a line outside quotes.
func (s Separator) count(line []byte) (n int) {
	for _, rest, more := s.Cut(line); more; _, rest, more = s.Cut(rest) {
		n++
	}
	return n
}

// Split cuts a line into fields, which it appends. It refuses more fields than there is memory for.
func (s Separator) Split(fields [][]byte, line []byte) ([][]byte, error) {
	if cap(fields) == 0 {
		fields = make([][]byte, 0, 8)
	}
	line = s.trim(line)
	if s == ' ' && len(line) == 0 {
		return fields, nil
	}
	if s != ' ' {
		if all, plain := s.splitPlain(fields, line); plain {
			return all, nil
		}
	}
	for more := true; more; {
		if len(fields) == cap(fields) {
			var err error
			if fields, err = memory.Grow(fields, len(fields)); err != nil {
				return nil, err
			}
		}
		var field []byte
		field, line, more = s.Cut(line)
		fields = append(fields, field)
	}
	return fields, nil
}

// splitPlain is a faster Split for a line without quotes and blanks, if fields has room.
func (s Separator) splitPlain(fields [][]byte, line []byte) (_ [][]byte, plain bool) {
	from := 0
	for i, c := range line {
		if c > '"' && c != byte(s) {
			continue
		}
		if c != byte(s) || len(fields) == cap(fields) {
			return nil, false
		}
		fields = append(fields, line[from:i])
		from = i + 1
	}
	if len(fields) == cap(fields) {
		return nil, false
	}
	return append(fields, line[from:]), true
}

// Cut takes the first field off a line, without the spaces and quotes around it. Text between the closing
// quote and the separator belongs to the field, as in pandas. more says that a separator follows it.
func (s Separator) Cut(line []byte) (field, rest []byte, more bool) {
	line = s.trim(line)
	quoted := quotedPart(line)
	end := s.next(line[quoted:])
	if more = end >= 0; more {
		line, rest = line[:quoted+end], line[quoted+end+1:]
	}
	line = s.trim(line)
	if quoted == 0 {
		return line, rest, more
	}
	field = unquoted(line[1 : quoted-1])
	if behind := line[quoted:]; len(behind) > 0 {
		field = append(bytes.Clone(field), behind...)
	}
	return Trim(field), rest, more
}

// next is the place of the first separator; −1: there is none.
func (s Separator) next(text []byte) int {
	if s == ' ' {
		return bytes.IndexAny(text, " \t")
	}
	return bytes.IndexByte(text, byte(s))
}

// goesOn reports whether a quoted field continues behind the end of a line. inside says that one continues
// into the line.
func (s Separator) goesOn(line []byte, inside bool) bool {
	more := bytes.IndexByte(line, '"') >= 0
	if inside {
		end := closing(line)
		if end < 0 {
			return true
		}
		line = line[end+1:]
		if end = s.next(line); end < 0 {
			return false
		}
		line, more = line[end+1:], true
	}
	for more {
		line = s.trim(line)
		if len(line) > 0 && line[0] == '"' && quotedPart(line) == 0 {
			return true
		}
		_, line, more = s.Cut(line)
	}
	return false
}

// trim removes spaces from both ends, and tabs unless they separate columns.
func (s Separator) trim(b []byte) []byte {
	if n := len(b); n == 0 || b[0] > ' ' && b[n-1] > ' ' {
		return b
	}
	space := func(c byte) bool { return c == ' ' || c == '\t' && s != '\t' }
	for len(b) > 0 && space(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && space(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// Trim removes blanks from both ends of a value.
func Trim(value []byte) []byte { return bytes.Trim(value, columns.Blank) }

// Names are the names between commas in a text, which may stand in quotes as fields do. It refuses a quote
// that is not closed.
func Names(text string) (names []string, err error) {
	const comma = Separator(',')
	if comma.goesOn([]byte(text), false) {
		return nil, errors.New("a name begins with a quote that no other closes: close it, or write the name in quotes, " +
			"and its own quotes twice")
	}
	if text == "" {
		return nil, nil
	}
	fields, err := comma.Split(nil, []byte(text))
	for _, field := range fields {
		names = append(names, string(field))
	}
	return names, err
}

// hasReturn reports whether a line has a carriage return outside quotes.
func (s Separator) hasReturn(line []byte) bool {
	if bytes.IndexByte(line, '\r') < 0 {
		return false
	}
	for more := true; more; {
		line = s.trim(line)
		plain := line[quotedPart(line):]
		end := s.next(plain)
		if more = end >= 0; more {
			plain, line = plain[:end], plain[end+1:]
		}
		if bytes.IndexByte(plain, '\r') >= 0 {
			return true
		}
	}
	return false
}

// quotedPart is how many bytes of a line are the quoted field at its start, with both quotes; 0: there is
// none.
func quotedPart(line []byte) int {
	if len(line) == 0 || line[0] != '"' {
		return 0
	}
	end := closing(line[1:])
	if end < 0 {
		return 0
	}
	return len(`"`) + end + len(`"`)
}

// unquoted is the text between two quotes. A quote within it is written twice (RFC 4180).
func unquoted(text []byte) []byte {
	if bytes.IndexByte(text, '"') < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte(`""`), []byte(`"`))
}

// closing is the place of the quote that closes the quoted field at the start of a text; −1: there is none.
func closing(text []byte) int {
	for i := 0; i < len(text); i++ {
		next := bytes.IndexByte(text[i:], '"')
		if next < 0 {
			return -1
		}
		i += next
		if i+1 == len(text) || text[i+1] != '"' {
			return i
		}
		i++
	}
	return -1
}

// powers are the powers of ten that float64 holds exactly.
var powers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// Number is a faster number.Parse of a field. A quotient or product of two numbers that float64 holds exactly
// is the nearest float64; strconv parses all others.
func Number(field []byte) (x float64, ok bool) {
	at := 0
	if len(field) > 0 && field[0] == '-' {
		at = 1
	}
	mantissa, begin := uint64(0), at
	for ; at < len(field) && field[at]-'0' <= 9; at++ {
		mantissa = mantissa*10 + uint64(field[at]-'0')
	}
	digits, exponent := at-begin, 0
	if at < len(field) && field[at] == '.' {
		for at++; at < len(field) && field[at]-'0' <= 9; at++ {
			mantissa = mantissa*10 + uint64(field[at]-'0')
			exponent--
		}
		digits -= exponent
	}
	if rest := field[at:]; len(rest) == 4 && rest[0] == 'e' && (rest[1] == '-' || rest[1] == '+') &&
		rest[2]-'0' <= 9 && rest[3]-'0' <= 9 {
		power := int(rest[2]-'0')*10 + int(rest[3]-'0')
		if rest[1] == '-' {
			power = -power
		}
		exponent, at = exponent+power, len(field)
	}
	const exact = 1 << 53
	if at < len(field) || digits == 0 || digits > 19 || mantissa > exact || exponent < -22 || exponent > 22 {
		x, err := number.Parse(string(field), 64)
		return x, err == nil
	}
	x = float64(mantissa)
	if exponent < 0 {
		x /= powers[-exponent]
	} else if exponent > 0 {
		x *= powers[exponent]
	}
	if begin > 0 {
		x = -x
	}
	return x, true
}

// single is a faster number.Parse of a field as float32. The float32 nearest to the nearest float64 is
// nearest to the number, unless that float64 lies in the middle between two float32.
func single(field []byte) (float64, error) {
	const (
		behind = 52 - 23 // bits of float64 that float32 lacks
		middle = 1 << (behind - 1)
		least  = 0x1p-126 // the smallest number of which float32 has all bits
	)
	if x, ok := Number(field); ok && math.Float64bits(x)&(1<<behind-1) != middle &&
		(x == 0 || math.Abs(x) >= least && math.Abs(x) <= math.MaxFloat32) {
		return float64(float32(x)), nil
	}
	return number.Parse(string(field), 32)
}
