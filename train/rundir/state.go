package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"weft/checkpoint"
	"weft/internal/refusal"
	"weft/train"
)

const (
	stateFile = "state.json"
	// Checkpoints is the folder of a run directory that holds the checkpoints.
	Checkpoints = "checkpoints"
)

// State is what state.json holds: where a run stands, and what it needs to begin again or to continue.
type State struct {
	Format   int               `json:"format"`
	Weft     string            `json:"weft"`
	Started  time.Time         `json:"started"` // when it began, or last continued
	Dataset  string            `json:"dataset"`
	Store    string            `json:"store"` // absolute path of the graph
	Settings map[string]string `json:"settings"`
	Hostname string            `json:"host"` // of worker 0
	PID      int               `json:"pid"`
	Metric   string            `json:"metric,omitempty"` // the metric of the results, if there are some
	Status   Status            `json:"status"`
	Reason   string            `json:"reason,omitempty"` // why the run ended
	// Lost is why state.json could not be read. The state is then that of the last checkpoint, which names no
	// graph. nil: the state is that of state.json.
	Lost error `json:"-"`
}

// Status is where a run stands.
type Status string

// Where a run stands. A run that was killed also has the Status Running.
const (
	Running     Status = "running"
	Interrupted Status = "interrupted" // it can continue
	Failed      Status = "failed"
	Finished    Status = "finished"
	// Killed is what Look finds. state.json never has it.
	Killed Status = "killed"
)

// LastState is the state of a run that is to continue. If state.json is missing or damaged, the settings come
// from the last checkpoint.
func LastState(dir string) (s State, err error) {
	s, err = ReadState(dir)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return s, err
	}
	if last, found := stateOfCheckpoint(dir); found {
		last.Lost = err
		return last, nil
	}
	return s, err
}

// stateOfCheckpoint is the state of a run by its last checkpoint whose manifest can be read.
func stateOfCheckpoint(dir string) (s State, found bool) {
	folder := filepath.Join(dir, Checkpoints)
	epochs, _ := checkpoint.Epochs(folder) // in a folder that cannot be read there are none
	for _, epoch := range epochs {
		c, err := checkpoint.Read(folder, epoch)
		if err != nil {
			continue
		}
		var record train.Record
		if c.State(&record) == nil {
			return State{Weft: record.Weft, Settings: record.Settings, Status: Running}, true
		}
	}
	return s, false
}

// ReadState reads state.json of a run directory.
func ReadState(dir string) (s State, err error) {
	const remedy = "restore it, or begin a new run in another folder"
	there, err := readJSON(dir, stateFile, 1<<20, &s, remedy)
	if err != nil {
		return s, err
	}
	_, noResults := os.Lstat(filepath.Join(dir, runFile))
	switch {
	case there:
	case noResults == nil:
		return s, refusal.Errorf("%s: the run cannot continue: it has no %s, as those of earlier versions; "+
			"begin a new one in another folder", dir, stateFile)
	case First(dir) != "":
		return s, refusal.Errorf("%s: holds several runs, and is not the directory of one: continue them "+
			"with the command that began them, --out %s and --resume auto", dir, dir)
	default:
		return s, refusal.Errorf("%s: no run to continue: it has no %s; begin one there with weft train", dir,
			stateFile)
	}
	if !slices.Contains([]Status{Running, Interrupted, Failed, Finished}, s.Status) {
		return s, refusal.Damaged("%s: damaged: unknown status %q; %s", filepath.Join(dir, stateFile),
			s.Status, remedy)
	}
	return s, nil
}

// begins is the state of a job's run that begins, or continues, now. store is the path of its graph, "" for a
// graph that was made in memory. Paths are absolute: whoever continues the run may be in another folder.
func begins(job *train.Job, version, store string, now time.Time) State {
	settings := job.Options.Texts()
	if job.Options.OffloadFolder() != "" {
		settings["offload"] = absolute(settings["offload"])
	}
	if _, err := os.Stat(settings["validate"]); err == nil { // otherwise it is a graph that is known by name
		settings["validate"] = absolute(settings["validate"])
	}
	host, _ := os.Hostname() // only people read it
	return State{
		Format: runFormat, Weft: version, Started: now, Dataset: job.Dataset, Store: absolute(store),
		Settings: settings,
		Hostname: host, PID: os.Getpid(), Status: Running,
	}
}

// absolute makes a path absolute; "" stays "".
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil && path != "" {
		return whole
	}
	return path
}

func (d *Dir) writeState() error { return d.writeJSON(stateFile, d.state) }

// Fail records why the run failed.
func (d *Dir) Fail(reason error) error {
	d.state.Status = Failed
	d.state.Reason = reason.Error()
	return d.writeState()
}

// Reopen opens the directory of a run that is not under way. Nothing in it changes before Continue.
func Reopen(path string) (d *Dir, err error) {
	d = &Dir{Path: path, reopened: true}
	if d.root, err = os.OpenRoot(path); err != nil {
		return nil, d.fail(err)
	}
	if there, err := d.root.Lstat(metricsFile); err == nil && !there.Mode().IsRegular() {
		return nil, errors.Join(refusal.Errorf("%s: is not a regular file; remove it, the checkpoint has "+
			"its lines", d.file(metricsFile)), d.root.Close())
	}
	if d.metrics, err = d.root.OpenFile(metricsFile, os.O_RDWR|os.O_CREATE, 0o666); err == nil {
		err = d.check()
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		err = refusal.Errorf("%w; make it and its files writable, or continue a copy of it", err)
	}
	if err != nil {
		d.Discard()
		return nil, d.fail(err)
	}
	if errors.Is(lock(d.metrics), errHeld) {
		d.Discard()
		return nil, refusal.Errorf("%s: %w; wait for its end, or stop it", path, errHeld)
	}
	return d, nil
}

// Continue makes the directory that of a job's run that continues, or begins again, now.
func (d *Dir) Continue(now time.Time, job *train.Job, version, store string) error {
	settings, err := job.Options.On(job.Mesh)
	if err == nil {
		err = errors.Join(d.holdTexts(settings), d.readUnread())
	}
	if err != nil {
		return err
	}
	return d.each(
		func() error { return d.cleanCheckpoints(job) },
		func() error { return d.write(configFile, d.texts[configFile]) },
		func() error {
			before, _ := ReadState(d.Path) // a damaged state is written anew
			d.state = begins(job, version, store, now)
			d.state.Metric = before.Metric
			return d.writeState()
		})
}

// cleanCheckpoints removes checkpoints that the job does not need.
func (d *Dir) cleanCheckpoints(job *train.Job) error {
	if _, err := d.root.Lstat(Checkpoints); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f, err := checkpoint.OpenFolderIn(d.root, d.file(Checkpoints))
	if err != nil {
		return err
	}
	epoch := 0
	if job.Checkpoints != nil && job.Checkpoints.From != nil {
		epoch = job.Checkpoints.From.Epoch
	}
	return errors.Join(f.ContinueFrom(epoch), f.Close())
}

// Resume leaves in metrics.jsonl only the lines of the given epochs, and removes what the run recorded when
// it ended before. It is meant for Job.OnResume.
func (d *Dir) Resume(done []train.Epoch) error {
	for _, name := range []string{runFile, profileFile} {
		if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.fail(err)
		}
	}
	steps := []func() error{
		func() error { return d.metrics.Truncate(0) },
		func() error { _, err := d.metrics.Seek(0, 0); return err },
	}
	for _, e := range done {
		steps = append(steps, func() error { return d.line(e) })
	}
	return d.each(steps...)
}

// whyEnded says to people why a run ended.
func whyEnded(j *train.Job, r *train.Result) string {
	switch r.Ended {
	case train.EndedPatience:
		return fmt.Sprintf("no better for %d epochs", j.Options.Patience)
	case train.EndedSignal:
		return "interrupted by a signal"
	case train.EndedTime:
		return fmt.Sprintf("the time limit of %s", j.Options.MaxTime)
	case train.EndedDiverged:
		return r.Diverged.Error()
	}
	return fmt.Sprintf("all %d epochs are done", r.Epochs)
}
