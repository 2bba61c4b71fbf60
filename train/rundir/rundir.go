// Package rundir is the directory that a run leaves: its settings, a line for each epoch, the weights, the
// predictions, and what it came to. The command train writes it, and all commands that take a run read it.
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
	// reopened says that the run continues: if it does no work, the directory stays unchanged
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
// here. An empty directory that nobody holds was left by a run that was killed as it began: it is taken over.
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
