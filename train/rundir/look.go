package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weft/checkpoint"
	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/train"
	"weft/train/metric"
	"weft/train/setting"
)

// Standing is the state of a run, as its directory tells it: the JSON object of `weft inspect RUN --json`.
type Standing struct {
	RunDir   string      `json:"run_dir"`
	Status   Status      `json:"status"`
	Reason   string      `json:"reason,omitempty"` // why the run ended, for people
	Ended    train.Ended `json:"ended,omitempty"`  // why the run ended, for programs; "" without results
	Started  time.Time   `json:"started"`          // when it began, or last continued
	Updated  time.Time   `json:"updated,omitzero"` // when metrics.jsonl last changed
	Weft     string      `json:"weft"`
	Hostname string      `json:"host,omitempty"` // of worker 0
	PID      int         `json:"pid,omitempty"`
	Dataset  string      `json:"dataset"`
	Store    string      `json:"store"`
	Task     string      `json:"task"`
	Model    string      `json:"model"`
	Parallel string      `json:"parallel"`

	EpochsRun      int    `json:"epochs_run"`
	Epochs         int    `json:"epochs"`
	BestEpoch      int    `json:"best_epoch"` // so far; 0: none
	Metric         string `json:"metric"`
	metric.Numbers        // at the best epoch

	Checkpoint *LastCheckpoint `json:"checkpoint"`        // nil: none
	Damaged    []string        `json:"damaged,omitempty"` // what is wrong with files of the run
	// Resumable says that the run has a state.json, which runs of earlier versions lack.
	Resumable bool `json:"-"`

	options setting.Options
	results *Run // nil: there are none that can be read
}

// LastCheckpoint is the last checkpoint of a run whose files have their sizes.
type LastCheckpoint struct {
	Epoch   int       `json:"epoch"`
	Bytes   int64     `json:"bytes"`
	Written time.Time `json:"written"`
	Path    string    `json:"path"`
}

// Is reports whether a folder holds a run, whole or in part.
func Is(dir string) bool {
	return slices.ContainsFunc([]string{stateFile, runFile, metricsFile}, func(name string) bool {
		info, err := os.Lstat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	})
}

// Begun reports whether a folder holds a run that has a state, in state.json or in a checkpoint.
func Begun(dir string) bool {
	if isThere(dir, stateFile) {
		return true
	}
	_, found := stateOfCheckpoint(dir)
	return found
}

// Graphs are the paths of the graphs on which the run in a folder was trained and validated. They come from
// its state or, if that cannot be read, from its results. There are none if the folder has neither.
func Graphs(dir string) ([]string, error) {
	s, err := ReadState(dir)
	if err != nil {
		state, unread := stateOfResults(dir)
		switch {
		case unread == nil:
			s = state
		case !isThere(dir, stateFile) && !isThere(dir, runFile):
			return nil, nil
		default:
			return nil, err
		}
	}
	return slices.DeleteFunc([]string{s.Store, s.Settings["validate"]}, func(path string) bool {
		return path == ""
	}), nil
}

// isThere reports whether a folder has an entry of that name.
func isThere(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Look reads the state of the run in a directory. It changes nothing, and the run may be under way.
func Look(dir string) (*Standing, error) {
	state, err := lookState(dir)
	resumable := isThere(dir, stateFile)
	if !resumable {
		state, err = stateOfResults(dir)
	}
	if err != nil {
		return nil, err
	}
	o, err := setting.FromTexts(state.Settings)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", dir, err)
	}
	s := &Standing{
		RunDir: dir, Status: state.Status, Reason: state.Reason, Started: state.Started, Weft: state.Weft,
		Dataset: state.Dataset, Store: state.Store,
		Task: o.Task, Model: o.Model, Parallel: o.Parallel, Epochs: o.Epochs, Metric: state.Metric,
		Resumable: resumable, options: o,
	}
	if s.Status == Running || s.Status == Killed {
		s.Hostname, s.PID = state.Hostname, state.PID
	}
	s.lookCurve()
	s.lookResults()
	s.lookCheckpoints()
	return s, nil
}

// lookState reads the state of a run, and finds out whether the run was killed.
func lookState(dir string) (s State, err error) {
	for range 2 { // a run that ends meanwhile writes its state first, and then gives up the lock
		if s, err = ReadState(dir); err != nil || s.Status != Running {
			return s, err
		}
		if is, err := isLocked(dir); is || err != nil {
			return s, nil //nolint:nilerr // if nobody can tell, the run's own word counts
		}
	}
	s.Status = Killed
	// A run that was killed while it ended has a record, which tells.
	if _, err := os.Lstat(filepath.Join(dir, runFile)); err == nil {
		if run, _, _, err := Read(dir); err == nil {
			s.Status = run.status()
			s.Reason = run.Reason
		}
	}
	return s, nil
}

// stateOfResults is the state of a run that has a run.json and no state.json, as runs of earlier versions.
func stateOfResults(dir string) (s State, err error) {
	run, o, _, err := Read(dir)
	return State{
		Weft: run.Versions.Weft, Started: run.Started, Dataset: run.Summary.Dataset, Store: run.Store,
		Settings: o.Texts(), Metric: run.Summary.Metric,
		Status: run.status(), Reason: run.Reason,
	}, err
}

// status is the status of a run with results.
func (r *Run) status() Status {
	switch {
	case r.Interrupted:
		return Interrupted
	case r.Diverged:
		return Failed
	}
	return Finished
}

// lookCurve reads metrics.jsonl.
func (s *Standing) lookCurve() {
	path := filepath.Join(s.RunDir, metricsFile)
	curve, changed, err := readCurve(path)
	if err != nil {
		s.Damaged = append(s.Damaged, err.Error())
	}
	s.Updated = changed
	if n := len(curve); n > 0 {
		s.EpochsRun = curve[n-1].Epoch
	}
	best := train.BestOf(curve, &s.options, s.Metric)
	if best.Epoch == 0 {
		best.Scores = metric.Unmeasured()
	}
	s.BestEpoch, s.Numbers = best.Epoch, best.Numbers()
}

// ReadCurve reads the epochs of a run from metrics.jsonl.
func ReadCurve(dir string) ([]train.Epoch, error) {
	curve, _, err := readCurve(filepath.Join(dir, metricsFile))
	return curve, err
}

// readCurve reads the lines of metrics.jsonl, and when it last changed. It leaves out a last line that is not
// ended: the run is writing it, or was killed while it did.
func readCurve(path string) (curve []train.Epoch, changed time.Time, err error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, changed, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, changed, err
	}
	if curve, err = DecodeCurve(f); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return curve, info.ModTime(), err
}

// lookResults reads run.json, if the run has results.
func (s *Standing) lookResults() {
	run, o, _, err := Read(s.RunDir)
	path := filepath.Join(s.RunDir, runFile)
	if _, missing := os.Lstat(path); errors.Is(missing, fs.ErrNotExist) {
		if s.Status == Finished {
			s.Damaged = append(s.Damaged, path+": is missing, though the run has ended; restore it, or "+
				"train again in another folder")
		}
		return
	}
	if err != nil {
		s.Damaged = append(s.Damaged, err.Error())
		return
	}
	r := &run.Summary
	s.options, s.results = o, &run
	s.Ended, s.EpochsRun, s.BestEpoch, s.Metric = run.Ended, r.EpochsRun, r.BestEpoch, r.Metric
	s.Numbers = r.Numbers
}

// lookCheckpoints finds the last checkpoint.
func (s *Standing) lookCheckpoints() {
	folder := filepath.Join(s.RunDir, Checkpoints)
	epochs, err := checkpoint.Epochs(folder)
	if err != nil {
		s.Damaged = append(s.Damaged, err.Error())
	}
	for _, epoch := range epochs {
		last := LastCheckpoint{Epoch: epoch}
		c, err := checkpoint.Read(folder, epoch)
		if err == nil {
			last.Path = c.Path
			last.Bytes, last.Written, err = c.Size()
		}
		if err == nil {
			s.Checkpoint = &last
			return
		}
		// Otherwise the run has removed it meanwhile.
		if now, unread := checkpoint.Epochs(folder); unread != nil || slices.Contains(now, epoch) {
			s.Damaged = append(s.Damaged, err.Error())
		}
	}
}
