package metric

import (
	"testing"

	"weft/graph"
	"weft/internal/assert"
)

// TestCurvesOfScikitLearn: the points are those of roc_curve and precision_recall_curve of scikit-learn 1.3,
// for y = 0 0 1 1 0 and scores .1 .4 .35 .8 .35, of which two are equal: the highest of each X.
func TestCurvesOfScikitLearn(t *testing.T) {
	logits := []float32{0, .1, 0, .4, 0, .35, 0, .8, 0, .35}
	l := &graph.Labels{Classes: 2, Class: []int64{0, 0, 1, 1, 0}}
	roc, precisionRecall := Curves(logits, l, everyVertex(5))
	const third = 1. / 3
	assert.Equal(t, []Point{{0, .5}, {third, .5}, {2 * third, 1}, {1, 1}}, roc)
	assert.Equal(t, []Point{{0, 1}, {.5, 1}, {1, .5}}, precisionRecall)
	l.Class = []int64{1, 1, 1, 1, 1}
	roc, _ = Curves(logits, l, everyVertex(5))
	assert.Equal(t, nil, roc)
}
