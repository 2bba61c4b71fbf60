package checkpoint

import (
	"errors"
	"path/filepath"
	"testing"

	"weft/internal/fulldisk"
)

func TestLastByteOfAPart(t *testing.T) {
	fulldisk.LastByte(t, func(dir string) error {
		f, err := OpenFolder(filepath.Join(dir, "checkpoints"))
		if err != nil {
			return err
		}
		_, err = f.Write(1, 0, []Array{{Name: "m", Shape: []int{2}, Floats: []float32{1, 2}}}, nil)
		return errors.Join(err, f.Close())
	})
}
