package arrays

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"weft/internal/npy"
	"weft/internal/require"
)

// Sources and targets may be integers of different widths, whose blocks have different numbers of elements.
func TestVectorsOfDifferentWidths(t *testing.T) {
	const edges = 300_000
	wide, narrow := make([]int64, edges), make([]int32, edges)
	for k := range edges {
		wide[k], narrow[k] = int64(k), int32(edges-k)
	}
	vector := func(descr string, data []byte) func() (*Entry, error) {
		return func() (*Entry, error) {
			r, size, err := npy.Header{Descr: descr, Shape: []int{edges}}.Stream(bytes.NewReader(data))
			return &Entry{io.NopCloser(r), size, true}, err
		}
	}
	open := [2]func() (*Entry, error){vector("<i8", npy.Bytes(wide)), vector("<i4", npy.Bytes(narrow))}
	r, err := OpenVectors(open, EndsOptions{High: [2]int64{edges, edges + 1}})
	require.NoError(t, err)
	defer r.Close()
	at := 0
	for {
		source, target, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		for k := range source {
			require.Equal(t, at, int(source[k]), "edge is %d→%d", source[k], target[k])
			require.Equal(t, edges-at, int(target[k]), "edge is %d→%d", source[k], target[k])
			at++
		}
	}
	require.Equal(t, edges, at, "edges")
}
