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
		if x := c.Series[0].X; len(x) != want || x[len(x)-1] != len(r.curve) {
			t.Errorf("%s: %d points up to epoch %d, want %d", c.Title, len(x), x[len(x)-1], want)
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
