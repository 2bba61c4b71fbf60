package train

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"weft/checkpoint"
	"weft/comm"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/worker"
)

// Checkpoints say where a run keeps its state, and where it continues from.
type Checkpoints struct {
	Path string // the folder, the same for all processes
	// From is the checkpoint that the run continues from, opened. nil: the run begins.
	From    *checkpoint.Checkpoint
	Version string // of the program
	// Store returns a checksum of the graph. It is called on worker 0, beside the training, until it has
	// succeeded. nil: "".
	Store     func() (string, error)
	Partition string // identifies the graph's division into partitions, "" for one
	// Spare is the number of bytes of the disk that results need: a checkpoint leaves them.
	Spare int64
	// OnSaved is called on worker 0 with each checkpoint that was written, or failed. It may be nil.
	OnSaved func(Saved)
}

// Saved is a checkpoint that was written, or failed. The run goes on.
type Saved struct {
	Epoch   int
	Bytes   int64
	Seconds float64 // from the epoch's end until the files are on disk
	Err     error
}

// CheckpointTotals are what the checkpoints of a run took.
type CheckpointTotals struct {
	Written      int     `json:"written"`
	Bytes        int64   `json:"bytes"`         // of the last one
	WriteSeconds float64 `json:"write_seconds"` // of the last one, beside the training until it is on disk
	ReadSeconds  float64 `json:"read_seconds"`  // before the first epoch; 0: the run began
}

// Record is what a checkpoint holds of a run besides arrays.
type Record struct {
	Weft      string            `json:"weft"`
	Settings  map[string]string `json:"settings"`
	Seed      uint64            `json:"seed"`
	Mesh      mesh.Mesh         `json:"mesh"`
	Store     string            `json:"store"`     // checksum
	Partition string            `json:"partition"` // id
	// Chunks identifies the chunks that a history belongs to. It is "" where there is no history.
	Chunks string     `json:"chunks,omitempty"`
	Curve  []Epoch    `json:"curve"`
	Best   bestRecord `json:"best"`
}

// bestRecord is best without its weights and settings.
type bestRecord struct {
	Epoch   int           `json:"epoch"`
	Train   metric.Number `json:"train"`
	Val     metric.Number `json:"val"`
	Test    metric.Number `json:"test"`
	ValLoss metric.Number `json:"val_loss"`
	Lowest  metric.Number `json:"lowest_val_loss"`
	Since   int           `json:"progress"` // the epoch of the last progress
	Seen    int           `json:"evaluated"`
}

func (b *best) record() bestRecord {
	s := &b.scores
	return bestRecord{
		b.epoch, metric.Number(s.Train), metric.Number(s.Val), metric.Number(s.Test), metric.Number(s.ValLoss), metric.Number(b.lowest), b.since, b.seen,
	}
}

func (b *best) restore(r bestRecord) {
	b.epoch, b.lowest, b.since, b.seen = r.Epoch, float64(r.Lowest), r.Since, r.Seen
	b.scores.Train, b.scores.Val, b.scores.Test, b.scores.ValLoss = float64(r.Train), float64(r.Val), float64(r.Test), float64(r.ValLoss)
}

// chunksOf identifies the chunks of a mesh, "" if no chunk reads of another.
func chunksOf(c *worker.Config, partitions string) string {
	chunks := 0
	for _, k := range c.ChunkOf {
		chunks = max(chunks, int(k)+1)
	}
	if chunks <= 1 {
		return ""
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	return fmt.Sprintf("%d of %d %08x %s", chunks, c.Mesh.Partitions, crc32.Checksum(comm.Bytes(c.ChunkOf), table), partitions)
}

// check refuses to continue from a checkpoint whose history does not fit the mesh.
func (c *Checkpoints) check(s *shared) error {
	if c == nil || c.From == nil {
		return nil
	}
	var r Record
	if err := c.From.State(&r); err != nil {
		return err
	}
	parallel := refusal.Setting("parallel")
	now := chunksOf(&s.Config, c.Partition)
	switch {
	case now == "" || now == r.Chunks:
		return nil
	case r.Chunks == "":
		return refusal.Errorf("%s %s: the chunks of a pipeline need a history, and %s has none; take %s graph=%d, or one chunk for each partition: %s %d",
			parallel, s.Parallel, c.From.Path, parallel, s.Mesh.Workers(), refusal.Setting("chunks"), s.Mesh.Partitions)
	}
	return refusal.Errorf("%s %s: the history in %s is of other chunks or partitions; take %s %s with any number of stages and the same partitions, or %s graph=%d, which needs no history",
		parallel, s.Parallel, c.From.Path, parallel, r.Settings["parallel"], parallel, s.Mesh.Workers())
}

// saver writes the checkpoints of a run on one worker. Its methods do nothing on nil. All workers call save
// and settle together.
type saver struct {
	*Checkpoints
	w        *worker.Worker
	folder   *checkpoint.Folder // nil until something is written
	snapshot checkpoint.Snapshot
	store    string // its checksum, once it is known
	last     time.Time
	totals   CheckpointTotals // on worker 0
	late     bool             // a checkpoint is due since the last one was still being written
	writing  *writing         // nil: nothing is being written
}

// writing is this worker's file of a checkpoint, while it is written.
type writing struct {
	epoch  int
	needs  int64   // bytes of the disk, for all workers' files and the results
	record *Record // on worker 0
	begun  time.Time
	done   chan struct{} // closed once the rest is there
	file   checkpoint.File
	err    error
}

// newSaver makes a worker's saver, nil if there are to be no checkpoints.
func newSaver(c *Checkpoints, w *worker.Worker) *saver {
	if c == nil || w.CheckpointEvery == (setting.Interval{}) {
		return nil
	}
	return &saver{Checkpoints: c, w: w, last: time.Now()}
}

// close waits until nothing is being written any more. It gives up a checkpoint that is not committed.
func (s *saver) close() error {
	if s == nil {
		return nil
	}
	if s.writing != nil {
		<-s.writing.done
	}
	if s.folder == nil {
		return nil
	}
	return s.folder.Close()
}

// write writes this worker's file.
func (s *saver) write(p *writing, arrays []checkpoint.Array, metadata map[string]string) (err error) {
	if s.folder == nil {
		if s.folder, err = checkpoint.OpenFolder(s.Path); err != nil {
			return fmt.Errorf("%w; the machines of all workers need the folder of the run, on a shared file system", err)
		}
	}
	if err := s.folder.CheckRoom(p.needs); err != nil {
		return err
	}
	if p.file, err = s.folder.Write(p.epoch, s.w.Groups.World.Rank(), arrays, metadata); err != nil || p.record == nil {
		return err
	}
	if s.store == "" && s.Store != nil {
		s.store, err = s.Store()
	}
	p.record.Store = s.store
	return err
}

// arrays are this worker's arrays of a checkpoint.
func (s *saver) arrays(of *state) []checkpoint.Array {
	return s.w.Mine(append(s.w.Arrays(), s.w.Params.ArraysOf(&of.best.weights)...))
}

// allocate allocates the snapshot, unless the run ends with this epoch.
func (s *saver) allocate(of *state) {
	if s != nil && of.epoch < s.w.Epochs {
		s.snapshot.Allocate(s.w.Team.Memory, checkpoint.Size(s.arrays(of)))
	}
}

// release releases the snapshot.
func (s *saver) release() {
	if s != nil {
		s.snapshot.Release()
	}
}

// asks is what this worker asks for at the end of an epoch.
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

// save ends the writing of the last checkpoint, and begins one of this epoch, if it is asked for: beside the
// next epoch, from a snapshot, and after a later epoch if the last one is still being written. At the end of
// a run it always writes one, so that more epochs continue from there, and waits for it.
func (s *saver) save(of *state, asked worker.Asks) error {
	if s == nil {
		return nil
	}
	if asked&worker.Writing == 0 {
		if err := s.commit(); err != nil {
			return err
		}
	}
	end := of.ends(s.w) || of.over()
	switch {
	case asked&worker.Save == 0 && !end:
		return nil
	case end:
		if err := s.settle(); err != nil {
			return err
		}
		if err := s.begin(of, s.arrays(of)); err != nil {
			return err
		}
		return s.settle()
	case s.writing != nil:
		s.late = true
		return nil
	}
	s.late = false
	return s.begin(of, s.snapshot.Take(s.w.Team.Memory, s.arrays(of)))
}

// begin begins to write.
func (s *saver) begin(of *state, arrays []checkpoint.Array) error {
	w := s.w
	metadata, err := w.Figures(s.snapshot.Bytes())
	if err != nil {
		return err
	}
	sizes, err := comm.Gather(w.Groups.World, comm.Setup, checkpoint.Size(arrays))
	if err != nil {
		return err
	}
	s.last = time.Now()
	p := &writing{epoch: of.epoch, needs: s.Spare, begun: s.last, done: make(chan struct{})}
	for _, size := range sizes {
		p.needs += size
	}
	if w.Ranks().First() {
		p.record = &Record{
			Weft: s.Version, Settings: w.Texts(), Seed: w.Seed, Mesh: w.Mesh, Partition: s.Partition,
			Chunks: chunksOf(&w.Config, s.Partition), Curve: slices.Clone(of.curve), Best: of.best.record(),
		}
		if p.record.Chunks != "" { // as many for any number of stages
			p.record.Settings["chunks"] = fmt.Sprint(w.Stage.Count * w.Mesh.Partitions)
		}
	}
	s.writing = p
	go func() {
		defer close(p.done)
		defer func() {
			if fault := recover(); fault != nil {
				p.err = launch.Recovered(fault, "")
			}
		}()
		p.err = s.write(p, arrays, metadata)
	}()
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

// commit makes the checkpoint whole that all workers have written.
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
	mine := part{File: p.file}
	if p.err != nil {
		mine.Err = p.err.Error()
	}
	parts, err := worker.Gather(s.w.Groups.World, mine)
	if err != nil {
		return err
	}
	return s.w.Ranks().OnFirst(func() error {
		saved := Saved{Epoch: p.epoch}
		var files []checkpoint.File
		for rank, one := range parts {
			files, saved.Bytes = append(files, one.File), saved.Bytes+one.File.Bytes
			if one.Err != "" && saved.Err == nil {
				saved.Err = fmt.Errorf("worker %d: %s", rank, one.Err)
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
			s.totals.Written, s.totals.Bytes, s.totals.WriteSeconds = s.totals.Written+1, saved.Bytes, saved.Seconds
		}
		if s.OnSaved != nil {
			s.OnSaved(saved)
		}
		return nil
	})
}

// resume makes the run continue from the checkpoint, if it is to. It calls told on worker 0 with the epochs
// that are done. All runs with checkpoints allocate the memory of the best weights and the snapshot here, so
// that one that continues needs no more than another.
func (s *state) resume(c *Checkpoints, w *worker.Worker, told func([]Epoch) error) error {
	if c == nil {
		return nil
	}
	w.Params.Save(&s.best.weights)
	s.saver.allocate(s)
	if c.From != nil {
		begun := time.Now()
		if err := w.Ranks().Each(func() error { return s.restore(c, w) }); err != nil {
			return err
		}
		if s.saver != nil {
			s.saver.totals.ReadSeconds = time.Since(begun).Seconds()
		}
		if err := s.evaluateLast(w); err != nil {
			return err
		}
	}
	return w.Ranks().OnFirst(func() error {
		if told == nil {
			return nil
		}
		return told(s.curve)
	})
}

// restore sets the states of the run and of the worker to those of the checkpoint.
func (s *state) restore(c *Checkpoints, w *worker.Worker) error {
	var r Record
	if err := c.From.State(&r); err != nil {
		return err
	}
	s.epoch, s.curve = c.From.Epoch, r.Curve
	s.best.restore(r.Best)
	for i := range s.curve {
		s.curve[i].Epochs, s.curve[i].Metric = w.Epochs, w.Task.Metric()
	}
	snapshot, err := w.Restore(c.From, r.Mesh == w.Mesh && r.Partition == c.Partition)
	if err != nil {
		return err
	}
	if s.saver != nil && snapshot > 0 {
		s.saver.snapshot.Allocate(w.Team.Memory, snapshot)
	}
	return c.From.Load(w.Params.ArraysOf(&s.best.weights))
}

// OpenLast opens the last checkpoint in a folder that no rank finds damaged; nil: there is none. It calls
// passed on rank 0 with what is wrong with each checkpoint that it passes over. It fails where a rank cannot
// read what is there. All ranks call it together.
func OpenLast(ranks launch.Ranks, path string, passed func(error)) (*checkpoint.Checkpoint, error) {
	var epochs []int
	err := ranks.OnFirst(func() (err error) {
		epochs, err = checkpoint.Epochs(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err := worker.Gather(ranks.Comm, epochs)
	if err != nil {
		return nil, err
	}
	for _, epoch := range all[0] {
		c, err := openWhole(ranks, path, epoch)
		if err == nil {
			return c, nil
		}
		if c != nil {
			if failed := c.Close(); failed != nil {
				return nil, failed
			}
		}
		if !refusal.Is(err) {
			return nil, err
		}
		if ranks.First() {
			passed(err)
		}
	}
	return nil, nil
}

// openWhole opens a checkpoint, once the ranks have read and compared all its bytes. They divide this work.
// It refuses what is damaged. All ranks call it together.
func openWhole(ranks launch.Ranks, path string, epoch int) (c *checkpoint.Checkpoint, err error) {
	err = ranks.Each(func() (err error) {
		if c, err = checkpoint.Read(path, epoch); err == nil {
			err = c.Verify(ranks.Rank(), ranks.Comm.Size())
		}
		return damaged(ranks, err)
	})
	if err == nil {
		err = ranks.Together(damaged(ranks, c.Open()))
	}
	return c, err
}

// damaged makes an error of reading a checkpoint a refusal if the checkpoint is damaged, and only then.
func damaged(ranks launch.Ranks, err error) error {
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && ranks.First():
		return refusal.Errorf("%w; the checkpoint is damaged", err)
	case missing:
		return fmt.Errorf("%v; the machines of all workers need the folder of the run, on a shared file system", err) //nolint:errorlint // no refusal any more
	case errors.Is(err, syscall.EIO): // the disk lost it
	case errors.As(err, new(syscall.Errno)): // such as a missing permission: another attempt may read it
		return fmt.Errorf("%v; mend that, or remove the checkpoint to continue from the one before", err) //nolint:errorlint // no refusal any more
	}
	return err
}
