package train

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/train/setting"
)

// evaluated is a run that is evaluated every epoch: its curve, and the number of its kernel calls.
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
	return mustRun(t, &j), curve, calls
}

// sameScores compares a run that reads its evaluations from the next epochs' passes with one whose evaluations
// have passes of their own, to the bit: all epochs, the best one, weights and predictions. It must make fewer
// kernel calls.
func sameScores(t *testing.T, what string, j *Job) (read *Result) {
	t.Helper()
	want, wantCurve, own := evaluated(t, *j, 1)
	got, gotCurve, calls := evaluated(t, *j, setting.AutoEvery)
	assert.EqualBy(t, wantCurve, gotCurve, cmpopts.IgnoreFields(Epoch{}, "Seconds", "LiveBytes", "PeakBytes"),
		cmpopts.EquateNaNs())
	equalRuns(t, got, want)
	assert.Equal(t, want.Communication, got.Communication, "%s: sent", what)
	if calls >= own {
		t.Errorf("%s: %d kernel calls, and %d where evaluations have passes of their own", what, calls, own)
	}
	return got
}

// readable are features without what an evaluation needs a pass of its own for, on their meshes.
func readable(t *testing.T) map[string]feature {
	all := features(t)
	for name, f := range all {
		o := &f.Options
		o.Dropout, o.InputDropout, o.TransformDropout, o.AttentionDropout, o.DropEdge, o.LabelInput = 0, 0, 0, 0,
			0, 0
		if o.Epochs = 3; o.Norm == "batch" {
			o.Norm = "layer"
		}
		all[name] = f
	}
	return all
}

// TestReadsEvaluations: with every model, task and kind of features, on every mesh and in turns, the forward
// pass of the next epoch has the metrics of an evaluation. A pass of its own follows the last epoch alone. The
// plan is what the run takes.
func TestReadsEvaluations(t *testing.T) {
	all := readable(t)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		t.Run(name, func(t *testing.T) {
			meshes := append([]string{""}, f.meshes...)
			for k, mesh := range meshes[:min(3, len(meshes))] {
				j := onMesh(f.g, f.Options, mesh)
				if strings.HasPrefix(mesh, "pipeline") {
					j.Options.Chunks = 1
				}
				if (i+k)%3 == 2 {
					j.Options.Precision = "bf16"
				}
				if f.job != nil {
					f.job(j)
				}
				sameScores(t, mesh, j)
				j.Options.EvalEvery = setting.AutoEvery
				planAndRun(t, j)
			}
		})
	}
}

// TestReadsInTurns: so it is where partitions take turns, and where matrices rest.
func TestReadsInTurns(t *testing.T) {
	g := tangle(t, 700, 1000)
	for name, c := range map[string]struct{ words, mesh string }{
		"sage":   {"model sage, norm layer", "graph=1/4"},
		"gat":    {"model gat, heads 4, patience 1, lr 1", "graph=2/4"},
		"slices": {"model gcn, norm graph, jk cat", "graph=2,tensor=2/4"},
		"values": {"model gin, activation gelu", "graph=1/3"},
	} {
		t.Run(name, func(t *testing.T) {
			on := g
			if name == "values" {
				on = withValues(g)
			}
			o := given(Defaults(), "layers 3, hidden 24, epochs 5, dropout 0, select loss, "+c.words)
			inMemory := sameScores(t, "in memory", onMesh(on, o, c.mesh))
			o.Offload = t.TempDir()
			j := onMesh(on, o, c.mesh)
			equalRuns(t, sameScores(t, "at rest", j), inMemory)
			j.Options.EvalEvery = setting.AutoEvery
			plan, err := j.Plan(t.Context())
			require.NoError(t, err)
			auto := mustRun(t, j)
			if moved := auto.Disk; auto.Workers == 1 && auto.Ended == EndedEpochs && moved != plan.Disk() {
				t.Errorf("moved %+v, planned %+v", moved, plan.Disk())
			}
			j.Options.EvalEvery = 1
			if own := mustRun(t, j).Disk; auto.Disk.Read >= own.Read {
				t.Errorf("moved %+v, and %+v with passes of their own", auto.Disk, own)
			}
		})
	}
}
