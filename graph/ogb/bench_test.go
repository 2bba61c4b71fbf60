package ogb

import (
	"io"
	"path/filepath"
	"testing"

	"weft/graph/internal/lines"
	"weft/internal/assert"
	"weft/internal/require"
)

// BenchmarkText is how fast edges and features are read from text, beside its decompression alone.
func BenchmarkText(b *testing.B) {
	y := newToy(50_000, 500_000)
	folder := textFolder{raw: filepath.Join(y.text(b, "ogbn_arxiv"), "raw")}
	unpack := func(name string) (bytes int64) {
		err := lines.Each(form(folder.path(name)), func(line []byte, _ int64) error {
			bytes += int64(len(line)) + 1
			return nil
		})
		require.NoError(b, err)
		return bytes
	}
	read := func(name string) {
		m, err := folder.matrix(name, "")
		require.NoError(b, err)
		defer m.Close()
		for err == nil {
			_, err = m.Next()
		}
		assert.ErrorIs(b, err, io.EOF)
	}
	edges := func(string) {
		e, _, err := folder.edges(triplet{}, ends{y.vertices, y.vertices})
		require.NoError(b, err)
		defer e.Close()
		for err == nil {
			_, _, err = e.Next()
		}
		assert.ErrorIs(b, err, io.EOF)
	}
	for _, c := range []struct {
		name, file string
		read       func(name string)
	}{
		{"edges", "edge", edges},
		{"edges/unpack", "edge", func(name string) { unpack(name) }},
		{"features", nodeFeatures, read},
		{"features/unpack", nodeFeatures, func(name string) { unpack(name) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(unpack(c.file))
			for b.Loop() {
				c.read(c.file)
			}
		})
	}
}
