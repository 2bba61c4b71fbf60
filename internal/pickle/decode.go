package pickle

import (
	"bytes"
	"errors"
	"fmt"

	"weft/internal/memory"
)

// maxStack bounds the machine. Python's own pickler flushes lists and dicts every thousand items, so honest
// files stay far below.
const maxStack = 1 << 20

// What the values of a pickle take is bounded by its length: a tuple is one byte of a pickle and forty in
// memory. The values of a list of booleans or of small numbers, which Python writes in one or two bytes each,
// take up to sixteen times as much as the pickle.
const (
	heldBytes   = 32 << 20
	heldPerByte = 16
)

// These are the bytes that values take. Numbers below 256, truth values and None take none beside their slot.
const (
	slotBytes   = 16  // an item, or an entry of the memo
	numberBytes = 8   // a number
	textBytes   = 16  // a text beside its characters
	listBytes   = 24  // a tuple, list or dict beside its items
	madeBytes   = 128 // an object, or the result of a function, such as a tensor
)

// A step that reads so many bytes makes values of at most growth times as many bytes. An empty list is one
// byte of a pickle and, as an item of a growing list, sixty in memory.
const (
	stepBytes = 1 << 20
	growth    = 64
)

// Decode reads one pickle of NumPy and SciPy. The error names the byte at which reading stopped. Values that
// exceed the memory are refused.
func Decode(data []byte) (any, error) { return Dialect{}.Decode(data) }

// Decode reads one pickle of the dialect, as the function does.
func (dialect Dialect) Decode(data []byte) (any, error) {
	d := decoder{Dialect: dialect, data: data}
	return d.decode()
}

func (d *decoder) decode() (any, error) {
	for checked := 0; ; {
		at := d.at
		if at >= checked {
			if err := memory.Need(growth * int64(min(stepBytes, len(d.data)-at))); err != nil {
				return nil, err
			}
			checked = at + stepBytes
		}
		op, err := d.take(1)
		switch {
		case err != nil:
		case op[0] == stop && (len(d.stack) != 1 || len(d.marks) != 0):
			err = fmt.Errorf("ends with %d values on its stack", len(d.stack))
		case op[0] == stop:
			return d.stack[0], nil
		case steps[op[0]] == nil:
			err = fmt.Errorf("opcode 0x%02x is not read: plain data only", op[0])
		default:
			err = steps[op[0]](d)
		}
		if err != nil {
			return nil, fmt.Errorf("pickle, byte %d: %w", at, err)
		}
	}
}

// decoder is the pickle machine.
type decoder struct {
	Dialect
	data  []byte
	at    int   // the next byte
	stack []any // at most maxStack values
	marks []int // heights of the stack, ascending
	memo  []any // by number; missing where no value was remembered
	total int64 // bytes of all values so far

	encoded int // bytes of text that was encoded
}

// missing is the memo's entry for a number that was passed over.
type missing struct{}

// hold counts bytes of a value that is about to be made.
func (d *decoder) hold(bytes int) error {
	most := heldBytes + heldPerByte*int64(len(d.data))
	d.total += int64(bytes)
	if d.total > most {
		return fmt.Errorf("its values take more than %d times its %d bytes in memory: save arrays in "+
			"place of lists and tuples", heldPerByte, len(d.data))
	}
	return nil
}

var (
	errStack = errors.New("takes more from the stack than is on it")
	errMark  = errors.New("no mark on the stack")
	errKind  = errors.New("operation on a value of another type")
)

// take gives the next n bytes.
func (d *decoder) take(n int) ([]byte, error) {
	if n < 0 || n > len(d.data)-d.at {
		return nil, fmt.Errorf("needs %d bytes, %d are left", n, len(d.data)-d.at)
	}
	b := d.data[d.at : d.at+n]
	d.at += n
	return b, nil
}

// line gives the bytes up to the next newline, which it skips.
func (d *decoder) line() (string, error) {
	text, _, ended := bytes.Cut(d.data[d.at:], []byte("\n"))
	if !ended {
		return "", errors.New("a line without an end")
	}
	if err := needText(text); err != nil {
		return "", err
	}
	d.at += len(text) + 1
	return string(text), nil
}

// uint reads a little-endian number of n bytes.
func (d *decoder) uint(n int) (int64, error) {
	b, err := d.take(n)
	if err != nil {
		return 0, err
	}
	var v uint64
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return int64(v), nil
}

func (d *decoder) push(v any) error {
	if len(d.stack) >= maxStack {
		return fmt.Errorf("more than %d values on the stack", maxStack)
	}
	d.stack = append(d.stack, v)
	return nil
}

// pushNew pushes a value that takes so many bytes, unless there was an error in making it.
func (d *decoder) pushNew(v any, bytes int, err error) error {
	if err == nil {
		err = d.hold(bytes)
	}
	if err != nil {
		return err
	}
	return d.push(v)
}

// floor returns the height below which nothing can be popped: the last mark's.
func (d *decoder) floor() int {
	if len(d.marks) == 0 {
		return 0
	}
	return d.marks[len(d.marks)-1]
}

// pop takes the last n values off the stack. They stay valid until the next push.
func (d *decoder) pop(n int) ([]any, error) {
	if len(d.stack)-d.floor() < n {
		return nil, errStack
	}
	values := d.stack[len(d.stack)-n:]
	d.stack = d.stack[:len(d.stack)-n]
	return values, nil
}

// popMark takes the values above the last mark, and the mark. They are valid until the next push.
func (d *decoder) popMark() ([]any, error) {
	if len(d.marks) == 0 {
		return nil, errMark
	}
	values := d.stack[d.floor():]
	d.stack = d.stack[:d.floor()]
	d.marks = d.marks[:len(d.marks)-1]
	return values, nil
}

// top is the last value of the stack.
func (d *decoder) top() (any, error) {
	if len(d.stack) == d.floor() {
		return nil, errStack
	}
	return d.stack[len(d.stack)-1], nil
}
