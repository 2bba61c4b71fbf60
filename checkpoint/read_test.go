package checkpoint

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"weft/internal/require"
)

// TestDamagedManifest: whichever bit of a manifest is flipped, the checkpoint is refused, or its files and
// Run are unchanged.
func TestDamagedManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	folder, err := OpenFolder(path)
	require.NoError(t, err)
	defer folder.Close()
	file, err := folder.Write(7, 0, []Array{{Name: "w", Shape: []int{2}, Floats: []float32{1, 2}}}, nil)
	require.NoError(t, err)
	require.NoError(t, folder.Commit(7, []File{file}, map[string]int{"seed": 3}))
	whole, err := Read(path, 7)
	require.NoError(t, err)
	manifest := filepath.Join(whole.Path, manifestFile)
	text, err := os.ReadFile(manifest)
	require.NoError(t, err)
	for bit := range 8 * len(text) {
		text[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(manifest, text, 0o666))
		c, err := Read(path, 7)
		if err == nil {
			err = c.Verify(0, 1)
		}
		if err == nil && !reflect.DeepEqual(c, whole) {
			t.Errorf("bit %d of byte %d: %s is taken for the manifest", bit%8, bit/8, text)
		}
		text[bit/8] ^= 1 << (bit % 8)
	}
}
