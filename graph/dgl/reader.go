package dgl

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// The first bytes of the parts of a file (DGL, src/graph/serialize, src/graph/unit_graph.cc and
// heterograph.cc, include/dgl/aten and include/dgl/runtime).
const (
	graphMagic   = 0xDD2E4FF046B4A13F // a file of graphs
	tensorsMagic = 0xDD5A9FBE3FA2443F // a file of tensors
	tensorMagic  = 0xDD5E40F096B4A13F
	csrMagic     = 0xDD6CD31205DFF127
	cooMagic     = 0xDD61FFD305DFF127
	metaMagic    = 0xDD3C5FFE20046ABF // the graph of a graph's types
	unitMagic    = 0xDD2E60F0F6B4A127 // a relation
	heteroMagic  = 0xDD589FBE35224ABF // the structure of a graph
)

const (
	lengthBytes    = 8                // of a length, and of most other numbers
	leastNamed     = lengthBytes + 40 // the fewest bytes of a tensor with its name
	deviceOfMemory = 1                // in DLPack
	maxDims        = 32
	maxTypes       = 1 << 16 // of vertices
)

// cursor reads the parts of a file, one after another. It compares every length with the bytes that are left
// before it allocates. All numbers are little-endian, nothing is aligned. After the first error it reads
// nothing more.
type cursor struct {
	file   *os.File
	length int64 // of the file
	at     int64
	ahead  *bufio.Reader // the file from at on
	err    error

	labels map[string]tensor // of whole graphs
}

// open opens a file, for a cursor over all of it.
func open(path string) (*cursor, error) { return over(regular.Open(path)) }

// over returns a cursor over all of an open file.
func over(file *os.File, size int64, err error) (*cursor, error) {
	if err != nil {
		return nil, err
	}
	c := &cursor{file: file, length: size, ahead: bufio.NewReader(nil)}
	c.ahead.Reset(io.NewSectionReader(file, 0, size))
	return c, nil
}

// Close closes the file. Tensors of it cannot be read afterwards.
func (c *cursor) Close() error { return c.file.Close() }

// fail records the first error: what is wrong, and where in the file.
func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = refusal.Damaged("damaged at byte %d: %w", c.at, fmt.Errorf(format, args...))
	}
}

// left returns how many bytes follow.
func (c *cursor) left() uint64 { return uint64(c.length - c.at) }

// has reports whether the next n bytes are there.
func (c *cursor) has(n uint64) bool {
	if c.err == nil && n > c.left() {
		c.fail("%d bytes are to come, and %d are there", n, c.left())
	}
	return c.err == nil
}

// bytes reads the next n bytes.
func (c *cursor) bytes(n uint64) []byte {
	if !c.has(n) {
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.ahead, b); err != nil {
		c.fail("%w", err)
		return nil
	}
	c.at += int64(n)
	return b
}

// skip passes over the next n bytes.
func (c *cursor) skip(n uint64) {
	if c.has(n) {
		c.at += int64(n)
		c.ahead.Reset(io.NewSectionReader(c.file, c.at, c.length-c.at))
	}
}

func (c *cursor) uint64() uint64 {
	b := c.bytes(8)
	if c.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (c *cursor) uint32() uint32 {
	b := c.bytes(4)
	if c.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// magic reads the first bytes of a part of that name.
func (c *cursor) magic(want uint64, name string) {
	if got := c.uint64(); c.err == nil && got != want {
		c.at -= 8
		c.fail("no %s begins here", name)
	}
}

// count reads the number of entries that follow, each of at least least bytes.
func (c *cursor) count(least int) int {
	n := c.uint64()
	if c.err == nil && n > c.left()/uint64(least) {
		c.fail("%d entries are to come in %d bytes", n, c.left())
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// size reads a number of vertices.
func (c *cursor) size() int {
	n := c.uint64()
	if c.err == nil && n > math.MaxInt32 {
		c.fail("%d vertices, where 0 to %d can be numbered in 32 bits", int64(n), math.MaxInt32)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

func (c *cursor) text() string { return string(c.bytes(uint64(c.count(1)))) }

func (c *cursor) texts() []string {
	list := make([]string, 0, c.count(lengthBytes))
	for range cap(list) {
		list = append(list, c.text())
	}
	return list
}

// tensor is an array in an open file.
type tensor struct {
	npy.Header
	file     *os.File
	at, size int64 // where its bytes lie in the file, and how many they are
}

// data reads the bytes.
func (t *tensor) data() io.Reader { return io.NewSectionReader(t.file, t.at, t.size) }

// open opens the array as a .npy file.
func (t *tensor) open() (*arrays.Entry, error) { return openData(t.Header, t.data()) }

// openData opens data as a .npy file.
func openData(h npy.Header, data io.Reader) (*arrays.Entry, error) {
	r, size, err := h.Stream(data)
	if err != nil {
		return nil, err
	}
	return &arrays.Entry{ReadCloser: io.NopCloser(r), Size: size}, nil
}

// tensor reads an array.
func (c *cursor) tensor() tensor {
	c.magic(tensorMagic, "tensor")
	c.uint64() // reserved
	if device := c.uint32(); c.err == nil && device != deviceOfMemory {
		c.fail("a tensor of device type %d, where files hold those of memory (%d)", device, deviceOfMemory)
	}
	c.uint32() // the device's number
	dims := c.uint32()
	if c.err == nil && dims > maxDims {
		c.fail("a tensor of %d dimensions", dims)
	}
	element := c.bytes(4)
	if c.err != nil {
		return tensor{}
	}
	kind, bits := element[0], int(element[1])
	if lanes := binary.LittleEndian.Uint16(element[2:]); bits%8 != 0 || bits == 0 || lanes != 1 {
		c.fail("a tensor of elements of %d × %d bits", lanes, bits)
	}
	t := tensor{Header: npy.Header{Descr: descr(kind, bits), Shape: make([]int, 0, dims)}}
	elements := uint64(1)
	empty := false // one of the other sizes is zero
	for range dims {
		n := c.uint64()
		switch {
		case n == 0:
			empty = true
		case n > math.MaxInt64 || elements > math.MaxInt64/n:
			c.fail("a tensor of more elements than can be counted")
		default:
			elements *= n
		}
		t.Shape = append(t.Shape, int(n))
	}
	if empty {
		elements = 0
	}
	n := c.uint64()
	if c.err == nil && (elements > math.MaxInt64/8 || n != elements*uint64(bits/8)) {
		c.fail("a tensor of shape %v and %d bits has %d bytes", t.Shape, bits, n)
	}
	t.file, t.at, t.size = c.file, c.at, int64(n)
	c.skip(n)
	return t
}

// descr returns NumPy's name of an element type, if NumPy has it.
func descr(kind byte, bits int) string {
	order := "<"
	if bits == 8 {
		order = "|"
	}
	switch kind {
	case 0:
		return fmt.Sprintf("%si%d", order, bits/8)
	case 1:
		return fmt.Sprintf("%su%d", order, bits/8)
	case 2:
		return fmt.Sprintf("%sf%d", order, bits/8)
	case 4:
		return fmt.Sprintf("bfloat%d", bits)
	}
	return fmt.Sprintf("DLPack type %d of %d bits", kind, bits)
}

// named reads tensors with their names.
func (c *cursor) named() map[string]tensor {
	n := c.count(leastNamed)
	all := make(map[string]tensor, n)
	for range n {
		name := c.text()
		if _, twice := all[name]; twice {
			c.fail("the tensor %.40q comes twice", name)
		}
		all[name] = c.tensor()
		if c.err != nil {
			return nil
		}
	}
	return all
}

// readTensors reads a file of tensors (dgl.data.utils.save_tensors) to its last byte.
func (c *cursor) readTensors() (map[string]tensor, error) {
	if c.err = c.start(tensorsMagic, "tensors saved by DGL"); c.err != nil {
		return nil, c.err
	}
	announced := c.uint64()
	all := c.named()
	if c.err == nil && uint64(len(all)) != announced {
		c.fail("%d tensors, of %d announced", len(all), announced)
	}
	c.end()
	return all, c.err
}

// start reads the first bytes of a file, and refuses a file that begins otherwise.
func (c *cursor) start(magic uint64, what string) error {
	if c.uint64() != magic {
		return refusal.Errorf("does not start as %s do", what)
	}
	return nil
}

// end refuses bytes after the last part.
func (c *cursor) end() {
	if c.err == nil && c.left() > 0 {
		c.fail("%d bytes follow the last part", c.left())
	}
}

// checkVector refuses a tensor of ids that is no vector.
func (t *tensor) checkVector() error {
	if len(t.Shape) != 1 {
		return refusal.Errorf("ids of shape %v, where a vector was to come", t.Shape)
	}
	return nil
}

// outside refuses an element that is not below the limit, or below 0.
func outside(element int, x, limit int64) error {
	return refusal.Errorf("element %d is %d, where 0 to %d are possible", element, x, limit-1)
}

// integers returns the elements of a vector of integers, all from 0 and below the limit.
func integers[T int32 | int64](t *tensor, limit int64) ([]T, error) {
	if err := t.checkVector(); err != nil {
		return nil, err
	}
	if err := memory.Need(int64(binary.Size(T(0))) * int64(t.Shape[0])); err != nil {
		return nil, err
	}
	blocks, err := npy.NewDataBlocks(t.data(), t.size, t.Header)
	if err != nil {
		return nil, err
	}
	all := make([]T, 0, t.Shape[0])
	for {
		block, err := blocks.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		values, err := block.Int64s()
		if err != nil {
			return nil, err
		}
		for _, x := range values {
			if x < 0 || x >= limit {
				return nil, outside(len(all), x, limit)
			}
			all = append(all, T(x))
		}
	}
}
