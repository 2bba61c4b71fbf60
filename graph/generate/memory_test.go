package generate

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/require"
)

// heap is a sink that keeps nothing, and looks how large Go's heap is.
type heap struct {
	graph.Sink
	most uint64
}

func (h *heap) look() error {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	h.most = max(h.most, now.HeapAlloc)
	return nil
}

func (h *heap) In(_ int, _ int64, _ *graph.Relation, batches graph.Batches[*graph.Relation]) error {
	return batches(func(*graph.Relation) error { return h.look() })
}

func (h *heap) Features(_, _, _ int, batches graph.Batches[*graph.Features]) error {
	return batches(func(*graph.Features) error { return h.look() })
}

func (h *heap) Classes(batches graph.Batches[[]int64]) error {
	return batches(func([]int64) error { return h.look() })
}

func (h *heap) Splits([]graph.Split) error { return nil }

// limit lets Go's runtime take so many bytes more than it has.
func limit(t *testing.T, more int64) (has uint64) {
	t.Helper()
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	before := debug.SetMemoryLimit(int64(now.Sys-now.HeapReleased) + more)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	return now.HeapAlloc
}

// A graph of three times what the runtime may take is generated within that.
func TestWithinTheLimit(t *testing.T) {
	const may = 32 << 20
	has := limit(t, may)
	o := Options{Kind: Uniform, Vertices: 100_000, Degree: 120, Features: 8, Classes: 4} // 96 MB of edges
	dir, h := filepath.Join(t.TempDir(), "store"), heap{}
	scratch := func() (*os.File, error) { return graph.Scratch(dir) }
	require.NoError(t, produce(&o, edgeBudget(), &h, scratch))
	if took := h.most - has; took > 2*may { // garbage is collected beside the work
		t.Errorf("it took %d bytes of %d", took, may)
	}
}

// What does not come in a stream is asked for before anything is written.
func TestRefusesWhatHasNoMemory(t *testing.T) {
	limit(t, 32<<20)
	for _, o := range []Options{
		{Kind: Uniform, Vertices: 1 << 30, Degree: 1, Classes: 2},
		{Kind: SBM, Vertices: 1 << 21, Degree: 1, Classes: 1 << 20, Features: 64},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		if err := Write(dir, o); !refusal.Is(err) || !strings.Contains(err.Error(), "needs ") ||
			!strings.HasPrefix(err.Error(), dir+": ") {
			t.Errorf("%s: %v", o.Kind, err)
		}
	}
}
