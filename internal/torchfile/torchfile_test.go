package torchfile

import (
	"archive/zip"
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/internal/assert"
	"weft/internal/pickle"
	"weft/internal/require"
)

func open(t *testing.T, path string, classes ...pickle.Class) *File {
	t.Helper()
	f, err := Open(path, classes...)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

// values are a tensor's shape and elements.
func values(t *testing.T, tensor any) string {
	t.Helper()
	a, err := Array(tensor.(*Tensor))
	if err != nil {
		return err.Error()
	}
	v, err := a.Float32s()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(a.Shape, v)
}

// What PyTorch wrote is what is read: each element type, and each kind of window on a storage.
func TestTensors(t *testing.T) {
	all := open(t, "testdata/tensors.pt").Value.(*pickle.Dict)
	for name, want := range map[string]string{
		"float32":    "[2 2] [1.5 -2 0 3]",
		"float64":    "[2] [1.5 -2]",
		"float16":    "[2] [1.5 -2]",
		"bfloat16":   "[2 2] [1.5 -2 0 3]",
		"int64":      "[2] [1 -2]",
		"int32":      "[2] [1 -2]",
		"int16":      "[2] [1 -2]",
		"int8":       "[2] [1 -2]",
		"uint8":      "[2] [1 254]",
		"bool":       "[2] [1 0]",
		"base":       "[3 4] [0 1 2 3 4 5 6 7 8 9 10 11]",
		"transposed": "[4 3] [0 4 8 1 5 9 2 6 10 3 7 11]",
		"window":     "[2 2] [5 6 9 10]",
		"column":     "[3] [2 6 10]",
		"row":        "[4] [8 9 10 11]",
		"every":      "[2 2] [0 3 8 11]",
		"swapped":    "[2 2 2] [0 2 4 6 1 3 5 7]",
		"expanded":   "[2 3] [7 7 7 8 8 8]",
		"narrow":     "[2 2] [1.5 0 -2 3]",
		"scalar":     "[] [5]",
		"empty":      "[0 3] []",
		"parameter":  "[2] [1 2]",
		"complex64":  `dtype "<c8" is not read; save it again as bool, int, float or fixed-width text`,
	} {
		tensor, ok := all.Get(name)
		if !ok {
			t.Errorf("%s is missing", name)
		} else if got := values(t, tensor); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	other, _ := all.Get("other")
	array := &pickle.Array{
		Dtype: "<i8", Shape: []int{2},
		Data: "\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00",
	}
	want := &pickle.Dict{Items: []pickle.Item{
		{Key: "size", Value: pickle.Tuple{int64(2), int64(3)}},
		{Key: "device", Value: &pickle.Object{Class: "torch.device", Args: pickle.Tuple{"cpu"}}},
		{Key: "type", Value: dtype{"float16", "f2", 2}},
		{Key: "array", Value: array},
		{Key: "text", Value: "é"},
		{Key: int64(7)},
	}}
	assert.EqualBy(t, want, other, cmp.AllowUnexported(dtype{}))
}

// Element types that NumPy lacks become float32 as PyTorch has it, for each pattern of bits; attributes of a
// tensor do not hide it.
func TestTypes(t *testing.T) {
	all := open(t, "testdata/types.pt").Value.(*pickle.Dict)
	floats := func(name string) []float32 {
		value, _ := all.Get(name)
		a, err := Array(value.(*Tensor))
		require.NoError(t, err)
		v, err := a.Float32s()
		require.NoError(t, err)
		return v
	}
	for _, name := range []string{"float8_e4m3fn", "float8_e5m2"} {
		got, want := floats(name), floats(name+" as float32")
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" || len(got) != 256 {
			t.Errorf("%s: %d values (-want +got):\n%s", name, len(got), diff)
		}
	}
	for name, want := range map[string]string{
		"uint16": "[3] [1 2 65535]", "uint32": "[3] [1 2 4.2949673e+09]", "uint64": "[3] [1 2 9.223372e+18]",
		"column": "[2] [-2 3]", "named": "[2] [1 2]", "parameter": "[2] [1 2]",
	} {
		tensor, _ := all.Get(name)
		assert.Equal(t, want, values(t, tensor), name)
	}
}

func TestSparse(t *testing.T) {
	for _, path := range []string{"testdata/sparse.pt", "testdata/sparse-1.13.pt"} {
		all := open(t, path).Value.(*pickle.Dict)
		for name, want := range map[string]string{
			"coo": "torch.sparse_coo [2 3]: [2 3] [0 1 1 1 0 2]; [3] [1.5 2 3]; ",
			"csr": "torch.sparse_csr [2 3]: [3] [0 1 3]; [3] [1 0 2]; [3] [1.5 2 3]; ",
			"csc": "torch.sparse_csc [2 3]: [4] [0 1 2 3]; [3] [1 0 1]; [3] [2 1.5 3]; ",
		} {
			value, ok := all.Get(name)
			if !ok && path == "testdata/sparse-1.13.pt" {
				continue
			}
			s := value.(*Sparse)
			got := fmt.Sprintf("%s %v: ", s.Layout, s.Shape)
			for _, part := range s.Parts {
				got += values(t, part) + "; "
			}
			assert.Equal(t, want, got, name)
		}
	}
}

func TestProtocol5(t *testing.T) {
	a, _ := open(t, "testdata/protocol-5.pt").Value.(*pickle.Dict).Get("a")
	if items := a.(*pickle.List).Items; len(items) != 2 || items[0] != int64(1) ||
		values(t, items[1]) != "[2] [1 -2]" {
		t.Errorf("%v", items)
	}
}

// entry is one of an archive of a test.
type entry struct{ name, content string }

// archive writes an archive of those entries, as PyTorch does: not compressed.
func archive(t testing.TB, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{
			Name: "archive/" + e.name, Method: zip.Store, CRC32: crc32.ChecksumIEEE([]byte(e.content)),
			UncompressedSize64: uint64(len(e.content)), CompressedSize64: uint64(len(e.content)),
		}
		w, err := z.CreateRaw(h)
		if err == nil {
			_, err = w.Write([]byte(e.content))
		}
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.String()
}

// tensor is the pickle of a tensor of int16 over storage "0" of so many elements; numbers below 128.
func tensor(elements, offset int, shape, strides []int) string {
	numbers := func(values []int) string {
		s := "("
		for _, n := range values {
			s += "K" + string(rune(n))
		}
		return s + "t"
	}
	return fmt.Sprintf(
		"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nShortStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK%ctQK%c%s%s\x89NtR", elements, offset, numbers(shape), numbers(strides))
}

const shorts = "\x01\x00\x02\x00\x03\x00\x04\x00"

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pt")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// The byte order is the archive's.
func TestByteOrder(t *testing.T) {
	for order, want := range map[string]string{"little": "[2] [1 2]", "big": "[2] [256 512]"} {
		f := open(t,
			write(t, archive(t, entry{"data.pkl", tensor(4, 0, []int{2}, []int{1}) + "."},
				entry{"data/0", shorts}, entry{"byteorder", order})))
		assert.Equal(t, want, values(t, f.Value), order)
	}
	for _, c := range []struct{ name, little, big string }{
		{"bfloat16", "00000102", "01020000"},
		{"float8_e5m2", "0000803700000038", "3780000038000000"},   // 2⁻¹⁶ and 2⁻¹⁵
		{"float8_e4m3fn", "0000003b0000803b", "3b0000003b800000"}, // 2⁻⁹ and 2⁻⁸
	} {
		kind := dtypes[slices.IndexFunc(dtypes,
			func(d typeAndStorage) bool { return d.name == c.name })].dtype
		for big, want := range map[bool]string{false: c.little, true: c.big} {
			tensor := Tensor{dtype: kind, storage: &storage{file: &File{big: big}}}
			assert.Equal(t, want, fmt.Sprintf("%x", tensor.widen([]byte{1, 2})), c.name)
		}
	}
}

func TestRefused(t *testing.T) {
	plain := archive(t, entry{"data.pkl", "N."})
	whole := archive(t, entry{"data.pkl", tensor(4, 0, []int{2}, []int{1}) + "."}, entry{"data/0", shorts})
	legacy, err := os.ReadFile("testdata/legacy.pt")
	require.NoError(t, err)
	var compressed bytes.Buffer
	z := zip.NewWriter(&compressed)
	w, err := z.Create("x/data.pkl")
	if err == nil {
		_, err = w.Write([]byte("N."))
	}
	if err == nil {
		err = z.Close()
	}
	require.NoError(t, err)
	negated, err := os.ReadFile("testdata/negated.pt")
	require.NoError(t, err)
	const ofClass, wrapped = "ctorch._tensor\n_rebuild_from_type_v2\n",
		"ctorch._utils\n_rebuild_wrapper_subclass\n"
	file := func(code string) string { return archive(t, entry{"data.pkl", code}, entry{"data/0", shorts}) }
	for _, c := range []struct{ name, content, want string }{
		{"empty", "", "give a file of torch.save"},
		{"text", "0,1\n", "give a file of torch.save"},
		{"before 1.6", string(legacy), "a file of torch.save before PyTorch 1.6"},
		{"an array", "\x93NUMPY\x01\x00", "is a NumPy array"},
		{"cut short", whole[:len(whole)-30], "damaged or cut short"},
		{"no pickle", archive(t, entry{"x.txt", ""}), "without a data.pkl"},
		{"compressed", compressed.String(), "is compressed"},
		{"damaged pickle", strings.Replace(plain, "N.", "M.", 1), "its checksum differs"},
		{
			"another program", file("cpandas.core.frame\nDataFrame\n."),
			`names "pandas.core.frame.DataFrame", which is not on the list of what a dataset's pickle may name; ` + WayOut,
		},
		{"system", file("cposix\nsystem\nX\x04\x00\x00\x00true\x85R."), `names "posix.system"`},
		{
			"storage missing", archive(t, entry{"data.pkl", tensor(4, 0, []int{2}, []int{1}) + "."}),
			`no entry for storage "0"`,
		},
		{
			"storage too short", file(tensor(5, 0, []int{2}, []int{1}) + "."),
			"claims 5 elements of 2 bytes, and has 8 bytes",
		},
		{"offset", file(tensor(4, 3, []int{2}, []int{1}) + "."), "leaves storage"},
		{"strides", file(tensor(4, 0, []int{2, 2}, []int{3, 1}) + "."), "leaves storage"},
		{"huge", file(tensor(4, 0, []int{127, 127, 127}, []int{127, 127, 127}) + "."), "leaves storage"},
		{
			"strides missing", file(tensor(4, 0, []int{2, 2}, []int{1}) + "."),
			"not (storage, offset, size, stride)",
		},
		{"dimensions", file(tensor(4, 0, make([]int, 9), make([]int, 9)) + "."), "9 dimensions"},
		{"no window", file("ctorch._utils\n_rebuild_tensor_v2\n)R."), "not (storage, offset, size, stride)"},
		{"parameter", file("ctorch._utils\n_rebuild_parameter\n)R."), "not (storage, offset, size, stride)"},
		{
			"sparse", file("ctorch._utils\n_rebuild_sparse_tensor\nNN\x86R."),
			"not (storage, offset, size, stride)",
		},
		{
			"sparse of too many parts",
			file(
				"ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n_get_layout\nX\x10\x00\x00\x00torch.sparse_coo\x85R(" +
					strings.Repeat(tensor(4, 0, []int{2}, []int{1}), 4) + ")t\x86R."),
			"not (storage, offset, size, stride)",
		},
		{"negated", string(negated), "a tensor whose numbers are to be negated: save it after " +
			".resolve_conj().resolve_neg()"},
		{"type", file("ctorch._utils\n_rebuild_tensor_v3\n)R."), "not (storage, offset, size, stride)"},
		{"class", file(ofClass + ")R."), "not (storage, offset, size, stride)"},
		{
			"class of a class",
			file(ofClass + "(" + ofClass + "ctorch\nTensor\n(" + wrapped + "ctorch\nTensor\n)}t}tR."),
			"not (storage, offset, size, stride)",
		},
		{
			"class without a tensor", file(ofClass + "(" + wrapped + "ctorch\nTensor\n)}tR."),
			"a class that wraps none",
		},
		{"size", file("ctorch\nSize\n)R."), "torch.Size of something else"},
		{"layout", file("ctorch.serialization\n_get_layout\n)R."), "layout without a name"},
		{"persistent", file("NQ."), "not a storage"},
		{"persistent parts", file("(X\x07\x00\x00\x00storageNNNNtQ."), "not its type, key, device and size"},
	} {
		_, err := Open(write(t, c.content))
		assert.Refused(t, err, c.want, c.name)
	}
	_, err = Open(t.TempDir())
	assert.Refused(t, err, "", "a folder")
}

// A tensor is refused when it is read where its bytes are not what the archive says.
func TestDamagedStorage(t *testing.T) {
	content := archive(t, entry{"data.pkl", tensor(4, 0, []int{2}, []int{1}) + "."}, entry{"data/0", shorts})
	f := open(t, write(t, strings.Replace(content, shorts, "\x02"+shorts[1:], 1)))
	assert.Contains(t, values(t, f.Value), "its checksum differs")
}

// However often a pickle names a storage, what is read stays in proportion to the file.
func TestRepeatsAreRefused(t *testing.T) {
	const tensors = 100
	numbers := strings.Repeat("\x01\x00", 100)
	code := "(" + strings.Repeat(tensor(100, 0, []int{100}, []int{1}), tensors) + "t."
	if f := open(t,
		write(t, archive(t, entry{"data.pkl", "(" + tensor(100, 0, []int{100}, []int{1}) + "t."},
			entry{"data/0", numbers}))); !strings.HasPrefix(values(t, f.Value.(pickle.Tuple)[0]), "[100]") {
		t.Error("one tensor is not read")
	}
	f := open(t, write(t, archive(t, entry{"data.pkl", code}, entry{"data/0", numbers})))
	total := 0
	for range tensors {
		for _, tensor := range f.Value.(pickle.Tuple) {
			if _, err := Array(tensor.(*Tensor)); err == nil {
				total += len(numbers)
			} else if !strings.Contains(err.Error(), "share storages") {
				t.Fatal(err)
			}
		}
	}
	if info, err := f.file.Stat(); err != nil || int64(total) > repeats*info.Size() {
		t.Errorf("%d bytes were read, error %v", total, err)
	}
	// A window of one element that claims to be many
	f = open(t,
		write(t, archive(t, entry{"data.pkl", tensor(4, 0, []int{127, 127, 127}, []int{0, 0, 0}) + "."},
			entry{"data/0", shorts})))
	assert.Contains(t, values(t, f.Value), "share storages")
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{
		"tensors.pt", "sparse.pt", "sparse-1.13.pt", "protocol-5.pt", "legacy.pt", "types.pt",
	} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(string(content))
	}
	f.Add(archive(f, entry{"data.pkl", tensor(4, 0, []int{2, 2}, []int{2, 1}) + "."},
		entry{"data/0", shorts}))
	f.Fuzz(func(t *testing.T, content string) {
		file, err := Open(write(t, content))
		if err != nil {
			return
		}
		defer file.Close()
		if tensor, ok := file.Value.(*Tensor); ok {
			// It may be refused, and nothing else may happen.
			_, _ = Array(tensor)
		}
	})
}

// The pickle by itself: a fuzzer rarely gets past the archive's checksums.
func FuzzPickle(f *testing.F) {
	f.Add(tensor(4, 0, []int{2, 2}, []int{2, 1}) + ".")
	f.Add(tensor(4, 1, []int{3, 1}, []int{1, 0}) + ".")
	f.Add(
		"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_subclass\nctorch\nTensor\n)}X\x05\x00\x00\x00_data" +
			tensor(4, 0, []int{2, 2}, []int{2, 1}) + "stR.")
	f.Add(
		"ctorch._utils\n_rebuild_tensor_v3\n((X\x07\x00\x00\x00storagectorch.storage\nUntypedStorage\nX\x01\x00\x00\x000NK\x08tQK\x00K\x02\x85K\x03\x85\x89Nctorch\nfloat8_e4m3fn\ntR.")
	f.Add(
		"ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n_get_layout\nX\x10\x00\x00\x00torch.sparse_coo\x85R(" +
			tensor(4, 0, []int{2, 2}, []int{2, 1}) + tensor(4, 0, []int{2}, []int{1}) +
			"ctorch\nSize\nK\x02K\x02\x86\x85R\x88t\x86R.")
	f.Fuzz(func(t *testing.T, code string) {
		file, err := Open(write(t, archive(t, entry{"data.pkl", code}, entry{"data/0", shorts})))
		if err != nil {
			return
		}
		defer file.Close()
		parts := []*Tensor{}
		switch v := file.Value.(type) {
		case *Tensor:
			parts = append(parts, v)
		case *Sparse:
			parts = v.Parts
		}
		for _, tensor := range parts {
			a, err := Array(tensor)
			if err != nil {
				continue
			}
			if n, err := a.Elements(); err != nil || n > repeats*(len(code)+1000) {
				t.Errorf("%d elements, error %v", n, err)
			}
		}
	})
}
