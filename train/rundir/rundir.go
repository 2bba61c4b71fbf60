// Package rundir reads and writes the directory of a run: its settings, a line for each epoch, the weights,
// the predictions, and its results. The command train writes it, and all commands that take a run read it.
package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/nn"
	"weft/train"
	"weft/train/setting"
	"weft/train/worker"
)

// The files of a run directory.
const (
	runFile     = "run.json" // written last: a directory without it is not a complete run
	configFile  = "run.yaml"
	metricsFile = "metrics.jsonl"
	// unreadFile has tensors of the model that no operation of its program reads. The weights have them, too.
	unreadFile = "unread.safetensors"
	// The weights are the first of the results to be written: without the others they are still of use.
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
	maxRun    = 256 << 20 // the most bytes of run.json: losses and seconds of millions of epochs
)

// Dir is the directory of a run that is under way. Writes go to the directory as it was at the start, and
// follow no link in it.
type Dir struct {
	Path    string
	Needs   int64 // bytes that weights and predictions will take; 0: not known
	created bool  // the run made the folder: an unused one is removed whole
	root    *os.Root
	metrics *os.File
	state   State
	// reopened says that the run continues. If it then does no work, the directory stays unchanged.
	reopened bool
	worked   bool     // an epoch has been made since the directory was made or reopened
	unread   nn.State // the contents of unread.safetensors when the run began or continued
	// texts are the files of settings, by name. Finish writes them again if they have changed.
	texts map[string][]byte
}

// New makes the directory of a job's run that starts now, and writes its configuration there. An empty out
// stands for a new folder under runs/, named by time, dataset and model. Any other out must be new or empty.
// version is the program's, and store the path of the graph, "" for a graph that was made in memory.
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

// holdTexts keeps run.yaml and the files of the settings beside it in memory.
func (d *Dir) holdTexts(settings *setting.Resolved) error {
	config, err := settings.YAML()
	if err != nil {
		return err
	}
	d.texts = map[string][]byte{configFile: config}
	maps.Copy(d.texts, settings.Kept())
	return nil
}

// restoreTexts writes the files again that somebody has damaged since: without them the results cannot be
// read.
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
	return d.writeState() // last, because a directory with a state can continue
}

// writeUnread writes the tensors, of the weights from which a program's run starts, that no operation reads.
func (d *Dir) writeUnread(settings *setting.Resolved) error {
	unread, err := worker.ReadInit(settings.Init)
	if err != nil {
		return err
	}
	settings.Program.Unread(unread)
	for _, name := range worker.OwnNames() { // they may be weights of a run
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

// claim makes metrics.jsonl, and locks it. Of two runs that found the same folder empty, the second fails
// here. An empty directory that no run holds was left by a run that was killed as it began: claim takes it
// over.
func (d *Dir) claim() (metrics *os.File, err error) {
	metrics, err = d.root.OpenFile(metricsFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	there := errors.Is(err, fs.ErrExist)
	if there {
		metrics, err = d.root.OpenFile(metricsFile, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, err
	}
	// On a file system without locks nobody can tell that a run is under way, so nothing can be taken over.
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

// writing returns a function that writes a text.
func writing(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

func (d *Dir) file(name string) string { return filepath.Join(d.Path, name) }

// fail puts the directory in front of an error; nil stays nil.
func (d *Dir) fail(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && d.root != nil && d.Gone() { // it went between two looks
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

// Finish writes profile.json and run.json, once metrics, weights and predictions are on disk. Before that it
// sets the run's time and directory.
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

// Discard removes the directory of a run that did no work: what New made, and nothing else. A run that was to
// continue can continue again. What an epoch has made stays.
func (d *Dir) Discard() {
	if d.worked {
		_ = errors.Join(d.metrics.Close(), d.root.Close()) // nothing will be written any more
		return
	}
	if d.reopened && d.state.Status == Running {
		d.state.Status, d.state.Reason = Interrupted, "before its first epoch since it continued"
		_ = d.writeState() // without a state the run would seem to have been killed
	}
	if d.metrics != nil && !d.reopened {
		for _, name := range append(setting.KeptNames(), stateFile, configFile, unreadFile, metricsFile,
			Checkpoints) {
			_ = d.root.Remove(name) // a folder that has checkpoints stays
		}
	}
	if d.metrics != nil {
		_ = d.metrics.Close()
	}
	if d.root != nil {
		_ = d.root.Close()
	}
	if d.created {
		_ = os.Remove(d.Path) // it fails, as it should, if somebody put a file there
	}
}
