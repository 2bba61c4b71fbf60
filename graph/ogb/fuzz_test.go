package ogb

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/require"
)

// readAny reads a folder whose file is any bytes: it is refused, or read, and the graph is whole.
func readAny(t *testing.T, folder, file string, data []byte) {
	write(t, filepath.Join(folder, file), data)
	streamedtest.AnyBytes(t, func() (*streamed.Graph, error) {
		return Open(Options{Folder: folder})
	}, len(data))
}

// Any text in the place of edges, labels, features and a split.
func FuzzText(f *testing.F) {
	y := newToy(6, 5)
	y.features, y.edgeFeatures = y.features[:18], nil
	folder := y.text(f, "ogbn_arxiv")
	for _, text := range []string{
		"0,1\n1,2\n3,3\n5,0\n0,0\n", "0\n1\n\n2\nnan\n3",
		"1,2.5\n3e-2,4\n.5,6\r\n-7,8\n9,10\n11,12\n", "0\n", "\n\n", "1,,3\n", `""` + "\n",
	} {
		for file := range 4 {
			f.Add([]byte(text), byte(file))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, file byte) {
		names := []string{"raw/edge", "raw/node-label", "raw/node-feat", "split/time/train"}
		name := names[int(file)%len(names)] + textSuffix
		before, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		defer write(t, filepath.Join(folder, name), before)
		readAny(t, folder, name, []byte(graphtest.Zipped(t, string(text))))
		readAny(t, folder, name, text)
	})
}

// Any archive in the place of that of all arrays, or of labels.
func FuzzArchive(f *testing.F) {
	y := newToy(6, 5)
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		folder := y.binary(f, "ogbn_papers100M", method)
		for file, name := range []string{"data.npz", "node-label.npz"} {
			data, err := os.ReadFile(filepath.Join(folder, "raw", name))
			require.NoError(f, err)
			f.Add(data, byte(file))
		}
	}
	folder := y.binary(f, "ogbn_papers100M", zip.Deflate)
	f.Fuzz(func(t *testing.T, data []byte, file byte) {
		name := filepath.Join("raw", []string{"data.npz", "node-label.npz"}[file%2])
		before, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		defer write(t, filepath.Join(folder, name), before)
		readAny(t, folder, name, data)
	})
}

// Any bytes in the place of a file of a folder of several types, and text as gzip, too.
func FuzzTyped(f *testing.F) {
	y := newTypedToy()
	text, binary := y.text(f), y.binary(f)
	var files []string // of text, then of archives
	for _, folder := range []string{text, binary} {
		err := fs.WalkDir(os.DirFS(folder), ".", func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				files = append(files, filepath.Join(folder, path))
			}
			return err
		})
		require.NoError(f, err)
	}
	for _, name := range []string{"typed_split_dict.pt", "split_dict.pt"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(data, byte(len(files)))
	}
	for k, path := range files {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = io.ReadAll(z)
			require.NoError(f, err)
		}
		f.Add(data, byte(k))
	}
	files = append(files, filepath.Join(text, "split/time", pickledSplit))
	f.Fuzz(func(t *testing.T, data []byte, file byte) {
		path := files[int(file)%len(files)]
		folder := text
		if strings.HasPrefix(path, binary) {
			folder = binary
		}
		name, err := filepath.Rel(folder, path)
		require.NoError(t, err)
		before, err := os.ReadFile(path)
		if err == nil {
			defer write(t, path, before)
		} else {
			defer os.Remove(path)
		}
		if strings.HasSuffix(path, textSuffix) {
			readAny(t, folder, name, []byte(graphtest.Zipped(t, string(data))))
		}
		readAny(t, folder, name, data)
	})
}

// TestWriteWithoutMemory: edges that exceed the memory are written, in a stream. Read refuses them.
func TestWriteWithoutMemory(t *testing.T) {
	const vertices, edges, left = 5000, 4 << 20, 64 << 20
	y := newToy(vertices, edges)
	y.edgeFeatures = nil
	o := Options{Folder: y.binary(t, "large", zip.Store)}
	*y = toy{}
	streamedtest.BeyondMemory(t, left, edges, func() (*streamed.Graph, error) { return Open(o) })
}
