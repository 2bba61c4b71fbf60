package checkpoint

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestDamagedManifest: whichever bit of a manifest is flipped, the checkpoint is refused, or its files and
// what the run keeps are those of before.
func TestDamagedManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	folder, err := OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	file, err := folder.Write(7, 0, []Array{{Name: "w", Shape: []int{2}, Floats: []float32{1, 2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Commit(7, []File{file}, map[string]int{"seed": 3}); err != nil {
		t.Fatal(err)
	}
	whole, err := Read(path, 7)
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(whole.Path, manifestFile)
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(text) {
		text[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(manifest, text, 0o666); err != nil {
			t.Fatal(err)
		}
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
