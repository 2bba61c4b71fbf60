package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// file is a .npy file of format version 1.0 with that dict literal, whatever it says.
func file(dict string, data ...byte) []byte {
	b := append([]byte(magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)+1))
	b = append(b, dict+"\n"...)
	return append(b, data...)
}

// fileOf is a file of that dtype and shape.
func fileOf(descr, order, shape string, data ...byte) []byte {
	return file("{'descr': '"+descr+"', 'fortran_order': "+order+", 'shape': "+shape+", }", data...)
}

func TestHeaderOfEveryVersion(t *testing.T) {
	dict := "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
	want := Header{"<f4", false, []int{2, 3}}
	for _, version := range []byte{1, 2, 3} {
		b := append([]byte(magic), version, 0)
		if version == 1 {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
		} else {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(dict)))
		}
		r := bytes.NewReader(append(append(b, dict...), "data"...))
		got, err := ReadHeader(r)
		require.NoError(t, err, "version %d", version)
		assert.Equal(t, want, got, "version %d", version)
		rest, _ := io.ReadAll(r)
		assert.Equal(t, "data", string(rest), "version %d: left at %q", version, rest)
	}
}

func TestHeaderSpellings(t *testing.T) {
	for dict, want := range map[string]Header{
		`{"shape": (3,), "descr": "|b1", "fortran_order": True}`:            {"|b1", true, []int{3}},
		"{'descr': '>i8', 'fortran_order': False, 'shape': ()}":             {">i8", false, []int{}},
		"{'descr':'<U5','fortran_order':False,'shape':(2L,3L)}":             {"<U5", false, []int{2, 3}},
		"{'descr': '<f2', 'fortran_order': False, 'shape': (0, 7,), }     ": {"<f2", false, []int{0, 7}},
	} {
		got, err := ReadHeader(bytes.NewReader(file(dict)))
		require.NoError(t, err)
		assert.Equal(t, want, got, dict)
	}
}

func TestDamagedIsRefused(t *testing.T) {
	good := fileOf("<i4", "False", "(2,)", 1, 0, 0, 0, 2, 0, 0, 0)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "ends inside the .npy header"},
		{"text", []byte("hello, world"), "does not start as a .npy"},
		{"cut in header", good[:20], "ends inside the .npy header"},
		{"cut in data", good[:len(good)-1], "needs 8 bytes of data, 7 are there"},
		{"version", append([]byte(magic), 4, 0, 0, 0), "version 4.0"},
		{"long header", append([]byte(magic), 2, 0, 255, 255, 255, 255), "claims 4294967295 bytes"},
		{"no dict", file("[]"), `"{" is missing`},
		{"missing key", file("{'descr': '<f4', 'shape': (1,)}"), "is missing"},
		{"key twice", file("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}"), "stands twice"},
		{"unknown key", file("{'descr': '<f4', 'size': 3}"), "unknown key"},
		{
			"after the dict", file("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} x"),
			"after the closing brace",
		},
		{"records", file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,)}"), "records"},
		{"open string", file("{'descr"), "does not end"},
		{"number", fileOf("<f4", "False", "(3)"), "needs a comma"},
		{"negative", fileOf("<f4", "False", "(-3,)"), "tuple"},
		{"expression", fileOf("<f4", "False", "(3*9,)"), "needs a comma"},
		{"dimensions", fileOf("<f4", "False", "("+strings.Repeat("1,", 33)+")"), "at most 32"},
		{
			"overflow of elements", fileOf("|u1", "False", "(4294967296, 4294967296)"),
			"more elements than can be counted",
		},
		{"overflow of bytes", fileOf("<f8", "False", "(4611686018427387904,)"), "more bytes than can be counted"},
		{"overflow behind zero", fileOf("|u1", "False", "(0, 4294967296, 4294967296)"), "more elements"},
		{"objects", fileOf("|O", "False", "(0,)"), "Python objects"},
		{"complex", fileOf("<c8", "False", "(0,)"), "is not read"},
		{"long double", fileOf("<f16", "False", "(0,)"), "is not read"},
		{"leading zero", fileOf("<i08", "False", "(0,)"), "unknown dtype"},
		{"order missing", fileOf("|i4", "False", "(0,)"), "is not read"},
		{"long text", fileOf("<U65537", "False", "(0,)"), "texts of up to 65537 characters, and at most 65536 are read"},
		{"empty text", fileOf("|S0", "False", "(1000000000000,)"), "no bytes"},
		{"lying shape", fileOf("<f8", "False", "(1000000000000,)"), "are there"},
	} {
		_, err := Read(bytes.NewReader(c.data), int64(len(c.data)))
		assert.Refused(t, err, c.want, c.name)
	}
}

// The size of a zip entry can lie: memory must follow the bytes that come.
func TestLyingSizeAllocatesLittle(t *testing.T) {
	data := fileOf("<f8", "False", "(1000000000000,)", make([]byte, 100)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Read(bytes.NewReader(data), math.MaxInt64)
	assert.Refused(t, err, "")
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 40<<20 {
		t.Errorf("%d bytes allocated for a file of %d", allocated, len(data))
	}
}

func TestConversions(t *testing.T) {
	read := func(b []byte) *Array {
		t.Helper()
		a, err := Read(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err)
		return a
	}
	ints := []struct {
		data []byte
		want []int64
	}{
		{fileOf("|b1", "False", "(3,)", 0, 1, 7), []int64{0, 1, 1}},
		{fileOf("|i1", "False", "(2,)", 0xff, 2), []int64{-1, 2}},
		{fileOf("|u1", "False", "(2,)", 0xff, 2), []int64{255, 2}},
		{fileOf("<i2", "False", "(2,)", 0xff, 0xff, 2, 0), []int64{-1, 2}},
		{fileOf(">i2", "False", "(2,)", 0xff, 0xff, 0, 2), []int64{-1, 2}},
		{fileOf("<u2", "False", "(1,)", 0xff, 0xff), []int64{65535}},
		{fileOf("<i4", "False", "(1,)", 0xfe, 0xff, 0xff, 0xff), []int64{-2}},
		{fileOf(">i4", "False", "()", 0, 0, 1, 0), []int64{256}},
		{fileOf("<u4", "False", "(1,)", 0xff, 0xff, 0xff, 0x7f), []int64{math.MaxInt32}},
		{fileOf(">i8", "False", "(1,)", 0, 0, 0, 0, 0, 0, 1, 1), []int64{257}},
		{fileOf("<u8", "False", "(1,)", 1, 1, 0, 0, 0, 0, 0, 0), []int64{257}},
		{fileOf("|i1", "True", "(2, 3)", 1, 4, 2, 5, 3, 6), []int64{1, 2, 3, 4, 5, 6}},
		{fileOf(">i2", "True", "(2, 2)", 0, 1, 0, 3, 0, 2, 0, 4), []int64{1, 2, 3, 4}},
		{fileOf("<i8", "False", "(0, 5)"), []int64{}},
	}
	for _, c := range ints {
		a := read(c.data)
		if got, err := a.Int64s(); err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s as int64: %v, %v, want %v", a.Descr, got, err, c.want)
		}
		narrow, err := a.Int32s()
		single, err2 := a.Float32s()
		if err != nil || err2 != nil {
			t.Fatal(a.Descr, err, err2)
		}
		for k, x := range c.want {
			assert.Equal(t, x, int64(narrow[k]), a.Descr)
			assert.Equal(t, float32(x), single[k], a.Descr)
		}
	}
	for _, c := range []struct {
		data []byte
		want []float32
	}{
		{fileOf("<f4", "False", "(1,)", 0, 0, 0xc0, 0x3f), []float32{1.5}},
		{fileOf(">f4", "False", "(1,)", 0x3f, 0xc0, 0, 0), []float32{1.5}},
		{fileOf("<f8", "False", "(1,)", 0, 0, 0, 0, 0, 0, 0xf8, 0x3f), []float32{1.5}},
		{fileOf(">f2", "False", "(2,)", 0x3e, 0, 0xbc, 0), []float32{1.5, -1}},
	} {
		a := read(c.data)
		if got, err := a.Float32s(); err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s as float32: %v, %v, want %v", a.Descr, got, err, c.want)
		}
		_, err := a.Int64s()
		assert.Refused(t, err, "", "%s as int64", a.Descr)
	}
	for _, c := range []struct {
		data []byte
		want []string
	}{
		{fileOf("|S3", "False", "(2,)", 'a', 0, 0, 'a', 'b', 'c'), []string{"a", "abc"}},
		{
			fileOf("<U2", "False", "(2,)", 'a', 0, 0, 0, 0, 0, 0, 0, 0xe9, 0, 0, 0, 'b', 0, 0, 0),
			[]string{"a", "éb"},
		},
		{fileOf(">U1", "False", "(1,)", 0, 0, 0x4e, 0x2d), []string{"中"}},
		{
			fileOf("|S2", "True", "(2, 2)", 'a', 'a', 'c', 'c', 'b', 'b', 'd', 'd'),
			[]string{"aa", "bb", "cc", "dd"},
		},
	} {
		a := read(c.data)
		if got, err := a.Strings(); err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s as text: %v, %v, want %v", a.Descr, got, err, c.want)
		}
		_, err := a.Float32s()
		assert.Refused(t, err, "", "%s as float32", a.Descr)
	}
	for _, a := range []*Array{
		read(fileOf("|u1", "False", "(2,)", 0, 1)),
		read(fileOf("<f2", "False", "(2,)", 0, 0, 0, 0x3c)), New([]float64{0, 1}),
	} {
		if got, err := a.Bools(); err != nil || !cmp.Equal(got, []bool{false, true}) {
			t.Errorf("%s as bools: %v, %v", a.Descr, got, err)
		}
	}
	third := New([]float64{1.0 / 3})
	if got, err := third.Float64s(); err != nil || !cmp.Equal(got, []float64{1.0 / 3}) || !third.Floats() ||
		New([]bool{true}).Floats() {
		t.Errorf("float64: %v, %v", got, err)
	}
}

func TestValuesOutOfRangeAreRefused(t *testing.T) {
	top := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for name, convert := range map[string]func() error{
		"uint64 as int64": func() error {
			_, err := (&Array{Header: Header{"<u8", false, []int{1}}, data: top}).Int64s()
			return err
		},
		"uint32 as int32": func() error {
			_, err := (&Array{Header: Header{"<u4", false, []int{2}}, data: top}).Int32s()
			return err
		},
		"255 as bool": func() error {
			_, err := (&Array{Header: Header{"|u1", false, []int{8}}, data: top}).Bools()
			return err
		},
		"one and a bit": func() error { _, err := New([]float64{math.Nextafter(1, 2)}).Bools(); return err },
		"NaN as bool":   func() error { _, err := New([]float64{math.NaN()}).Bools(); return err },
		"3-d Fortran": func() error {
			_, err := (&Array{Header: Header{"|u1", true, []int{2, 2, 2}}, data: top}).Int64s()
			return err
		},
		"number as text": func() error {
			_, err := (&Array{Header: Header{"|u1", false, []int{8}}, data: top}).Strings()
			return err
		},
	} {
		assert.Refused(t, convert(), "", name)
	}
}

func TestFloat16(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: math.Pow(2, -24),
		0x03ff: 1023 * math.Pow(2, -24),
		0x0400: math.Pow(2, -14), 0x3555: 0.333251953125, 0x7c00: math.Inf(1), 0xfc00: math.Inf(-1),
	} {
		assert.Equal(t, want, float64(Float16(bits)), "%#04x", bits)
	}
	if !math.IsNaN(float64(Float16(0x7e00))) || !math.Signbit(float64(Float16(0x8000))) {
		t.Error("NaN or −0 is lost")
	}
}

// The header must be the one that numpy.save writes, byte for byte.
func TestWrittenHeader(t *testing.T) {
	var b bytes.Buffer
	_, err := NewWriter(&b, "<f4", 8000, 16)
	require.NoError(t, err)
	want := "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (8000, 16), }"
	assert.Equal(t, 128, b.Len())
	assert.Equal(t, want+strings.Repeat(" ", 127-len(want))+"\n", b.String())
}

// written is a file of one array.
func written[T element](t rapid.TB, v []T, shape ...int) []byte {
	var b bytes.Buffer
	w, err := NewWriter(&b, Descr[T](), shape...)
	if err == nil {
		err = errors.Join(Write(w, v), w.Close())
	}
	require.NoError(t, err)
	return b.Bytes()
}

func TestWriteReadMap(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "a.npy")
		rows, columns := rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(0, 4).Draw(t, "columns")
		v := rapid.SliceOfN(rapid.Int32(), rows*columns, rows*columns).Draw(t, "values")
		wide := make([]int64, len(v))
		single := make([]float32, len(v))
		for k, x := range v {
			wide[k], single[k] = int64(x), float32(x)
		}
		for _, file := range [][]byte{
			written(t, v, rows, columns), written(t, wide, rows, columns),
			written(t, single, rows, columns),
		} {
			require.NoError(t, os.WriteFile(path, file, 0o644))
			a, err := Read(bytes.NewReader(file), int64(len(file)))
			require.NoError(t, err)
			m, err := Map(path)
			require.NoError(t, err)
			for _, a := range []*Array{a, &m.Array} {
				require.Equal(t, []int{rows, columns}, a.Shape, "shape")
				if got, err := a.Float32s(); err != nil || !cmp.Equal(got, single) {
					t.Fatalf("%v, %v", got, err)
				}
				if a.Descr == "<f4" {
					continue
				}
				if got, err := a.Int64s(); err != nil || !cmp.Equal(got, wide) {
					t.Fatalf("%v, %v", got, err)
				}
				if got, err := a.Int32s(); err != nil || !cmp.Equal(got, v) {
					t.Fatalf("%v, %v", got, err)
				}
			}
			require.NoError(t, m.Close())
		}
	})
}

func TestMapIsAView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	require.NoError(t, os.WriteFile(path, written(t, []float32{1, 2, 3}, 3), 0o644))
	m, err := Map(path)
	require.NoError(t, err)
	defer m.Close()
	a, _ := m.Float32s()
	b, _ := m.Float32s()
	if &a[0] != &b[0] {
		t.Error("a mapped float32 array is copied")
	}
}

func TestMapRefuses(t *testing.T) {
	dir := t.TempDir()
	good := fileOf("|u1", "False", "(3,)", 1, 2, 3)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty": {nil, "ends inside"},
		"cut":   {good[:len(good)-1], "cut short"},
		"long":  {append(bytes.Clone(good), 4, 5), "2 bytes follow the data"},
		"text":  {[]byte("hello, world"), "does not start"},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, c.data, 0o644))
		_, err := Map(path)
		assert.Refused(t, err, c.want, name)
		assert.Refused(t, err, path, name)
	}
	for _, path := range []string{dir, filepath.Join(dir, "nosuch")} {
		_, err := Map(path)
		assert.Refused(t, err, path)
	}
}

func TestWriterCounts(t *testing.T) {
	w, err := NewWriter(io.Discard, "<i4", 2, 2)
	require.NoError(t, err)
	require.NoError(t, Write(w, []int32{1, 2, 3}))
	assert.Error(t, Write(w, []int64{1}), "int64 written to an int32 array")
	assert.Error(t, Write(w, []int32{1, 2}), "five elements written to four places")
	assert.Error(t, w.Close(), "closed with an element missing")
	if err := Write(w, []int32{4}); err != nil || w.Close() != nil {
		t.Error("a complete array is not accepted")
	}
	for _, descr := range []string{">f4", "<U3", "f4"} {
		_, err := NewWriter(io.Discard, descr, 1)
		assert.Error(t, err, "dtype %q accepted", descr)
	}
}

func seeds(f *testing.F) {
	f.Add(fileOf("<i4", "False", "(2,)", 1, 0, 0, 0, 2, 0, 0, 0))
	f.Add(fileOf(">f2", "True", "(2, 1)", 1, 0, 0, 0))
	f.Add(fileOf("<U1", "False", "(1,)", 'a', 0, 0, 0))
	f.Add(fileOf("|S0", "False", "(9, 0)"))
	f.Add(fileOf("<f8", "False", "(1000000000000,)"))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{"))
}

func FuzzHeader(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ReadHeader(bytes.NewReader(data))
		if err != nil {
			assert.Refused(t, err, "")
			return
		}
		again, err := ReadHeader(bytes.NewReader(h.marshal()))
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}

func FuzzRead(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Read(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			assert.Refused(t, err, "")
			return
		}
		n, err := a.Elements()
		require.NoError(t, err)
		check := func(got int, err error) {
			if err == nil && got != n || err != nil && !refusal.Is(err) {
				t.Fatalf("%v: %d elements, %v", a.Header, got, err)
			}
		}
		f32, err := a.Float32s()
		check(len(f32), err)
		f64, err := a.Float64s()
		check(len(f64), err)
		i64, err := a.Int64s()
		check(len(i64), err)
		i32, err := a.Int32s()
		check(len(i32), err)
		b, err := a.Bools()
		check(len(b), err)
		s, err := a.Strings()
		check(len(s), err)
	})
}

// Blocks give what ReadFile gives, in as many pieces as come.
func TestBlocks(t *testing.T) {
	rows, columns := 5, blockSize/16 // two rows of eight bytes a value make a block
	values := make([]float64, rows*columns)
	for k := range values {
		values[k] = float64(k)
	}
	rowOrder := written(t, values, rows, columns)
	fortran := bytes.Replace(rowOrder, []byte("'fortran_order': False"), []byte("'fortran_order': True "), 1)
	for blocks, content := range map[int][]byte{3: rowOrder, 1: fortran} {
		whole, err := Read(bytes.NewReader(content), int64(len(content)))
		require.NoError(t, err)
		want, _ := whole.Float32s()
		b, err := NewBlocks(bytes.NewReader(content), int64(len(content)))
		require.NoError(t, err)
		var got []float32
		n := 0
		for ; ; n++ {
			block, err := b.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			part, _ := block.Float32s()
			got = append(got, part...)
		}
		assert.Equal(t, blocks, n, "blocks; the same values: %v", cmp.Equal(got, want))
		assert.Equal(t, want, got, "blocks; the same values: %v", cmp.Equal(got, want))
		_, err = NewBlocks(bytes.NewReader(content), int64(len(content))-1)
		assert.Refused(t, err, "", "cut short")
	}
	// Data that end too early are refused as those of the whole array, also while rows are left out.
	want := fmt.Sprintf("it is cut short: (%d, %d) of <f8 needs %d bytes of data, %d are there", rows,
		columns, 8*rows*columns, 8*rows*columns-1)
	for _, skip := range []int{0, 3, rows} {
		b, err := NewBlocks(bytes.NewReader(rowOrder[:len(rowOrder)-1]), int64(len(rowOrder)))
		require.NoError(t, err)
		for err = b.Skip(skip); err == nil; {
			_, err = b.Next()
		}
		assert.EqualRefusal(t, err, want, "without %d rows", skip)
	}
}

// Data without a header before it is read as that with one.
func TestData(t *testing.T) {
	data := Bytes([]int32{1, 2, 3, 4, 5, 6})
	h := Header{Descr: "<i4", Shape: []int{3, 2}}
	a, err := ReadData(bytes.NewReader(data), int64(len(data)), h)
	require.NoError(t, err)
	if got, err := a.Int64s(); err != nil || !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("%v, %v", got, err)
	}
	b, err := NewDataBlocks(bytes.NewReader(data), int64(len(data)), h)
	require.NoError(t, err)
	if block, err := b.Next(); err != nil || !slices.Equal(block.Shape, h.Shape) {
		t.Errorf("%v, %v", block, err)
	}
	_, err = ReadData(bytes.NewReader(data), int64(len(data)), Header{Descr: "<i8", Shape: []int{6}})
	assert.Refused(t, err, "", "too few bytes")
}

// What the header asks for is held against the memory before any of the data is read; so is what a conversion
// takes.
func TestWithoutMemory(t *testing.T) {
	const limit = 64 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	header := fileOf("<f8", "False", "(100, 1000000)")
	_, err := Read(bytes.NewReader(header), 1<<40)
	assert.Refused(t, err, "needs 800.0 MB of memory", "reading")
	const n = 10 << 20
	small, err := Read(bytes.NewReader(fileOf("|b1", "False", "(10485760,)", make([]byte, n)...)), 1<<40)
	require.NoError(t, err)
	for name, convert := range map[string]func() error{
		"int64": func() error { _, err := small.Int64s(); return err },
		"bool":  func() error { _, err := small.Bools(); return err },
	} {
		assert.Refused(t, convert(), "", name)
	}
}
