package tfevents

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weft/internal/fulldisk"
	"weft/internal/require"
)

// The bytes are those that tensorboard 2.21.0 writes of these events: EventFileWriter with an Event of
// wall_time 1.5, and its Summary of step 3.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1, 500_000_000)
	w, err := New(filepath.Join(dir, "new"), now)
	require.NoError(t, err)
	require.NoError(t, w.Write(now, 3, Scalar{"loss/train", .25}, Scalar{"lr", 2}))
	require.NoError(t, w.Close())
	files, err := filepath.Glob(filepath.Join(dir, "new", "events.out.tfevents.0000000001.*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	got, err := os.ReadFile(files[0])
	require.NoError(t, err)
	want, err := hex.DecodeString(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x\nwant %s", got, golden)
	}
}

const golden = "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c2b00000000000000861bc34b09000000000000f83f10032a1e0a110a0a6c6f73732f747261696e150000803e0a090a026c72150000004038e07bae"

func TestLastByteOfEvents(t *testing.T) {
	fulldisk.LastByte(t, func(dir string) error {
		w, err := New(dir, time.Unix(1, 0))
		if err != nil {
			return err
		}
		return errors.Join(w.Write(time.Unix(2, 0), 3, Scalar{"loss/train", .25}), w.Close())
	})
}
