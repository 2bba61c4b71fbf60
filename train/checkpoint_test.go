package train

import (
	"testing"
	"time"

	"weft/comm"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/mesh"
	"weft/train/setting"
	"weft/train/worker"
)

// TestOverdueCheckpoint: a checkpoint that is due while the last one is still being written comes at the end
// of the first epoch after that, and not when the next one is due.
func TestOverdueCheckpoint(t *testing.T) {
	o := Defaults()
	o.Epochs, o.CheckpointEvery = 90, setting.Interval{Epochs: 10}
	r, err := o.Resolve()
	require.NoError(t, err)
	w := &worker.Worker{Config: worker.Config{Resolved: r}, Groups: mesh.Groups{World: comm.Alone()}}
	s := &saver{
		Checkpoints: &Checkpoints{}, w: w, last: time.Now(),
		writing: &writing{epoch: 10, done: make(chan struct{})},
	}
	of := newState(&o, time.Time{}, "accuracy")
	for _, c := range []struct {
		epoch   int
		written bool
		want    worker.Asks
	}{
		{11, false, worker.Writing},
		{20, false, worker.Writing | worker.Save},
		{21, false, worker.Writing | worker.Save},
		{22, true, worker.Save},
	} {
		if c.written {
			close(s.writing.done)
		}
		of.epoch = c.epoch
		asks := s.asks(of.epoch)
		assert.Equal(t, c.want, asks, "epoch %d asks", c.epoch)
		if c.written {
			break // what follows writes it
		}
		require.NoError(t, s.save(of, asks))
	}
}
