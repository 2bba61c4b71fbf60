package metric

import (
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestCurvesOfScikitLearn: the points are those of roc_curve and precision_recall_curve of scikit-learn 1.3,
// for y = 0 0 1 1 0 and scores .1 .4 .35 .8 .35, of which two are equal: the highest of each X.
func TestCurvesOfScikitLearn(t *testing.T) {
	logits := []float32{0, .1, 0, .4, 0, .35, 0, .8, 0, .35}
	l := &graph.Labels{Classes: 2, Class: []int64{0, 0, 1, 1, 0}}
	e, err := Evaluate(logits, l, everyVertex(5))
	require.NoError(t, err)
	const third = 1. / 3
	assert.Equal(t, []Point{{0, .5}, {third, .5}, {2 * third, 1}, {1, 1}}, e.ROC)
	assert.Equal(t, []Point{{0, 1}, {.5, 1}, {1, .5}}, e.PrecisionRecall)
	l.Class = []int64{1, 1, 1, 1, 1}
	e, err = Evaluate(logits, l, everyVertex(5))
	require.NoError(t, err)
	assert.Equal(t, nil, e.ROC)
}
