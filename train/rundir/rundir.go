// Package rundir is the directory that a run leaves: its settings, a line for each epoch, the weights, the
// predictions, and what it came to.
package rundir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weft/graph/columns"
	"weft/internal/atomicfile"
	"weft/internal/document"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/internal/safetensors"
	"weft/internal/tfevents"
	"weft/kernel"
	"weft/nn"
	"weft/train"
	"weft/train/calibrate"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// The files of a run directory.
const (
	runFile     = "run.json" // written last: a directory without it is not a complete run
	configFile  = "run.yaml"
	metricsFile = "metrics.jsonl"
	// tensors of the model whose program it is that no operation reads; the weights have them, too
	unreadFile = "unread.safetensors"
	// Written first of the results: without the others it is still of use
	weightsFile = setting.WeightsFile
	// Predictions is the array of logits or values, vertices × columns.
	Predictions = "predictions.npy"
)

// Files are the names of the files of a run directory.
func Files() []string {
	return append(setting.KeptNames(), runFile, stateFile, configFile, metricsFile, profileFile, unreadFile,
		weightsFile, Predictions)
}

// Paths are the paths of the files of a run directory.
func Paths(dir string) (paths []string) {
	for _, name := range Files() {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

const (
	runFormat = 1         // the version of run.json
	maxRun    = 256 << 20 // bytes of run.json that are read: the losses and seconds of millions of epochs
)

// Dir is the directory of a run that is under way. What is written goes below the directory that was there
// at the start, and no link in it is followed.
type Dir struct {
	Path    string
	Needs   int64 // bytes that weights and predictions will take; 0: not known
	created bool  // by us: an unused one is removed whole
	root    *os.Root
	metrics *os.File
	state   State
	// reopened is the directory of a run that continues: it stays as it is where that does no work
	reopened bool
	worked   bool     // an epoch has been made since it was made, or reopened
	unread   nn.State // what unread.safetensors held when the run began or continued
	// texts are the files of settings, by their names, which Finish writes again where they have changed
	texts map[string][]byte
}

// New makes the directory of a job's run that starts now, with its configuration in it. An empty out means a
// new folder under runs/, named by time, dataset and model; otherwise out must be new or empty. version is
// that of the program, and store the path of the graph, "" for one that was made in memory.
func New(out string, now time.Time, job *train.Job, version, store string) (*Dir, error) {
	settings, err := job.Options.On(job.Mesh)
	if err != nil {
		return nil, err
	}
	d, err := makeDir(out, now, job.Dataset, job.Options.Model)
	if err != nil {
		return nil, err
	}
	d.state = begins(job, version, store, now)
	if err := d.begin(settings); err != nil {
		d.Discard()
		return nil, d.fail(err)
	}
	return d, nil
}

// holdTexts holds run.yaml and the files that the settings have beside it.
func (d *Dir) holdTexts(settings *setting.Resolved) error {
	config, err := settings.YAML()
	if err != nil {
		return err
	}
	d.texts = map[string][]byte{configFile: config}
	maps.Copy(d.texts, settings.Kept())
	return nil
}

// restoreTexts writes those again that somebody has damaged since: without them the results cannot be read.
func (d *Dir) restoreTexts() error {
	for name, text := range d.texts {
		if now, err := d.root.ReadFile(name); err == nil && bytes.Equal(now, text) {
			continue
		}
		if err := d.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the files that a run has from its start.
func (d *Dir) begin(settings *setting.Resolved) (err error) {
	if d.root, err = os.OpenRoot(d.Path); err != nil {
		return err
	}
	if d.metrics, err = d.claim(); err != nil {
		return err
	}
	if err := d.holdTexts(settings); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.texts)) {
		if err := d.write(name, d.texts[name]); err != nil {
			return err
		}
	}
	if settings.Program.Path != "" && settings.Init != "" {
		if err := d.writeUnread(settings); err != nil {
			return err
		}
	}
	return d.writeState() // last: a directory with it can continue
}

// writeUnread writes what the weights that the run of a program starts from have besides.
func (d *Dir) writeUnread(settings *setting.Resolved) error {
	unread, err := worker.ReadInit(settings.Init)
	if err != nil {
		return err
	}
	settings.Program.Unread(unread)
	for _, name := range worker.OwnNames() { // where they are weights of a run
		delete(unread, name)
	}
	if len(unread) == 0 {
		return nil
	}
	d.unread = unread
	return atomicfile.WriteIn(d.root, unreadFile, func(to io.Writer) error {
		return nn.EncodeState(to, unread)
	})
}

// readUnread reads what writeUnread has written.
func (d *Dir) readUnread() (err error) {
	d.unread, err = nn.ReadState(d.file(unreadFile))
	if errors.Is(err, fs.ErrNotExist) { // there was nothing to write
		return nil
	}
	return refusal.Advise(err, "restore the file, or remove it: the weights of the run then lack what it has")
}

// claim makes metrics.jsonl, and locks it: of two runs that found the same folder empty, the second fails
// here. An empty one that nobody holds is of a run that was killed as it began, and is taken over.
func (d *Dir) claim() (metrics *os.File, err error) {
	metrics, err = d.root.OpenFile(metricsFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	there := errors.Is(err, fs.ErrExist)
	if there {
		metrics, err = d.root.OpenFile(metricsFile, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, err
	}
	// A file system without locks tells nobody that the run is under way, and lets nothing be taken over
	if err := lock(metrics); errors.Is(err, errHeld) || err != nil && there {
		return nil, errors.Join(err, metrics.Close())
	}
	return metrics, nil
}

// write writes a small file.
func (d *Dir) write(name string, text []byte) error {
	return atomicfile.WriteIn(d.root, name, writing(text))
}

// writeJSON writes a file with one JSON object.
func (d *Dir) writeJSON(name string, object any) error {
	return atomicfile.WriteIn(d.root, name, func(w io.Writer) error { return encodeJSON(w, object) })
}

// writing returns what writes a text.
func writing(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

// refuseOut refuses the folder for a run that is given as out.
func refuseOut(out, format string, args ...any) error {
	return refusal.Errorf("--out %s: "+format, append([]any{out}, args...)...)
}

// CheckNew refuses, before any work, a folder that New would refuse. An empty out means a new one under
// runs/.
func CheckNew(out string) error {
	if out == "" {
		out = filepath.Join("runs", "new") // of no name yet
	} else if _, err := os.Lstat(out); err == nil {
		return checkFolder(out)
	}
	for parent := filepath.Dir(out); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if errors.Is(err, fs.ErrNotExist) && parent != filepath.Dir(parent) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err == nil {
			err = unix.Faccessat(unix.AT_FDCWD, parent, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		}
		if err != nil {
			return refuseOut(out, "%s: %s; name another folder", parent, reason(err))
		}
		return nil
	}
}

func makeDir(out string, now time.Time, dataset, model string) (*Dir, error) {
	if out == "" {
		name := now.Format("20060102-150405") + "-" + fileName(dataset) + "-" + fileName(model)
		return makeNamed(filepath.Join("runs", name))
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return nil, refuseOut(out, "%w; name another folder", err)
	}
	err := os.Mkdir(out, 0o777)
	if err == nil {
		return &Dir{Path: out, created: true}, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, refuseOut(out, "%s; name another folder", reason(err))
	}
	if err := checkFolder(out); err != nil {
		return nil, err
	}
	return &Dir{Path: out}, nil
}

// checkFolder refuses a folder, which exists, that is no empty one.
func checkFolder(out string) error {
	all, err := os.ReadDir(out)
	entries := slices.DeleteFunc(slices.Clone(all), leftover)
	if hardlyBegun(entries) {
		entries = nil
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuseOut(out, "a symbolic link to nothing; remove it, or name another folder")
	case err != nil:
		return refuseOut(out, "%s; name another folder", reason(err))
	case isHeld(out):
		return refuseOut(out, "another run is under way in the folder; name a new one")
	case len(entries) > 0 && canContinue(out):
		return refuseOut(out, "the folder holds a run that can continue: weft train --resume %s; or "+
			"name a new folder", out)
	case len(entries) > 0:
		holds := entries[0].Name()
		for _, e := range all {
			if leftover(e) {
				holds += ", and " + e.Name() + " of a run that was killed"
			}
		}
		return refuseOut(out, "the folder is not empty (it holds %s); name a new one", holds)
	}
	return nil
}

// severalFile is in a folder with the directories of several runs: what they came to together.
const severalFile = "seeds.json"

// MakeFolder makes a folder for the directories of several runs, and returns its path, and whether it is new.
// An empty out means a new folder under runs/, as for New. Otherwise out must be new or empty, unless the
// runs in it continue.
func MakeFolder(out string, now time.Time, dataset, model string,
	continues bool,
) (path string, created bool, err error) {
	if out != "" && continues {
		_, missing := os.Lstat(out)
		if err := os.MkdirAll(out, 0o777); err != nil {
			return "", false, refuseOut(out, "%w; name another folder", err)
		}
		return out, missing != nil, nil
	}
	if First(out) != "" {
		return "", false, refuseOut(out, "the folder holds runs; continue them with --resume auto, or name "+
			"a new folder")
	}
	d, err := makeDir(out, now, dataset, model)
	if err != nil {
		return "", false, err
	}
	return d.Path, d.created, nil
}

// First is the directory of a run in a folder, the first by name, and empty if there is none.
func First(folder string) string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if dir := filepath.Join(folder, e.Name()); Is(dir) {
			return dir
		}
	}
	return ""
}

// IsBeside reports whether a file or folder may stand beside the directories of several runs and is none
// itself: what the runs came to, the file of a sweep, event files.
func IsBeside(path string) bool {
	name := filepath.Base(path)
	if name == severalFile || name == sweepFile || strings.HasPrefix(name, tfevents.Prefix) {
		return true
	}
	events, _ := filepath.Glob(filepath.Join(path, tfevents.Prefix+"*")) // a folder with a bracket has none
	return len(events) > 0
}

// WriteSeveral writes what several runs came to together, as JSON, into the folder of their directories.
func WriteSeveral(folder string, text []byte) error {
	return atomicfile.Write(filepath.Join(folder, severalFile), writing(text))
}

// leftover reports whether an entry of a folder is what a run left that was killed while it wrote a file. The
// next run there removes it when it writes that file.
func leftover(e fs.DirEntry) bool {
	return e.Type().IsRegular() &&
		slices.ContainsFunc(Files(), func(name string) bool { return atomicfile.IsHidden(e.Name(), name) })
}

// hardlyBegun reports whether a folder holds what a run left that was killed before it had a state: an empty
// metrics.jsonl, and run.yaml at most.
func hardlyBegun(entries []fs.DirEntry) bool {
	begun := false
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
			return false
		case e.Name() == metricsFile && info.Size() == 0:
			begun = true
		case !slices.Contains(append(setting.KeptNames(), configFile, unreadFile), e.Name()):
			return false
		}
	}
	return begun
}

// canContinue reports whether a folder holds a run that is not under way, and that has work left to do.
func canContinue(dir string) bool {
	s, err := lookState(dir)
	return err == nil && (s.Status == Interrupted || s.Status == Killed || s.Status == Failed)
}

// makeNamed makes a folder of that name; runs that start within the same second get a number behind it.
func makeNamed(base string) (*Dir, error) {
	err := os.MkdirAll(filepath.Dir(base), 0o777)
	for path, n := base, 2; err == nil; n++ {
		if err = os.Mkdir(path, 0o777); err == nil {
			return &Dir{Path: path, created: true}, nil
		}
		if errors.Is(err, fs.ErrExist) {
			path = fmt.Sprintf("%s-%d", base, n)
			err = nil
		}
	}
	return nil, refusal.Errorf("a run's folder goes under runs/ here: %w; choose another place with --out",
		err)
}

// fileName makes a dataset's name or path fit for a file name.
func fileName(dataset string) string {
	keep := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}
	name := strings.Trim(strings.Map(keep, filepath.Base(dataset)), ".-")
	if name == "" {
		return "graph"
	}
	return name[:min(len(name), 60)]
}

func (d *Dir) file(name string) string { return filepath.Join(d.Path, name) }

// fail puts the directory in front of an error; nil stays nil.
func (d *Dir) fail(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && d.root != nil && d.Gone() { // between two looks at it
		err = errGone
	}
	return fmt.Errorf("run directory %s: %w", d.Path, err)
}

// each takes the steps one after the other until one fails.
func (d *Dir) each(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return d.fail(err)
		}
	}
	return nil
}

// Epoch appends the line of an epoch to metrics.jsonl. It fails where the directory has been removed or
// replaced, cannot be written to, or has no room for the results any more.
func (d *Dir) Epoch(e train.Epoch) error {
	d.worked = true
	return d.each(d.checkMetrics, func() error { return d.line(e) }, d.check)
}

func (d *Dir) line(e train.Epoch) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if e.Metric != d.state.Metric {
		d.state.Metric = e.Metric
		if err := d.writeState(); err != nil {
			return err
		}
	}
	return d.append(append(text, '\n'))
}

// check says why the results could not be written now, in three system calls or so; nil: they could.
func (d *Dir) check() error {
	if d.Gone() {
		return errGone
	}
	if err := unix.Faccessat(unix.AT_FDCWD, d.Path, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		if d.Gone() { // since
			return errGone
		}
		return fmt.Errorf("it cannot be written to any more: %w", err)
	}
	free, known, err := atomicfile.Free(d.Path)
	if err != nil {
		return err
	}
	if known && free < d.Needs {
		return fmt.Errorf("its disk has %s left, and weights and predictions take %s",
			setting.Bytes(free).Rounded(), setting.Bytes(d.Needs).Rounded())
	}
	return nil
}

// append adds a line to metrics.jsonl, by one write, so that a reader never sees half of it. Where it does
// not fit nothing of it stays.
func (d *Dir) append(line []byte) error {
	n, err := d.metrics.Write(line)
	if n == 0 || err == nil {
		return err
	}
	end, failed := d.metrics.Seek(int64(-n), io.SeekCurrent)
	if failed == nil {
		failed = d.metrics.Truncate(end)
	}
	return errors.Join(err, failed)
}

var errGone = errors.New("it was removed or replaced while the run went on")

// errChanged is of metrics.jsonl alone.
var errChanged = errors.New(metricsFile + " was removed, replaced or cut while the run went on")

// Gone reports whether the path does not lead to the run's files any more: the folder is removed or has
// another name, or is being removed.
func (d *Dir) Gone() bool {
	there, err := os.Lstat(d.Path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	mine, err := d.root.Stat(".")
	if err != nil || !os.SameFile(there, mine) {
		return true
	}
	return !slices.ContainsFunc([]string{metricsFile, stateFile, configFile}, func(name string) bool {
		_, err := d.root.Lstat(name)
		return err == nil
	})
}

// checkMetrics says that metrics.jsonl is another file, or has another length, than the run has written; nil:
// it is not.
func (d *Dir) checkMetrics() error {
	there, err := d.root.Lstat(metricsFile)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	mine, err := d.metrics.Stat()
	if err != nil {
		return err
	}
	end, err := d.metrics.Seek(0, io.SeekCurrent)
	switch {
	case err != nil || !gone && os.SameFile(there, mine) && mine.Size() == end:
		return err
	case d.Gone():
		return errGone
	}
	return errChanged
}

// Results are the names of those that are there: of a run that failed, and of none where the directory is
// gone.
func (d *Dir) Results() []string {
	return slices.DeleteFunc([]string{weightsFile, Predictions}, func(name string) bool {
		_, err := d.root.Lstat(name)
		return err != nil || d.Gone()
	})
}

// Record runs the job, with its plan as in RunPlanned, and keeps what comes of it in the directory: the line
// of each epoch as it ends, the weights of the best one with the version of weft, and its logits. The job's
// own OnEpoch is called too; its OnResume, OnWeights and OnLogits are not. A line that cannot be written ends
// the run after the epoch under way, and the error says why; a result that there is in spite of it is
// returned as well.
func (d *Dir) Record(ctx context.Context, job *train.Job, planned *plan.Plan,
	version string,
) (*train.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	onResume, onEpoch, onWeights, onLogits := job.OnResume, job.OnEpoch, job.OnWeights, job.OnLogits
	defer func() {
		job.OnResume, job.OnEpoch, job.OnWeights, job.OnLogits = onResume, onEpoch, onWeights, onLogits
	}()
	job.OnResume = d.Resume
	var unrecorded error
	job.OnEpoch = func(e train.Epoch) {
		if onEpoch != nil {
			onEpoch(e)
		}
		if err := d.Epoch(e); err != nil && unrecorded == nil {
			unrecorded = err
			cancel()
		}
	}
	job.OnWeights = func(weights nn.State) error {
		job.Options.Program.Alias(weights)
		return d.Weights(version, job.Columns(), weights)
	}
	job.OnLogits = d.Predictions
	result, err := job.RunPlanned(ctx, planned)
	switch {
	case unrecorded == nil:
		return result, err
	case err == nil:
		return result, unrecorded
	}
	return nil, instead{err, unrecorded}
}

// instead is an error that is told as another, which it follows from.
type instead struct{ error, told error }

func (i instead) Error() string { return i.told.Error() }
func (i instead) Unwrap() error { return i.error }

// Weights writes the weights, the version of weft that trained them, and the columns that their features are
// made of, by vertex type. It is meant for Job.OnWeights.
func (d *Dir) Weights(version string, of columns.ByType, weights nn.State) error {
	if d.Gone() { // somebody may be about to remove the rest
		return d.fail(errGone)
	}
	if len(d.unread) > 0 {
		all := maps.Clone(d.unread)
		maps.Copy(all, weights)
		weights = all
	}
	metadata := map[string]string{"format": "pt", "weft": version}
	if of != nil {
		text, err := of.Encode()
		if err != nil {
			return d.fail(err)
		}
		metadata[columnsKey] = string(text)
	}
	return d.fail(atomicfile.WriteIn(d.root, weightsFile, func(w io.Writer) error {
		return safetensors.Write(w, weights, metadata)
	}))
}

// columnsKey is the metadata of weights that has the columns, as columns.Decode reads them.
const columnsKey = "weft.columns"

// ColumnsOf reads from a safetensors file of weights which columns their features are made of, by vertex
// type; nil: it does not say so. Errors name the file.
func ColumnsOf(weights string) (columns.ByType, error) {
	f, err := safetensors.Open(weights)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, there := f.Metadata[columnsKey]
	if !there {
		return nil, nil
	}
	of, err := columns.Decode([]byte(text))
	if err != nil {
		return nil, refusal.Errorf("%s: %s: %w", weights, columnsKey, err)
	}
	return of, nil
}

// Predictions writes the logits. It is meant for Job.OnLogits.
func (d *Dir) Predictions(logits worker.Rows) error {
	return d.fail(atomicfile.WriteIn(d.root, Predictions, func(to io.Writer) error {
		return EncodePredictions(to, logits)
	}))
}

// WriteVertices writes ids as a NumPy array of int64, which appears under its name when it is complete and on
// disk.
func WriteVertices(path string, ids []int32) error {
	return atomicfile.Write(path, func(to io.Writer) error {
		w, err := npy.NewWriter(to, "<i8", len(ids))
		if err != nil {
			return err
		}
		var long []int64
		for part := range slices.Chunk(ids, 1<<14) {
			long = long[:0]
			for _, v := range part {
				long = append(long, int64(v))
			}
			if err := npy.Write(w, long); err != nil {
				return err
			}
		}
		return w.Close()
	})
}

// Finish writes profile.json and run.json, once metrics, weights and predictions are on disk. It puts the
// time and the directory into the run first.
func (d *Dir) Finish(run *Run) error {
	run.Finished = time.Now()
	run.Summary.RunDir = d.Path
	d.state.Status = run.status()
	d.state.Reason = run.Reason
	return d.each(d.metrics.Sync, d.restoreTexts,
		func() error { return d.writeProfile(run.Profile) },
		func() error { return d.writeJSON(runFile, run) },
		d.writeState, d.metrics.Close, d.root.Close)
}

// Worked reports whether the run has made an epoch since it began, or continued.
func (d *Dir) Worked() bool { return d.worked }

// Discard takes back the directory of a run that did no work: what New made and nothing else. A run that was
// to continue can do so again. What an epoch has made stays.
func (d *Dir) Discard() {
	if d.worked {
		_ = errors.Join(d.metrics.Close(), d.root.Close()) // nothing is written any more
		return
	}
	if d.reopened && d.state.Status == Running {
		d.state.Status, d.state.Reason = Interrupted, "before its first epoch since it continued"
		_ = d.writeState() // else the run seems to have been killed
	}
	if d.metrics != nil && !d.reopened {
		for _, name := range append(setting.KeptNames(), stateFile, configFile, unreadFile, metricsFile,
			Checkpoints) {
			_ = d.root.Remove(name) // that of the checkpoints fails where one was written
		}
	}
	if d.metrics != nil {
		_ = d.metrics.Close()
	}
	if d.root != nil {
		_ = d.root.Close()
	}
	if d.created {
		_ = os.Remove(d.Path) // fails, as it should, where somebody put a file there
	}
}

// Run is what run.json holds.
type Run struct {
	Format      int       `json:"format"`
	Versions    Versions  `json:"versions"`
	Started     time.Time `json:"started"`
	Finished    time.Time `json:"finished"`
	Interrupted bool      `json:"interrupted"` // stopped by a signal or a time limit before its last epoch
	Diverged    bool      `json:"diverged"`    // stopped by numbers that are not finite
	// Ended is why the run ended, for programs, and Reason for people.
	Ended  train.Ended `json:"ended"`
	Reason string      `json:"reason"`
	Store  string      `json:"store"` // absolute path of the graph
	// GraphID is the graph.ID of the store that was trained on; "": not known.
	GraphID string `json:"graph_id,omitempty"`
	// Passed says which edges passed messages; nil: no labels of edges are learned, or it is not known.
	Passed *task.Passed `json:"passed,omitempty"`
	// ClassNames are the names of the classes in their order; nil: they have none.
	ClassNames []string          `json:"class_names,omitempty"`
	Settings   map[string]string `json:"settings"`
	calibrate.Found
	Summary Summary `json:"summary"`
	// Profile is in a file of its own, which Read does not read: ReadProfile does. nil: there is none.
	Profile *Profile `json:"-"`
}

// Versions say what made a run.
type Versions struct {
	Weft   string `json:"weft"`
	Go     string `json:"go"`
	SIMD   string `json:"simd"` // the kernels' instruction set: another one rounds differently
	OneDNN string `json:"onednn"`
	// BFloat16Products is how products were made with --precision bf16 (kernel.BFloat16Products)
	BFloat16Products string `json:"bfloat16_products,omitempty"`
}

// NewRun is the record of what a job came to by that version of weft, for Dir.Finish. store is the path of
// the graph, "" for one that was made in memory. Summary.PeakRSSBytes is the caller's to fill in.
func NewRun(version, store string, started time.Time, j *train.Job, r *train.Result) Run {
	var names []string
	if j.Graph != nil {
		names = j.Graph.Labels.Names
	}
	versions := Versions{
		Weft: version, Go: runtime.Version(), SIMD: kernel.SIMD(), OneDNN: kernel.OneDNN(),
	}
	if j.Options.Precision == "bf16" {
		versions.BFloat16Products = kernel.BFloat16Products()
	}
	return Run{
		ClassNames: names, Format: runFormat, Versions: versions, Passed: r.Passed,
		Started: started, Interrupted: r.Interrupted(), Diverged: r.Diverged != nil,
		Ended: r.Ended, Reason: whyEnded(j, r), Store: absolute(store), Settings: j.Options.Texts(),
		Summary: summarize(j, r), Profile: profileOf(r),
	}
}

// Read opens the directory of a complete run: its record, its options and the path of its weights.
func Read(dir string) (run Run, o setting.Options, weights string, err error) {
	remedy := fmt.Sprintf("train again, or give the weights of the run by --init %s",
		filepath.Join(dir, weightsFile))
	there, err := readJSON(dir, runFile, maxRun, &run, remedy)
	if err == nil && !there {
		err = noResults(dir)
	}
	if err != nil {
		return run, o, "", err
	}
	o = setting.Defaults()
	o.Model = ""
	if err := setting.ReadRun(filepath.Join(dir, configFile), &o); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; put the settings of the run there, or train again in another folder", err)
		}
		return run, o, "", err
	}
	if err := o.ReadKept(dir); err != nil {
		return run, o, "", err
	}
	if o.Model == "" {
		return run, o, "", refusal.Damaged("%s: damaged: it names no model", filepath.Join(dir, configFile))
	}
	return run, o, filepath.Join(dir, weightsFile), nil
}

// readJSON reads a file of a run directory into object, if it is there. remedy is what to do where it is
// damaged.
func readJSON(dir, name string, limit int64, object any, remedy string) (there bool, err error) {
	path := filepath.Join(dir, name)
	text, err := document.Read(path, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, syscall.ENOTDIR):
		return false, refusal.Errorf("%s: a file, and not the directory of a run", dir)
	case err != nil:
		return false, refusal.Errorf("run directory %w", err)
	}
	if err := document.JSON(text, runFormat, object); err != nil {
		return false, refusal.Errorf("%s: %w; %s", path, err, remedy)
	}
	return true, nil
}

// ReadPredictions reads the predictions of a complete run: a row of so many columns for each vertex.
func ReadPredictions(dir string) (rows []float32, columns int, err error) {
	path := filepath.Join(dir, Predictions)
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, 0, refusal.Errorf("%w", err)
	}
	defer f.Close()
	if rows, columns, err = readPredictions(f, size); err != nil {
		return nil, 0, refusal.Errorf("%s: %w", path, err)
	}
	return rows, columns, nil
}

// noResults is the refusal of a run directory without run.json.
func noResults(dir string) error {
	switch s, err := lookState(dir); {
	case err != nil && First(dir) != "":
		return refusal.Errorf("%s: holds several runs, and is not the directory of one: name one of them, "+
			"such as %s; all stand in weft runs %s", dir, First(dir), dir)
	case err != nil || s.Status == Finished:
		return refusal.Errorf("%s: not the directory of a complete run: it has no %s", dir, runFile)
	case s.Status == Running:
		return refusal.Errorf("%s: not the directory of a complete run, as it is under way; wait for its "+
			"end, or stop it with a signal, which keeps the results so far", dir)
	default:
		why := string(s.Status)
		if s.Reason != "" {
			why += ": " + s.Reason
		}
		return refusal.Errorf("%s: not the directory of a complete run (%s); continue it with weft train "+
			"--resume %s, and add --max-time 1ms for the results after one more epoch", dir, why, dir)
	}
}

// reason is the operating system's word on an error, without the path that the message names already.
func reason(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
