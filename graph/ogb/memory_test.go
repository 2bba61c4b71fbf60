package ogb

import (
	"archive/zip"
	"testing"

	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
)

// TestWriteWithoutMemory: edges that exceed the memory are written, in a stream. Read refuses them.
func TestWriteWithoutMemory(t *testing.T) {
	const vertices, edges, left = 5000, 4 << 20, 64 << 20
	y := newToy(vertices, edges)
	y.edgeFeatures = nil
	o := Options{Folder: y.binary(t, "large", zip.Store)}
	*y = toy{}
	streamedtest.BeyondMemory(t, left, edges, func() (*streamed.Graph, error) { return Open(o) })
}
