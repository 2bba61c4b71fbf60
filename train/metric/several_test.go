package metric

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// onWorkers runs f on each of n workers of this process.
func onWorkers(n int, f func(c *comm.Comm)) {
	var all sync.WaitGroup
	for _, end := range comm.InProcess(n) {
		all.Go(func() { f(comm.New(end, 0)) })
	}
	all.Wait()
}

// TestAreaOfWorkers: the scores of three workers make one area, of which each has too little. By hand, the
// negatives are 1, 3, 4 and the positives 2, 3, 5: of nine pairs 1 + 1.5 + 3 are in order.
func TestAreaOfWorkers(t *testing.T) {
	scores := [][]float64{{1, 3}, {2, 3, 5}, {4}}
	onWorkers(3, func(c *comm.Comm) {
		local := scores[c.Rank()]
		got, err := AreaUnder(c, len(local), func(i int) (float64, bool) { return local[i], c.Rank() == 1 })
		if want := 5.5 / 9; err != nil || math.Abs(got-want) > 1e-15 {
			t.Errorf("worker %d: %v, %v, want %v", c.Rank(), got, err, want)
		}
	})
}

// TestAreaOfManyScores: more scores than are sent at a time. The negatives are 0…n−1. Of two positives one
// lies above k of them and one above all.
func TestAreaOfManyScores(t *testing.T) {
	const n, k = 70_000, 66_000
	positives := []float64{k - .5, n}
	got, err := AreaUnder(comm.Alone(), n+2, func(i int) (float64, bool) {
		if i >= n {
			return positives[i-n], true
		}
		return float64(i), false
	})
	if want := float64(k+n) / (2 * n); err != nil || math.Abs(got-want) > 1e-15 {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestAveragePrecision: scores of one worker and of three, whatever each has, by average_precision_score of
// scikit-learn 1.9.1: a few with a tie, and 200 of which many tie. With several labels it is the mean of
// those that some vertices have and others do not.
func TestAveragePrecision(t *testing.T) {
	few := [][2]float64{{.1, 0}, {.4, 0}, {.35, 1}, {.8, 1}, {.35, 0}}
	var many [][2]float64
	for i := range 200 {
		row := [2]float64{math.RoundToEven(float64(i*37%101) / 10), 0}
		if i*7%10 == 0 {
			row[0], row[1] = row[0]+2, 1
		}
		many = append(many, row)
	}
	for _, c := range []struct {
		rows [][2]float64
		want float64
	}{{few, .75}, {many, .4354979163703905}, {few[:2], math.NaN()}, {few[2:4], math.NaN()}} {
		for _, workers := range []int{1, 3} {
			onWorkers(workers, func(world *comm.Comm) {
				var local [][2]float64
				for i, row := range c.rows {
					if i*i%workers == world.Rank() { // the third has none
						local = append(local, row)
					}
				}
				got, err := averagePrecision(world, len(local), func(i int) (float64, bool) {
					return local[i][0], local[i][1] == 1
				})
				if err != nil || !(math.Abs(got-c.want) < 1e-12) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
					t.Errorf("%d rows on %d workers: %v, %v, want %v", len(c.rows), workers, got, err, c.want)
				}
			})
		}
	}
	labels := &graph.Labels{Classes: 3, Multi: []float32{1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1}}
	logits := []float32{1, -5, 0, -2, 9, 1, 4, 3, 2, 5, 4, 3}
	got, err := Named(AveragePrecision, labels)(logits, labels, everyVertex(4), comm.Alone())
	require.NoError(t, err)
	assert.Near(t, (.5833333333333333+1)/2, got, 1e-12)
}

// TestRankingOfANamedClass: either of two classes, and one of several labels, by scikit-learn 1.9.1:
// average_precision_score, roc_auc_score and the largest tpr of roc_curve with fpr ≤ .5. Names hold colons.
// Of the four that score highest for a:b two are of it; of those for c three are.
func TestRankingOfANamedClass(t *testing.T) {
	two := &graph.Labels{Classes: 2, Names: []string{"a:b", "c"}, Class: []int64{0, 1, 1, 0, 1, 1, 0, 1}}
	scores := []float32{1, 0, 0, 2, 3, 0, 2, 0, 0, 1, 1, 0, 0, 3, 0, 4}
	several := &graph.Labels{Classes: 3, Multi: []float32{1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1}}
	each := []float32{1, -5, 0, -2, 9, 1, 4, 3, 2, 5, 4, 3}
	for name, want := range map[string]float64{
		"average-precision": .7416666666666667, "average-precision:c": .7416666666666667,
		"average-precision:a:b": .4761904761904762, "roc-auc:c": .5666666666666667,
		"roc-auc:a:b": .5666666666666667, "precision@4:a:b": .5, "precision@4": .75,
		"recall@fpr=.5:a:b": 2. / 3, "recall@fpr=.5": .6,
	} {
		got, err := Named(name, two)(scores, two, everyVertex(8), comm.Alone())
		require.NoError(t, err)
		assert.Near(t, want, got, 1e-12, "%s", name)
	}
	for name, want := range map[string]float64{
		"average-precision:0": .5833333333333333, "average-precision:1": 1, "roc-auc:0": .5,
	} {
		got, err := Named(name, several)(each, several, everyVertex(4), comm.Alone())
		require.NoError(t, err)
		assert.Near(t, want, got, 1e-12, "%s of several", name)
	}
}

// TestWhoseMetric: those that do not name one of two classes are of the second, except where both have the
// same.
func TestWhoseMetric(t *testing.T) {
	for name, want := range map[string]bool{
		"average-precision": true, "precision@5": true, "recall@fpr=.1": true, "average-precision:c": false,
		"precision@5:c": false, "recall@fpr=.1:c": false, "roc-auc": false, "f1:c": false, "accuracy": false,
	} {
		assert.Equal(t, want, MeasuresSecond(name), "%s", name)
	}
	k, is := Top("precision@50:c")
	assert.Equal(t, 50, k)
	assert.Equal(t, true, is)
}

// TestAreaOfEachLabel: by hand. Label 0 has positives 1 and 4 over the negative −2 and under 5, and label 1
// all pairs in order. Read by another row's or label's values, they give something else.
func TestAreaOfEachLabel(t *testing.T) {
	labels := &graph.Labels{Classes: 2, Multi: []float32{1, 0, 0, 1, 1, 0, 0, 1}}
	logits := []float32{1, -5, -2, 9, 4, 3, 5, 4}
	got, err := Named(ROCAUC, labels)(logits, labels, everyVertex(4), comm.Alone())
	if want := (.5 + 1) / 2; err != nil || got != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestF1OfFewClasses: no vertices of two classes, or of four, are no number, and some are one.
func TestF1OfFewClasses(t *testing.T) {
	for classes := 1; classes <= 4; classes++ {
		l, logits := &graph.Labels{Classes: classes, Class: []int64{0}}, make([]float32, classes)
		for _, name := range []string{"micro-f1", "macro-f1"} {
			none, err := Named(name, l)(logits, l, nil, comm.Alone())
			if err != nil || !math.IsNaN(none) {
				t.Errorf("%s of no vertices of %d classes: %v, %v", name, classes, none, err)
			}
		}
		if got, err := Named("micro-f1", l)(logits, l, []int64{0}, comm.Alone()); err != nil || got != 1 {
			t.Errorf("micro-f1 of %d classes: %v, %v", classes, got, err)
		}
	}
}

// TestMacroF1OfWorkers: of four classes one worker has vertices of the first, one of the second, and none of
// the last; nobody says the third. By f1_score(average="macro") of scikit-learn 1.9.1: a class that another
// worker's vertices have counts, and the last does not.
func TestMacroF1OfWorkers(t *testing.T) {
	class := [][]int64{{0, 0}, {1, 2}, {}}
	logits := [][]float32{{1, 0, 0, 0, 0, 1, 0, 0}, {0, 1, 0, 0, 0, 1, 0, 0}, {}}
	onWorkers(3, func(c *comm.Comm) {
		l := &graph.Labels{Classes: 4, Class: class[c.Rank()]}
		got, err := Named("macro-f1", l)(logits[c.Rank()], l, everyVertex(len(l.Class)), c)
		if want := (2./3 + 1./2 + 0) / 3; err != nil || math.Abs(got-want) > 1e-15 {
			t.Errorf("worker %d: %v, %v, want %v", c.Rank(), got, err, want)
		}
	})
}

// TestRanksByHand: the ranks 1, 2 and 3, 4, 10, 11 of two workers, by the definitions of the mean reciprocal
// rank and of hits@k (Bordes et al. 2013).
func TestRanksByHand(t *testing.T) {
	ranks := [][]float64{{1, 2}, {3, 4, 10, 11}}
	want := []float64{(1 + 1./2 + 1./3 + 1./4 + 1./10 + 1./11) / 6, 1. / 6, 3. / 6, 5. / 6}
	names := Ranked(LinkNamesOf(graph.NoNegatives))
	require.Equal(t, "[mrr hits@1 hits@3 hits@10]", fmt.Sprint(names), "means over ranks")
	onWorkers(2, func(c *comm.Comm) {
		got, err := OfRanks(c, ranks[c.Rank()], 6, names)
		assert.NoError(t, err)
		for i, x := range got {
			assert.Near(t, want[i], x, 1e-15, names[i])
		}
	})
	if none, err := OfRanks(comm.Alone(), nil, 0, []string{MRR}); err != nil || !math.IsNaN(none[0]) {
		t.Errorf("of no ranks: %v, %v", none, err)
	}
}

// TestHitsAbove: by hand, hits@K of OGB's evaluator, on workers that each have too few negative edges. A
// score equal to the K-th highest negative one is no hit; with fewer negative edges than K all edges are.
func TestHitsAbove(t *testing.T) {
	edges, negatives := [][]float32{{5, 40}, {}, {90.5, 91, 1000}}, make([][]float32, 3)
	for score := range 100 { // 10th highest: 90; 20th: 80; 50th: 50; 100th: 0
		negatives[score%3] = append(negatives[score%3], float32(score))
	}
	edges[0] = append(edges[0], 90)
	onWorkers(3, func(c *comm.Comm) {
		names := []string{"hits@10", "hits@20", "hits@50", "hits@100"}
		got, err := HitsAbove(c, edges[c.Rank()], negatives[c.Rank()], names)
		if want := []float64{3. / 6, 4. / 6, 4. / 6, 1}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
		few, err := HitsAbove(c, edges[c.Rank()], negatives[c.Rank()][:3], names[:1])
		require.NoError(t, err, "of nine negative edges: %v", few)
		assert.Equal(t, 1, few[0], "of nine negative edges: %v", few)
	})
	if none, err := HitsAbove(comm.Alone(), nil, negatives[0], []string{"hits@10"}); err != nil ||
		!math.IsNaN(none[0]) {
		t.Errorf("of no edges: %v, %v", none, err)
	}
}

// TestRankOf: the mean of the best and the worst rank among equal scores, as OGB's evaluator has it.
func TestRankOf(t *testing.T) {
	for _, c := range []struct {
		edge float32
		want float64
	}{{5, 1}, {4, 1.5}, {3, 3}, {2, 4}, {0, 5}} {
		assert.Equal(t, c.want, RankOf(c.edge, []float32{4, 3, 3, 1}), "the rank of %v", c.edge)
	}
}

// TestNumberInJSON: what JSON has no number for is null, and reads back as NaN (RFC 8259, section 6).
func TestNumberInJSON(t *testing.T) {
	for _, c := range []struct {
		x    float64
		text string
	}{{.1, "0.1"}, {-2, "-2"}, {math.NaN(), "null"}, {math.Inf(1), "null"}, {math.Inf(-1), "null"}} {
		text, err := json.Marshal(Number(c.x))
		require.NoError(t, err, "%v is written %s", c.x, text)
		assert.Equal(t, c.text, string(text), "%v is written %s", c.x, text)
		var back Number
		assert.NoError(t, json.Unmarshal(text, &back))
		if x := float64(back); c.text == "null" && !math.IsNaN(x) || c.text != "null" && x != c.x {
			t.Errorf("%s is read as %v", text, x)
		}
	}
}

// TestRecallOfRoundedRate: 29 of 100 are .29 of them, though .29 times 100 is less in float64.
func TestRecallOfRoundedRate(t *testing.T) {
	l, logits := &graph.Labels{Classes: 2}, []float32{}
	for v := range 101 {
		score, class := float32(-v), int64(0)
		if v == 100 {
			score, class = -28.5, 1 // below 29 of class 0
		}
		l.Class, logits = append(l.Class, class), append(logits, 0, score)
	}
	for name, want := range map[string]float64{"recall@fpr=0.29": 1, "recall@fpr=0.28": 0} {
		got, err := Named(name, l)(logits, l, everyVertex(101), comm.Alone())
		if err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
}
