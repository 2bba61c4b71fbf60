package metric

import (
	"math"
	"strings"
	"testing"

	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestOfValues holds the metrics against scikit-learn's root_mean_squared_error, mean_absolute_error and
// r2_score of two outputs, on one worker and on two.
func TestOfValues(t *testing.T) {
	nan := float32(math.NaN())
	l := &graph.Labels{Columns: 2, Values: []float32{1, 10, 2, 20, 4, 20, 8, 60, 3, 5, nan, nan}}
	predictions := []float32{1.5, 12, 2, 14, 3, 30, 9, 50, 30, 50, 7, 7}
	want := map[string]float64{RMSE: 4.247983346207417, MAE: 3.8125, R2: 0.8795136330140014}
	for _, parts := range [][][]int64{{{0, 1, 2, 3}}, {{3, 0}, {1, 2}}, {{5, 2, 1, 0, 3}, {}}} {
		err := launch.Workers(len(parts), 0, func(c *comm.Comm) error {
			got, err := OfValues(predictions, l, parts[c.Rank()], c)
			for name, x := range want {
				assert.Near(t, x, got[name], 1e-12, "%s on %d workers", name, len(parts))
			}
			return err
		})
		require.NoError(t, err)
	}
	same := &graph.Labels{Columns: 1, Values: []float32{3, 3, 3}}
	for _, c := range []struct {
		predictions []float32
		vertices    []int64
		r2          float64
	}{
		{[]float32{3, 3, 3}, everyVertex(3), 1},
		{[]float32{3, 3, 4}, everyVertex(3), 0},
		{[]float32{3, 3, 4}, nil, math.NaN()},
	} {
		got, err := OfValues(c.predictions, same, c.vertices, comm.Alone())
		if x := got[R2]; err != nil || x != c.r2 && !(math.IsNaN(x) && math.IsNaN(c.r2)) {
			t.Errorf("r2 of %v at %v: %v, want %v (error %v)", c.predictions, c.vertices, x, c.r2, err)
		}
	}
}

// TestMetricOfAnotherKind: metrics of classes are no metrics of values.
func TestMetricOfAnotherKind(t *testing.T) {
	if name, err := ChooseOfValues(Auto); name != RMSE || err != nil {
		t.Errorf("the default: %q, %v", name, err)
	}
	_, err := ChooseOfValues(Accuracy)
	assert.Refused(t, err, "", "accuracy of values")
}

// TestEvaluateRefusesNaN: logits of the vertices that are no finite numbers have no softmax.
func TestEvaluateRefusesNaN(t *testing.T) {
	l := &graph.Labels{Classes: 2, Class: []int64{0, 1}}
	for _, z := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		logits := []float32{0, 1, 2, float32(z)}
		if _, err := Evaluate(logits, l, everyVertex(2)); !refusal.IsDamaged(err) ||
			!strings.Contains(err.Error(), "the logits of vertex 1") {
			t.Errorf("%v: %v", z, err)
		}
		_, err := Evaluate(logits, l, everyVertex(1))
		assert.NoError(t, err, "%v of another vertex", z)
	}
}

// TestEvaluate holds confusion and the scores of classes against scikit-learn's confusion_matrix and
// precision_recall_fscore_support, and the calibration error against its definition.
func TestEvaluate(t *testing.T) {
	l := &graph.Labels{Classes: 3, Class: []int64{0, 0, 1, 1, 1, -1}, Names: []string{"a", "b", "c"}}
	// σ: a prediction that is sure by 1/2, as e^0 = 1 of e^0 + 2·e^(−ln 2)
	half := -float32(math.Ln2)
	logits := []float32{
		0, half, half, // right
		half, half, 0,
		half, 0, half, // right
		0, half, half,
		half, 0, half, // right
		9, 0, 0,
	}
	e, err := Evaluate(logits, l, everyVertex(5))
	require.NoError(t, err)
	want := []ClassScores{{"a", .5, .5, .5, 2}, {"b", 1, 2. / 3, .8, 3}, {"c", 0, 0, 0, 0}}
	for k, c := range e.Classes {
		if c.Name != want[k].Name || c.Support != want[k].Support || math.Abs(c.Precision-want[k].Precision)+
			math.Abs(c.Recall-want[k].Recall)+math.Abs(c.F1-want[k].F1) > 1e-12 {
			t.Errorf("class %d: %+v, want %+v", k, c, want[k])
		}
	}
	for k, row := range [][]int{{1, 0, 1}, {1, 2, 0}, {0, 0, 0}} {
		for j, n := range row {
			assert.Equal(t, n, e.Confusion[k][j], "confusion %v", e.Confusion)
		}
	}
	for name, x := range map[string]float64{Accuracy: .6, CalibrationError: .1, "macro-f1": (.5 + .8) / 3} {
		assert.Near(t, x, e.Scores[name], 1e-6, name)
	}
	assert.Equal(t, 3./5, e.MostFrequent, "always class b, of 3 vertices of 5")
	text, err := e.MarshalJSON()
	require.NoError(t, err, "JSON %s", text)
	const begin = `{"accuracy":0.6,"accuracy-most-frequent":0.6,`
	assert.Equal(t, begin, string(text[:len(begin)]), "JSON %s", text)
	if none, err := Evaluate(logits, l, nil); err != nil || !math.IsNaN(none.Scores[Accuracy]) ||
		!math.IsNaN(none.MostFrequent) || len(none.Classes) != 3 {
		t.Errorf("of no vertices: %+v, %v", none, err)
	}
}
