package train

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/autograd"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/metric"
	"weft/train/setting"
)

// TestBestEpoch: of equal epochs the first is the best. Patience counts from the last progress.
func TestBestEpoch(t *testing.T) {
	scored := func(val, loss float64) metric.Scores { return metric.Scores{Val: val, ValLoss: loss} }
	nan := math.NaN()
	course := []metric.Scores{scored(.5, 1), scored(.4, .5), scored(.7, .9), scored(.7, .5), scored(.6, .6)}
	unmeasured := []metric.Scores{scored(nan, nan), scored(nan, nan)}
	for _, c := range []struct {
		selects     string
		course      []metric.Scores
		best, since int
	}{
		{"metric", course, 3, 3},
		{setting.SelectLoss, course, 2, 2},
		{"metric", course[:2], 1, 2}, // the loss fell
		{setting.SelectLoss, course[2:], 2, 2},
		{"metric", unmeasured, 2, 2},
		{setting.SelectLoss, unmeasured, 2, 2},
		{"metric", []metric.Scores{scored(.5, nan), scored(.7, nan), scored(.6, nan)}, 2, 2}, // no loss
	} {
		b := newState(&Options{Select: c.selects, Patience: 2}, time.Time{}, "accuracy").best
		for k, s := range c.course {
			b.better(k+1, s)
		}
		assert.Equal(t, c.best, b.epoch, "%s of %v", c.selects, c.course)
		assert.Equal(t, c.since, b.since, "%s of %v", c.selects, c.course)
		if b.exhausted(c.since+1) || !b.exhausted(c.since+2) {
			t.Errorf("%s: patience does not end two epochs after the last progress", c.selects)
		}
	}
}

// TestEpochLines: a line of metrics.jsonl is the epoch again. One without scores was not evaluated. A score
// that is null, or missing beside others, is NaN.
func TestEpochLines(t *testing.T) {
	nan := math.NaN()
	for line, want := range map[string]Epoch{
		`{"epoch":2,"loss":0.5,"lr":0.1,"seconds":3,"live_bytes":4,"peak_bytes":5}`: {
			Epoch: 2, Loss: .5, LR: .1, Seconds: 3, LiveBytes: 4, PeakBytes: 5,
		},
		`{"epoch":1,"train":0.5,"val":null,"test":0,"val_loss":2}`: {
			Epoch: 1, Scores: metric.Scores{Train: .5, Val: nan, ValLoss: 2}, Evaluated: true,
		},
		`{"epoch":1,"train":0.5,"val":0.25,"test":0}`: { // before there was a validation loss
			Epoch: 1, Scores: metric.Scores{Train: .5, Val: .25, ValLoss: nan}, Evaluated: true,
		},
		`{"epoch":1,"val_loss":null}`: {Epoch: 1, Scores: metric.Unmeasured(), Evaluated: true},
	} {
		var got Epoch
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		assert.EqualBy(t, want, got, cmpopts.EquateNaNs())
	}
}

// TestDiverges: a run whose numbers stop being finite has no results if it had none before, on any number of
// workers. The first two have finite losses, but weights and logits that are not finite.
func TestDiverges(t *testing.T) {
	g := tangled(t)
	for name, c := range map[string]struct {
		rate   float64
		epochs int
		fault  string
	}{
		"gcn": {1e38, 1, "the weights are not finite"},
		"gin": {1e10, 1, "the logits are not finite"},
		"out": {1e38, 5, "the weights are not finite"},
	} {
		for _, k := range []int{1, 3} {
			o := networks()[name]
			o.Norm, o.Clip, o.LR, o.Epochs = "none", 0, c.rate, c.epochs
			j := &Job{Graph: g, Options: o}
			if k > 1 {
				j = divided(t, g, o, k, nil)
			}
			r, err := j.Run(context.Background())
			var diverged *Diverged
			if !errors.As(err, &diverged) || diverged.Epoch != 1 || diverged.Fault != c.fault {
				t.Errorf("%s on %d workers: %+v, %v", name, k, r, err)
			}
		}
	}
}

// TestDivergesLater: the best weights so far are kept, with their predictions.
func TestDivergesLater(t *testing.T) {
	g := tangle(t, 3000, 20_000)
	for name, fault := range map[string]string{
		"gcn":  "the logits are not finite",
		"sage": "the loss is NaN",
	} {
		o := networks()[name]
		o.Norm, o.Epochs, o.Optimizer, o.LR = "none", 100, "sgd", 100
		for _, k := range []int{1, 2} {
			j := &Job{Graph: g, Options: o}
			if k > 1 {
				j = divided(t, g, o, k, nil)
			}
			told := 0
			j.OnEpoch = func(Epoch) { told++ }
			r := mustRun(t, j)
			if r.Diverged == nil || r.Diverged.Epoch != r.Epochs || r.Diverged.Fault != fault ||
				r.BestEpoch >= r.Epochs || told != r.Epochs {
				t.Fatalf("%s on %d workers: %v after %d epochs of which %d were told, the best is %d", name,
					k, r.Diverged, r.Epochs, told, r.BestEpoch)
			}
			for name, w := range r.Weights {
				if !tensor.Finite(w.Float32) {
					t.Errorf("%s is not finite", name)
				}
			}
			p, err := j.Predict(context.Background(), r.Weights, Logits)
			if err != nil || !tensor.Finite(r.Logits) || !slices.Equal(p.Logits, r.Logits) {
				t.Errorf("%s on %d workers: the predictions are not those of the best weights, %v", name, k,
					err)
			}
		}
	}
}

// TestPlateau: the learning rate falls after each evaluation whose metric is not the highest yet, on any
// number of workers alike. A run with nothing to validate on is refused.
func TestPlateau(t *testing.T) {
	g := tangled(t)
	o := networks()["gcn"]
	o.Schedule, o.PlateauFactor, o.PlateauPatience, o.LR, o.Epochs, o.Select = "plateau", .5, 0, 1, 12,
		setting.SelectMetric
	var rates [2][]float64
	for k, mesh := range []string{"", "graph=2"} {
		o.Parallel = mesh
		highest, want := 0., o.LR
		job := &Job{Graph: g, Options: o, OnEpoch: func(e Epoch) {
			rates[k] = append(rates[k], e.LR)
			assert.Equal(t, want, e.LR, "epoch %d", e.Epoch)
			if e.Val > highest*(1+1e-4) {
				highest = e.Val
			} else {
				want /= 2
			}
		}}
		mustRun(t, job)
	}
	if n := len(rates[0]); rates[0][n-1] == o.LR || !slices.Equal(rates[0], rates[1]) {
		t.Errorf("rates %v, and on two workers %v", rates[0], rates[1])
	}
	g.Types[0].Splits[0].Test, g.Types[0].Splits[0].Val = append(g.Types[0].Splits[0].Test,
		g.Types[0].Splits[0].Val...), []int64{}
	slices.Sort(g.Types[0].Splits[0].Test)
	o.Parallel = ""
	_, err := (&Job{Graph: g, Options: o}).Run(context.Background())
	want := "--schedule plateau: nothing is held out for validation; give another split, or take " +
		"--schedule constant"
	assert.EqualRefusal(t, err, want)
}

// inferring is an engine that tells of each inference before it begins.
type inferring struct {
	engine.Engine
	begins func()
}

func (e inferring) Infer(without int) *autograd.Var {
	e.begins()
	return e.Engine.Infer(without)
}

// TestIdleMemoryAtTheEnd: the evaluation of the last epoch begins without idle memory, and leaves none. In
// other epochs memory stays for the next pass.
func TestIdleMemoryAtTheEnd(t *testing.T) {
	o := networks()["gcn"]
	o.Epochs, o.EvalEvery = 3, setting.Every(1)
	idle := func(m *tensor.Meter) (bytes int64) {
		m.Watch(func(u tensor.Usage) { bytes = u.Idle })
		m.Watch(nil)
		return bytes
	}
	var memory *tensor.Meter
	var before, after []bool // whether any is idle, by epoch
	j := &Job{Graph: tangled(t), Options: o, OnEpoch: func(Epoch) { after = append(after, idle(memory) > 0) }}
	j.Engine = func(c engine.Config) (engine.Engine, error) {
		e, err := engine.New(c)
		memory = c.Team.Memory
		c.Team.Serial(func() { e = inferring{e, func() { before = append(before, idle(memory) > 0) }} })
		return e, err
	}
	mustRun(t, j)
	require.Len(t, before, 4, "inferences") // the last is for the logits
	assert.Equal(t, []bool{true, true, false}, before[:3], "before evaluations")
	assert.Equal(t, []bool{true, true, false}, after, "after epochs")
}
