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
	w := &worker.Worker{Config: worker.Config{Resolved: r}, Groups: mesh.One.Join(comm.Alone())}
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
		require.NoError(t, s.save(&of.progress, asks, false))
	}
}

// TestWhatAHistoryBelongsTo: a history is that of these chunks and slices, or with a late halo of these
// partitions. A run without a history has none.
func TestWhatAHistoryBelongsTo(t *testing.T) {
	type division struct {
		worker.Config
		partitions string
	}
	for name, base := range map[string]func() division{
		"chunks": func() division {
			return division{
				worker.Config{
					Resolved: &setting.Resolved{Mesh: mesh.Mesh{Stages: 2, Partitions: 2, Slices: 2}},
					ChunkOf:  []int32{0, 1, 1, 0},
				}, "metis",
			}
		},
		"a late halo": func() division {
			c := worker.Config{
				Resolved: &setting.Resolved{Mesh: mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}},
			}
			c.HaloDelay = 1
			return division{c, "metis"}
		},
	} {
		first := base()
		was := chunksOf(&first.Config, first.partitions)
		if was == "" {
			t.Errorf("%s: no history", name)
		}
		for what, c := range map[string]struct {
			change func(d *division)
			of     string // the only one that it changes; "": both
		}{
			"partitions of another kind": {func(d *division) { d.partitions = "range" }, ""},
			"more partitions":            {func(d *division) { d.Mesh.Partitions = 3 }, ""},
			"a vertex in another chunk":  {func(d *division) { d.ChunkOf = []int32{0, 1, 0, 0} }, "chunks"},
			"more chunks":                {func(d *division) { d.ChunkOf = []int32{0, 1, 2, 0} }, "chunks"},
			"more slices":                {func(d *division) { d.Mesh.Slices++ }, "chunks"},
			"no slices":                  {func(d *division) { d.Mesh.Slices = 1 }, "chunks"},
			"another seed":               {func(d *division) { d.Seed++ }, "none"},
			"more stages":                {func(d *division) { d.Mesh.Stages++ }, "none"},
		} {
			d := base()
			c.change(&d)
			if changed := chunksOf(&d.Config, d.partitions) != was; changed != (c.of == "" || c.of == name) {
				t.Errorf("%s, %s: another division: %v", name, what, changed)
			}
		}
	}
	alone := worker.Config{
		Resolved: &setting.Resolved{Mesh: mesh.Mesh{Stages: 2, Partitions: 1, Slices: 1}},
		ChunkOf:  []int32{0, 0},
	}
	assert.Equal(t, "", chunksOf(&alone, ""), "one chunk has the history")
}
