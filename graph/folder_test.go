package graph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/atomicfile"
	"weft/internal/fulldisk"
	"weft/internal/require"
)

func TestMissingParentsAreMade(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, dense().Write(filepath.Join(parent, "a", "b", "store")))
	w := create(t, filepath.Join(parent, "a", "c", "d", "store"), dense())
	assert.NoError(t, w.Abort())
	assert.Equal(t, []string{"b"}, left(t, filepath.Join(parent, "a")))
}

func TestRemoveStaging(t *testing.T) {
	parent := t.TempDir()
	w := create(t, filepath.Join(parent, "a", "store"), dense())
	var names []string
	RemoveStaging(func() {
		names = left(t, parent)
		if inUse.TryLock() {
			t.Error("a store may begin before the end")
		}
	})
	assert.Empty(t, names, "left")
	assert.NoError(t, w.Abort())
	assert.NoError(t, dense().Write(filepath.Join(parent, "later"))) // the process goes on
}

// What a killed process left is removed; what another one is writing is not, nor what looks like either.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	store := filepath.Join(parent, "store")
	w := create(t, store, dense())
	defer w.Abort()
	stale, other := atomicfile.Hidden("store"), ".store.old.tmp"
	for _, name := range []string{stale, other, atomicfile.Hidden("another")} {
		require.NoError(t, os.MkdirAll(filepath.Join(parent, name, "indices.npy"), 0o755))
	}
	require.NoError(t, dense().Write(store))
	if names := left(t, parent); len(names) != 4 || strings.Contains(strings.Join(names, " "), stale) {
		t.Errorf("left %v", names)
	}
	_, err := os.Stat(w.s.dir.Name())
	assert.NoError(t, err)
}

// A store may have any name that its file system takes.
func TestLongName(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{
		strings.Repeat("a", 234), strings.Repeat("b", 255),
		strings.Repeat("ü", 127),
	} {
		assert.NoError(t, dense().Write(filepath.Join(parent, name)))
		f, err := CreateFolder(parent, name)
		require.NoError(t, err)
		assert.NoError(t, f.Abort())
	}
	assert.Refused(t, dense().Write(filepath.Join(parent, strings.Repeat("c", 256))), "name too long")
	assert.Len(t, left(t, parent), 3, "left")
}

func TestStoreMadeMeanwhile(t *testing.T) {
	parent := t.TempDir()
	store := filepath.Join(parent, "store")
	w := oneVertex(t, store)
	require.NoError(t, dense().Write(store))
	assert.Refused(t, w.Close(), "another process made it meanwhile")
	assert.Equal(t, []string{"store"}, left(t, parent))
}

func TestLastByteOfAStore(t *testing.T) {
	// the features are larger than all other files, and smaller than a buffer
	const vertices, columns = 100, 50
	g := &Graph{
		Types: []VertexType{{
			Frame: Frame{
				Count:    vertices,
				Features: Features{Columns: columns, Dense: make([]float32, vertices*columns)},
			},
		}},
		Relations: []Relation{{Indptr: make([]int64, vertices+1)}},
	}
	fulldisk.LastByte(t, func(dir string) error { return g.Write(filepath.Join(dir, "store")) })
}
