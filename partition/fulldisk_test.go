package partition

import (
	"path/filepath"
	"testing"

	"weft/internal/fulldisk"
)

func TestLastByteOfAFile(t *testing.T) {
	fulldisk.LastByte(t, func(dir string) error {
		return WriteFile(filepath.Join(dir, "a.part.2"), &Assignment{K: 2, Of: []int32{0, 1, 1, 0}})
	})
}
