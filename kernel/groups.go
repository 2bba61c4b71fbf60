package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"weft/tensor"
)

// GroupFunction is a function of a group of columns of a row.
type GroupFunction int32

// The functions. All except the softmaxes give one number for each group.
const (
	GroupMax GroupFunction = C.WEFT_GROUP_MAX // NaN if a number is NaN
	GroupMin GroupFunction = C.WEFT_GROUP_MIN
	// GroupMax, whose first maximum has the whole gradient
	GroupFirstMax   GroupFunction = C.WEFT_GROUP_FIRST_MAX
	GroupFirstMin   GroupFunction = C.WEFT_GROUP_FIRST_MIN
	GroupSoftmax    GroupFunction = C.WEFT_GROUP_SOFTMAX
	GroupLogSoftmax GroupFunction = C.WEFT_GROUP_LOG_SOFTMAX
	GroupLogSumExp  GroupFunction = C.WEFT_GROUP_LOG_SUM_EXP
)

// Softmax reports whether the function gives a number for each column.
func (f GroupFunction) Softmax() bool { return f == GroupSoftmax || f == GroupLogSoftmax }

// Columns returns the number of columns of the result, for columns in so many groups.
func (f GroupFunction) Columns(groups, columns int) int {
	if f.Softmax() {
		return columns
	}
	return groups
}

// check panics unless z has the shape of the function of groups of x. It returns the groups' width.
func (f GroupFunction) check(z, x *tensor.Matrix, groups int) C.int64_t {
	if groups < 1 || x.Cols%groups != 0 {
		panic(tensor.Mismatched("%d groups of %d columns", groups, x.Cols))
	}
	check("function of groups", z, x.Rows, f.Columns(groups, x.Cols))
	return C.int64_t(x.Cols / groups)
}

// Groups is z = f of each group of columns of x, rows × groups·width. z is rows × f.Columns, of x's element
// type.
func (t *Team) Groups(z, x *tensor.Matrix, groups int, f GroupFunction) {
	args := &C.weft_groups_args{
		z: storage(z), x: storage(x), groups: C.int64_t(groups), width: f.check(z, x, groups),
		function: C.int32_t(f),
	}
	t.rows(on(C.weft_groups, z, x).streams(z, x), unsafe.Pointer(args), x.Rows, x.Cols)
}

// GroupsBackward is dx = dLoss/dx of Groups, from its input x, its output z and g = dLoss/dz. Softmaxes do
// not read x, which may be nil, and their dx may be g. Equal maxima share a maximum's gradient; so do NaNs,
// if it is NaN. With GroupFirstMax the first maximum, or the first NaN, gets all of it.
func (t *Team) GroupsBackward(dx, g, x, z *tensor.Matrix, groups int, f GroupFunction) {
	tensor.SameShape(g, z)
	width := f.check(z, dx, groups)
	if x != nil {
		tensor.SameShape(dx, x)
	}
	args := &C.weft_groups_back_args{
		dx: storage(dx), g: storage(g), x: storage(x), z: storage(z), groups: C.int64_t(groups), width: width,
		function: C.int32_t(f),
	}
	t.rows(on(C.weft_groups_back, dx, g, x, z).streams(dx, g, x, z), unsafe.Pointer(args), dx.Rows, dx.Cols)
}

// RowProduct is a product of the matrices that rows hold, group after group: Rows × Inner times Inner × Cols.
type RowProduct struct{ Groups, Rows, Inner, Cols int }

// RowProduct is z_i = x_i·y_i for each row i, of one element type: x has Groups·Rows·Inner columns, y
// Groups·Inner·Cols and z Groups·Rows·Cols.
func (t *Team) RowProduct(z, x, y *tensor.Matrix, p RowProduct) {
	t.rowProduct(z, x, y, p, false, false)
}

// RowProductBackward is dx = g·yᵀ and dy = xᵀ·g for each row and group, for g = dLoss/dz of RowProduct. dx or
// dy may be nil.
func (t *Team) RowProductBackward(dx, dy, g, x, y *tensor.Matrix, p RowProduct) {
	if dx != nil {
		t.rowProduct(dx, g, y, RowProduct{p.Groups, p.Rows, p.Cols, p.Inner}, false, true)
	}
	if dy != nil {
		t.rowProduct(dy, x, g, RowProduct{p.Groups, p.Inner, p.Rows, p.Cols}, true, false)
	}
}

func (t *Team) rowProduct(z, x, y *tensor.Matrix, p RowProduct, xTransposed, yTransposed bool) {
	check("left factors", x, z.Rows, p.Groups*p.Rows*p.Inner)
	check("right factors", y, z.Rows, p.Groups*p.Inner*p.Cols)
	check("products", z, z.Rows, p.Groups*p.Rows*p.Cols)
	args := &C.weft_row_product_args{
		z: storage(z), x: storage(x), y: storage(y), groups: C.int64_t(p.Groups), rows: C.int64_t(p.Rows),
		inner: C.int64_t(p.Inner), cols: C.int64_t(p.Cols),
		x_transposed: boolean(xTransposed), y_transposed: boolean(yTransposed),
	}
	t.rows(on(C.weft_row_product, z, x, y).streams(z, x, y), unsafe.Pointer(args), z.Rows, x.Cols*p.Cols)
}

// ColumnMap selects, repeats, reorders and sums columns, row by row. Column c of the result is the sum of
// Weights_k·x_Columns_k for Begin_c ≤ k < Begin_(c+1). It must not change.
type ColumnMap struct {
	From           int // number of columns of x
	Begin, Columns []int32
	Weights        []float32

	once       sync.Once
	transposed *ColumnMap
}

// NewColumnMap returns a map of from columns. It has a result for each list: the sum of the listed columns,
// times weight.
func NewColumnMap(from int, weight float32, lists ...[]int32) *ColumnMap {
	m := &ColumnMap{From: from, Begin: []int32{0}}
	for _, list := range lists {
		for _, c := range list {
			m.add(c, weight)
		}
		m.end()
	}
	return m
}

// Selection returns the map of from columns whose results are the listed columns.
func Selection(from int, columns []int32) *ColumnMap {
	m := &ColumnMap{From: from, Begin: []int32{0}}
	for _, c := range columns {
		m.add(c, 1)
		m.end()
	}
	return m
}

func (m *ColumnMap) add(column int32, weight float32) {
	if column < 0 || int(column) >= m.From {
		panic(fmt.Sprintf("kernel: column %d of %d", column, m.From))
	}
	m.Columns, m.Weights = append(m.Columns, column), append(m.Weights, weight)
}

func (m *ColumnMap) end() { m.Begin = append(m.Begin, int32(len(m.Columns))) }

// To returns the number of columns of the result.
func (m *ColumnMap) To() int { return len(m.Begin) - 1 }

// Transpose returns the transposed map, which maps gradients. It is made once.
func (m *ColumnMap) Transpose() *ColumnMap {
	m.once.Do(func() {
		z := &ColumnMap{
			From: m.To(), Begin: make([]int32, m.From+1), Columns: make([]int32, len(m.Columns)),
			Weights: make([]float32, len(m.Columns)),
		}
		z.once.Do(func() { z.transposed = m })
		for _, c := range m.Columns {
			z.Begin[c+1]++
		}
		for c := range m.From {
			z.Begin[c+1] += z.Begin[c]
		}
		next := append([]int32(nil), z.Begin...)
		for c := range m.To() {
			for k := m.Begin[c]; k < m.Begin[c+1]; k++ {
				at := next[m.Columns[k]]
				next[m.Columns[k]]++
				z.Columns[at], z.Weights[at] = int32(c), m.Weights[k]
			}
		}
		m.transposed = z
	})
	return m.transposed
}

// single reports whether each column of the result is one column of x, times a weight.
func (m *ColumnMap) single() bool {
	for c := range m.To() {
		if m.Begin[c+1] != m.Begin[c]+1 {
			return false
		}
	}
	return true
}

// MapColumns sets the columns of z to the map m of the columns of x. Each is Float32 or BFloat16.
func (t *Team) MapColumns(z, x *tensor.Matrix, m *ColumnMap) {
	check("mapped columns", x, z.Rows, m.From)
	check("columns of a map", z, z.Rows, m.To())
	begin, columns := List(t, tensor.Buffers, m.Begin), List(t, tensor.Buffers, m.Columns)
	weights := t.scratch(tensor.Float32, 1, len(m.Weights))
	copy(weights.WriteFloats(), m.Weights)
	args := &C.weft_map_columns_args{
		z: either(z), x: either(x), begin: ints(begin), columns: ints(columns), weights: floats(weights),
		z_cols: C.int64_t(z.Cols), x_cols: C.int64_t(x.Cols), z_type: C.int32_t(typeOf(z)),
		x_type: C.int32_t(typeOf(x)), single: boolean(m.single()),
	}
	t.rows(on(C.weft_map_columns).streams(z, x), unsafe.Pointer(args), z.Rows, max(z.Cols, len(m.Columns)))
	weights.Release()
	columns.Release()
	begin.Release()
}
