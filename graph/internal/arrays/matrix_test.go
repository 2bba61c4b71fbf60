package arrays

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/npy/npytest"
	"weft/internal/require"
)

// saved is what numpy.save writes of float32 values.
func saved(t *testing.T, values []float32, shape ...int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, npytest.Write(&b, values, shape...))
	return b.Bytes()
}

// expanded is features as a dense matrix.
func expanded(f *graph.Features) []float32 {
	if !f.Sparse() {
		return f.Dense
	}
	rows := len(f.Indptr) - 1
	dense := make([]float32, rows*f.Columns)
	for i := range rows {
		for k := f.Indptr[i]; k < f.Indptr[i+1]; k++ {
			dense[i*f.Columns+int(f.Indices[k])] = f.Data[k]
		}
	}
	return dense
}

// A matrix is the same in either form. It is sparse where it is wide and has few values, however they are
// spread over its rows.
func TestMatrixIsSparseWhereThatPays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, columns := rapid.IntRange(1, 30).Draw(rt, "rows"),
			rapid.SampledFrom([]int{1, sparseColumns - 1, sparseColumns, 300}).Draw(rt, "columns")
		values := make([]float32, rows*columns)
		filled := rapid.IntRange(0, 2*int(sparseDensity*float64(len(values)))).Draw(rt, "filled")
		for _, k := range rapid.Permutation(indices(len(values))).Draw(rt, "places")[:filled] {
			values[k] = float32(k + 1)
		}
		keep, backed := rapid.Bool().Draw(rt, "keep dense"), rapid.Bool().Draw(rt, "backed")
		file := saved(t, values, rows, columns)
		m, err := ReadMatrix(&Entry{io.NopCloser(bytes.NewReader(file)), int64(len(file)), backed}, keep)
		require.NoError(rt, err)
		want := !keep && columns >= sparseColumns && float64(filled) <= sparseDensity*float64(len(values))
		if m.Sparse() != want || m.Rows != rows || m.Columns != columns || (m.Note != "") != want {
			rt.Fatalf("%d of %d values: sparse %v, want %v; %d × %d, note %q", filled, len(values),
				m.Sparse(), want, m.Rows, m.Columns, m.Note)
		}
		require.Equal(rt, values, expanded(&m.Features))
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for k := range all {
		all[k] = k
	}
	return all
}

// Text does not say how many rows will come: those that were made dense become sparse again where the rest is
// empty.
func TestFirstRowsDoNotDecide(t *testing.T) {
	const columns, full = 1000, 1200
	ones, zeros := rowOf(columns, 1), rowOf(columns, 0)
	for rows, want := range map[int]bool{2 * full: false, full*int(1/sparseDensity) + 1: true} {
		c := collector{columns: columns}
		for v := range rows {
			row := zeros
			if v < full {
				row = ones
			}
			require.NoError(t, c.add(row))
		}
		if c.dense == nil {
			t.Fatal("the first rows were not made dense")
		}
		if m, err := c.matrix(); err != nil || m.Sparse() != want || m.Rows != rows {
			t.Errorf("%d full rows of %d: %v, sparse %v, want %v", full, rows, err, m.Sparse(), want)
		}
	}
}

func rowOf(n int, x float32) []float32 {
	row := make([]float32, n)
	for k := range row {
		row[k] = x
	}
	return row
}

// read returns a table of text in the file x.csv.
func read(t *testing.T, text string, most int64) *numbers {
	t.Helper()
	t.Chdir(graphtest.Files(t, map[string]string{"x.csv": text}))
	return &numbers{path: "x.csv", size: int64(len(text)), most: most}
}

func TestText(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		text  string
		descr string
		shape []int
		want  []float32
	}{
		{"3\n1\n2\n", "<i8", []int{3}, []float32{3, 1, 2}},
		{"3\n\n2", "<i8", []int{3}, []float32{3, -1, 2}}, // unlabelled
		{"\n1\n0\n1\n2\n", "<i8", []int{5}, []float32{-1, 1, 0, 1, 2}},
		{"0.0\n1.0\n4.0\n", "<i8", []int{3}, []float32{0, 1, 4}},
		{"label\r\n4\r\n5\r\n", "<i8", []int{2}, []float32{4, 5}},
		{"# of numpy.savetxt\n4\n5\n", "<i8", []int{2}, []float32{4, 5}},
		{"0\n1\n", "<i8", []int{2}, []float32{0, 1}},
		{"0\n1\n1\n", "|u1", []int{3}, []float32{0, 1, 1}},
		{"True\nFalse\n", "|b1", []int{2}, []float32{1, 0}},
		{"0,1,\n1,0,1\n", "<f8", []int{2, 3}, []float32{0, 1, nan, 1, 0, 1}},
		{"0 1  1\n\n 1 0 1 \n", "|u1", []int{2, 3}, []float32{0, 1, 1, 1, 0, 1}},
		{"a;b\n.5;-2e3\n", "<f8", []int{1, 2}, []float32{.5, -2000}},
		{"\xef\xbb\xbf\"5\"\t7\n", "<i8", []int{1, 2}, []float32{5, 7}},
	} {
		a, err := read(t, c.text, 10).all()
		require.NoError(t, err, "%q", c.text)
		got, err := a.Float32s()
		same := err == nil && len(got) == len(c.want)
		for k := 0; same && k < len(got); k++ {
			same = got[k] == c.want[k] || got[k] != got[k] && c.want[k] != c.want[k]
		}
		if !same || a.Descr != c.descr || !cmp.Equal(a.Shape, c.shape) {
			t.Errorf("%q: %v %v %v, error %v; want %v %v %v", c.text, a.Descr, a.Shape, got, err,
				c.descr, c.shape, c.want)
		}
	}
}

func TestTextIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "x.csv: has no row of numbers"},
		{"1\n2\n3\n4\n", "x.csv:4: more than 3 rows"},
		{"1,2\n3\n", "x.csv:2: 1 columns, where the lines before have 2"},
		{"1\nx\n", `x.csv:2: "x" is not a number; classes are numbers too, from 0, or all are names`},
		{
			"1,x\n",
			`x.csv:1: "x" is not a number, as the fields of 2 columns are; give the names of classes in a file of their own`,
		},
		{",a,b\n0,1,2\n", "x.csv:1: the first column has no name"},
		{"1,\n", "x.csv:1: field 2 is empty"},
		{"1,inf\n", "x.csv:1: feature 1 of vertex 0 is +Inf"},
		{"\x00\x01", "x.csv: is no text: give what numpy.save writes, or CSV"},
		{"\x1f\x8b\x00", "x.csv: a damaged gzip file"},
	} {
		_, err := read(t, c.text, 3).matrix(false)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
}

// A short file that expands to a great many values is refused before they take the memory.
func TestBombIsRefused(t *testing.T) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	require.NoError(t, err)
	row := strings.Repeat("1,", 999) + "1\n"
	for range 8000 {
		_, err := io.WriteString(z, row)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	_, err = read(t, b.String(), 1<<30).matrix(false)
	assert.ErrorContains(t, err, "as no table does", "%d bytes", b.Len())
}
