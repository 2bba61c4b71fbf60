package pyg

import (
	"archive/zip"
	"bytes"
	"hash/crc32"
	"io"
	"path"
	"strings"
	"testing"

	"weft/internal/require"
)

// archive is a file of torch.save: a pickle, and storages "0" to "3" with the same bytes.
func archive(t testing.TB, code string, storage []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	write := func(name string, content []byte) {
		w, err := z.CreateRaw(&zip.FileHeader{
			Name: "archive/" + name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(content),
			UncompressedSize64: uint64(len(content)), CompressedSize64: uint64(len(content)),
		})
		if err == nil {
			_, err = w.Write(content)
		}
		require.NoError(t, err)
	}
	write("data.pkl", []byte(code))
	for _, key := range []string{"0", "1", "2", "3"} {
		write("data/"+key, storage)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// pulled takes the pickle and the first storage out of a file of torch.save, nothing out of another.
func pulled(t testing.TB, content []byte) (code, storage []byte) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, nil
	}
	for _, entry := range z.File {
		r, err := entry.Open()
		require.NoError(t, err)
		bytes, err := io.ReadAll(r)
		require.NoError(t, err)
		switch {
		case path.Base(entry.Name) == "data.pkl":
			code = bytes
		case strings.HasSuffix(entry.Name, "data/0"):
			storage = bytes
		}
	}
	return code, storage
}
