package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"weft/internal/document"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/train"
	"weft/train/calibrate"
	"weft/train/setting"
	"weft/train/task"
)

// Run is what run.json holds.
type Run struct {
	Format      int       `json:"format"`
	Versions    Versions  `json:"versions"`
	Started     time.Time `json:"started"`
	Finished    time.Time `json:"finished"`
	Interrupted bool      `json:"interrupted"` // stopped by a signal or a time limit before its last epoch
	Diverged    bool      `json:"diverged"`    // stopped by numbers that are not finite
	// Ended is why the run ended, for programs. Reason is the same for people.
	Ended  train.Ended `json:"ended"`
	Reason string      `json:"reason"`
	Store  string      `json:"store"` // absolute path of the graph's store
	// GraphID is the graph.ID of the store of the training graph; "": not known.
	GraphID string `json:"graph_id,omitempty"`
	// Provenance is the graph.Graph.Provenance of that store; "": not known.
	Provenance string `json:"provenance,omitempty"`
	// Passed says which edges passed messages; nil: the run learns no labels of edges, or it is not known.
	Passed *task.Passed `json:"passed,omitempty"`
	// ClassNames are the names of the classes in their order; nil: they have none.
	ClassNames []string          `json:"class_names,omitempty"`
	Settings   map[string]string `json:"settings"`
	calibrate.Found
	Summary Summary `json:"summary"`
	// Profile is in a file of its own, which ReadProfile reads and Read does not. nil: there is none.
	Profile *Profile `json:"-"`
}

// Versions say what made a run.
type Versions struct {
	Weft   string `json:"weft"`
	Go     string `json:"go"`
	SIMD   string `json:"simd"` // the kernels' instruction set: another one rounds differently
	OneDNN string `json:"onednn"`
	// BFloat16Products says how products were made with --precision bf16 (kernel.BFloat16Products).
	BFloat16Products string `json:"bfloat16_products,omitempty"`
}

// NewRun is the record of a job's result by that version of weft, for Dir.Finish. store is the path of the
// graph, "" for a graph that was made in memory. The caller sets Summary.PeakRSSBytes.
func NewRun(version, store string, started time.Time, j *train.Job, r *train.Result) Run {
	var names []string
	if j.Graph != nil {
		names = j.Graph.Types[0].Labels.Names
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
		Provenance: r.Whole.Provenance, Summary: summarize(j, r), Profile: profileOf(r),
	}
}

// Read opens the directory of a complete run. It returns its record, its options and the path of its weights.
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

// readJSON reads a file of a run directory into object, if it is there. remedy says what to do if it is
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

// reason is the operating system's word for an error, without the path that the message already names.
func reason(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
