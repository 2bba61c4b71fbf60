package ogb

import (
	"archive/zip"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"weft/internal/refusal"
)

// TestWriteWithoutMemory: edges that exceed the memory are written, in a stream. Read refuses them.
func TestWriteWithoutMemory(t *testing.T) {
	const vertices, edges, left = 5000, 4 << 20, 64 << 20
	y := newToy(vertices, edges)
	y.edgeFeatures = nil
	o := Options{Folder: y.binary(t, "large", zip.Store), Symmetrize: true}
	*y = toy{}
	for range 2 { // pools keep what they have for one collection
		runtime.GC()
	}
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(now.Sys-now.HeapIdle) + left))
	if _, err := Read(o); !refusal.Is(err) || !strings.Contains(err.Error(), " needs ") {
		t.Errorf("read: error %v, want a refusal with the figure", err)
	}
	s, err := Write(filepath.Join(t.TempDir(), "store"), o)
	if err != nil || s.Edges < edges {
		t.Errorf("%+v, error %v", s, err)
	}
}
