package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weft/checkpoint"
	"weft/comm/launch"
	"weft/graph/columns"
	"weft/train/setting"
	"weft/train/worker"
)

// saver writes the checkpoints of a run on one worker. Its methods do nothing on nil. All workers call save
// and settle together.
type saver struct {
	*Checkpoints
	w       *worker.Worker
	columns columns.ByType // columns of the record
	// above is the parent folder of Path as it is when the run begins; nil: this rank cannot open it.
	above    *os.Root
	folder   *checkpoint.Folder // nil until something is written
	snapshot checkpoint.Snapshot
	store    string // the store's checksum, once it is known
	last     time.Time
	totals   CheckpointTotals // on worker 0
	late     bool             // a checkpoint is due since, while the last one was still being written
	writing  *writing         // nil: nothing is being written
}

// writing is this worker's file of a checkpoint, while it is written.
type writing struct {
	epoch  int
	needs  int64   // bytes of the disk for all workers' files and the results
	record *Record // on worker 0
	begun  time.Time
	done   chan struct{} // closed once file and err are set
	file   checkpoint.File
	err    error
}

// newSaver makes a worker's saver. It is nil if there are to be no checkpoints.
func newSaver(c *Checkpoints, w *worker.Worker, columns columns.ByType) *saver {
	if c == nil || w.CheckpointEvery == (setting.Interval{}) {
		return nil
	}
	s := &saver{Checkpoints: c, w: w, columns: columns, last: time.Now()}
	// If this fails, the first checkpoint fails, too, and says why.
	s.above, _ = os.OpenRoot(filepath.Dir(c.Path))
	return s
}

// close waits until nothing is being written any more. It removes a checkpoint that is not committed.
func (s *saver) close() error {
	if s == nil {
		return nil
	}
	if s.writing != nil {
		<-s.writing.done
	}
	if s.above != nil {
		_ = s.above.Close() // nothing was written through this descriptor
	}
	if s.folder == nil {
		return nil
	}
	var failed error
	// Each rank does so after its own part is written, so that the last one leaves nothing.
	if s.writing != nil {
		failed = s.folder.Abandon(s.writing.epoch)
	}
	return errors.Join(failed, s.folder.Close())
}

// write writes this worker's file.
func (s *saver) write(p *writing, arrays []checkpoint.Array, metadata map[string]string) (err error) {
	if s.folder == nil {
		if s.above != nil {
			s.folder, err = checkpoint.OpenFolderIn(s.above, s.Path)
		} else {
			s.folder, err = checkpoint.OpenFolder(s.Path)
		}
		if err != nil {
			return fmt.Errorf("%w; the machines of all workers need the folder of the run, on a shared "+
				"file system", err)
		}
	}
	if err := s.folder.CheckRoom(p.needs); err != nil {
		return err
	}
	if p.file, err = s.folder.Write(p.epoch, s.w.Groups.World.Rank(), arrays, metadata); err != nil ||
		p.record == nil {
		return err
	}
	if s.store == "" && s.Store != nil {
		s.store, err = s.Store()
	}
	p.record.Store = s.store
	return err
}

// arrays are the arrays of a checkpoint that this worker writes.
func (s *saver) arrays(run *progress) []checkpoint.Array {
	return s.w.Mine(append(s.w.Arrays(), s.w.Params.ArraysOf(&run.best.weights)...))
}

// allocate allocates the snapshot, unless the run ends with this epoch, or its contents may rest on disk.
func (s *saver) allocate(run *progress) {
	if s != nil && run.epoch < s.w.Epochs && s.w.Offload == "" {
		s.snapshot.Allocate(s.w.Team.Memory, checkpoint.Size(s.arrays(run)))
	}
}

// release releases the snapshot.
func (s *saver) release() {
	if s != nil {
		s.snapshot.Release()
	}
}

// asks is what this worker asks of all workers at the end of an epoch.
func (s *saver) asks(epoch int) (asks worker.Asks) {
	if s == nil {
		return 0
	}
	if s.w.Ranks().First() && (s.late || s.w.CheckpointEvery.Due(epoch, time.Since(s.last))) {
		asks |= worker.Save
	}
	return asks | s.busy()
}

// lasts is how long the last checkpoint took, on worker 0.
func (s *saver) lasts() time.Duration {
	if s == nil {
		return 0
	}
	return time.Duration(s.totals.WriteSeconds * float64(time.Second))
}

// busy is worker.Writing while this worker writes.
func (s *saver) busy() worker.Asks {
	if s.writing != nil {
		select {
		case <-s.writing.done:
		default:
			return worker.Writing
		}
	}
	return 0
}

// save ends the writing of the last checkpoint, and begins a checkpoint of this epoch if it is asked for. It
// writes beside the next epoch, from a snapshot. If the last checkpoint is still being written, it begins
// after a later epoch. At the end of a run it always writes one and waits for it, so that more epochs can
// continue from there.
func (s *saver) save(run *progress, asked worker.Asks, end bool) error {
	if s == nil {
		return nil
	}
	if asked&worker.Writing == 0 {
		if err := s.commit(); err != nil {
			return err
		}
	}
	switch {
	case asked&worker.Save == 0 && !end:
		return nil
	case end:
		if err := s.settle(); err != nil {
			return err
		}
		if err := s.begin(run, func() []checkpoint.Array { return s.arrays(run) }); err != nil {
			return err
		}
		return s.settle()
	case s.writing != nil:
		s.late = true
		return nil
	}
	s.late = false
	return s.begin(run, func() []checkpoint.Array {
		if s.w.Offload != "" {
			return s.arrays(run)
		}
		return s.snapshot.Take(s.w.Team.Memory, s.arrays(run))
	})
}

// begin begins to write. Arrays that may rest on disk are written when it returns, because they are in memory
// only in the turn of this worker.
func (s *saver) begin(run *progress, take func() []checkpoint.Array) error {
	w := s.w
	metadata, err := w.Figures(s.snapshot.Bytes())
	if err != nil {
		return err
	}
	bytes := []int64{checkpoint.Size(s.arrays(run))}
	if err := w.Groups.World.SumInts(bytes); err != nil {
		return err
	}
	elements := checkpoint.Elements
	if w.Offload == setting.RAM {
		elements = checkpoint.Copies
	}
	arrays := elements(take()) // others have had their turns: this panics if the disk fails
	s.last = time.Now()
	p := &writing{epoch: run.epoch, needs: s.KeepFree + bytes[0], begun: s.last, done: make(chan struct{})}
	if w.Ranks().First() {
		p.record = &Record{
			Weft: s.Version, Settings: w.Texts(), Seed: w.Seed, Mesh: w.Mesh, Partition: s.Partition,
			Chunks: chunksOf(&w.Config, s.Partition), Columns: s.columns, Curve: slices.Clone(run.curve),
			Best: run.best.record(),
		}
		if w.Init != "" {
			p.record.Standard = w.Standard
		}
		if w.ChunkOf != nil && p.record.Chunks != "" { // the chunks are the same for any number of stages
			p.record.Settings["chunks"] = fmt.Sprint(w.Stage.Count * w.Mesh.Partitions)
		}
	}
	s.writing = p
	write := func() {
		defer close(p.done)
		defer func() {
			if fault := recover(); fault != nil {
				p.err = launch.Recovered(fault, "")
			}
		}()
		p.err = s.write(p, arrays, metadata)
	}
	if w.Offload != "" {
		write()
	} else {
		go write()
	}
	return nil
}

// settle waits until all workers have written, and ends the writing.
func (s *saver) settle() error {
	if s == nil || s.writing == nil {
		return nil
	}
	err := s.w.Ranks().Each(func() error {
		<-s.writing.done
		return nil
	})
	if err != nil {
		return err
	}
	return s.commit()
}

// commit makes whole the checkpoint that all workers have written.
func (s *saver) commit() error {
	p := s.writing
	if p == nil {
		return nil
	}
	s.writing = nil
	type part struct {
		File checkpoint.File
		Err  string
	}
	local := part{File: p.file}
	if p.err != nil {
		local.Err = p.err.Error()
	}
	parts, err := worker.ToFirst(s.w.Groups.World, local)
	if err != nil {
		return err
	}
	return s.w.Ranks().OnFirst(func() error {
		saved := Saved{Epoch: p.epoch}
		var files []checkpoint.File
		for rank, written := range parts {
			files = append(files, written.File)
			saved.Bytes = saved.Bytes + written.File.Bytes
			if written.Err != "" && saved.Err == nil {
				saved.Err = fmt.Errorf("worker %d: %s", rank, written.Err)
			}
		}
		if saved.Err == nil {
			saved.Err = s.folder.Commit(p.epoch, files, p.record)
		}
		if saved.Err != nil && s.folder != nil {
			saved.Err = errors.Join(saved.Err, s.folder.Abandon(p.epoch))
		}
		saved.Seconds = time.Since(p.begun).Seconds()
		if saved.Err == nil {
			s.totals.Written, s.totals.Bytes, s.totals.WriteSeconds = s.totals.Written+1,
				saved.Bytes, saved.Seconds
		}
		if s.OnSaved != nil {
			s.OnSaved(saved)
		}
		return nil
	})
}
