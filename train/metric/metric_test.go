package metric

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// everyVertex is 0…n−1.
func everyVertex(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i)
	}
	return v
}

// alone is a metric on one worker.
func alone(m OfClasses) func(logits []float32, l *graph.Labels, vertices []int64) float64 {
	return func(logits []float32, l *graph.Labels, vertices []int64) float64 {
		x, err := m(logits, l, vertices, comm.Alone())
		if err != nil {
			panic(err)
		}
		return x
	}
}

func TestMetricsByHand(t *testing.T) {
	classes := &graph.Labels{Classes: 3, Class: []int64{0, 1, 2, 2, 1, -1}}
	logits := []float32{
		9, 1, 0, // right
		0, 0, 1, // 1 predicted as 2
		-3, -2, -1, // right
		5, 5, 5, // 2 predicted as 0: the first of equal logits
		0, 2, 1, // right
		0, 0, 0, // unlabelled
	}
	two := &graph.Labels{Classes: 2, Class: []int64{1, 0, 1, 0}}
	margins := []float32{3, 3, 0, 1, 5, 7, 2, 1} // 0, 1, 2 and −1: three of four pairs are in order
	// In several labels: label 0 has TP 1, FP 1, FN 1; label 1 has TP 2, FP 0, FN 0; label 2 has FP 1 and no
	// positive.
	multi := &graph.Labels{Classes: 3, Multi: []float32{1, 1, 0, 0, 1, 0, 1, 0, 0}}
	scores := []float32{1, 2, 0, 3, 1, -1, -1, 0, 4}
	for _, c := range []struct {
		metric   string
		labels   *graph.Labels
		logits   []float32
		vertices []int64
		want     float64
	}{
		{"accuracy", classes, logits, []int64{0, 1, 2, 3, 4}, 3. / 5},
		{"accuracy", classes, logits, []int64{1, 3}, 0},
		{"accuracy", classes, logits, []int64{4}, 1},
		{"micro-f1", classes, logits, []int64{0, 1, 2, 3, 4}, 3. / 5},
		{"macro-f1", classes, logits, []int64{0, 1, 2, 3, 4}, (2./3 + 2./3 + 1./2) / 3},
		// A class that neither occurs nor is predicted does not count. One that is only predicted, or only
		// occurs, counts 0. By f1_score(average="macro") of scikit-learn 1.9.1 too.
		{"macro-f1", classes, logits, []int64{0}, 1},
		{"macro-f1", classes, logits, []int64{0, 3}, (2./3 + 0) / 2},
		{"macro-f1", classes, logits, []int64{1}, 0},
		{"macro-f1", classes, logits, []int64{2, 4}, 1},
		{"roc-auc", two, margins, everyVertex(4), 3. / 4},
		{"roc-auc", two, margins, []int64{0, 3}, 1},
		{"roc-auc", two, margins, []int64{1, 2}, 1},
		{"roc-auc", two, []float32{0, 1, 0, 1, 0, 1, 0, 1}, everyVertex(4), 1. / 2},
		{"micro-f1", multi, scores, everyVertex(3), 2. * 3 / (2*3 + 2 + 1)},
		{"macro-f1", multi, scores, everyVertex(3), (1./2 + 1 + 0) / 3},
		{"macro-f1", multi, scores, []int64{0}, (1. + 1 + 0) / 3}, // label 2 counts, as in scikit-learn
		// Label 2 has no positives and does not count
		{"roc-auc", multi, scores, everyVertex(3), (0. + 1) / 2},
	} {
		assert.Near(t, c.want, alone(ofClasses[c.metric].measure)(c.logits, c.labels, c.vertices), 1e-12,
			"%s of vertices %v", c.metric, c.vertices)
	}
}

// TestNothingToMeasure: the result is NaN without vertices, and the area also without positives or negatives.
func TestNothingToMeasure(t *testing.T) {
	classes := &graph.Labels{Classes: 2, Class: []int64{1, 1, 0}}
	multi := &graph.Labels{Classes: 2, Multi: []float32{1, 0, 1, 0, 0, 0}}
	logits := []float32{1, 2, 3, 4, 5, 6}
	for name, metric := range ofClasses {
		for _, labels := range []*graph.Labels{classes, multi} {
			if _, err := Choose(name, "", labels); err != nil {
				continue
			}
			if got := alone(metric.measure)(logits, labels, nil); !math.IsNaN(got) {
				t.Errorf("%s of no vertices: %v", name, got)
			}
		}
	}
	for _, vertices := range [][]int64{{0}, {0, 1}, {2}} {
		if got := alone(ofClasses[ROCAUC].measure)(logits, classes, vertices); !math.IsNaN(got) {
			t.Errorf("the area for vertices %v, of one class: %v", vertices, got)
		}
	}
	if got := alone(ofClasses[ROCAUC].measure)(logits, multi, []int64{0, 1}); !math.IsNaN(got) {
		t.Errorf("the area of labels that all or none have: %v", got)
	}
}

// TestAreaIsAProbability compares the area with its definition: how often a positive scores above a negative.
// A tie counts half.
func TestAreaIsAProbability(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for trial := range 200 {
		n := 2 + r.IntN(60)
		spread := []int{2, 5, 1000}[trial%3] // many ties, some, hardly any
		score, positive := make([]float64, n), make([]bool, n)
		for i := range n {
			score[i], positive[i] = float64(r.IntN(spread))-3, r.IntN(3) == 0
		}
		above, pairs := 0.0, 0.0
		for i := range n {
			for j := range n {
				if positive[i] && !positive[j] {
					pairs++
					switch {
					case score[i] > score[j]:
						above++
					case score[i] == score[j]:
						above += .5
					}
				}
			}
		}
		area := func(sign float64) float64 {
			a, err := AreaUnder(comm.Alone(), n,
				func(i int) (float64, bool) { return sign * score[i], positive[i] })
			require.NoError(t, err)
			return a
		}
		got, want := area(1), above/pairs
		if pairs == 0 {
			if !math.IsNaN(got) {
				t.Errorf("%d vertices of one kind: %v", n, got)
			}
			continue
		}
		assert.Near(t, want, got, 1e-12, "%d vertices", n)
		assert.Near(t, 1, got+area(-1), 1e-12, "%d vertices: %v", n, got)
	}
}

// TestMetricProperties: each metric is between 0 and 1, does not depend on the order of the vertices, and is
// 1 for logits that match the labels. With one class per vertex micro-F1 is the accuracy.
func TestMetricProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const n = 60
	for range 50 {
		single, several := &graph.Labels{Classes: 2 + r.IntN(4)}, &graph.Labels{Classes: 1 + r.IntN(4)}
		for v := range n {
			single.Class = append(single.Class, int64((v+r.IntN(2))%single.Classes))
			for c := range several.Classes {
				several.Multi = append(several.Multi, float32((v+c)%2))
			}
		}
		for _, labels := range []*graph.Labels{single, several} {
			random, right := make([]float32, n*labels.Classes), make([]float32, n*labels.Classes)
			for i := range random {
				random[i] = float32(r.NormFloat64())
				if labels.MultiLabel() {
					right[i] = 2*labels.Multi[i] - 1
				} else if labels.Class[i/labels.Classes] == int64(i%labels.Classes) {
					right[i] = 1
				}
			}
			for name, metric := range ofClasses {
				if _, err := Choose(name, "", labels); err != nil {
					continue
				}
				all := everyVertex(n)
				got := alone(metric.measure)(random, labels, all)
				if !(got >= 0 && got <= 1) {
					t.Fatalf("%s is %v", name, got)
				}
				r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
				require.Equal(t, got, alone(metric.measure)(random, labels, all), name)
				require.Equal(t, 1, alone(metric.measure)(right, labels, all), "%s of perfect logits", name)
			}
			if !labels.MultiLabel() {
				assert.Near(t, alone(ofClasses["micro-f1"].measure)(random, labels, everyVertex(n)),
					alone(accuracy)(random, labels, everyVertex(n)), 1e-12, "accuracy")
			}
		}
	}
}

func TestChooseMetric(t *testing.T) {
	single, two, several := graph.Labels{Classes: 3, Class: []int64{0}},
		graph.Labels{Classes: 2, Class: []int64{0}}, graph.Labels{Classes: 3, Multi: []float32{0, 1, 1}}
	for _, c := range []struct {
		asked  string
		named  string // by the graph
		labels graph.Labels
		want   string // or how the refusal begins
	}{
		{"auto", "", single, "accuracy"},
		{"auto", "", several, "micro-f1"},
		{"auto", "roc-auc", several, "roc-auc"},
		{"auto", "macro-f1", single, "macro-f1"},
		{"accuracy", "roc-auc", two, "accuracy"},
		{"roc-auc", "", two, "roc-auc"},
		{"precision", "", single, "--metric precision: unknown"},
		{
			"accuracy", "", several, "--metric accuracy: it is of one class per vertex, and a vertex of this graph " +
				"may have several labels; take one of average-precision, macro-f1, micro-f1, roc-auc",
		},
		{"auto", "accuracy", several, "--metric accuracy: it is of one class per vertex"},
		{
			"roc-auc", "", single, "--metric roc-auc: the graph has 3 classes, not 2; take one of accuracy, " +
				"macro-f1, micro-f1",
		},
		{"f1:2", "", single, "f1:2"},
		{"f1:3", "", several, `--metric f1:3: no class of the graph is called "3"`},
		{"precision@7", "", several, "precision@7"},
		{"precision@7", "", single, "--metric precision@7: the graph has 3 classes"},
		{"precision@0", "", two, "--metric precision@0: it needs a number of vertices"},
		{"precision@1.5", "", two, "--metric precision@1.5: it needs a number of vertices"},
		{"recall@fpr=.01", "", two, "recall@fpr=.01"},
		{"recall@fpr=2", "", two, "--metric recall@fpr=2: it needs a rate from 0 to 1"},
		{"recall@fpr=NaN", "", two, "--metric recall@fpr=NaN: it needs a rate"},
		{"average-precision:0", "", two, "average-precision:0"},
		{"roc-auc:2", "", several, "roc-auc:2"},
		{"average-precision:0", "", single, "--metric average-precision:0: the graph has 3 classes"},
		{"roc-auc:yes", "", two, `--metric roc-auc:yes: no class of the graph is called "yes"`},
		{"precision@7:0", "", two, "precision@7:0"},
		{"precision@7:", "", two, `--metric precision@7:: no class of the graph is called ""`},
		{"recall@fpr=.01:yes", "", two, `--metric recall@fpr=.01:yes: no class of the graph is called "yes"`},
	} {
		got, err := Choose(c.asked, c.named, &c.labels)
		if err != nil {
			got = err.Error()
			assert.Refused(t, err, "")
		}
		refused := err != nil && strings.HasPrefix(c.want, "--metric ") && strings.HasPrefix(got, c.want)
		if got != c.want && !refused {
			t.Errorf("asked for %s of a graph that names %q: %q, want %q", c.asked, c.named, got, c.want)
		}
	}
	for _, c := range []struct {
		scope                scope
		single, two, several bool // whether it has them
	}{
		{scope{}, true, true, true},
		{scope{oneClass: true}, true, true, false},
		{scope{twoClasses: true}, false, true, true},
		{scope{oneClass: true, twoClasses: true}, false, true, false},
	} {
		got := [3]bool{c.scope.has(&single), c.scope.has(&two), c.scope.has(&several)}
		assert.Equal(t, [3]bool{c.single, c.two, c.several}, got, "%+v", c.scope)
	}
}

func TestArgmax(t *testing.T) {
	for _, c := range []struct {
		x    []float32
		want int
	}{{[]float32{1}, 0}, {[]float32{-2, -1, -3}, 1}, {[]float32{4, 4}, 0}, {[]float32{0, 1, 1}, 1}} {
		assert.Equal(t, c.want, argmax(c.x), "of %v", c.x)
	}
}
