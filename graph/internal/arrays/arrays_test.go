package arrays

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/npy"
	"weft/internal/require"
)

func array[T any](t *testing.T, descr string, values []T, shape ...int) *npy.Array {
	t.Helper()
	var b bytes.Buffer
	_, err := npy.NewWriter(&b, descr, shape...)
	require.NoError(t, err)
	require.NoError(t, binary.Write(&b, binary.LittleEndian, values))
	a, err := npy.Read(&b, int64(b.Len()))
	require.NoError(t, err)
	return a
}

// Features of a matrix are the matrix: columns ascend within a row, and what stood at one column is added up.
func TestFeaturesKeepTheMatrix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, columns := rapid.IntRange(0, 6).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "columns")
		m, want := CSR{Rows: rows, Columns: columns, Indptr: []int64{0}}, make([]float32, rows*columns)
		for i := range rows {
			for _, c := range rapid.SliceOfN(rapid.IntRange(0, columns-1), 0, 8).Draw(t, "row") {
				m.Indices, m.Data = append(m.Indices, int32(c)), append(m.Data, float32(len(m.Data)+1))
				want[i*columns+c] += m.Data[len(m.Data)-1]
			}
			m.Indptr = append(m.Indptr, int64(len(m.Indices)))
		}
		f, err := m.Matrix()
		require.NoError(t, err)
		got := make([]float32, rows*columns)
		for i := range rows {
			row := f.Indices[f.Indptr[i]:f.Indptr[i+1]]
			if !ascending(row) {
				t.Fatalf("row %d has the columns %v", i, row)
			}
			for k := f.Indptr[i]; k < f.Indptr[i+1]; k++ {
				got[i*columns+int(f.Indices[k])] = f.Data[k]
			}
		}
		require.Equal(t, want, got)
	})
}

func TestNewCSRRefuses(t *testing.T) {
	indptr := func(v ...int64) *npy.Array { return array(t, "<i8", v, len(v)) }
	indices := func(v ...int32) *npy.Array { return array(t, "<i4", v, len(v)) }
	data := func(v ...float32) *npy.Array { return array(t, "<f4", v, len(v)) }
	_, err := NewCSR(2, 3, indptr(0, 1, 2), indices(2, 0), data(1, 2))
	assert.NoError(t, err, "a sound matrix")
	for name, try := range map[string]func() (*CSR, error){
		"negative size": func() (*CSR, error) { return NewCSR(-1, 3, indptr(), indices(), data()) },
		"too few bounds": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(0, 2), indices(2, 0), data(1, 2))
		},
		"values missing": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(0, 1, 2), indices(2, 0), data(1))
		},
		"late start": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(1, 1, 2), indices(2, 0), data(1, 2))
		},
		"early end": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(0, 1, 1), indices(2, 0), data(1, 2))
		},
		"descending": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(0, 3, 2), indices(2, 0), data(1, 2))
		},
		"column outside": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(0, 1, 2), indices(3, 0), data(1, 2))
		},
		"column below": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(0, 1, 2), indices(-1, 0), data(1, 2))
		},
		"not finite": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(0, 1, 2), indices(2, 0), data(1, float32(math.Inf(1))))
		},
		"float indices": func() (*CSR, error) {
			return NewCSR(2, 3, indptr(0, 1, 2), data(2, 0), data(1, 2))
		},
	} {
		_, err := try()
		assert.Refused(t, err, "", name)
	}
}

func TestLabels(t *testing.T) {
	nan := float32(math.NaN())
	values := func(columns int, x ...float32) graph.Labels {
		return graph.Labels{Columns: columns, Values: x}
	}
	for name, c := range map[string]struct {
		array *npy.Array
		want  graph.Labels
	}{
		"classes": {
			array(t, "<i4", []int32{0, 2, -1}, 3), graph.Labels{Classes: 3, Class: []int64{0, 2, -1}},
		},
		"no label": {array(t, "<i4", []int32{-1, -1}, 2), graph.Labels{}},
		"several": {
			array(t, "|b1", []byte{0, 1, 1, 0}, 2, 2), graph.Labels{Classes: 2, Multi: []float32{0, 1, 1, 0}},
		},
		"missing": {
			array(t, "<f4", []float32{nan, 1, nan, nan}, 2, 2),
			graph.Labels{Classes: 2, Multi: []float32{nan, 1, nan, nan}},
		},
		// Floats are values to predict, but for a matrix of 0 and 1
		"floats":   {array(t, "<f4", []float32{0, 1, 2}, 3), values(1, 0, 1, 2)},
		"a column": {array(t, "<f4", []float32{0, nan, 1}, 3, 1), values(1, 0, nan, 1)},
		"a matrix": {array(t, "<f4", []float32{0, 1, .5, nan}, 2, 2), values(2, 0, 1, .5, nan)},
	} {
		got, err := Labels(c.array, graph.VertexNoun)
		assert.NoError(t, err, name)
		assert.EqualBy(t, c.want, got, cmpopts.EquateNaNs())
	}
	for _, x := range []float64{math.Nextafter(1, 2), -.5, -2, 2} { // no class ids of two vertices
		if got, err := WholeLabels(array(t, "<f8", []float64{x, 0}, 2), 2); err != nil || got.Columns != 1 {
			t.Errorf("the label %v: %+v, error %v", x, got, err)
		}
	}
	for name, a := range map[string]*npy.Array{
		"a single value":   array(t, "<i4", []int32{1}),
		"no class":         array(t, "<f4", []float32{}, 3, 0),
		"more than V":      array(t, "<i4", []int32{0, 3, 1}, 3),
		"below -1":         array(t, "<i4", []int32{0, -2}, 2),
		"infinite":         array(t, "<f4", []float32{0, float32(math.Inf(-1))}, 2),
		"beyond float32":   array(t, "<f8", []float64{0, 1e300}, 2),
		"neither 0 nor 1":  array(t, "<i4", []int32{0, 2}, 1, 2),
		"three dimensions": array(t, "<i4", []int32{0}, 1, 1, 1),
	} {
		_, err := Labels(a, graph.VertexNoun)
		assert.Refused(t, err, "", name)
	}
}

// Class ids that are floats are taken where they are whole numbers, to the last bit.
func TestWholeLabels(t *testing.T) {
	nan, classes := math.NaN(), graph.Labels{Classes: 3, Class: []int64{0, 2, -1, -1}}
	for _, c := range []struct {
		array *npy.Array
		want  graph.Labels
	}{
		{array(t, "<f8", []float64{0, 2, nan, -1}, 4), classes},
		{array(t, "<f4", []float32{0, 2, float32(nan), -1}, 4, 1), classes},
		{array(t, "<i8", []int64{0, 2, -1, -1}, 4), classes},
		{
			array(t, "<f4", []float32{0, 1, 1, 0}, 2, 2),
			graph.Labels{Classes: 2, Multi: []float32{0, 1, 1, 0}},
		},
	} {
		got, err := WholeLabels(c.array, c.array.Shape[0])
		assert.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	for want, a := range map[string]*npy.Array{
		"label +Inf of vertex 0: values":   array(t, "<f4", []float32{float32(math.Inf(1)), 0}, 2),
		"label 2 of vertex 1: classes run": array(t, "<i8", []int64{0, 2}, 2),
	} {
		_, err := WholeLabels(a, a.Shape[0])
		assert.Refused(t, err, want)
	}
}

// The parts of splits come with a list for each split, or not at all.
func TestSplits(t *testing.T) {
	names, labels := [3]string{"a", "b", "c"}, &graph.Labels{Classes: 1, Class: []int64{0, 0, 0, -1}}
	none := []int64{}
	for _, c := range []struct {
		parts [3][][]int64
		want  []graph.Split
	}{
		{[3][][]int64{}, nil},
		{
			[3][][]int64{{{0}, {1}}, nil, {{1}, {2}}},
			[]graph.Split{
				{Train: []int64{0}, Val: none, Test: []int64{1}},
				{Train: []int64{1}, Val: none, Test: []int64{2}},
			},
		},
		{ // one list serves all splits, as WikiCS's test vertices do
			[3][][]int64{{{0}}, {{1}, {2}}, nil},
			[]graph.Split{
				{Train: []int64{0}, Val: []int64{1}, Test: none},
				{Train: []int64{0}, Val: []int64{2}, Test: none},
			},
		},
	} {
		got, err := Splits(c.parts, names, labels)
		assert.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	for want, parts := range map[string][3][][]int64{
		"b: a split without training vertices": {nil, {{0}}, nil},
		"c: 2 splits, where b has 3":           {{{0}}, {{1}, {1}, {1}}, {{2}, {2}}},
		"b: vertex 0 is also in a: leave it":   {{{0}}, {{0}}, nil},
		"a: split 1: vertex 3 has no label":    {{{0}, {3}}, nil, nil},
	} {
		_, err := Splits(parts, names, labels)
		assert.Refused(t, err, want)
	}
}

// A row of a mask is a byte and a split much more.
func TestManySplits(t *testing.T) {
	for splits, want := range map[int]bool{graph.MaxSplits: true, graph.MaxSplits + 1: false} {
		if lists, err := Masks(npy.New(make([]bool, 2*splits), 2, splits), 2,
			graph.VertexNoun); (err == nil) != want ||
			want && len(lists) != splits {
			t.Errorf("%d splits: %d, error %v", splits, len(lists), err)
		}
	}
}
