package safetensors

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"weft/internal/assert"
	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/internal/require"
)

// file is a file with that header and data, whatever they say.
func file(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestDtypes(t *testing.T) {
	for _, c := range []struct {
		dtype string
		data  []byte
		want  Tensor
	}{
		{"F64", []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, Tensor{Shape: []int{1}, Float32: []float32{1.5}}},
		{"F32", []byte{0, 0, 0xc0, 0x3f}, Tensor{Shape: []int{1}, Float32: []float32{1.5}}},
		{"F16", []byte{0, 0x3e}, Tensor{Shape: []int{1}, Float32: []float32{1.5}}},
		{"BF16", []byte{0xc0, 0x3f}, Tensor{Shape: []int{1}, Float32: []float32{1.5}}},
		{
			"I64",
			[]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
			Tensor{Shape: []int{1}, Int64: []int64{-2}},
		},
		{"I32", []byte{0xfe, 0xff, 0xff, 0xff}, Tensor{Shape: []int{1}, Int64: []int64{-2}}},
	} {
		end := string('0' + rune(len(c.data)))
		b := file(`{"__metadata__":{"format":"pt"},"x":{"dtype":"`+c.dtype+`","shape":[1],"data_offsets":[0,`+
			end+`]}}  `, c.data...)
		tensors, metadata, err := Read(bytes.NewReader(b), int64(len(b)))
		if err != nil || !cmp.Equal(tensors, map[string]Tensor{"x": c.want}) || metadata["format"] != "pt" {
			t.Errorf("%s: %v, %v, %v", c.dtype, tensors, metadata, err)
		}
	}
}

func TestDamagedIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "it has 0 bytes; give the model.safetensors of a run"},
		{"lying length", []byte{255, 255, 255, 255, 0, 0, 0, 0, '{', '}'}, "claims 4294967295 bytes of 2"},
		{"negative length", bytes.Repeat([]byte{255}, 16), "claims"},
		{"text", []byte("hello, world"), "claims"},
		{"no JSON", file("{]"), "not JSON"},
		{"no object", file("[1]"), "not JSON"},
		{"metadata", file(`{"__metadata__":{"a":1}}`), "__metadata__"},
		{"offsets missing", file(`{"x":{"dtype":"F32","shape":[1]}}`, 0, 0, 0, 0), "not two numbers"},
		{
			"offsets fractional",
			file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4.5]}}`, 0, 0, 0, 0),
			`"x"`,
		},
		{
			"dtype", file(`{"x":{"dtype":"C64","shape":[],"data_offsets":[0,8]}}`, 0, 0, 0, 0, 0, 0, 0, 0),
			`dtype "C64" is not read`,
		},
		{"cut", file(`{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 0, 0, 0, 0), "cut short"},
		{
			"shape", file(`{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 0, 0, 0, 0, 0, 0, 0, 0),
			`tensor "x": bytes 0 to 8 where 12`,
		},
		{"negative shape", file(`{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 0, 0,
			0, 0), "negative"},
		{
			"overflow", file(`{"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`),
			"more elements",
		},
		{
			"overflow of bytes",
			file(`{"x":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}}`), "more bytes",
		},
		{"negative offset", file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`), "bytes -4 to 0"},
		{
			"overlap",
			file(
				`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0, 0), "from 4",
		},
		{
			"gap", file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 0, 0, 0, 0, 0, 0, 0, 0),
			"from 0",
		},
		{"long", file(`{}`, 0, 0, 0), "3 bytes follow"},
		{
			"a tensor twice",
			file(
				`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\u0078":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0, 0),
			`its header has the key "x" twice, which the format forbids`,
		},
		{"a shape twice", file(`{"x":{"shape":[2],"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0,
			0), `the key "shape" twice`},
		{
			"metadata twice", file(`{"__metadata__":{"a":"1"},"__metadata__":{"a":"2"}}`),
			`the key "__metadata__" twice`,
		},
		{"a key of metadata twice", file(`{"__metadata__":{"a":"1","a":"2"}}`), `the key "a" twice`},
		{
			"a key twice in a list",
			file(`{"x":{"dtype":"F32","shape":[],"data_offsets":[0,4],"more":[{"a":1,"a":2}]}}`, 0, 0, 0, 0),
			`the key "a" twice`,
		},
	} {
		_, _, err := Read(bytes.NewReader(c.data), int64(len(c.data)))
		assert.Refused(t, err, c.want, c.name)
		_, _, err = ReadStream(bytes.NewReader(c.data))
		assert.Refused(t, err, "", "%s, as a stream", c.name)
	}
}

// endless is a stream without end, of which so many bytes were read.
type endless int

func (e *endless) Read(b []byte) (int, error) {
	clear(b)
	*e += endless(len(b))
	return len(b), nil
}

// TestReadStream: a stream ends where the header says. One that goes on is refused a byte later, and one
// whose header has no end at the format's bound.
func TestReadStream(t *testing.T) {
	content := file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0xc0, 0x3f)
	x, _, err := ReadStream(bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, map[string]Tensor{"x": {Shape: []int{1}, Float32: []float32{1.5}}}, x)
	for _, c := range []struct {
		begin []byte
		want  string
	}{
		{content, "1 bytes follow the last tensor"},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, "its header claims 4294967295 bytes, and the format " +
			"has 100000000 at most"},
	} {
		more := endless(0)
		_, _, err := ReadStream(io.MultiReader(bytes.NewReader(c.begin), &more))
		if !refusal.Is(err) || !strings.Contains(err.Error(), c.want) || more > 1 {
			t.Errorf("%v, with %d bytes more read", err, more)
		}
	}
}

func TestReadFileNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(path, []byte("hello, world"), 0o644))
	for _, path := range []string{path, dir, filepath.Join(dir, "nosuch")} {
		_, _, err := ReadFile(path)
		assert.Refused(t, err, path)
	}
}

// serialize of the reference library, safetensors 0.4.5, gives these bytes for these tensors.
func TestWrittenBytes(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, map[string]Tensor{
		"b": {Shape: []int{1}, Float32: []float32{1.5}},
		"a": {Shape: []int{0, 3}},
		"n": {Shape: []int{}, Int64: []int64{7}},
	}, map[string]string{"format": "pt"})
	require.NoError(t, err)
	want := file(`{"__metadata__":{"format":"pt"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},`+
		`"a":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}       `,
		7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0x3f)
	assert.Equal(t, 0, binary.LittleEndian.Uint64(b.Bytes())%8, "the data starts at")
	assert.Equal(t, string(want), b.String())
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	rapid.Check(t, func(t *rapid.T) {
		tensors := map[string]Tensor{}
		for range rapid.IntRange(0, 5).Draw(t, "tensors") {
			shape := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 3).Draw(t, "shape")
			n := 1
			for _, d := range shape {
				n *= d
			}
			x := Tensor{Shape: shape}
			if rapid.Bool().Draw(t, "integers") {
				x.Int64 = rapid.SliceOfN(rapid.Int64(), n, n).Draw(t, "values")
			} else {
				x.Float32 = rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "values")
			}
			tensors[rapid.StringN(1, 8, -1).Draw(t, "name")] = x
		}
		metadata := rapid.MapOfN(rapid.StringN(0, 4, -1), rapid.String(), 0, 3).Draw(t, "metadata")
		var written bytes.Buffer
		require.NoError(t, Write(&written, tensors, metadata))
		require.NoError(t, os.WriteFile(path, written.Bytes(), 0o666))
		got, gotMetadata, err := ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, tensors, got)
		if diff := cmp.Diff(metadata, gotMetadata, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestRefusedTensorsWriteNothing(t *testing.T) {
	for name, x := range map[string]Tensor{
		"short":        {Shape: []int{2}, Float32: []float32{1}},
		"both":         {Shape: []int{2}, Float32: []float32{1}, Int64: []int64{1}},
		"negative":     {Shape: []int{-1}},
		"huge":         {Shape: []int{math.MaxInt, 2}},
		"__metadata__": {Shape: []int{1}, Float32: []float32{1}},
	} {
		var written bytes.Buffer
		if err := Write(&written, map[string]Tensor{name: x}, nil); err == nil || written.Len() > 0 {
			t.Errorf("%s: error %v, %d bytes", name, err, written.Len())
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file(`{"x":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]}}`, 0, 0, 0, 0))
	f.Add(file(`{"__metadata__":{"a":"b"},"x":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}`, 1, 0, 0, 0))
	f.Add(file(`{"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`))
	f.Add(bytes.Repeat([]byte{255}, 16))
	f.Fuzz(func(t *testing.T, data []byte) {
		tensors, metadata, err := Read(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			assert.Refused(t, err, "")
			return
		}
		var b bytes.Buffer
		require.NoError(t, Write(&b, tensors, metadata))
		again, _, err := Read(&b, int64(b.Len()))
		if diff := cmp.Diff(tensors, again, cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

func TestPyTorchCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.pt")
	zipped := "PK\x03\x04" + strings.Repeat("\x00", 22) + "\x10\x00\x00\x00archive/data.pklrest"
	for content, way := range map[string]string{
		zipped: foreign.Conversion,
		"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.": "load and save it again",
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
		_, _, err := ReadFile(path)
		assert.RefusedFor(t, err, path+": a file of torch.save", way)
	}
}
