package reports

import (
	"fmt"
	"testing"

	"weft/internal/assert"
	"weft/train"
	"weft/train/metric"
)

// TestCurvesAreThinned: a long curve of few evaluations shows all of these, and the last epoch.
func TestCurvesAreThinned(t *testing.T) {
	r := &reportRun{}
	r.Summary.Metric = "accuracy"
	for k := 1; k <= 3*mostPoints; k++ {
		n := float64(k)
		r.curve = append(r.curve, train.Epoch{
			Epoch: k, Loss: n, LR: n, Seconds: n, PeakBytes: int64(k), Evaluated: k%25 == 0,
			Scores: metric.Scores{Train: n, Val: n, Test: n},
		})
	}
	p := &reportContents{Runs: []*reportRun{r}}
	p.draw()
	for _, c := range p.Curves {
		want := mostPoints + 1
		if c.Title == "accuracy" {
			want = len(r.curve) / 25
		}
		if x := c.Series[0].X; len(x) != want || x[len(x)-1] != metric.Number(len(r.curve)) {
			t.Errorf("%s: %d points up to epoch %d, want %d", c.Title, len(x), int(x[len(x)-1]), want)
		}
	}
}

// TestMetricsHaveCharts: runs of different metrics share no chart of them.
func TestMetricsHaveCharts(t *testing.T) {
	p := &reportContents{}
	for _, name := range []string{"accuracy", "rmse", "accuracy"} {
		r := &reportRun{
			curve: []train.Epoch{
				{Epoch: 1, Evaluated: true, Scores: metric.Scores{Train: .5, Val: .5, Test: .5}},
			},
		}
		r.Summary.Metric = name
		p.Runs = append(p.Runs, r)
	}
	p.draw()
	curves := map[string]int{}
	for _, c := range p.Curves {
		curves[c.Title] = len(c.Series)
	}
	assert.Equal(t, 6, curves["accuracy"], "curves of accuracy and rmse: %v", curves)
	assert.Equal(t, 3, curves["rmse"], "curves of accuracy and rmse: %v", curves)
}

// TestLevelCurves: what no epoch changes in any run is a line and no chart.
func TestLevelCurves(t *testing.T) {
	p := &reportContents{}
	for k, rate := range []float64{.5, .25} {
		r := &reportRun{Name: fmt.Sprint("run", k)}
		for e := range 3 {
			r.curve = append(r.curve, train.Epoch{
				Epoch: e, Loss: float64(3 - e), LR: rate, Seconds: 2, PeakBytes: 3_000_000,
				LiveBytes: 1_000_000 * int64(1+e*k),
			})
		}
		p.Runs = append(p.Runs, r)
	}
	p.draw()
	var drawn []string
	for _, c := range p.Curves {
		drawn = append(drawn, c.Title)
	}
	assert.Equal(t, []string{"loss", "tensors of worker 0, at the peak"}, drawn)
	assert.Equal(t, []string{"learning rate: 0.25 to 0.5", "seconds of an epoch: 2 s"}, p.Level)
	p.Runs, p.Curves, p.Level = p.Runs[:1], nil, nil
	p.draw()
	assert.Equal(t, []string{
		"learning rate: 0.5", "seconds of an epoch: 2 s",
		"tensors of worker 0, at the peak: 3 MB, after the epoch 1 MB",
	}, p.Level)
	p.Runs[0].curve, p.Curves, p.Level = p.Runs[0].curve[:1], nil, nil
	p.draw()
	assert.Equal(t, nil, p.Level, "of one epoch")
	assert.Equal(t, 4, len(p.Curves), "of one epoch")
}

// TestCurvesHaveUnits: memory is in units of 10⁶ bytes, and shares are percent. An epoch without an
// evaluation has no metric.
func TestCurvesHaveUnits(t *testing.T) {
	r := &reportRun{Name: "run", curve: []train.Epoch{
		{Epoch: 1, Loss: 2, LR: .5, Seconds: 3, PeakBytes: 2_500_000, LiveBytes: 1_000_000},
		{
			Epoch: 2, Loss: 1, LR: .25, Seconds: 4, PeakBytes: 3_000_000, LiveBytes: 500_000, Evaluated: true,
			Scores: metric.Scores{Train: .75, Val: .5, Test: .25, ValLoss: 8},
		},
	}}
	r.Summary.Metric = "accuracy"
	p := &reportContents{Runs: []*reportRun{r}}
	p.draw()
	var got []string
	for _, c := range p.Curves {
		for _, s := range c.Series {
			got = append(got, fmt.Sprintf("%s (%s): %s %v at %v", c.Title, c.Unit, s.Name, s.Y, s.X))
		}
	}
	want := []string{
		"loss (): run training [2 1] at [1 2]", "loss (): run validation (dashes) [8] at [2]",
		"accuracy ( %): run training (dots) [75] at [2]", "accuracy ( %): run validation (dashes) [50] at [2]",
		"accuracy ( %): run test [25] at [2]",
		"learning rate (): run [0.5 0.25] at [1 2]", "seconds of an epoch ( s): run [3 4] at [1 2]",
		"tensors of worker 0, at the peak ( MB): run [2.5 3] at [1 2]",
		"tensors of worker 0, at the peak ( MB): run after the epoch (dashes) [1 0.5] at [1 2]",
	}
	assert.Equal(t, want, got)
}

// TestColorsOfRuns: no two of many runs have the same color.
func TestColorsOfRuns(t *testing.T) {
	seen := map[string]int{}
	for k := range 64 {
		color := colorOf(k)
		if before, twice := seen[color]; twice || len(color) != 7 {
			t.Errorf("run %d has %s, as run %d", k, color, before)
		}
		seen[color] = k
	}
}

// TestRunsAreSorted: the best run by validation comes first, and its color is the first.
func TestRunsAreSorted(t *testing.T) {
	p := &reportContents{}
	for _, val := range []metric.Number{.2, .9, .5} {
		r := &reportRun{}
		r.Summary.Metric, r.Summary.Val = "accuracy", val
		p.Runs = append(p.Runs, r)
	}
	p.sort()
	for k, want := range []metric.Number{.9, .5, .2} {
		assert.Equal(t, want, p.Runs[k].Summary.Val)
		assert.Equal(t, colors[k], p.Runs[k].Color)
	}
}

// TestPartsOfARun: training, validation and test of a run alone have a color each, those of several runs the
// run's; each best epoch is marked.
func TestPartsOfARun(t *testing.T) {
	of := func() *reportRun {
		r := &reportRun{Color: "#123456"}
		r.Summary.Metric, r.Summary.BestEpoch = "accuracy", 2
		for k := 1; k <= 3; k++ {
			n := float64(k) / 4
			r.curve = append(r.curve, train.Epoch{
				Epoch: k, Loss: n, Evaluated: true,
				Scores: metric.Scores{ValLoss: n, Train: n, Val: n, Test: n},
			})
		}
		return r
	}
	for _, runs := range [][]*reportRun{{of()}, {of(), of()}} {
		p := &reportContents{Runs: runs}
		p.draw()
		seen := map[string]bool{}
		for _, s := range p.Curves[1].Series {
			seen[s.Color] = true
		}
		assert.Equal(t, len(runs) == 1, len(seen) == 3, "%d colors of %d runs", len(seen), len(runs))
		assert.Equal(t, mark{2, "#123456"}, p.Curves[1].Best[0])
		assert.Equal(t, true, p.Curves[0].Log, "a loss above 0 is logarithmic")
	}
}

// TestNamesBreakBetweenWords: a line breaks behind a separator, and the parts are the name.
func TestNamesBreakBetweenWords(t *testing.T) {
	assert.Equal(t, []string{"sweep/", "run-", "0001_", "é"}, words("sweep/run-0001_é"))
}
