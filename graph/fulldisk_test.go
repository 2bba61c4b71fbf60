package graph

import (
	"path/filepath"
	"testing"

	"weft/internal/fulldisk"
)

func TestLastByteOfAStore(t *testing.T) {
	// the features are larger than all other files, and smaller than a buffer
	const vertices, columns = 100, 50
	g := &Graph{
		Relations: []Relation{{Indptr: make([]int64, vertices+1)}},
		Features:  Features{Columns: columns, Dense: make([]float32, vertices*columns)},
	}
	fulldisk.LastByte(t, func(dir string) error { return g.Write(filepath.Join(dir, "store")) })
}
