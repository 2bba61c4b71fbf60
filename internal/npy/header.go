// Package npy reads and writes NumPy's .npy files: whole arrays, memory-mapped arrays and streams. The format
// is that of numpy.lib.format, versions 1.0, 2.0 and 3.0, for booleans, integers, floats and fixed-width
// strings.
//
// Files are untrusted: a header is bounded, parsed strictly and compared with the bytes that are there before
// anything is allocated for the data. Every complaint about a file is a refusal.
//
// Stores, partitions and predictions are such arrays, and so are many published graphs.
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"weft/internal/refusal"
)

const (
	magic = "\x93NUMPY"
	// maxHeader bounds the dict literal of a header. NumPy itself reads at most 10,000 bytes unless told
	// otherwise.
	maxHeader = 1 << 16
	maxDims   = 32
	// alignment is the alignment of the data within a written file, so that a mapped array is aligned too.
	alignment = 64
)

// Header says what a .npy file holds.
type Header struct {
	Descr   string // the element type as NumPy spells it: "<f4", "<i8", "|b1", "<U5", …
	Fortran bool   // columns are contiguous, not rows
	Shape   []int  // empty for a single value
}

// Elements is the product of the shape. It is an error if a size is negative or the product of the sizes that
// are not zero exceeds an int.
func (h Header) Elements() (int, error) {
	product := uint64(1)
	empty := false
	for _, d := range h.Shape {
		if d < 0 {
			return 0, refusal.Errorf("shape %s has a negative size", shapeString(h.Shape))
		}
		if d == 0 {
			empty = true
			continue
		}
		high, low := bits.Mul64(product, uint64(d))
		if high != 0 || low > math.MaxInt {
			return 0, refusal.Errorf("shape %s has more elements than can be counted", shapeString(h.Shape))
		}
		product = low
	}
	if empty {
		return 0, nil
	}
	return int(product), nil
}

// bytes is the size of the data that the header announces.
func (h Header) bytes() (int64, error) {
	d, err := parseDtype(h.Descr)
	if err != nil {
		return 0, err
	}
	n, err := h.Elements()
	if err != nil {
		return 0, err
	}
	if d.size == 0 && n > 0 {
		return 0, refusal.Errorf("dtype %q has elements of no bytes", h.Descr)
	}
	high, low := bits.Mul64(uint64(n), uint64(d.size))
	if high != 0 || low > math.MaxInt {
		return 0, refusal.Errorf("shape %s of %q has more bytes than can be counted", shapeString(h.Shape),
			h.Descr)
	}
	return int64(low), nil
}

// ReadHeader reads the header and leaves r at the first byte of the data.
func ReadHeader(r io.Reader) (Header, error) {
	h, _, err := readHeader(r)
	return h, err
}

// readHeader also returns the header's length in the file, magic included.
func readHeader(r io.Reader) (h Header, length int64, err error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return h, 0, shortHeader(err)
	}
	if string(start[:6]) != magic {
		return h, 0, refusal.Damaged("it does not start as a .npy file does")
	}
	var dict uint32
	major, minor := start[6], start[7]
	switch {
	case major == 1 && minor == 0:
		var b [2]byte
		_, err = io.ReadFull(r, b[:])
		dict = uint32(binary.LittleEndian.Uint16(b[:]))
		length = 10
	case (major == 2 || major == 3) && minor == 0:
		var b [4]byte
		_, err = io.ReadFull(r, b[:])
		dict = binary.LittleEndian.Uint32(b[:])
		length = 12
	default:
		return h, 0, refusal.Errorf("unknown .npy format version %d.%d", major, minor)
	}
	if err != nil {
		return h, 0, shortHeader(err)
	}
	if dict > maxHeader {
		return h, 0, refusal.Errorf("its .npy header claims %d bytes, more than the %d that are read", dict,
			maxHeader)
	}
	text := make([]byte, dict)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, 0, shortHeader(err)
	}
	h, err = parseHeader(string(text))
	return h, length + int64(dict), err
}

func shortHeader(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refusal.Damaged("it ends inside the .npy header")
	}
	return fmt.Errorf("reading the .npy header: %w", err)
}

// parseHeader reads the literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, keys in any
// order.
func parseHeader(text string) (Header, error) {
	p := parser{rest: text}
	var h Header
	var seen []string
	p.expect("{")
	for p.err == nil && !p.accept("}") {
		key := p.quoted()
		p.expect(":")
		if p.err == nil && slices.Contains(seen, key) {
			p.fail("the key %q stands twice", key)
		}
		seen = append(seen, key)
		switch key {
		case "descr":
			if p.accept("[") {
				p.fail("arrays of records are not read; save each field as an array of its own")
				break
			}
			h.Descr = p.quoted()
		case "fortran_order":
			h.Fortran = p.boolean()
		case "shape":
			h.Shape = p.tuple()
		default:
			p.fail("unknown key %q", key)
		}
		if !p.accept(",") {
			p.expect("}")
			break
		}
	}
	if p.err == nil && strings.TrimRight(p.rest, " \n") != "" {
		p.fail("text after the closing brace")
	}
	if p.err == nil && len(seen) != 3 {
		p.fail("one of descr, fortran_order and shape is missing")
	}
	if p.err != nil {
		return Header{}, p.err
	}
	if _, err := h.bytes(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// parser takes tokens off the front of a header. After the first error it takes nothing more.
type parser struct {
	rest string
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = refusal.Damaged("damaged .npy header: "+format, args...)
	}
}

func (p *parser) accept(token string) bool {
	if p.err != nil {
		return false
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(p.rest, " "), token)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *parser) expect(token string) {
	if !p.accept(token) {
		p.fail("%q is missing", token)
	}
}

// quoted takes a string literal without escapes.
func (p *parser) quoted() string {
	quote := "'"
	if p.accept(`"`) {
		quote = `"`
	} else {
		p.expect("'")
	}
	text, rest, ok := strings.Cut(p.rest, quote)
	if p.err != nil {
		return ""
	}
	if !ok || strings.ContainsAny(text, "\\\n") {
		p.fail("a string does not end")
		return ""
	}
	p.rest = rest
	return text
}

func (p *parser) boolean() bool {
	if p.accept("True") {
		return true
	}
	p.expect("False")
	return false
}

// tuple takes (), (3,) or (3, 4). Files of Python 2 may spell a size 3L.
func (p *parser) tuple() []int {
	shape := []int{}
	p.expect("(")
	for p.err == nil && !p.accept(")") {
		p.rest = strings.TrimLeft(p.rest, " ")
		digits := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
		d, err := strconv.Atoi(p.rest[:digits])
		if err != nil || len(shape) == maxDims {
			p.fail("the shape is not a tuple of at most %d sizes", maxDims)
			return nil
		}
		shape = append(shape, d)
		p.rest = p.rest[digits:]
		p.accept("L")
		if !p.accept(",") {
			if len(shape) == 1 {
				p.fail("a shape of one size needs a comma")
			}
			p.expect(")")
			break
		}
	}
	return shape
}

// Stream returns the array as Read and NewBlocks take it, a file of so many bytes. It puts the header in
// front of the data.
func (h Header) Stream(data io.Reader) (r io.Reader, size int64, err error) {
	need, err := h.bytes()
	if err != nil {
		return nil, 0, err
	}
	header := h.marshal()
	return io.MultiReader(bytes.NewReader(header), data), int64(len(header)) + need, nil
}

// marshal returns the header as numpy.save writes it, version 1.0, padded so that the data is aligned.
func (h Header) marshal() []byte { return h.marshalTo(0) }

// marshalTo is marshal padded to so many bytes at least, a multiple of the alignment.
func (h Header) marshalTo(least int) []byte {
	order := "False"
	if h.Fortran {
		order = "True"
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", h.Descr, order,
		shapeString(h.Shape))
	const fixed = len(magic) + 4
	total := max(least, (fixed+len(dict)+1+alignment-1)/alignment*alignment)
	b := append(make([]byte, 0, total), magic...)
	b = append(b, 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(total-fixed))
	b = append(b, dict...)
	for len(b) < total-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}

// shapeString spells a shape as Python spells a tuple.
func shapeString(shape []int) string {
	parts := make([]string, len(shape))
	for i, d := range shape {
		parts[i] = strconv.Itoa(d)
	}
	if len(parts) == 1 {
		return "(" + parts[0] + ",)"
	}
	return "(" + strings.Join(parts, ", ") + ")"
}
