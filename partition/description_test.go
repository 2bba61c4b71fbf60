package partition

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// A record's length bounds the memory that it takes.
func TestLongRecords(t *testing.T) {
	const length = 12 << 20
	for key, element := range map[string]string{"halo_rows": "[],", "store": "{},", "vertices": "0,"} {
		text := []byte(`{"format": 1, "` + key + `": [` + strings.Repeat(element, length/len(element)) +
			element[:len(element)-1] + `]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseRecord(text)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > length {
			t.Errorf("%q of %q: %v, and takes %d bytes", key, element, err, took)
		}
	}
}

// TestRecordOfTypes: a record has the first vertex type apart from the others, and its counts not at all.
func TestRecordOfTypes(t *testing.T) {
	d := described()
	twoTypes(d, 1, 2)
	d.Whole.Graphs, d.Whole.Types[0].FeatureColumns, d.Whole.Types[0].FeatureValues = 4, 7, 9
	text, err := json.Marshal(record{Format: formatVersion, Record: d.Record()})
	require.NoError(t, err)
	for _, part := range []string{`[[3,1],[0,1]],"others":[[1,2]],"balance"`, `"whole":{"vertices":5,"edges":5,` +
		`"others":[{"type":"b","vertices":3,"features":0}],"graphs":4,"features":7,"feature_values":9,"classes"`} {
		assert.Contains(t, string(text), part)
	}
	back, err := parseRecord(text)
	require.NoError(t, err)
	d.Whole.Statistics = d.Statistics
	assert.Equal(t, "", same(d.Whole, back.Whole), "whole")
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
