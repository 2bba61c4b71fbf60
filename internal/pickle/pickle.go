// Package pickle reads the Python pickles that graphs are published in: lists and dicts of numbers, NumPy
// arrays, SciPy sparse matrices, and the globals of a Dialect. A pickle is a program. This reader runs only
// the parts that name globals of a short allow-list, and builds only plain Go values.
// only.
//
// Reading is iterative and linear in the input. Every length is checked against the bytes that are left. The
// stack and the memo are bounded, and values that the memo repeats are shared, never copied. A reader of the
// result must know that a short pickle may name one long list many times, or a list inside itself.
package pickle

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"weft/internal/npy"
)

// The Go values of a pickle are nil (None), bool, int64, float64, string (bytes, as of a Python 2 str, or a
// unicode string in UTF-8), Tuple, *List (which sets are too), *Dict, *Array and *CSR; and what a Dialect
// makes of its globals.

// Tuple is a Python tuple.
type Tuple []any

// List is a Python list.
type List struct{ Items []any }

// Dict is a Python dict, OrderedDict or defaultdict: its items in the order they were set. A key may stand
// more than once; the last counts.
type Dict struct{ Items []Item }

// Item is a key of a Dict with its value.
type Item struct{ Key, Value any }

// Get is the value of a string key, and whether the dict has it.
func (d *Dict) Get(key string) (any, bool) {
	for _, item := range slices.Backward(d.Items) {
		if k, ok := item.Key.(string); ok && k == key {
			return item.Value, true
		}
	}
	return nil, false
}

// Array is a NumPy array: Data holds exactly the product of Shape items of Dtype ("<f4": byte order, kind,
// bytes per item), column by column where Fortran is true, else row by row.
type Array struct {
	Dtype   string
	Shape   []int
	Fortran bool
	Data    string
}

// Numbers returns the array as NumPy's own file format has it, by a reader that knows every element type and
// order: a pickled array has just the header and the data of a .npy file.
func (a *Array) Numbers() (*npy.Array, error) {
	r, size, err := a.Open()
	if err != nil {
		return nil, err
	}
	return npy.Read(r, size)
}

// Open returns the array as a .npy file, and its size in bytes.
func (a *Array) Open() (r io.Reader, size int64, err error) {
	return npy.Header{Descr: a.Dtype, Fortran: a.Fortran, Shape: a.Shape}.Stream(strings.NewReader(a.Data))
}

// CSR is a SciPy matrix of compressed sparse rows, as the pickle gives it. The caller must check that the
// three arrays agree.
type CSR struct {
	Rows, Columns         int
	Indptr, Indices, Data *Array
}

// maxDimensions bounds the dimensions of an array: a dataset has vectors and matrices.
const maxDimensions = 4

// build takes the state (version, shape, dtype, Fortran order, data).
func (a *Array) build(state any) error {
	t, ok := state.(Tuple)
	if !ok || len(t) != 5 {
		return fmt.Errorf("array without its five-part state")
	}
	dims, okShape := t[1].(Tuple)
	d, okType := t[2].(*dtype)
	fortran, okOrder := t[3].(bool)
	data, okData := t[4].(string)
	if !okShape || !okType || !okOrder || !okData || len(dims) > maxDimensions {
		return fmt.Errorf("array whose state is not (version, shape, dtype, order, bytes)")
	}
	shape := make([]int, len(dims))
	items := uint64(1)
	for i, dim := range dims {
		n, ok := dim.(int64)
		high, low := bits.Mul64(items, uint64(n))
		if !ok || n < 0 || high != 0 {
			return fmt.Errorf("array with a dimension that is not a size")
		}
		shape[i], items = int(n), low
	}
	if items > uint64(len(data)) || int(items)*d.size != len(data) {
		return fmt.Errorf("array of shape %v and type %s with %d bytes of data", shape, d.code, len(data))
	}
	*a = Array{Dtype: d.order + d.code, Shape: shape, Fortran: fortran, Data: data}
	return nil
}

// maxAttributes bounds the attributes of one object: SciPy writes seven, and a repeated state is searched
// each time.
const maxAttributes = 64

// build takes the matrix's attributes.
func (c *CSR) build(state any) error {
	d, ok := state.(*Dict)
	if !ok || len(d.Items) > maxAttributes {
		return fmt.Errorf("csr_matrix without a dict of attributes")
	}
	shape, _ := d.Get("_shape")
	dims, _ := shape.(Tuple)
	if len(dims) != 2 {
		return fmt.Errorf("csr_matrix without a shape")
	}
	rows, okRows := dims[0].(int64)
	columns, okColumns := dims[1].(int64)
	if !okRows || !okColumns || rows < 0 || columns < 0 {
		return fmt.Errorf("csr_matrix of shape %d × %d", rows, columns)
	}
	built := CSR{Rows: int(rows), Columns: int(columns)}
	for _, part := range []struct {
		name string
		to   **Array
	}{{"indptr", &built.Indptr}, {"indices", &built.Indices}, {"data", &built.Data}} {
		value, _ := d.Get(part.name)
		array, ok := value.(*Array)
		if !ok {
			return fmt.Errorf("csr_matrix without an array %q", part.name)
		}
		*part.to = array
	}
	*c = built
	return nil
}
