package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weft/internal/memory"
)

// The bounds of the machine. Python's own pickler flushes lists and dicts every thousand items, so honest
// files stay far below.
const maxStack = 1 << 20

// What the values of a pickle take is bounded by its length: a tuple is one byte of a pickle and forty in
// memory. The values of a list of booleans or of small numbers, which Python writes in one or two bytes each,
// take up to sixteen times as much as the pickle.
const (
	heldBytes   = 32 << 20
	heldPerByte = 16
)

// What values take, in bytes. Those below 256, truth values and None take none beside their slot.
const (
	slotBytes   = 16  // an item, or an entry of the memo
	numberBytes = 8   // a number
	textBytes   = 16  // a text beside its characters
	listBytes   = 24  // a tuple, list or dict beside its items
	madeBytes   = 128 // an object, or what a function makes, as a tensor
)

// Opcodes of protocols 0 to 5 (CPython, Lib/pickle.py).
const (
	opMark          = '('
	opStop          = '.'
	opPop           = '0'
	opPopMark       = '1'
	opDup           = '2'
	opFloat         = 'F'
	opInt           = 'I'
	opBinInt        = 'J'
	opBinInt1       = 'K'
	opLong          = 'L'
	opBinInt2       = 'M'
	opNone          = 'N'
	opReduce        = 'R'
	opString        = 'S'
	opBinString     = 'T'
	opShortString   = 'U'
	opUnicode       = 'V'
	opBinUnicode    = 'X'
	opAppend        = 'a'
	opBuild         = 'b'
	opGlobal        = 'c'
	opDict          = 'd'
	opEmptyDict     = '}'
	opAppends       = 'e'
	opGet           = 'g'
	opBinGet        = 'h'
	opLongBinGet    = 'j'
	opList          = 'l'
	opEmptyList     = ']'
	opPut           = 'p'
	opBinPut        = 'q'
	opLongBinPut    = 'r'
	opSetItem       = 's'
	opTuple         = 't'
	opEmptyTuple    = ')'
	opSetItems      = 'u'
	opBinFloat      = 'G'
	opPersistent    = 'Q'
	opBytes         = 'B'
	opShortBytes    = 'C'
	opProto         = 0x80
	opNewObject     = 0x81
	opTuple1        = 0x85
	opTuple2        = 0x86
	opTuple3        = 0x87
	opTrue          = 0x88
	opFalse         = 0x89
	opLong1         = 0x8a
	opLong4         = 0x8b
	opShortUnicode  = 0x8c
	opUnicode8      = 0x8d
	opBytes8        = 0x8e
	opEmptySet      = 0x8f
	opAddItems      = 0x90
	opFrozenSet     = 0x91
	opStackGlobal   = 0x93
	opMemoize       = 0x94
	opFrame         = 0x95
	highestProtocol = 5
)

// A step of so many bytes of a pickle makes values of at most growth times as much: an empty list is one byte
// of a pickle and, as an item of a list that grows, sixty in memory.
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
		if err == nil {
			if op[0] == opStop {
				if len(d.stack) != 1 || len(d.marks) != 0 {
					return nil, fmt.Errorf("pickle, byte %d: ends with %d values on its stack", at,
						len(d.stack))
				}
				return d.stack[0], nil
			}
			err = d.step(op[0])
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
	held  int64 // bytes of the values that were made

	encoded int // bytes of the text that was encoded
}

// missing is the memo's entry of a number that was passed over.
type missing struct{}

// hold counts bytes of a value that is about to be made.
func (d *decoder) hold(bytes int) error {
	most := heldBytes + heldPerByte*int64(len(d.data))
	if d.held += int64(bytes); d.held > most {
		return fmt.Errorf("its values take more than %d times its %d bytes in memory: save arrays in "+
			"place of lists and tuples",
			heldPerByte, len(d.data))
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
	for i := d.at; i < len(d.data); i++ {
		if d.data[i] == '\n' {
			text := d.data[d.at:i]
			if err := needText(text); err != nil {
				return "", err
			}
			d.at = i + 1
			return string(text), nil
		}
	}
	return "", errors.New("a line without an end")
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

// floor is the height that the stack cannot be popped below: that of the last mark.
func (d *decoder) floor() int {
	if len(d.marks) == 0 {
		return 0
	}
	return d.marks[len(d.marks)-1]
}

// pop takes the last n values off the stack. They are valid until the next push.
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

// step runs one opcode.
func (d *decoder) step(op byte) error {
	switch op {
	case opProto:
		v, err := d.uint(1)
		if err == nil && v > highestProtocol {
			err = fmt.Errorf("protocol %d: only 0 to %d are read", v, highestProtocol)
		}
		return err
	case opMark:
		if len(d.marks) >= maxStack {
			return fmt.Errorf("more than %d marks on the stack", maxStack)
		}
		d.marks = append(d.marks, len(d.stack))
		return nil
	case opPop:
		if len(d.marks) > 0 && len(d.stack) == d.floor() {
			d.marks = d.marks[:len(d.marks)-1]
			return nil
		}
		_, err := d.pop(1)
		return err
	case opPopMark:
		_, err := d.popMark()
		return err
	case opDup:
		v, err := d.top()
		if err != nil {
			return err
		}
		return d.push(v)
	case opNone:
		return d.push(nil)
	case opTrue, opFalse:
		return d.push(op == opTrue)
	case opGet, opBinGet, opLongBinGet, opPut, opBinPut, opLongBinPut, opMemoize:
		return d.remember(op)
	case opInt, opLong, opBinInt, opBinInt1, opBinInt2, opLong1, opLong4, opFloat, opBinFloat:
		v, err := d.number(op)
		if err == nil && op != opBinInt1 {
			err = d.hold(numberBytes)
		}
		if err != nil {
			return err
		}
		return d.push(v)
	case opString, opBinString, opShortString, opUnicode, opBinUnicode, opBytes, opShortBytes, opShortUnicode,
		opUnicode8, opBytes8:
		v, err := d.text(op)
		if err == nil {
			err = d.hold(textBytes + len(v))
		}
		if err != nil {
			return err
		}
		return d.push(v)
	case opEmptyTuple, opTuple1, opTuple2, opTuple3, opTuple, opEmptyList, opList, opEmptyDict, opDict,
		opEmptySet, opFrozenSet:
		return d.container(op)
	case opAppend, opAppends, opSetItem, opSetItems, opAddItems:
		return d.fill(op)
	case opGlobal, opStackGlobal:
		return d.global(op)
	case opReduce, opNewObject, opBuild:
		return d.object(op)
	case opPersistent:
		return d.persistent()
	case opFrame: // says how many of the next bytes are read at once
		_, err := d.take(8)
		return err
	}
	return fmt.Errorf("opcode 0x%02x is not read: plain data only", op)
}

// remember runs the memo's opcodes.
func (d *decoder) remember(op byte) error {
	var id int64
	var err error
	switch op {
	case opMemoize:
		id = int64(len(d.memo))
	case opBinGet, opBinPut:
		id, err = d.uint(1)
	case opLongBinGet, opLongBinPut:
		id, err = d.uint(4)
	default:
		var s string
		if s, err = d.line(); err == nil {
			id, err = strconv.ParseInt(s, 10, 64)
			err = notNumber(err)
		}
	}
	if err != nil {
		return err
	}
	if op == opGet || op == opBinGet || op == opLongBinGet {
		if id < 0 || id >= int64(len(d.memo)) || d.memo[id] == (missing{}) {
			return fmt.Errorf("memo entry %d does not exist", id)
		}
		return d.push(d.memo[id])
	}
	v, err := d.top()
	if err != nil {
		return err
	}
	if id < 0 || id > math.MaxUint32 {
		return fmt.Errorf("memo entry %d: its number has more than 32 bits", id)
	}
	if more := int(id) + 1 - len(d.memo); more > 0 { // one, from a pickler
		if err := d.hold(slotBytes * more); err != nil {
			return err
		}
		for range more {
			d.memo = append(d.memo, missing{})
		}
	}
	d.memo[id] = v
	return nil
}

// number reads an integer of at most 64 bits, a float, or protocol 0's booleans ("I00", "I01").
func (d *decoder) number(op byte) (any, error) {
	switch op {
	case opBinInt1:
		return d.uint(1)
	case opBinInt2:
		return d.uint(2)
	case opBinInt:
		v, err := d.uint(4)
		return int64(int32(v)), err
	case opLong1, opLong4:
		width := 1
		if op == opLong4 {
			width = 4
		}
		n, err := d.uint(width)
		if err != nil {
			return nil, err
		}
		if n > 8 {
			return nil, fmt.Errorf("an integer of %d bytes: at most 8 are read", n)
		}
		v, err := d.uint(int(n))
		if n > 0 && n < 8 {
			v = v << (64 - 8*n) >> (64 - 8*n) // the sign, in two's complement
		}
		return v, err
	case opBinFloat:
		b, err := d.take(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
	}
	s, err := d.line()
	if err != nil {
		return nil, err
	}
	var v any
	switch {
	case op == opFloat:
		v, err = strconv.ParseFloat(s, 64)
	case op == opInt && (s == "00" || s == "01"):
		v = s == "01"
	default:
		v, err = strconv.ParseInt(strings.TrimSuffix(s, "L"), 10, 64)
	}
	return v, notNumber(err)
}

// notNumber is the error of a number that is none. The line it stands on may be of any length.
func notNumber(err error) error {
	var number *strconv.NumError
	if errors.As(err, &number) {
		return fmt.Errorf("the number %.40q: %w", number.Num, number.Err)
	}
	return err
}

// text reads a string: counted, or as a line of protocol 0.
func (d *decoder) text(op byte) (string, error) {
	switch op {
	case opString:
		s, err := d.line()
		if err != nil {
			return "", err
		}
		return unquote(s)
	case opUnicode:
		s, err := d.line()
		if err != nil {
			return "", err
		}
		return unescapeUnicode(s)
	}
	width := 4
	switch op {
	case opShortString, opShortBytes, opShortUnicode:
		width = 1
	case opUnicode8, opBytes8:
		width = 8
	}
	n, err := d.uint(width)
	if err != nil {
		return "", err
	}
	b, err := d.take(int(n))
	if err == nil {
		err = needText(b)
	}
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// needText asks for the memory of a text that is more than a step's.
func needText[T string | []byte](text T) error {
	const copies = 2 // with one without escapes
	if len(text) < stepBytes {
		return nil
	}
	return memory.Need(copies * int64(len(text)))
}

// container pushes a tuple, a list or a dict.
func (d *decoder) container(op byte) error {
	var values []any
	var err error
	switch op {
	case opTuple1, opTuple2, opTuple3:
		values, err = d.pop(int(op-opTuple1) + 1)
	case opTuple, opList, opDict, opFrozenSet:
		values, err = d.popMark()
	}
	if err == nil {
		err = d.hold(listBytes + slotBytes*len(values))
	}
	if err != nil {
		return err
	}
	switch op {
	case opEmptyList, opList, opEmptySet, opFrozenSet:
		return d.push(&List{Items: append([]any(nil), values...)})
	case opEmptyDict, opDict:
		dict := &Dict{}
		if err := dict.set(values); err != nil {
			return err
		}
		return d.push(dict)
	}
	return d.push(append(Tuple{}, values...))
}

// fill adds values to the list or dict below them on the stack.
func (d *decoder) fill(op byte) error {
	var values []any
	var err error
	switch op {
	case opAppend:
		values, err = d.pop(1)
	case opSetItem:
		values, err = d.pop(2)
	default:
		values, err = d.popMark()
	}
	if err == nil {
		err = d.hold(slotBytes * len(values))
	}
	if err != nil {
		return err
	}
	target, err := d.top()
	if err != nil {
		return err
	}
	switch t := target.(type) {
	case *List:
		if op == opAppend || op == opAppends || op == opAddItems {
			t.Items = append(t.Items, values...)
			return nil
		}
	case *Dict:
		if op == opSetItem || op == opSetItems {
			return t.set(values)
		}
	}
	return errKind
}

// set takes keys and values in turn.
func (d *Dict) set(pairs []any) error {
	if len(pairs)%2 != 0 {
		return errors.New("a key without a value")
	}
	for i := 0; i < len(pairs); i += 2 {
		d.Items = append(d.Items, Item{Key: pairs[i], Value: pairs[i+1]})
	}
	return nil
}

// UnknownError is the name of a global that is on no allow-list.
type UnknownError string

func (name UnknownError) Error() string {
	return fmt.Sprintf("names %.100q, which is not on the list of what a dataset's pickle may name",
		string(name))
}

// global pushes what a name stands for: the allow-list is applied here.
func (d *decoder) global(op byte) error {
	var module, name string
	var err error
	if op == opStackGlobal {
		names, err := d.pop(2)
		if err != nil {
			return err
		}
		var okModule, okName bool
		module, okModule = names[0].(string)
		name, okName = names[1].(string)
		if !okModule || !okName {
			return errKind
		}
	} else {
		if module, err = d.line(); err != nil {
			return err
		}
		if name, err = d.line(); err != nil {
			return err
		}
	}
	name = module + "." + name
	value, ok := globals[name]
	if !ok {
		value, ok = d.Globals[name]
	}
	if !ok {
		return UnknownError(name)
	}
	return d.push(value)
}

// object runs the opcodes that make and fill objects.
func (d *decoder) object(op byte) error {
	values, err := d.pop(2)
	if err != nil {
		return err
	}
	if op == opBuild {
		if err := build(values[0], values[1]); err != nil {
			return err
		}
		return d.push(values[0])
	}
	args, ok := values[1].(Tuple)
	if !ok {
		return errKind
	}
	if err := d.hold(madeBytes); err != nil {
		return err
	}
	maker := d.call
	if op == opNewObject {
		maker = create
	}
	made, err := maker(values[0], args)
	if err != nil {
		return err
	}
	return d.push(made)
}

// persistent pushes what an id stands for.
func (d *decoder) persistent() error {
	id, err := d.pop(1)
	if err != nil {
		return err
	}
	if d.Persistent == nil {
		return errors.New("names data outside the pickle")
	}
	if err := d.hold(madeBytes); err != nil {
		return err
	}
	value, err := d.Persistent(id[0])
	if err != nil {
		return err
	}
	return d.push(value)
}
