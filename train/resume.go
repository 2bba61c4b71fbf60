package train

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"weft/checkpoint"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/train/setting"
	"weft/train/worker"
)

// resume makes the run continue from the checkpoint, if there is one. It calls told on worker 0 with the
// epochs that are done. All runs with checkpoints allocate the memory of the best weights and the snapshot
// here, so that a run that continues needs no more than another. Runs that have nothing to keep before the
// second epoch do so, too: that epoch then takes no more than the third.
func (s *state) resume(c *Checkpoints, w *worker.Worker, told func([]Epoch) error) error {
	if c != nil || s.reads {
		w.Params.Save(&s.best.weights)
	}
	if c == nil {
		return nil
	}
	s.saver.allocate(&s.progress)
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
	s.done = len(s.finished())
	return w.Ranks().OnFirst(func() error {
		if told == nil {
			return nil
		}
		return told(s.finished())
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
		e := &s.curve[i]
		e.Epochs, e.Metric = w.Epochs, w.Task.Metric()
		if e.Evaluated {
			w.Rate.Observe(e.Epoch, s.best.measure(e))
		}
	}
	alike := r.Mesh == w.Mesh && r.Partition == c.Partition &&
		setting.Device(r.Settings["device"]).IsCard() == w.OnCard()
	snapshot, err := w.Restore(c.From, alike)
	if err != nil {
		return err
	}
	if s.saver != nil && snapshot > 0 {
		s.saver.snapshot.Allocate(w.Team.Memory, snapshot)
	}
	return c.From.Load(w.Params.ArraysOf(&s.best.weights))
}

// OpenLast opens the last checkpoint in a folder that no rank finds damaged; nil: there is none. It calls
// passed on rank 0 with the reason for each checkpoint that it leaves out. It fails if a rank cannot read
// what is there. All ranks call it together.
func OpenLast(ranks launch.Ranks, path string, passed func(error)) (*checkpoint.Checkpoint, error) {
	var epochs []int
	err := ranks.OnFirst(func() (err error) {
		epochs, err = checkpoint.Epochs(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	epochs, err = worker.FromFirst(ranks.Comm, epochs)
	if err != nil {
		return nil, err
	}
	for _, epoch := range epochs {
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

// openWhole opens a checkpoint once the ranks have read and compared all its bytes, which they divide among
// them. It refuses a damaged checkpoint. All ranks call it together.
func openWhole(ranks launch.Ranks, path string, epoch int) (c *checkpoint.Checkpoint, err error) {
	err = ranks.Each(func() (err error) {
		if c, err = checkpoint.Read(path, epoch); err == nil && ranks.First() {
			// If even rank 0 does not find a file, the checkpoint is damaged: the file is not on another
			// machine.
			_, _, err = c.Size()
		}
		if err == nil {
			err = c.Verify(ranks.Rank(), ranks.Comm.Size())
		}
		return damaged(ranks, err)
	})
	if err == nil {
		err = ranks.Together(damaged(ranks, c.Open()))
	}
	return c, err
}

// damaged makes an error of reading a checkpoint a refusal if the checkpoint is damaged. It leaves other
// errors.
func damaged(ranks launch.Ranks, err error) error {
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && ranks.First():
		return refusal.Damaged("%w; the checkpoint is damaged", err)
	case missing:
		return fmt.Errorf("%v; the machines of all workers need the folder of the run, on a shared file system", err) //nolint:errorlint // no refusal any more
	case errors.Is(err, syscall.EIO): // the disk lost it
	case errors.As(err, new(syscall.Errno)): // such as a missing permission: another attempt may read it
		return fmt.Errorf("%v; mend that, or remove the checkpoint to continue from the one before", err) //nolint:errorlint // no refusal any more
	}
	return err
}
