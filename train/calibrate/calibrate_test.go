package calibrate

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train/metric"
)

// oracle is a case of testdata/calibrated.py: what scikit-learn and SciPy make of logits and labels, fitted
// on some of the rows.
type oracle struct {
	Kind        string
	Classes     int
	Logits      []float32
	Fit         []int64
	Labels      []*float64 // null: not known
	Temperature float64
	Tempered    []float64
	Isotonic    []float64
	Threshold   []float64
	RestF1      float64 `json:"rest_f1"`
	// of each label, of several
	Thresholds [][]float64
	RestF1s    []float64 `json:"rest_f1s"`
	// the calibration error of all rows, before and after isotonic functions
	Errors []float64
}

// labels are those of the case.
func (o *oracle) labels() *graph.Labels {
	l := &graph.Labels{Classes: o.Classes}
	for _, y := range o.Labels {
		switch {
		case o.Kind != "labels":
			l.Class = append(l.Class, int64(*y))
		case y == nil:
			l.Multi = append(l.Multi, float32(math.NaN()))
		default:
			l.Multi = append(l.Multi, float32(*y))
		}
	}
	return l
}

func cases(t *testing.T) (all []oracle) {
	t.Helper()
	text, err := os.ReadFile("testdata/calibrated.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	assert.Equal(t, 3, len(all))
	return all
}

// TestCalibration: temperatures are the minima of the log-likelihood by SciPy, and functions of probabilities
// those of scikit-learn's IsotonicRegression, one for each class, whose values are divided by their sum.
func TestCalibration(t *testing.T) {
	for _, o := range cases(t) {
		l := o.labels()
		for method, want := range map[string][]float64{Temperature: o.Tempered, Isotonic: o.Isotonic} {
			c, err := Fit(method, o.Logits, l, o.Fit)
			require.NoError(t, err)
			require.NoError(t, c.Fits(o.Classes))
			text, err := json.Marshal(c)
			require.NoError(t, err)
			kept := &Calibration{}
			require.NoError(t, json.Unmarshal(text, kept))
			p, unlike := make([]float64, o.Classes), false
			room := make([]float64, o.Classes)
			for at := 0; at < len(o.Logits); at += o.Classes {
				kept.Apply(p, o.Logits[at:at+o.Classes], l.MultiLabel())
				for k := range p {
					assert.Near(t, want[at+k], p[k], 1e-6, "%s %s, logit %d", o.Kind, method, at+k)
					alone := kept.probability(room, o.Logits[at:at+o.Classes], k, l.MultiLabel())
					assert.Equal(t, p[k], alone, "%s %s, logit %d alone", o.Kind, method, at+k)
				}
				var own *Calibration
				q := make([]float64, o.Classes)
				own.Apply(q, o.Logits[at:at+o.Classes], l.MultiLabel())
				unlike = unlike || math.Abs(p[0]-q[0]) > .05
			}
			assert.Equal(t, true, unlike, "it changes probabilities")
			if method == Temperature {
				assert.Near(t, o.Temperature, c.T, 1e-6*o.Temperature)
			}
		}
	}
}

// TestUntoldLabel: a label that no row tells keeps its probability.
func TestUntoldLabel(t *testing.T) {
	nan := float32(math.NaN())
	l := &graph.Labels{Classes: 2, Multi: []float32{1, nan, 0, nan}}
	c, err := Fit(Isotonic, []float32{2, 1, 1, 3}, l, []int64{0, 1})
	require.NoError(t, err)
	require.NoError(t, c.Fits(2))
	p := make([]float64, 2)
	c.Apply(p, []float32{2, 1}, true)
	assert.Near(t, 1, p[0], 1e-12)
	assert.Near(t, 1/(1+math.Exp(-1)), p[1], 1e-12)
}

// TestNoLikelyClass: where steps make all classes impossible, each is as likely. Else probabilities are
// divided by their sum, also if one of them is 0.
func TestNoLikelyClass(t *testing.T) {
	step := Steps{From: []float64{.4, .6}, To: []float64{0, 1}}
	third := Steps{From: []float64{.1, .5}, To: []float64{0, .5}}
	c := &Calibration{Method: Isotonic, Steps: []Steps{step, step, third}}
	require.NoError(t, c.Fits(3))
	p := make([]float64, 3)
	for _, test := range []struct{ p, want [3]float64 }{
		{[3]float64{.39, .53, .08}, [3]float64{0, 1, 0}}, // .65 of .65
		{[3]float64{.45, .35, .2}, [3]float64{.25 / .375, 0, .125 / .375}},
		{[3]float64{1. / 3, 1. / 3, 1. / 3}, [3]float64{0, 0, 1}},
	} {
		c.Apply(p, logarithms(test.p), false)
		for k := range p {
			assert.Near(t, test.want[k], p[k], 1e-6, "%v", test.p)
		}
	}
	c.Steps[2] = Steps{From: []float64{.5}, To: []float64{0}}
	c.Apply(p, logarithms([3]float64{1. / 3, 1. / 3, 1. / 3}), false)
	assert.Equal(t, []float64{1. / 3, 1. / 3, 1. / 3}, p)
	assert.Equal(t, 1./3, c.probability(p, logarithms([3]float64{.3, .35, .35}), 0, false))
}

// logarithms are logits of probabilities.
func logarithms(p [3]float64) (row []float32) {
	for _, x := range p {
		row = append(row, float32(math.Log(x)))
	}
	return row
}

// TestLabelWithoutThreshold: a label without a threshold counts from a probability of a half.
func TestLabelWithoutThreshold(t *testing.T) {
	l := &graph.Labels{Classes: 2, Multi: []float32{1, 1, 0, 1, 1, 0, 0, 0}}
	// The probabilities of the first label are .62, .38, .62 and .38, and those of the second .88, .73, .27
	// and .12. From a half the F1 of the first is 1, from 0 it would be 2·2/(4+2). From .8 that of the second
	// is 2/3.
	logits := []float32{.5, 2, -.5, 1, .5, -1, -.5, -2}
	e, err := (&Found{Thresholds: []*Threshold{nil, {At: .8}}}).Evaluate(logits, l, []int64{0, 1, 2, 3})
	require.NoError(t, err)
	assert.Near(t, (1+2./3)/2, e.Scores[ThresholdF1], 1e-12)
}

// TestBestThreshold: the threshold with the largest F1 is that of scikit-learn's precision_recall_curve, and
// the F1 of other rows there is f1_score.
func TestBestThreshold(t *testing.T) {
	var own *Calibration
	for _, o := range cases(t) {
		l := o.labels()
		found := BestThreshold(nil, o.Logits, l, o.Fit)
		if o.Kind != "two" {
			assert.Equal(t, true, found == nil)
			continue
		}
		assert.Near(t, o.Threshold[0], found.At, 1e-12)
		assert.Near(t, o.Threshold[1], found.F1, 1e-12)
		var rest []int64
		for v := len(o.Fit); v < len(l.Class); v++ {
			rest = append(rest, int64(v))
		}
		assert.Near(t, o.RestF1, own.F1(found.At, o.Logits, l, rest, 1), 1e-12)
		assert.Equal(t, true, math.IsNaN(own.F1(found.At, o.Logits, l, nil, 1)))
		// A temperature keeps the order, and so the rows on either side.
		c := &Calibration{Method: Temperature, T: 3}
		other := BestThreshold(c, o.Logits, l, o.Fit)
		assert.Equal(t, found.F1, other.F1)
		assert.Equal(t, false, found.At == other.At)
		assert.Equal(t, own.F1(found.At, o.Logits, l, rest, 1), c.F1(other.At, o.Logits, l, rest, 1))
		// Rows without a label do not count, and where none has the class there is no threshold.
		for v := range l.Class {
			if l.Class[v] == 1 {
				l.Class[v] = -1
			}
		}
		assert.Equal(t, true, BestThreshold(nil, o.Logits, l, o.Fit) == nil)
	}
}

// TestEvaluate: the calibration error of some rows, before and after, and the F1 at the threshold, computed
// here from probabilities in double precision.
func TestEvaluate(t *testing.T) {
	for _, o := range cases(t) {
		l := o.labels()
		if l.Class == nil {
			continue
		}
		c, err := Fit(Isotonic, o.Logits, l, o.Fit)
		require.NoError(t, err)
		threshold := BestThreshold(c, o.Logits, l, o.Fit)
		e, err := (&Found{Calibration: c, Threshold: threshold}).Evaluate(o.Logits, l, o.Fit, "precision@3")
		require.NoError(t, err)
		var raw *Calibration
		for name, calibration := range map[string]*Calibration{metric.CalibrationError: c, ErrorBefore: raw} {
			const bins = 15
			var sure, right [bins]float64
			p := make([]float64, o.Classes)
			for _, v := range o.Fit {
				calibration.Apply(p, o.Logits[int(v)*o.Classes:][:o.Classes], false)
				top := slices.Index(p, slices.Max(p))
				bin := min(bins-1, int(bins*p[top]))
				if sure[bin] += p[top]; int64(top) == l.Class[v] {
					right[bin]++
				}
			}
			want := 0.
			for k := range sure {
				want += math.Abs(sure[k]-right[k]) / float64(len(o.Fit))
			}
			assert.Near(t, want, e.Scores[name], 1e-6, "%s: %s", o.Kind, name)
		}
		f1, there := e.Scores[ThresholdF1]
		assert.Equal(t, o.Kind == "two", there)
		if there {
			assert.Near(t, threshold.F1, f1, 1e-12)
		}
		e, err = (&Found{}).Evaluate(o.Logits, l, o.Fit)
		require.NoError(t, err)
		_, there = e.Scores[ErrorBefore]
		assert.Equal(t, false, there)
	}
}

// TestSeveralLabels: thresholds of each label are those of scikit-learn's precision_recall_curve, their F1
// among other rows f1_score, and the calibration error is NumPy's, of all labels that are told.
func TestSeveralLabels(t *testing.T) {
	for _, o := range cases(t) {
		l := o.labels()
		if l.Multi == nil {
			assert.Equal(t, true, BestThresholds(nil, o.Logits, l, o.Fit) == nil)
			continue
		}
		found := &Found{Thresholds: BestThresholds(nil, o.Logits, l, o.Fit)}
		require.NoError(t, found.Fits(o.Classes))
		var all, rest []int64
		for v := range len(l.Multi) / l.Classes {
			if all = append(all, int64(v)); v >= len(o.Fit) {
				rest = append(rest, int64(v))
			}
		}
		mean := 0.
		for k, threshold := range found.Thresholds {
			assert.Near(t, o.Thresholds[k][0], threshold.At, 1e-12)
			assert.Near(t, o.Thresholds[k][1], threshold.F1, 1e-12)
			mean += o.RestF1s[k] / float64(l.Classes)
		}
		e, err := found.Evaluate(o.Logits, l, rest)
		require.NoError(t, err)
		assert.Near(t, mean, e.Scores[ThresholdF1], 1e-12)
		e, err = found.Evaluate(o.Logits, l, all)
		require.NoError(t, err)
		assert.Near(t, o.Errors[0], e.Scores[metric.CalibrationError], 1e-9)
		found.Calibration, err = Fit(Isotonic, o.Logits, l, o.Fit)
		require.NoError(t, err)
		e, err = found.Evaluate(o.Logits, l, all)
		require.NoError(t, err)
		assert.Near(t, o.Errors[0], e.Scores[ErrorBefore], 1e-9)
		assert.Near(t, o.Errors[1], e.Scores[metric.CalibrationError], 1e-9)

		// A label that no row has.
		for v := range all {
			l.Multi[v*l.Classes] = 0
		}
		found.Thresholds = BestThresholds(nil, o.Logits, l, o.Fit)
		assert.Equal(t, true, found.Thresholds[0] == nil)
		require.NoError(t, found.Fits(o.Classes))
		found.Calibration = nil
		assert.Refused(t, found.Fits(o.Classes+1), "it has 3 thresholds of 4 labels; train the run again")
		found.Thresholds[1].At = 2
		assert.Refused(t, found.Fits(o.Classes), "its threshold 2 is not a probability")
	}
}

// TestRefusals: what cannot be calibrated is refused, and so is what a damaged file holds.
func TestRefusals(t *testing.T) {
	_, err := Fit(Isotonic, nil, &graph.Labels{Columns: 1, Values: []float32{1}}, []int64{0})
	assert.EqualRefusal(t, err, "--calibrate isotonic: values have no probabilities; leave it out")
	_, err = Fit(Temperature, nil, &graph.Labels{Classes: 2, Class: []int64{1}}, nil)
	assert.EqualRefusal(t, err, "--calibrate temperature: nothing is held out for validation; give another split, or leave it out")
	steps := Steps{From: []float64{0, 1}, To: []float64{0, 1}}
	for _, c := range []*Calibration{
		{Method: "other"},
		{Method: Temperature},
		{Method: Temperature, T: math.Inf(1)},
		{Method: Isotonic, Steps: []Steps{steps, steps}},
		{Method: Isotonic, Steps: []Steps{steps, steps, {From: []float64{1, 0}, To: steps.To}}},
		{Method: Isotonic, Steps: []Steps{steps, steps, {From: steps.From, To: []float64{1, 0}}}},
		{Method: Isotonic, Steps: []Steps{steps, steps, {From: steps.From, To: []float64{1}}}},
		{Method: Isotonic, Steps: []Steps{steps, steps, {}}},
		{Method: Isotonic, Steps: []Steps{steps, steps, {From: steps.From, To: []float64{0, 7}}}},
		{Method: Isotonic, Steps: []Steps{steps, steps, {From: []float64{-1, 0}, To: steps.To}}},
	} {
		assert.Equal(t, true, refusal.IsDamaged(c.Fits(3)))
	}
	for _, at := range []float64{-.1, 7, math.NaN()} {
		assert.Equal(t, true, refusal.IsDamaged((&Threshold{At: at}).fits()))
	}
	require.NoError(t, (*Threshold)(nil).fits())
	require.NoError(t, (&Threshold{At: 1}).fits())
	require.NoError(t, (&Threshold{At: 0}).fits()) // as of a probability that float32 makes 0
	require.NoError(t, (*Calibration)(nil).Fits(3))
	require.NoError(t, (&Calibration{Method: Isotonic, Steps: []Steps{steps}}).Fits(2))
}
