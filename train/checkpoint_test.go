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
	w := &worker.Worker{}
	w.Resolved, w.Groups = r, mesh.One.Join(comm.Alone())
	s := &saver{
		Checkpoints: &Checkpoints{}, w: w, last: time.Now(),
		writing: &writing{epoch: 10, done: make(chan struct{})},
	}
	current := newState(&o, time.Time{}, "accuracy")
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
		current.epoch = c.epoch
		asks := s.asks(current.epoch)
		assert.Equal(t, c.want, asks, "epoch %d asks", c.epoch)
		if c.written {
			break // what follows writes it
		}
		require.NoError(t, s.save(&current.progress, asks, false))
	}
}

// TestWhatAHistoryBelongsTo: a history is that of these partitions, chunks and slices. A run without a
// history has none.
func TestWhatAHistoryBelongsTo(t *testing.T) {
	type division struct {
		worker.Config
		partitions string
	}
	base := func() *division {
		return &division{
			worker.Config{
				Resolved: &setting.Resolved{Meshes: setting.Meshes{
					Mesh: mesh.Mesh{Stages: 2, Partitions: 2, Slices: 2},
				}},
				ChunkOf: []int32{0, 1, 1, 0},
			}, "metis",
		}
	}
	was := chunksOf(&base().Config, "metis")
	if was == "" {
		t.Error("no history")
	}
	for what, c := range map[string]struct {
		change  func(d *division)
		another bool
	}{
		"partitions of another kind": {func(d *division) { d.partitions = "range" }, true},
		"more partitions":            {func(d *division) { d.Mesh.Partitions = 3 }, true},
		"a vertex in another chunk":  {func(d *division) { d.ChunkOf = []int32{0, 1, 0, 0} }, true},
		"more chunks":                {func(d *division) { d.ChunkOf = []int32{0, 1, 2, 0} }, true},
		"more slices":                {func(d *division) { d.Mesh.Slices++ }, true},
		"no slices":                  {func(d *division) { d.Mesh.Slices = 1 }, true},
		"another seed":               {func(d *division) { d.Seed++ }, false},
		"more stages":                {func(d *division) { d.Mesh.Stages++ }, false},
	} {
		d := base()
		c.change(d)
		assert.Equal(t, c.another, chunksOf(&d.Config, d.partitions) != was, what)
	}
	alone := worker.Config{
		Resolved: &setting.Resolved{Meshes: setting.Meshes{
			Mesh: mesh.Mesh{Stages: 2, Partitions: 1, Slices: 1},
		}},
		ChunkOf: []int32{0, 0},
	}
	assert.Equal(t, "", chunksOf(&alone, ""), "one chunk has the history")
}
