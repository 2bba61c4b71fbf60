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

// A step is what an opcode does.
type step func(*decoder) error

// steps are the opcodes of protocols 0 to 5 (CPython, Lib/pickle.py).
var steps = [256]step{
	0x80: protocol,
	0x95: frame,
	'(':  mark,
	'0':  pop,
	'1':  popMarked,
	'2':  duplicate,

	'N':  func(d *decoder) error { return d.push(nil) },
	0x88: func(d *decoder) error { return d.push(true) },
	0x89: func(d *decoder) error { return d.push(false) },
	'I':  number(inLine(integerOrTruth)),
	'L':  number(inLine(integer)),
	'F':  number(inLine(float)),
	'J':  number(binaryInteger),
	'K':  small,
	'M':  number(func(d *decoder) (any, error) { return d.uint(2) }), // BININT2
	'G':  number(binaryFloat),
	0x8a: number(long(1)),
	0x8b: number(long(4)),

	'S':  text(quoted(unquote)),
	'V':  text(quoted(unescapeUnicode)),
	'T':  text(counted(4)), // BINSTRING
	'U':  text(counted(1)), // SHORT_BINSTRING
	'X':  text(counted(4)), // BINUNICODE
	0x8c: text(counted(1)), // SHORT_BINUNICODE
	0x8d: text(counted(8)), // BINUNICODE8
	'B':  text(counted(4)), // BINBYTES
	'C':  text(counted(1)), // SHORT_BINBYTES
	0x8e: text(counted(8)), // BINBYTES8

	')':  container(last(0), newTuple),
	0x85: container(last(1), newTuple),
	0x86: container(last(2), newTuple),
	0x87: container(last(3), newTuple),
	't':  container((*decoder).popMark, newTuple),
	']':  container(last(0), newList),
	'l':  container((*decoder).popMark, newList),
	0x8f: container(last(0), newList),            // EMPTY_SET
	0x91: container((*decoder).popMark, newList), // FROZENSET
	'}':  container(last(0), newDict),
	'd':  container((*decoder).popMark, newDict),
	'a':  fill(last(1), appendItems),
	'e':  fill((*decoder).popMark, appendItems),
	0x90: fill((*decoder).popMark, appendItems), // ADDITEMS
	's':  fill(last(2), setItems),
	'u':  fill((*decoder).popMark, setItems),

	'g':  get(inDigits),
	'h':  get(inBytes(1)),
	'j':  get(inBytes(4)),
	'p':  put(inDigits),
	'q':  put(inBytes(1)),
	'r':  put(inBytes(4)),
	0x94: put(func(d *decoder) (int64, error) { return int64(len(d.memo)), nil }), // MEMOIZE

	'c':  global(twoLines),
	0x93: global(twoValues),
	'R':  object((*decoder).call),
	0x81: object(create),
	'b':  buildTop,
	'Q':  persistent,
}

const (
	stop            = '.'
	highestProtocol = 5
)

func protocol(d *decoder) error {
	v, err := d.uint(1)
	if err == nil && v > highestProtocol {
		err = fmt.Errorf("protocol %d: only 0 to %d are read", v, highestProtocol)
	}
	return err
}

// frame skips the length of a frame, the bytes that Python reads at once.
func frame(d *decoder) error {
	_, err := d.take(8)
	return err
}

func mark(d *decoder) error {
	if len(d.marks) >= maxStack {
		return fmt.Errorf("more than %d marks on the stack", maxStack)
	}
	d.marks = append(d.marks, len(d.stack))
	return nil
}

// pop takes the last value off the stack, or a mark.
func pop(d *decoder) error {
	if len(d.marks) > 0 && len(d.stack) == d.floor() {
		d.marks = d.marks[:len(d.marks)-1]
		return nil
	}
	_, err := d.pop(1)
	return err
}

// popMarked takes the values above the last mark off the stack.
func popMarked(d *decoder) error {
	_, err := d.popMark()
	return err
}

func duplicate(d *decoder) error {
	v, err := d.top()
	return d.pushNew(v, 0, err)
}

// small pushes an integer of one byte.
func small(d *decoder) error {
	v, err := d.uint(1)
	return d.pushNew(v, 0, err)
}

// number pushes a number that read returns.
func number(read func(*decoder) (any, error)) step {
	return func(d *decoder) error {
		v, err := read(d)
		return d.pushNew(v, numberBytes, err)
	}
}

// inLine reads a line of protocol 0.
func inLine(parse func(line string) (any, error)) func(*decoder) (any, error) {
	return func(d *decoder) (any, error) {
		s, err := d.line()
		if err != nil {
			return nil, err
		}
		v, err := parse(s)
		return v, notNumber(err)
	}
}

func integer(s string) (any, error) { return strconv.ParseInt(strings.TrimSuffix(s, "L"), 10, 64) }

func float(s string) (any, error) { return strconv.ParseFloat(s, 64) }

// integerOrTruth reads an integer, or one of protocol 0's booleans.
func integerOrTruth(s string) (any, error) {
	if s == "00" || s == "01" {
		return s == "01", nil
	}
	return integer(s)
}

// notNumber is the error for a line that is no number. It quotes the start of it: a line may have any length.
func notNumber(err error) error {
	var number *strconv.NumError
	if errors.As(err, &number) {
		return fmt.Errorf("the number %.40q: %w", number.Num, number.Err)
	}
	return err
}

func binaryInteger(d *decoder) (any, error) {
	v, err := d.uint(4)
	return int64(int32(v)), err
}

func binaryFloat(d *decoder) (any, error) {
	b, err := d.take(8)
	if err != nil {
		return nil, err
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
}

// long reads an integer in two's complement. The number of its bytes stands before it, in width bytes.
func long(width int) func(*decoder) (any, error) {
	return func(d *decoder) (any, error) {
		n, err := d.uint(width)
		if err != nil {
			return nil, err
		}
		if n > 8 {
			return nil, fmt.Errorf("an integer of %d bytes: at most 8 are read", n)
		}
		v, err := d.uint(int(n))
		if n > 0 && n < 8 {
			v = v << (64 - 8*n) >> (64 - 8*n) // the sign
		}
		return v, err
	}
}

// text pushes a text that read returns.
func text(read func(*decoder) (string, error)) step {
	return func(d *decoder) error {
		v, err := read(d)
		return d.pushNew(v, textBytes+len(v), err)
	}
}

// quoted reads a text of protocol 0 from a line.
func quoted(parse func(line string) (string, error)) func(*decoder) (string, error) {
	return func(d *decoder) (string, error) {
		s, err := d.line()
		if err != nil {
			return "", err
		}
		return parse(s)
	}
}

// counted reads a text. The number of its bytes stands before it, in width bytes.
func counted(width int) func(*decoder) (string, error) {
	return func(d *decoder) (string, error) {
		n, err := d.uint(width)
		if err != nil {
			return "", err
		}
		b, err := d.take(int(n))
		if err == nil {
			err = needText(b)
		}
		return string(b), err
	}
}

// needText asks for the memory of a text that takes more than a step may.
func needText[T string | []byte](text T) error {
	const copies = 2 // the text and its form without escapes
	if len(text) < stepBytes {
		return nil
	}
	return memory.Need(copies * int64(len(text)))
}

// last takes the last n values off the stack.
func last(n int) func(*decoder) ([]any, error) {
	return func(d *decoder) ([]any, error) { return d.pop(n) }
}

// container pushes a tuple, a list or a dict of values that it takes off the stack.
func container(take func(*decoder) ([]any, error), made func(values []any) (any, error)) step {
	return func(d *decoder) error {
		values, err := take(d)
		if err == nil {
			err = d.hold(listBytes + slotBytes*len(values))
		}
		if err != nil {
			return err
		}
		v, err := made(values)
		return d.pushNew(v, 0, err)
	}
}

func newTuple(values []any) (any, error) { return append(Tuple{}, values...), nil }

func newList(values []any) (any, error) { return &List{Items: append([]any(nil), values...)}, nil }

func newDict(values []any) (any, error) {
	dict := &Dict{}
	return dict, dict.set(values)
}

// fill adds values that it takes off the stack to the list or dict below them.
func fill(take func(*decoder) ([]any, error), add func(to any, values []any) error) step {
	return func(d *decoder) error {
		values, err := take(d)
		if err == nil {
			err = d.hold(slotBytes * len(values))
		}
		if err != nil {
			return err
		}
		to, err := d.top()
		if err != nil {
			return err
		}
		return add(to, values)
	}
}

func appendItems(to any, values []any) error {
	list, ok := to.(*List)
	if !ok {
		return errKind
	}
	list.Items = append(list.Items, values...)
	return nil
}

func setItems(to any, values []any) error {
	dict, ok := to.(*Dict)
	if !ok {
		return errKind
	}
	return dict.set(values)
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

// inDigits reads the number of an entry of the memo from a line. inBytes reads it from so many bytes.
func inDigits(d *decoder) (int64, error) {
	s, err := d.line()
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseInt(s, 10, 64)
	return id, notNumber(err)
}

func inBytes(n int) func(*decoder) (int64, error) {
	return func(d *decoder) (int64, error) { return d.uint(n) }
}

// get pushes an entry of the memo.
func get(number func(*decoder) (int64, error)) step {
	return func(d *decoder) error {
		id, err := number(d)
		if err != nil {
			return err
		}
		if id < 0 || id >= int64(len(d.memo)) || d.memo[id] == (missing{}) {
			return fmt.Errorf("memo entry %d does not exist", id)
		}
		return d.push(d.memo[id])
	}
}

// put makes the last value an entry of the memo.
func put(number func(*decoder) (int64, error)) step {
	return func(d *decoder) error {
		id, err := number(d)
		if err != nil {
			return err
		}
		v, err := d.top()
		if err != nil {
			return err
		}
		if id < 0 || id > math.MaxUint32 {
			return fmt.Errorf("memo entry %d: its number has more than 32 bits", id)
		}
		if more := int(id) + 1 - len(d.memo); more > 0 { // one, if a pickler wrote the file
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
}

// UnknownError is the name of a global that is on no allow-list.
type UnknownError string

func (name UnknownError) Error() string {
	return fmt.Sprintf("names %.100q, which is not on the list of what a dataset's pickle may name",
		string(name))
}

// global pushes the value of a global's name. It applies the allow-list.
func global(named func(*decoder) (module, name string, err error)) step {
	return func(d *decoder) error {
		module, name, err := named(d)
		if err != nil {
			return err
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
}

func twoLines(d *decoder) (module, name string, err error) {
	if module, err = d.line(); err == nil {
		name, err = d.line()
	}
	return module, name, err
}

func twoValues(d *decoder) (module, name string, err error) {
	names, err := d.pop(2)
	if err != nil {
		return "", "", err
	}
	module, okModule := names[0].(string)
	name, okName := names[1].(string)
	if !okModule || !okName {
		return "", "", errKind
	}
	return module, name, nil
}

// object pushes the object that made makes of a global and its arguments.
func object(made func(d *decoder, global any, args Tuple) (any, error)) step {
	return func(d *decoder) error {
		values, err := d.pop(2)
		if err != nil {
			return err
		}
		args, ok := values[1].(Tuple)
		if !ok {
			return errKind
		}
		if err := d.hold(madeBytes); err != nil {
			return err
		}
		v, err := made(d, values[0], args)
		return d.pushNew(v, 0, err)
	}
}

// buildTop gives the second last value its state, the last value.
func buildTop(d *decoder) error {
	values, err := d.pop(2)
	if err != nil {
		return err
	}
	return d.pushNew(values[0], 0, build(values[0], values[1]))
}

// persistent pushes the value of a persistent id.
func persistent(d *decoder) error {
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
	return d.pushNew(value, 0, err)
}
