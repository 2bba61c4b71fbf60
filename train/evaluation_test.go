package train

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/train/setting"
)

// evaluated is a run that is evaluated every epoch: its curve, and the number of its kernel calls. With auto
// it equals its plan.
func evaluated(t *testing.T, j Job, every setting.Every) (r *Result, curve []Epoch, calls int) {
	t.Helper()
	var mu sync.Mutex
	j.Options.EvalEvery = every
	j.OnEpoch = func(e Epoch) { curve = append(curve, e) }
	j.Watch = func(_ kernel.Call, run func()) {
		mu.Lock()
		calls++
		mu.Unlock()
		run()
	}
	if every == setting.AutoEvery {
		r, _ = planAndRun(t, &j)
	} else {
		r = mustRun(t, &j)
	}
	return r, curve, calls
}

// sameCurves compares curves, to the bit.
func sameCurves(t *testing.T, got, want []Epoch) {
	t.Helper()
	assert.EqualBy(t, want, got, cmpopts.IgnoreFields(Epoch{}, "Seconds", "LiveBytes", "PeakBytes"),
		cmpopts.EquateNaNs())
}

// sameScores compares a run whose evaluations are read from the next epochs' passes with one whose
// evaluations have passes of their own, to the bit: all epochs, the best one, weights and predictions, and
// what workers send in an epoch. It makes fewer kernel calls.
func sameScores(t *testing.T, j *Job) (read, own *Result) {
	t.Helper()
	own, ownCurve, ownCalls := evaluated(t, *j, 1)
	read, curve, calls := evaluated(t, *j, setting.AutoEvery)
	sameCurves(t, curve, ownCurve)
	equalRuns(t, read, own)
	assert.Equal(t, own.Communication, read.Communication, "sent")
	if calls >= ownCalls {
		t.Errorf("%d kernel calls, and %d where evaluations have passes of their own", calls, ownCalls)
	}
	return read, own
}

// TestReadsEvaluations: with models, tasks and kinds of features the forward pass of the next epoch has
// the metrics of an evaluation, where nothing is dropped and no norm has running statistics. A pass of its
// own follows the last epoch alone.
func TestReadsEvaluations(t *testing.T) {
	all := features(t)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i%2 == 1 {
			continue
		}
		f := all[name]
		o := &f.Options
		o.Dropout, o.InputDropout, o.TransformDropout, o.AttentionDropout = 0, 0, 0, 0
		o.DropEdge, o.LabelInput = 0, 0
		if o.Epochs = 3; o.Norm == "batch" {
			o.Norm = "layer"
		}
		if i%6 == 4 {
			o.Precision = "bf16"
		}
		mesh := append(f.meshes, "")[i/2%(1+len(f.meshes))]
		t.Run(name+" on "+mesh, func(t *testing.T) {
			j := onMesh(f.g, *o, mesh)
			if strings.HasPrefix(mesh, "pipeline") {
				j.Options.Chunks = 1
			}
			if f.job != nil {
				f.job(j)
			}
			sameScores(t, j)
		})
	}
}

// TestReadsInTurns: so it is where partitions take turns and where matrices rest, which moves fewer bytes.
func TestReadsInTurns(t *testing.T) {
	g := tangle(t, 700, 1000)
	for name, c := range map[string]struct {
		g           *graph.Graph
		words, mesh string
	}{
		"gat":    {g, "model gat, heads 4", "graph=2/4"},
		"slices": {g, "model gcn, norm graph, jk cat", "graph=2,tensor=2/4"},
		"values": {withValues(g), "model gin, activation gelu", "graph=1/3"},
	} {
		t.Run(name, func(t *testing.T) {
			o := apply(Defaults(), "layers 3, hidden 24, epochs 3, dropout 0, select loss, "+c.words)
			inMemory, _ := sameScores(t, onMesh(c.g, o, c.mesh))
			o.Offload = t.TempDir()
			j := onMesh(c.g, o, c.mesh)
			plan, err := j.Plan(t.Context())
			require.NoError(t, err)
			read, own := sameScores(t, j)
			equalRuns(t, read, inMemory)
			moved, planned := read.Disk, plan.Disk()
			if read.Workers == 1 && (moved != planned || moved.Read >= own.Disk.Read) {
				t.Errorf("moved %+v, planned %+v, and %+v with passes of their own", moved, planned, own.Disk)
			}
		})
	}
}

// TestReadsTheEnd: a run ends after the same epoch, for the same reason, with the same rates and results,
// although the next epoch's pass has begun. Its checkpoint is that of the epoch with which it ends.
func TestReadsTheEnd(t *testing.T) {
	g := tangle(t, 400, 200)
	for name, c := range map[string]struct {
		words string
		ended Ended
	}{
		"patience": {"select loss, patience 1, optimizer sgd, lr 5", EndedPatience},
		"patient":  {"select loss, patience 2, optimizer sgd, lr 5", EndedEpochs},
		"diverged": {"lr 1e12, optimizer sgd", EndedDiverged},
		"plateau":  {"schedule plateau, plateau-patience 0, lr .3", EndedEpochs},
	} {
		t.Run(name, func(t *testing.T) {
			o := apply(Defaults(), "model gcn, epochs 12, dropout 0, parallel graph=2, "+c.words)
			var (
				results [2]*Result
				curves  [2]*[]Epoch
				folder  string
			)
			for every := range results {
				o.EvalEvery = setting.Every(every)
				j := &Job{Graph: g, Options: o}
				folder = filepath.Join(t.TempDir(), "checkpoints")
				curves[every] = follow(j, folder, nil)
				results[every] = mustRun(t, j)
				last := results[every].Epochs
				if c.ended != EndedDiverged {
					assert.Equal(t, last, openLast(t, folder).Epoch, "the checkpoint's epoch")
				}
			}
			assert.Equal(t, c.ended, results[0].Ended)
			if ends := results[0].Epochs < o.Epochs; ends != (c.ended != EndedEpochs) {
				t.Errorf("%d epochs", results[0].Epochs)
			}
			equalRuns(t, results[0], results[1])
			assert.Equal(t, results[1].Diverged, results[0].Diverged, "why it diverged")
			sameCurves(t, *curves[0], *curves[1])
		})
	}
}

// TestReadsAfterACheckpoint: a checkpoint has no evaluation of its epoch, which the run that continues reads
// to the bit: also after patience has run out, and of another graph by a pass of its own.
func TestReadsAfterACheckpoint(t *testing.T) {
	g := tangle(t, 400, 200)
	o := apply(Defaults(), "model gcn, epochs 9, dropout 0, optimizer sgd, lr 5, select loss")
	o.Parallel = "graph=2"
	whole := &Job{Graph: g, Options: o}
	wantCurve := follow(whole, filepath.Join(t.TempDir(), "whole"), nil)
	want := mustRun(t, whole)
	for name, c := range map[string]struct {
		patience, stop int
		validate       bool
	}{
		"patience": {patience: 1}, "stopped": {stop: 3}, "validated": {stop: 3, validate: true},
	} {
		t.Run(name, func(t *testing.T) {
			first := &Job{Graph: g, Options: o}
			first.Options.Patience = c.patience
			folder := filepath.Join(t.TempDir(), "checkpoints")
			follow(first, folder, nil)
			ctx := context.Background()
			if c.stop > 0 {
				ctx = stopAfter(first, c.stop)
			}
			before, err := first.Run(ctx)
			require.NoError(t, err)
			if before.Epochs >= o.Epochs {
				t.Fatalf("%d epochs before", before.Epochs)
			}
			second := &Job{Graph: g, Options: o}
			curve := follow(second, folder, openLast(t, folder))
			resumed := second.OnResume
			second.OnResume = func(done []Epoch) error {
				for _, e := range done {
					if !e.Evaluated {
						t.Errorf("epoch %d is told, and not evaluated", e.Epoch)
					}
				}
				return resumed(done)
			}
			if c.validate {
				second.Validate = &Job{Graph: g, Dataset: "the same"}
			}
			equalRuns(t, mustRun(t, second), want)
			sameCurves(t, *curve, *wantCurve)
		})
	}
}

// TestPassesOfTheirOwn: where training computes something else, each evaluation has its own pass.
func TestPassesOfTheirOwn(t *testing.T) {
	g := labelEdges(t, tangle(t, 400, 200), 0, "classes")
	for _, words := range []string{
		"dropout .1", "model sgc, edge-label label, dropout .1", "input-dropout .1", "model gat, attention-dropout .1",
		"model gatv2, transform-dropout .1", "drop-edge .1", "label-input .1", "norm batch",
		"parallel graph=2, wire bf16", "parallel graph=2, wire int8", "parallel graph=2, wire-schedule varco",
		"model gcnii, layers 4, parallel pipeline=2, chunks 2, chunk-order fixed",
		"hidden 9, layers 2, parallel tensor=2,pipeline=2, chunks 1", // 13 columns of features: above 9, below 18
	} {
		o := apply(Defaults(), "dropout 0, epochs 3, model gcn, "+words)
		own, ownCurve, ownCalls := evaluated(t, Job{Graph: g, Options: o}, 1)
		auto, curve, calls := evaluated(t, Job{Graph: g, Options: o}, setting.AutoEvery)
		sameCurves(t, curve, ownCurve)
		equalRuns(t, auto, own)
		if calls != ownCalls {
			t.Errorf("%s: %d kernel calls, want %d", words, calls, ownCalls)
		}
	}
}
