package rundir

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/atomicfile"
	"weft/internal/fulldisk"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/nn"
	"weft/partition"
	"weft/train"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/worker"
)

// names lists what is in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*")
	require.NoError(t, err)
	return names
}

func newDir(t *testing.T, out string) *Dir {
	t.Helper()
	d, err := New(out, time.Now(), &train.Job{Dataset: "cora", Options: train.Defaults()}, "test", "g")
	require.NoError(t, err)
	return d
}

// ofProgram is a job whose model is a program, with a loss and a schedule of its own. The weights that it
// starts from have a tensor that no operation reads.
func ofProgram(t *testing.T) *train.Job {
	t.Helper()
	file, init := filepath.Join(t.TempDir(), "linear.json"), filepath.Join(t.TempDir(), "init.safetensors")
	loss := filepath.Join(t.TempDir(), "mean.json")
	require.NoError(t, os.WriteFile(loss, []byte(`{"version":1,"class":"mean","operations":[
		{"op":"logits","shape":[1]},{"op":"row_mean","in":[0]}],"output":1}`), 0o666))
	require.NoError(t, os.WriteFile(file, []byte(`{"version":1,"class":"gcn","parameters":[{"name":"w","shape":[5,13],
		"trained":true}],"operations":[{"op":"features","shape":[13]},{"op":"parameter","name":"w"},
		{"op":"linear","in":[0,1]}],"output":2}`), 0o666))
	var weights bytes.Buffer
	require.NoError(t, nn.EncodeState(&weights, nn.State{
		"w":             {Shape: []int{5, 13}, Float32: make([]float32, 65)},
		"count":         {Shape: []int{}, Int64: []int64{7}},
		"features.mean": {Shape: []int{1}, Float32: []float32{1}},
	}))
	require.NoError(t, os.WriteFile(init, weights.Bytes(), 0o666))
	schedule := filepath.Join(t.TempDir(), "rates.txt")
	require.NoError(t, os.WriteFile(schedule, []byte("1\n.5\n"), 0o666))
	job := &train.Job{Dataset: "cora", Options: train.Defaults()}
	job.Options.Schedule = schedule
	job.Options.Program.Path, job.Options.Init, job.Options.Loss = file, init, loss
	return job
}

// TestProgram: a run of a program keeps the program, under the name of its class, its loss and schedule,
// and the tensors that no operation reads, which its weights have, too. It is the same in another place.
func TestProgram(t *testing.T) {
	dir, job := t.TempDir(), ofProgram(t)
	d, err := New(filepath.Join(dir, "run"), time.Now(), job, "test", "g")
	require.NoError(t, err)
	trained := nn.State{"w": {Shape: []int{1}, Float32: []float32{1}}}
	require.NoError(t, errors.Join(d.Weights("v1", nil, trained), d.Predictions(smallLogits()),
		d.Finish(smallRun())))
	require.NoError(t, os.Rename(d.Path, filepath.Join(dir, "moved")))
	_, o, weights, err := Read(filepath.Join(dir, "moved"))
	require.NoError(t, err)
	assert.Equal(t, "gcn (program)", o.Model, "the model, which is not weft's GCN")
	assert.Equal(t, filepath.Join(dir, "moved", setting.ProgramFile), o.Program.Path)
	state, err := nn.ReadState(weights)
	require.NoError(t, err)
	assert.Equal(t, []string{"count", "w"}, slices.Sorted(maps.Keys(state)))
	assert.Equal(t, []int64{7}, state["count"].Int64)
	recorded := o.Texts()
	assert.Equal(t, filepath.Join(dir, "moved", "loss.json"), o.Loss)
	assert.Equal(t, []float64{1, .5}, o.Factors())
	require.NoError(t, job.Options.ReadFiles())
	for name, class := range map[string]string{"program": "gcn-", "loss": "mean-", "schedule": "factors-"} {
		assert.Equal(t, class, recorded[name][:len(class)], "what identifies the file, wherever it is")
		assert.Equal(t, job.Options.Texts()[name], recorded[name])
	}
	listed := Listed{Settings: recorded}
	assert.Equal(t, "gcn (program), ", listed.Setting("model")+", "+listed.Setting("hidden"))
}

// small is a graph to train on.
func small(t *testing.T) *graph.Graph {
	t.Helper()
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 300, Degree: 6, Features: 13, Classes: 5, Seed: 3,
	})
	require.NoError(t, err)
	return g
}

func smallRun() *Run {
	job := &train.Job{Dataset: "cora", Options: train.Defaults()}
	run := NewRun("v1", "some/store", time.Now(), job, &train.Result{
		Losses: []float64{0.1, math.NaN()}, Totals: smallTotals(),
		Whole: partition.Whole{Types: make([]partition.WholeType, 1)},
	})
	return &run
}

// smallTotals are those of a worker with a profile of one layer.
func smallTotals() worker.Totals {
	one := []float64{1}
	return worker.Totals{
		SentTo: [][]int64{{0}},
		Profile: &worker.Profile{
			Epoch: 1, Layers: []string{"convs.0"},
			Workers: []worker.Times{{Seconds: 4, Forward: one, Backward: one, Communication: one, Wait: one}},
			Memory: worker.Memory{
				Kinds: []string{"features", "idle"}, Seconds: []float64{0, 1}, Layers: []int{-1, 0},
				Parts: []string{"rest", "forward"}, Bytes: [][]int64{{1, 2}, {3, 0}}, Peaks: [][]int64{{2}},
			},
		},
	}
}

var smallWeights = map[string]safetensors.Tensor{"w": {Shape: []int{1}, Float32: []float32{1}}}

// smallLogits come in two batches.
func smallLogits() worker.Rows {
	return worker.Rows{Vertices: 2, Columns: 3, Each: func(yield func([]float32) bool) {
		if yield([]float32{0, 1, 2}) {
			yield([]float32{3, 4, -5})
		}
	}}
}

// checkLogits compares predictions.npy with the format that NumPy documents: a header, then rows of
// little-endian numbers.
func checkLogits(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	header, _, _ := bytes.Cut(text, []byte("\n"))
	var want []byte
	for _, x := range []float32{0, 1, 2, 3, 4, -5} {
		want = binary.LittleEndian.AppendUint32(want, math.Float32bits(x))
	}
	if !bytes.Contains(header, []byte("(2, 3)")) || !bytes.Equal(text[min(len(header)+1, len(text)):], want) {
		t.Errorf("%s holds %q", path, text)
	}
}

// TestNoProfile: a run whose last process trained no epoch has no profile.json, nor what an earlier one left
// of it.
func TestNoProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	d := newDir(t, path)
	require.NoError(t, os.WriteFile(filepath.Join(path, atomicfile.Hidden("profile.json")),
		[]byte("{"), 0o666))
	run := smallRun()
	run.Profile = nil
	require.NoError(t,
		errors.Join(d.Weights("v1", nil, smallWeights), d.Predictions(smallLogits()), d.Finish(run)))
	files := []string{
		"metrics.jsonl", "model.safetensors", "predictions.npy", "run.json", "run.yaml", "state.json",
	}
	assert.Equal(t, files, names(t, path))
}

// TestRecord: a run that is recorded leaves its results, and its job as it was.
func TestRecord(t *testing.T) {
	o := train.Defaults()
	o.Epochs = 5
	epochs := 0
	job := &train.Job{
		Graph: small(t), Dataset: "tangled", Options: o, OnEpoch: func(train.Epoch) { epochs++ },
	}
	path := filepath.Join(t.TempDir(), "run")
	d, started := newDir(t, path), time.Now()
	result, err := d.Record(t.Context(), job, nil, "v1")
	require.NoError(t, err)
	run := NewRun("v1", "", started, job, result)
	require.NoError(t, d.Finish(&run))
	got, _, file, err := Read(path)
	if err != nil || got.Store != "" || got.Diverged || len(got.Summary.Losses) != o.Epochs ||
		epochs != o.Epochs {
		t.Fatalf("%v: %d epochs; run.json has %+v", err, epochs, got)
	}
	weights, err := nn.ReadState(file)
	if diff := cmp.Diff(result.Weights, weights); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	p, err := job.Predict(t.Context(), weights, train.Logits)
	require.NoError(t, err, "the job's predictions do not go to the job: %+v", p)
	assert.Len(t, p.Logits, p.Vertices*p.Classes, "the job's predictions do not go to the job: %+v", p)
}

// TestRecordThatCannotBeWritten: the run ends after the epoch, and says what its directory came to.
func TestRecordThatCannotBeWritten(t *testing.T) {
	o := train.Defaults()
	o.Epochs = 1000
	path := filepath.Join(t.TempDir(), "run")
	d := newDir(t, path)
	epochs := 0
	job := &train.Job{Graph: small(t), Options: o, OnEpoch: func(train.Epoch) {
		if epochs++; epochs == 2 {
			assert.NoError(t, os.RemoveAll(path))
		}
	}}
	if result, err := d.Record(t.Context(), job, nil, "v1"); result != nil ||
		!errors.Is(err, errGone) || epochs > 3 {
		t.Errorf("%d epochs, then %v", epochs, err)
	}
}

// TestRecordWithoutRoom: where the disk has no room for the results any more, the run ends after the epoch
// and keeps what fits.
func TestRecordWithoutRoom(t *testing.T) {
	o := train.Defaults()
	o.Epochs = 1000
	d := newDir(t, filepath.Join(t.TempDir(), "run"))
	job := &train.Job{Graph: small(t), Options: o, OnEpoch: func(e train.Epoch) {
		if e.Epoch == 2 {
			d.Needs = math.MaxInt64
		}
	}}
	result, err := d.Record(t.Context(), job, nil, "v1")
	if result == nil || result.Epochs > 3 || err == nil ||
		!strings.Contains(err.Error(), " left, and weights and predictions take ") {
		t.Errorf("a result %v, %v", result != nil, err)
	}
	assert.Equal(t, []string{weightsFile, Predictions}, d.Results())
}

// TestRoomForResults: a disk is full where it has fewer bytes left than the results take. Any disk that tests
// run on has a mebibyte.
func TestRoomForResults(t *testing.T) {
	d := newDir(t, filepath.Join(t.TempDir(), "run"))
	d.Needs = 1 << 20
	assert.NoError(t, d.Epoch(train.Epoch{Epoch: 1}))
}

// TestLineThatDoesNotFit: metrics.jsonl holds whole lines only, also after one that did not fit.
func TestLineThatDoesNotFit(t *testing.T) {
	fulldisk.Run(t, func(full func(uint64, func())) {
		d := newDir(t, filepath.Join(t.TempDir(), "run"))
		require.NoError(t, d.append([]byte("first\n")))
		full(10, func() {
			assert.ErrorIs(t, d.append([]byte("second\n")), unix.EFBIG)
		})
		assert.NoError(t, d.append([]byte("3\n")))
		if text, err := os.ReadFile(d.file(metricsFile)); err != nil || string(text) != "first\n3\n" {
			t.Errorf("%s holds %q, error %v", metricsFile, text, err)
		}
	})
}

// TestRunDirBecomesReadOnly: an epoch tells, also where its line can still be written.
func TestRunDirBecomesReadOnly(t *testing.T) {
	dir := t.TempDir()
	d := newDir(t, filepath.Join(dir, "run"))
	// to be looked into by anybody
	require.NoError(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)))
	for mode, want := range map[os.FileMode]string{
		0o777: "",
		0o555: "it cannot be written to any more: permission denied",
	} {
		require.NoError(t, os.Chmod(d.Path, mode))
		told := make(chan error)
		go func() { // on a thread that is not root's, and ends with the goroutine
			runtime.LockOSThread()
			_, err := unix.SetfsuidRetUid(65534)
			told <- errors.Join(err, d.check())
		}()
		if err := <-told; (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("mode %o: %v, want %q", mode, err, want)
		}
	}
	assert.NoError(t, os.Chmod(d.Path, 0o777)) // to be removed
}

// TestRunDirOfALiveRun: a second run is told of one that is under way, and not once that has ended.
func TestRunDirOfALiveRun(t *testing.T) {
	dir := t.TempDir()
	d := newDir(t, dir)
	for _, c := range []struct{ end, want string }{
		{"", "another run is under way in the folder; name a new one"},
		{"end", "the folder holds a run that can continue: weft train --resume "},
	} {
		if c.end != "" {
			require.NoError(t, d.metrics.Close()) // as a process's end does
		}
		_, err := New(dir, time.Now(), &train.Job{Dataset: "cora", Options: train.Defaults()}, "test", "g")
		assert.Refused(t, err, c.want)
	}
}

func TestReadRunRefusesDamage(t *testing.T) {
	for name, c := range map[string]struct{ runJSON, runYAML, want string }{
		"cut": {`{"format":1`, "", "run.json: damaged: unexpected end of JSON input; train again, or " +
			"give the weights of the run by --init "},
		"newer":  {`{"format":7}`, "", "format version 7"},
		"config": {`{"format":1}`, "hiden: 3", "/run.yaml: line 1: unknown key"},
		"deep": {
			`{"format":1}`, strings.Repeat("[", 10000),
			"/run.yaml: line 1: more than 100 lists and mappings",
		},
		"long": {`{"format":1}`, strings.Repeat("#", 16<<10+1), "/run.yaml: longer than the 16384 bytes"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"run.json": c.runJSON, "run.yaml": c.runYAML} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666))
		}
		if _, _, _, err := Read(dir); err == nil || !refusal.Is(err) ||
			!strings.Contains(err.Error(), c.want) || strings.HasPrefix(err.Error(), "--config ") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestSummaryKeepsItsOrder(t *testing.T) {
	text, err := json.Marshal(Summary{})
	require.NoError(t, err)
	at := -1
	for _, key := range strings.Fields(
		`dataset model parallel workers seed epochs_run best_epoch metric select split train val test val_loss losses
		run_dir epoch_seconds epoch_seconds_median peak_tensor_bytes graph_bytes peak_rss_bytes communication sent_bytes graph`) {
		next := strings.Index(string(text), `"`+key+`":`)
		if next <= at {
			t.Errorf("%s is missing or out of its place in %s", key, text)
		}
		at = next
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		assert.Equal(t, c.want, Median(c.x), c.x)
	}
}

// TestMain fails where a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// TestPredictionsAreFinite: NaN and infinite predictions are those of a damaged file.
func TestPredictionsAreFinite(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(-1)} {
		var file bytes.Buffer
		require.NoError(t,
			EncodePredictions(&file,
				worker.Rows{
					Vertices: 2, Columns: 2, Each: slices.Values([][]float32{{1, 2}, {3, float32(x)}}),
				}))
		if _, _, err := DecodePredictions(&file); !refusal.IsDamaged(err) ||
			!strings.Contains(err.Error(), "row 1 has the value") {
			t.Errorf("%v: %v", x, err)
		}
	}
}

// FuzzReadRun opens run directories whose run.json and run.yaml hold anything: what is not a run is refused.
func FuzzReadRun(f *testing.F) {
	f.Add([]byte(`{"format":1,"store":"s","summary":{"model":"gcn","losses":[1,null]}}`),
		[]byte("model: gcn\n"))
	f.Add([]byte(`{"format":2}`), []byte("model: gcn\n"))
	f.Add([]byte(`{"format":1,`), []byte(""))
	f.Add([]byte(`[]`), []byte("layers: -1\n"))
	f.Fuzz(func(t *testing.T, run, config []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{runFile: run, configFile: config} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
		}
		if _, _, _, err := Read(dir); err != nil && !refusal.Is(err) {
			t.Errorf("%v is no refusal", err)
		}
	})
}

// Folders that are taken, refused, or left as they were.

func TestRunDirIsCompleteAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "run")
	d := newDir(t, path)
	for e := 1; e <= 3; e++ {
		require.NoError(t,
			d.Epoch(train.Epoch{
				Epoch: e, Loss: math.Inf(1),
				Scores: metric.Scores{Train: 0.5, Val: math.NaN()}, Evaluated: e == 2,
			}))
		_, _, _, err := Read(path)
		assert.Refused(t, err, "", "a run under way is read")
	}
	require.NoError(t, errors.Join(d.Weights("v1", nil, smallWeights), d.Predictions(smallLogits()),
		d.Finish(smallRun())))
	files := []string{
		"metrics.jsonl", "model.safetensors", "predictions.npy", "profile.json", "run.json",
		"run.yaml", "state.json",
	}
	assert.Equal(t, files, names(t, path))
	lines, err := os.ReadFile(filepath.Join(path, "metrics.jsonl"))
	require.NoError(t, err)
	want := `{"epoch":1,"loss":null,"lr":0,"seconds":0,"live_bytes":0,"peak_bytes":0}
{"epoch":2,"loss":null,"lr":0,"train":0.5,"val":null,"test":0,"val_loss":0,"seconds":0,"live_bytes":0,"peak_bytes":0}
{"epoch":3,"loss":null,"lr":0,"seconds":0,"live_bytes":0,"peak_bytes":0}
`
	assert.Equal(t, want, string(lines))
	checkLogits(t, filepath.Join(path, Predictions))
	got, o, weights, err := Read(path)
	if err != nil || weights != filepath.Join(path, "model.safetensors") || !filepath.IsAbs(got.Store) {
		t.Errorf("%v, %s, %s", err, weights, got.Store)
	}
	assert.Equal(t, train.Defaults(), o)
	if got.Summary.RunDir != path || got.Finished.Before(got.Started) {
		t.Errorf("run in %s, from %v to %v", got.Summary.RunDir, got.Started, got.Finished)
	}
	if got.Summary.Losses[0] != 0.1 || !math.IsNaN(float64(got.Summary.Losses[1])) {
		t.Errorf("losses %v", got.Summary.Losses)
	}
}
