package reports

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/train"
	"weft/train/metric"
	"weft/train/rundir"
)

// TestCurvesAreThinned: a long curve keeps the least and the most of each pixel's width, its ends and its
// best epoch, and one of few evaluations keeps all.
func TestCurvesAreThinned(t *testing.T) {
	r := &reportRun{}
	r.Summary.Metric, r.Summary.BestEpoch = "accuracy", 1234
	const epochs = 10 * mostPoints
	for k := 1; k <= epochs; k++ {
		n := float64(k)
		r.curve = append(r.curve, train.Epoch{
			Epoch: k, Loss: 2 + math.Sin(7.3*n), LR: n, Seconds: n, PeakBytes: int64(k), Evaluated: k%25 == 0,
			Scores: metric.Scores{Train: n, Val: n, Test: n, ValLoss: n},
		})
	}
	p := &reportContents{Runs: []*reportRun{r}}
	p.draw()
	for _, c := range p.Curves {
		s := c.Series[0]
		if c.Title == "accuracy" {
			assert.Len(t, s.X, epochs/25, "evaluations")
			continue
		}
		if n := len(s.X); n < mostPoints || n > mostPoints+3 || s.X[0] != 1 || s.X[n-1] != epochs {
			t.Errorf("%s: %d points from epoch %v to %v", c.Title, n, s.X[0], s.X[n-1])
		}
		assert.Equal(t, true, slices.Contains(s.X, 1234), "%s: the best epoch is there", c.Title)
	}
	loss, step := p.Curves[0].Series[0], 2*epochs/mostPoints
	for from := 0; from < epochs; from += step {
		least, most := 9., 0.
		for _, e := range r.curve[from : from+step] {
			least, most = min(least, e.Loss), max(most, e.Loss)
		}
		gotLeast, gotMost := 9., 0.
		for k, x := range loss.X {
			if y := float64(loss.Y[k]); int(x) > from && int(x) <= from+step {
				gotLeast, gotMost = min(gotLeast, y), max(gotMost, y)
			}
		}
		assert.Near(t, least, gotLeast, 1e-5, "least from epoch %d", from)
		assert.Near(t, most, gotMost, 1e-5, "most from epoch %d", from)
	}
}

// TestPageOfManyEpochs: the page of 40 runs with 5,000 epochs each, of which each curve changes, takes less
// than 2 MB, and draws the best.
func TestPageOfManyEpochs(t *testing.T) {
	p := &reportContents{parts: PartsWith(reportScript)}
	random := rand.New(rand.NewPCG(1, 2))
	for k := range 40 {
		r := &reportRun{Name: fmt.Sprint("run-", k), Listed: &rundir.Listed{}}
		r.Summary.Metric, r.Summary.Val = "accuracy", metric.Number(1/float64(1+k))
		for e := range 5000 {
			x := random.Float64
			r.curve = append(r.curve, train.Epoch{
				Epoch:     1 + e,
				Loss:      x(),
				LR:        x(),
				Seconds:   x(),
				PeakBytes: int64(1e9 * x()),
				LiveBytes: int64(1e9 * x()),
				Evaluated: true,
				Scores:    metric.Scores{Train: x(), Val: x(), Test: x(), ValLoss: x()},
			})
		}
		p.Runs = append(p.Runs, r)
	}
	p.sort()
	p.answer(nil)
	p.draw()
	var page bytes.Buffer
	require.NoError(t, p.write(&page))
	if page.Len() > 2e6 {
		t.Errorf("%d bytes", page.Len())
	}
	assert.Len(t, p.Curves, 5)
	assert.Len(t, p.Curves[1].Series, 3*mostDrawn)
	assert.Equal(t, "run-0", p.Curves[1].Series[0].Name)
	assert.Contains(t, page.String(), "Curves are those of the best 12 runs.")
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
	assert.Equal(t, []string{"loss", "tensors of worker 0"}, drawn)
	assert.Equal(t, []string{"learning rate: 0.25 to 0.5", "seconds of an epoch: 2 s"}, p.Constants)
	p.Runs, p.Curves, p.Constants = p.Runs[:1], nil, nil
	p.draw()
	assert.Equal(t, []string{
		"learning rate: 0.5", "seconds of an epoch: 2 s",
		"tensors of worker 0: at the peak 3 MB, after the epoch 1 MB",
	}, p.Constants)
	p.Runs[0].curve, p.Curves, p.Constants = p.Runs[0].curve[:1], nil, nil
	p.draw()
	assert.Equal(t, nil, p.Constants, "of one epoch")
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
			got = append(
				got,
				fmt.Sprintf("%s (%s): %s %s %v at %v %v", c.Title, c.Unit, s.Name, s.Part, s.Y, s.X,
					s.Dash),
			)
		}
	}
	want := []string{
		"loss (): run training [2 1] at [1 2] []", "loss (): run validation [8] at [2] [6 4]",
		"accuracy ( %): run training [75] at [2] []", "accuracy ( %): run validation [50] at [2] [6 4]",
		"accuracy ( %): run test [25] at [2] [2 3]",
		"learning rate (): run  [0.5 0.25] at [1 2] []", "seconds of an epoch ( s): run  [3 4] at [1 2] []",
		"tensors of worker 0 ( MB): run at the peak [2.5 3] at [1 2] []",
		"tensors of worker 0 ( MB): run after the epoch [1 0.5] at [1 2] [6 4]",
	}
	assert.Equal(t, want, got)
}

// rgb is a color as linear red, green and blue.
type rgb [3]float64

// rgbOf reads #rrggbb.
func rgbOf(t *testing.T, text string) (c rgb) {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 16, 32)
	require.NoError(t, err)
	for k := range c {
		x := float64(n>>(16-8*k)&255) / 255
		if c[k] = x / 12.92; x > .04045 {
			c[k] = math.Pow((x+.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) times(m [3]rgb) (to rgb) {
	for k, row := range m {
		to[k] = row[0]*c[0] + row[1]*c[1] + row[2]*c[2]
	}
	return to
}

// contrast is that of WCAG 2.1.
func contrast(a, b rgb) float64 {
	luminance := func(c rgb) float64 { return .2126*c[0] + .7152*c[1] + .0722*c[2] + .05 }
	x, y := luminance(a), luminance(b)
	return max(x/y, y/x)
}

// oklab is a color in the space of Björn Ottosson (2020), where distances are as large as they look.
func (c rgb) oklab() rgb {
	for k := range c {
		c[k] = min(1, max(0, c[k]))
	}
	c = c.times([3]rgb{
		{.4122214708, .5363325363, .0514459929},
		{.2119034982, .6806995451, .1073969566},
		{.0883024619, .2817188376, .6299787005},
	})
	for k := range c {
		c[k] = math.Cbrt(c[k])
	}
	return c.times([3]rgb{
		{.2104542553, .7936177850, -.0040720468},
		{1.9779984951, -2.4285922050, .4505937099},
		{.0259040371, .7827717662, -.8086757660},
	})
}

// asSeen are what those see who have all cones, and those who lack one kind (Machado et al. 2009, severity
// 1).
var asSeen = map[string][3]rgb{
	"with all cones": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"by protanopes": {
		{.152286, 1.052583, -.204868},
		{.114503, .786281, .099216},
		{-.003882, -.048116, 1.051998},
	},
	"by deuteranopes": {
		{.367322, .860646, -.227968},
		{.280085, .672501, .047413},
		{-.011820, .042940, .968881},
	},
	"by tritanopes": {
		{1.255528, -.076749, -.178779},
		{-.078411, .930809, .147602},
		{.004733, .691367, .303900},
	},
}

// TestColors: the colors of runs differ from each other for everybody, and stand out from the page, and so do
// words, on light and dark pages.
func TestColors(t *testing.T) {
	modes := strings.SplitN(string(reportStyle), "@media", 2)
	for mode, style := range modes {
		found := map[string]rgb{}
		for _, m := range regexp.MustCompile(`--(\w+): (#\w+);`).FindAllStringSubmatch(style, -1) {
			text := m[2]
			if len(text) == 4 {
				text = "#" + strings.Repeat(
					text[1:2],
					2,
				) + strings.Repeat(
					text[2:3],
					2,
				) + strings.Repeat(
					text[3:],
					2,
				)
			}
			if _, there := found[m[1]]; !there { // further ones are those of the rest of the style
				found[m[1]] = rgbOf(t, text)
			}
		}
		for _, words := range []string{"text", "soft"} {
			for _, ground := range []string{"page", "tint"} {
				if c := contrast(found[words], found[ground]); c < 4.5 {
					t.Errorf("mode %d: the contrast of %s on %s is %.2f", mode, words, ground, c)
				}
			}
		}
		for k := range mostDrawn {
			a, there := found[fmt.Sprint("c", k)]
			if c := contrast(a, found["page"]); !there || c < 3 {
				t.Errorf("mode %d: the contrast of color %d is %.2f", mode, k, c)
			}
			for i := range k {
				for seen, m := range asSeen {
					x, y := a.times(m).oklab(), found[fmt.Sprint("c", i)].times(m).oklab()
					if d := math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2]); d < .09 {
						t.Errorf("mode %d: colors %d and %d differ by %.3f %s", mode, i, k, d, seen)
					}
				}
			}
		}
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
		assert.Equal(t, k, p.Runs[k].Color)
	}
}

// TestPartsOfARun: training, validation and test of a run alone have a color each, those of several runs the
// run's; each best epoch is marked.
func TestPartsOfARun(t *testing.T) {
	makeRun := func() *reportRun {
		r := &reportRun{Color: 7}
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
	for _, runs := range [][]*reportRun{{makeRun()}, {makeRun(), makeRun()}} {
		p := &reportContents{Runs: runs}
		p.draw()
		seen := map[int]bool{}
		for _, s := range p.Curves[1].Series {
			seen[s.Color] = true
		}
		assert.Equal(t, len(runs) == 1, len(seen) == 3, "%d colors of %d runs", len(seen), len(runs))
		color := 7
		if len(runs) == 1 {
			color = 1
		}
		assert.Equal(t, mark{2, 50, color}, p.Curves[1].Best[0])
		assert.Equal(t, true, p.Curves[0].Log, "a loss above 0 is logarithmic")
	}
}

// TestNamesBreakBetweenWords: a line breaks behind a separator, and the parts are the name.
func TestNamesBreakBetweenWords(t *testing.T) {
	assert.Equal(t, []string{"sweep/", "run-", "0001_", "é"}, words("sweep/run-0001_é"))
}

// TestDatasetName: a store that was made of a file has the file's name, without the key of its flags.
func TestDatasetName(t *testing.T) {
	for dataset, want := range map[string]string{
		"/data/payments.csv.0ffa2fdfefdc9b86.weft": "payments.csv", "stores/cora": "cora",
		"payments.csv": "payments.csv", "my.weft": "my.weft", "a.0ffa.weft": "a.0ffa.weft",
	} {
		assert.Equal(t, want, datasetName(dataset), dataset)
	}
}
