package foreign

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// archive is a zip archive with entries of those names.
func archive(t *testing.T, names ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		_, err := z.Create(name)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.String()
}

func TestKinds(t *testing.T) {
	var zipped bytes.Buffer
	require.NoError(t, gzip.NewWriter(&zipped).Close())
	for _, c := range []struct {
		start string
		want  Kind
	}{
		{"", Unknown},
		{"0,1\n", Unknown},
		{"PK", Unknown},
		{"PK\x03\x04" + strings.Repeat("\xff", 26), Zip},
		{"\x80\x02\x00\x00\x00\x00\x00\x00{", Unknown}, // a safetensors file
		{"\x93NUMPY\x01\x00", Array},
		{archive(t, "edges.npy", "data.pkl"), Archive},
		{archive(t, "archive/data.pkl", "archive/version"), Torch},
		{archive(t, "readme.txt"), Zip},
		{zipped.String(), Gzip},
		{"\x28\xb5\x2f\xfd\x24\x01", Zstd},
		{"\x5e\x2a\x4d\x18\x04\x00\x00\x00", Zstd},
		{"Q*M\x17abc", Unknown},
		{"PAR1", Parquet},
		{"\x89HDF\r\n\x1a\n\x00", HDF5},
		{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", OldTorch},
		{"\x80\x02}q\x00", Pickle},
		{"\x80\x04\x95\x10\x00", Pickle},
		{"\x3f\xa1\xb4\x46\xf0\x4f\x2e\xdd\x02", DGLGraph},
		{"\x3f\x44\xa2\x3f\xbe\x9f\x5a\xdd\x02", DGLData},
	} {
		assert.Equal(t, c.want, Recognize([]byte(c.start)), "%q", c.start)
	}
}

func TestRefusalsNameTheWayOut(t *testing.T) {
	for kind, want := range map[Kind]string{
		Torch: "x: a file of torch.save; weft import pyg reads one of a graph, and " + Conversion,
		OldTorch: "x: a file of torch.save before PyTorch 1.6, which is not read; load and save it again " +
			"with a later one",
		Pickle: "x: a Python pickle, which is never read; " + Conversion,
		Zip:    "x: is a zip archive; give y",
	} {
		assert.EqualRefusal(t, kind.Refuse("x", "y"), want, "%q", kind)
	}
}
