package pickle

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/realdata"
	"weft/internal/require"
)

const (
	arrayStart = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
	dtypeStart = "cnumpy\ndtype\nU\x02i2K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
	// array is numpy.array([1, 2], '<i2') as protocol 2 writes it.
	array = arrayStart + "(K\x01K\x02\x85" + dtypeStart + "\x89U\x04\x01\x00\x02\x00tb"
	// matrix is a 1 × 3 csr_matrix whose three arrays are one and the same.
	matrix = "\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}(U\x06_shapeK\x01K\x03\x86U\x06indptr" + array +
		"q\x01U\x07indicesh\x01U\x04datah\x01U\x06formatU\x03csrub."
)

func TestValues(t *testing.T) {
	a := &Array{Dtype: "<i2", Shape: []int{2}, Data: "\x01\x00\x02\x00"}
	for _, c := range []struct {
		name, pickle string
		want         any
	}{
		{"none", "N.", nil},
		{"booleans", "\x80\x02\x88\x89\x86.", Tuple{true, false}},
		{"booleans, protocol 0", "(I01\nI00\nt.", Tuple{true, false}},
		{
			"integers", "(K\xffM\xff\xffJ\xfe\xff\xff\xffI-3\nL12345678901L\nt.",
			Tuple{int64(255), int64(65535), int64(-2), int64(-3), int64(12345678901)},
		},
		{
			"long integers",
			"(\x8a\x00\x8a\x01\xff\x8a\x02\xff\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80\x8b\x01\x00\x00\x00\x07t.",
			Tuple{int64(0), int64(-1), int64(255), int64(-1 << 63), int64(7)},
		},
		{"floats", "F1.5\nG\x3f\xf8\x00\x00\x00\x00\x00\x00\x86.", Tuple{1.5, 1.5}},
		{
			"strings",
			"(U\x02\xe9xT\x01\x00\x00\x00yS'a\\'\\x41\\\\\\n'\nV\\u20ac\xe9\\x\nX\x03\x00\x00\x00\xe2\x82\xact.",
			Tuple{"\xe9x", "y", "a'A\\\n", "€é\\x", "€"},
		},
		{
			"tuples", ")K\x01\x85K\x02K\x03\x86\x87.",
			Tuple{Tuple{}, Tuple{int64(1)}, Tuple{int64(2), int64(3)}},
		},
		{"lists", "(](K\x01K\x02e]K\x03a(K\x04lt.", Tuple{
			&List{Items: []any{int64(1), int64(2)}}, &List{Items: []any{int64(3)}},
			&List{Items: []any{int64(4)}},
		}},
		{"dicts", "(}K\x01K\x02s}(K\x03K\x04u(K\x05K\x06dt.", Tuple{
			&Dict{Items: []Item{{int64(1), int64(2)}}}, &Dict{Items: []Item{{int64(3), int64(4)}}},
			&Dict{Items: []Item{{int64(5), int64(6)}}},
		}},
		{
			"defaultdict", "ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\x01]u.",
			&Dict{Items: []Item{{int64(1), &List{}}}},
		},
		{
			"memo", "K\x01q\x05p9\nr\x00\x01\x00\x000h\x05g9\nj\x00\x01\x00\x00\x87.",
			Tuple{int64(1), int64(1), int64(1)},
		},
		{"frame", "\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94h\x00\x86.", Tuple{"a", "a"}},
		{
			"bytes",
			"(B\x01\x00\x00\x00\xffC\x01\xfe\x8e\x01\x00\x00\x00\x00\x00\x00\x00\xfd\x8d\x01\x00\x00\x00\x00\x00\x00\x00bt.",
			Tuple{"\xff", "\xfe", "\xfd", "b"},
		},
		{"sets", "(\x8f(K\x01K\x02\x90(K\x03\x91c__builtin__\nset\n](K\x04e\x85Rt.", Tuple{
			&List{Items: []any{int64(1), int64(2)}}, &List{Items: []any{int64(3)}},
			&List{Items: []any{int64(4)}},
		}},
		{
			"encoded bytes", "c_codecs\nencode\nX\x03\x00\x00\x00\xc3\xbfaX\x06\x00\x00\x00latin1\x86R.",
			"\xffa",
		},
		{
			"ordered dict", "ccollections\nOrderedDict\n)R}b(K\x01K\x02u.",
			&Dict{Items: []Item{{int64(1), int64(2)}}},
		},
		{
			"scalar", "cnumpy.core.multiarray\nscalar\n" + dtypeStart + "U\x02\x07\x00\x86R.",
			&Array{Dtype: "<i2", Shape: []int{}, Data: "\x07\x00"},
		},
		{"global of the stack", "\x8c\x0bcollections\x8c\x0bdefaultdict\x93)R.", &Dict{}},
		{"stack", "(NNK\x010K\x0221K\x07.", int64(7)},
		{"array", "\x80\x02" + array + ".", a},
		{"matrix", matrix, &CSR{Rows: 1, Columns: 3, Indptr: a, Indices: a, Data: a}},
	} {
		got, err := Decode([]byte(c.pickle))
		require.NoError(t, err, c.name)
		assert.Equal(t, c.want, got, c.name)
	}
}

// A dialect adds globals, objects of its classes and data outside the pickle, and takes nothing away.
func TestDialect(t *testing.T) {
	d := Dialect{
		Globals: map[string]any{
			"m.f": Function(func(args Tuple) (any, error) {
				return args[0], nil
			}), "m.C": Class("m.C"), "m.x": 7,
			"numpy.dtype": Class("another"),
		},
		Persistent: func(id any) (any, error) { return Tuple{"stored", id}, nil },
	}
	for _, c := range []struct {
		pickle string
		want   any
	}{
		{"cm\nf\nK\x05\x85R.", int64(5)},
		{"cm\nx\n.", 7},
		{"cm\nC\n)\x81K\x01b.", &Object{Class: "m.C", Args: Tuple{}, State: int64(1)}},
		{"cm\nC\nK\x05\x85R.", &Object{Class: "m.C", Args: Tuple{int64(5)}}},
		{"K\x05Q.", Tuple{"stored", int64(5)}},
		{"\x80\x02" + array + ".", &Array{Dtype: "<i2", Shape: []int{2}, Data: "\x01\x00\x02\x00"}},
	} {
		got, err := d.Decode([]byte(c.pickle))
		require.NoError(t, err, "%q", c.pickle)
		assert.Equal(t, c.want, got, "%q", c.pickle)
	}
	_, err := d.Decode([]byte("cos\nsystem\n."))
	assert.ErrorContains(t, err, `names "os.system"`)
}

func TestNumbers(t *testing.T) {
	a := Array{
		Dtype: ">i2", Shape: []int{2, 3}, Fortran: true,
		Data: "\x00\x01\x00\x04\x00\x02\x00\x05\x00\x03\x00\x06",
	}
	numbers, err := a.Numbers()
	require.NoError(t, err)
	got, err := numbers.Int64s()
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2, 3, 4, 5, 6}, got)
	_, err = new(Array).Numbers()
	assert.Error(t, err, "an array that the pickle never filled")
}

func TestLastKeyCounts(t *testing.T) {
	d := Dict{Items: []Item{{"a", 1}, {int64(1), 2}, {"a", 3}}}
	if v, ok := d.Get("a"); v != 3 || !ok {
		t.Errorf("Get(a) = %v, %v", v, ok)
	}
	if _, ok := d.Get("b"); ok {
		t.Error("Get(b) found something")
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ pickle, want string }{
		{"", "byte 0: needs 1 bytes, 0 are left"},
		{"N", "byte 1"},
		{".", "0 values on its stack"},
		{"NN.", "2 values on its stack"},
		{"(N.", "on its stack"},
		{"\x80\x06N.", "protocol 6"},
		{"\x95\x00.", "needs 8 bytes, 2 are left"},
		{"\x92.", "opcode 0x92"},
		{"K\x01Q.", "names data outside the pickle"},
		{"(i__main__\nx\n.", "opcode 0x69"},
		{"P1\n.", "opcode 0x50"},
		{"\x82\x01.", "opcode 0x82"},
		// lengths that lie
		{"T\xff\xff\xff\x7fx.", "needs 2147483647 bytes, 2 are left"},
		{"T\xff\xff\xff\xffx.", "needs 4294967295 bytes, 2 are left"},
		{"X\xff\xff\xff\x7f.", "needs 2147483647"},
		{"U\x05x.", "needs 5 bytes"},
		{"\x8b\xff\xff\xff\x7f.", "2147483647 bytes: at most 8"},
		{"\x8a\x09123456789.", "9 bytes: at most 8"},
		{"I12", "without an end"},
		{"L99999999999999999999L\n.", "out of range"},
		{"I" + strings.Repeat("9", 1<<20) + "\n.", `byte 0: the number "` + strings.Repeat("9", 40) +
			`": value out of range`},
		{"F" + strings.Repeat("9", 1<<20) + "\n.", `byte 0: the number "` + strings.Repeat("9", 40) +
			`": value out of range`},
		{"g" + strings.Repeat("9", 1<<20) + "\n.", `byte 0: the number "` + strings.Repeat("9", 40) +
			`": value out of range`},
		{"Ix\n.", "invalid syntax"},
		{"S'x\n.", "without quotes"},
		{"S'\\x4'\n.", "bad escape"},
		{"S'\\q'\n.", "bad escape"},
		{"V\\u12\n.", "bad escape"},
		// the stack and the memo
		{"0.", "more from the stack"},
		{"1.", "no mark"},
		{"t.", "no mark"},
		{"(\x85.", "more from the stack"},
		{"N(\x85.", "more from the stack"},
		{"2.", "more from the stack"},
		{"q\x00.", "more from the stack"},
		{"h\x07.", "memo entry 7"},
		{"Np9\nh\x07.", "memo entry 7"},
		{"Np-1\n.", "memo entry -1"},
		{"Np4294967296\n.", "memo entry 4294967296: its number has more than 32 bits"},
		{"Nr\xff\xff\xff\xff.", "take more than 16 times its 7 bytes in memory"},
		{"gx\n.", "invalid syntax"},
		{"NNa.", "another type"},
		{"](NNu.", "another type"},
		{"}(Nu.", "key without a value"},
		{"(Nd.", "key without a value"},
		{strings.Repeat("N", maxStack+1), "values on the stack"},
		{strings.Repeat("(", maxStack+1), "marks on the stack"},
		// what may be named, called and built
		{"cos\nsystem\nU\x04true\x85R.", `names "os.system"`},
		{"c__builtin__\neval\n.", `names "__builtin__.eval"`},
		{"c" + strings.Repeat("x", 1000) + "\n\n.", "which is not on the list"},
		{"c__builtin__\nlist\n)R.", "not a function"},
		{"N)R.", "not a function"},
		{"U\x01a}\x93.", "another type"},
		{"U\x01aU\x01b\x93.", `names "a.b"`},
		{"c_codecs\nencode\n)R.", "not latin1"},
		{"c_codecs\nencode\nX\x03\x00\x00\x00\xe2\x82\xacX\x06\x00\x00\x00latin1\x86R.", "character"},
		{"X\x20\x00\x00\x00" + strings.Repeat("a", 32) + "q\x00c_codecs\nencode\nq\x01" +
			strings.Repeat("h\x01h\x00U\x06latin1\x86R", 8) + ".", "more encoded text than the pickle has"},
		{"ccollections\nOrderedDict\n](K\x01e\x85R.", "OrderedDict of items"},
		{"c__builtin__\nset\nK\x01\x85R.", "set of something else"},
		{"cnumpy.core.multiarray\nscalar\n" + dtypeStart + "U\x01\x07\x86R.", "bytes of one number"},
		{"](K\x01eq\x00h\x00)R.", "not a function"},
		{"cnumpy\ndtype\nNR.", "another type"},
		{"cnumpy\ndtype\n)R.", "without a type"},
		{"cnumpy\ndtype\nU\x02O8\x85R.", `type "O8"`},
		{"cnumpy.core.multiarray\n_reconstruct\n)R.", "something else than an ndarray"},
		{"ccollections\ndefaultdict\nN\x85R.", "something else than list or set"},
		{"ccollections\ndefaultdict\nc__builtin__\nlist\n}\x86R.", "defaultdict of items"},
		{"cnumpy\nndarray\n)\x81.", "not an empty csr_matrix"},
		{"N}b.", "takes none"},
		{"cnumpy\ndtype\nU\x02i2\x85R(K\x03U\x01!NNNtb.", "byte order"},
		{"cnumpy\ndtype\nU\x02i2\x85R(K\x03U\x01<NU\x01xNtb.", "plain numbers only"},
		{arrayStart + "Nb.", "five-part state"},
		{
			arrayStart + "(K\x01K\x02\x85" + dtypeStart + "\x89U\x03\x01\x00\x02tb.",
			"shape [2] and type i2 with 3 bytes",
		},
		{arrayStart + "(K\x01J\xff\xff\xff\xff\x85" + dtypeStart + "\x89U\x00tb.", "not a size"},
		{
			arrayStart +
				"(K\x01(\x8a\x05\x00\x00\x00\x00\x01\x8a\x05\x00\x00\x00\x00\x01\x8a\x05\x00\x00\x00\x00\x01t" + dtypeStart + "\x89U\x00tb.",
			"not a size",
		},
		{
			arrayStart + "(K\x01\x8a\x08\x01\x00\x00\x00\x00\x00\x00\x40K\x02\x86" + dtypeStart +
				"\x89U\x04\x01\x00\x02\x00tb.",
			"with 4 bytes",
		},
		{"cscipy.sparse.csr\ncsr_matrix\n)\x81}b.", "without a shape"},
		{"cscipy.sparse.csr\ncsr_matrix\n)\x81}U\x06_shapeK\x01J\xff\xff\xff\xff\x86sb.", "of shape"},
		{"cscipy.sparse.csr\ncsr_matrix\n)\x81}U\x06_shapeK\x01K\x01\x86sb.", `without an array "indptr"`},
	} {
		v, err := Decode([]byte(c.pickle))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, error %v, want one line with %q", c.pickle, v, err, c.want)
		}
	}
}

// What values take in memory is counted: what Python writes for lists of numbers, pairs and words stays
// within the bound, and nothing else need.
func TestHeldBytes(t *testing.T) {
	dialect := Dialect{
		Globals: map[string]any{"m.C": Class("m.C"), "m.f": Function(func(Tuple) (any, error) {
			return "made", nil
		})},
		Persistent: func(any) (any, error) { return "stored", nil },
	}
	for name, c := range map[string]struct {
		start, unit string
		within      bool
	}{
		"small integers":  {"]", "(" + strings.Repeat("K\x07", 1000) + "e", true},
		"integers":        {"]", "(" + strings.Repeat("M\x07\x07", 1000) + "e", true},
		"truth values":    {"]", "(" + strings.Repeat("\x88", 1000) + "e", true},
		"pairs":           {"]", "(" + strings.Repeat("M\x07\x07M\x07\x07\x86\x94", 1000) + "e", true},
		"lists by number": {"}", "(" + strings.Repeat("M\x07\x07]\x94M\x07\x07a", 1000) + "u", true},
		"words":           {"]", "(" + strings.Repeat("\x8c\x01a\x94", 1000) + "e", true},
		"nested tuples":   {"N", "\x85", false},
		"empty lists":     {"]", "]a", false},
		"empty dicts":     {"]", "}a", false},
		"memo entries":    {"]", "]\x94a", false},
		"objects":         {"cm\nC\nq\x00)q\x0100]", "h\x00h\x01\x81a", false},
		"calls":           {"cm\nf\nq\x00)q\x0100]", "h\x00h\x01Ra", false},
		"persistent":      {"]", "NQa", false},
	} {
		code := c.start + strings.Repeat(c.unit, 64<<10/len(c.unit)) + "."
		d := decoder{Dialect: dialect, data: []byte(code)}
		_, err := d.decode()
		assert.NoError(t, err, name)
		if within := d.total <= heldPerByte*int64(len(code)); within != c.within {
			t.Errorf("%s: %d bytes are held for a pickle of %d", name, d.total, len(code))
		}
	}
}

// More is refused before it is allocated: a tuple is one byte of a pickle and forty in memory.
func TestHeldBytesAreBounded(t *testing.T) {
	code := "N" + strings.Repeat("\x85", 4<<20) + "."
	var err error
	took := alloctest.Bytes(func() { _, err = Decode([]byte(code)) })
	if most := uint64(heldBytes+heldPerByte*len(code)) * 5 / 4; err == nil ||
		!strings.Contains(err.Error(), "take more than 16 times its 4194306 bytes") || took > most {
		t.Errorf("%d bytes were allocated for a pickle of %d, error %v", took, len(code), err)
	}
}

// A short pickle must not make much by repetition either: here each list holds the one before it twice.
func TestSharedValuesAreNotCopied(t *testing.T) {
	const lists = 1000
	content := "]q\x01" + strings.Repeat("0](h\x01h\x01eq\x01", lists) + "."
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decode([]byte(content))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated for a pickle of %d", n, len(content))
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		matrix, "\x80\x02" + array + ".", "ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\x01]u.",
		"(lp0\nI1\naL2L\naF3.0\naS'x\\x00'\naV\\u20ac\na.", "(dp0\nI1\n(I2\nI3\ntp1\ns.",
		"}(U\x01aK\x01X\x01\x00\x00\x00bG\x3f\xf8\x00\x00\x00\x00\x00\x00u.",
		"T\xff\xff\xff\x7fx.", "]q\x01h\x01a.",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		if a, ok := v.(*Array); ok {
			// Numbers may refuse an array that was never filled, and nothing else may happen.
			_, _ = a.Numbers()
		}
	})
}

// The published files, where they are at hand.
func TestPublished(t *testing.T) {
	content, err := os.ReadFile(realdata.File(t, "planetoid", "ind.cora.x"))
	require.NoError(t, err)
	v, err := Decode(content)
	require.NoError(t, err)
	m, ok := v.(*CSR)
	if !ok || m.Rows != 140 || m.Columns != 1433 || m.Data.Shape[0] != 2647 || m.Data.Dtype != "<f4" ||
		m.Indptr.Dtype != "<i4" {
		t.Errorf("ind.cora.x is %T: %+.100v", v, v)
	}
}

// Values that exceed the memory are refused: a list takes one byte of a pickle.
func TestWithoutMemory(t *testing.T) {
	lists := "(" + strings.Repeat("]", 512<<10) + "l."
	_, err := Decode([]byte(lists))
	require.NoError(t, err)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(24 << 20))
	_, err = Decode([]byte(lists))
	assert.Refused(t, err, "")
}
