package partition

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"weft/internal/require"
)

// A record's length bounds the memory that it takes.
func TestLongRecords(t *testing.T) {
	const length = 12 << 20
	for key, one := range map[string]string{"halo_rows": "[],", "store": "{},", "vertices": "0,"} {
		text := []byte(`{"format": 1, "` + key + `": [` + strings.Repeat(one, length/len(one)) +
			one[:len(one)-1] + `]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseRecord(text)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > length {
			t.Errorf("%q of %q: %v, and takes %d bytes", key, one, err, took)
		}
	}
}

// FuzzParseRecord: an accepted record can be used without further checks of lengths.
func FuzzParseRecord(f *testing.F) {
	store, g := stored(f, made(f, 20, 60, kinds["dense"], 3))
	name := write(f, store, g, divided(f, g, Options{K: 2, Method: Range}))
	good, err := os.ReadFile(filepath.Join(store, "partitions", name, descriptionFile))
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"format": 1, "k": 1, "vertices": [0], "edges": [0]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err != nil {
			return
		}
		vertices, edges, cut := 0, int64(0), int64(0)
		for p := range r.K {
			vertices += r.Vertices[p]
			for q := range r.K {
				if rows := max(r.HaloRows[p][q], r.HaloRowsOut[p][q]); rows > r.Vertices[q] {
					t.Errorf("%d rows of %d", rows, r.Vertices[q])
				}
				if edges += r.Cut[p][q]; p != q {
					cut += r.Cut[p][q]
				}
			}
		}
		if vertices != r.Whole.Vertices || edges != r.Whole.Edges || cut != r.CutEdges {
			t.Errorf("%d vertices, %d edges and %d cut in %+v", vertices, edges, cut, r.Description)
		}
	})
}
