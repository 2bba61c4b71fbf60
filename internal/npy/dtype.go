package npy

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unsafe"

	"weft/internal/foreign"
	"weft/internal/refusal"
)

// dtype is a parsed element type.
type dtype struct {
	kind byte // b boolean, i signed, u unsigned, f float, S bytes, U text in four-byte characters
	size int  // bytes per element
	big  bool // the most significant byte comes first
}

var hostBig = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 0
}()

// Descr returns NumPy's name of an element type in files of little-endian values.
func Descr[T element]() string {
	kind, size, order := reflect.TypeFor[T]().Kind(), unsafe.Sizeof(*new(T)), "<"
	if size == 1 {
		order = "|"
	}
	return fmt.Sprintf("%s%c%d", order, kind.String()[0], size)
}

// ErrObjects is the error for an array of Python objects: its data is a pickle.
var ErrObjects = errors.New("it holds Python objects, which are never read; " + foreign.Conversion)

// mostText bounds an array of texts. All take the room of the longest: a file of a megabyte may be some
// gigabytes of text.
const mostText = 1 << 16 // characters

func parseDtype(descr string) (dtype, error) {
	if len(descr) == 2 && descr[1] == 'O' {
		return dtype{}, refusal.Errorf("%w", ErrObjects)
	}
	if len(descr) < 3 {
		return dtype{}, refusal.Errorf("unknown dtype %q", descr)
	}
	order, d := descr[0], dtype{kind: descr[1]}
	size, err := strconv.ParseUint(descr[2:], 10, 31)
	if err != nil || strconv.FormatUint(size, 10) != descr[2:] { // NumPy knows no type "i04"
		return dtype{}, refusal.Errorf("unknown dtype %q", descr)
	}
	d.size = int(size)
	swappable := true // whether the byte order matters
	known := false
	switch d.kind {
	case 'b':
		known, swappable = size == 1, false
	case 'i', 'u':
		known, swappable = size == 1 || size == 2 || size == 4 || size == 8, size > 1
	case 'f':
		known = size == 2 || size == 4 || size == 8
	case 'S':
		known, swappable = true, false
	case 'U':
		known = size <= math.MaxInt32/4
		d.size *= 4
	}
	if known && (d.kind == 'S' || d.kind == 'U') && size > mostText {
		return dtype{}, refusal.Errorf("dtype %q has texts of up to %d characters, and at most %d are read: save "+
			"shorter ones", descr, size, mostText)
	}
	switch order {
	case '<':
	case '>':
		d.big = swappable
	case '=':
		d.big = swappable && hostBig
	case '|':
		known = known && (!swappable || size == 0)
	default:
		known = false
	}
	if !known {
		return dtype{}, refusal.Errorf("dtype %q is not read; save it again as bool, int, float or "+
			"fixed-width text", descr)
	}
	return d, nil
}

// Float16 returns the value of an IEEE 754 half-precision number given by its bits.
func Float16(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&0x3ff
	switch exponent {
	case 0: // zero and subnormal: fraction · 2⁻²⁴, exact in float32
		return math.Float32frombits(math.Float32bits(float32(fraction)*(1.0/(1<<24))) | sign)
	case 31: // infinity and NaN
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}
