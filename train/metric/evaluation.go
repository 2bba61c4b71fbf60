package metric

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
)

// Evaluation is how good predictions are for some rows.
type Evaluation struct {
	// Scores are all metrics that the labels allow, by name.
	Scores map[string]float64
	// MostFrequent is the accuracy of a prediction that always says the most frequent class of these
	// rows, if each has one class; NaN without rows.
	MostFrequent float64
	// Classes are the scores of each class, nil for values.
	Classes []ClassScores
	// Confusion counts the rows of each true class (line) by the predicted class (column), nil where a
	// row may have several labels, and for values.
	Confusion [][]int
}

// Point is a point of a curve.
type Point struct{ X, Y float64 }

// ClassScores are the scores of a class: precision TP/(TP+FP), recall TP/(TP+FN) and F1 2·TP/(2·TP+FP+FN),
// each 0 where its divisor is 0. TP rows have the class and are predicted to have it, FP are predicted to
// have it and do not, and FN have it and are not predicted to.
type ClassScores struct {
	Name      string  `json:"name"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
	Support   int     `json:"support"` // TP + FN
}

// MarshalJSON implements json.Marshaler: one object with the scores by name beside confusion and classes.
func (e Evaluation) MarshalJSON() ([]byte, error) {
	object := map[string]any{}
	for name, x := range e.Scores {
		object[name] = Number(x)
	}
	if e.Classes != nil {
		object["classes"] = e.Classes
	}
	if e.Confusion != nil {
		object["confusion"] = e.Confusion
		object["accuracy-most-frequent"] = Number(e.MostFrequent)
	}
	return json.Marshal(object)
}

// Evaluate measures predictions (rows × columns) on some of the rows, by all metrics that the
// labels allow, and by the named metrics with an argument. It refuses logits of these rows that are not
// finite.
func Evaluate(predictions []float32, l *graph.Labels, rows []int64, named ...string) (
	e Evaluation, err error,
) {
	alone := comm.Alone()
	if l.Continuous() {
		e.Scores, err = OfValues(predictions, l, rows, alone)
		return e, err
	}
	for _, v := range rows {
		for _, z := range predictions[int(v)*l.Classes : (int(v)+1)*l.Classes] {
			if x := float64(z); math.IsNaN(x) || math.IsInf(x, 0) {
				return e, refusal.Damaged("the logits of %s %d are no finite numbers; train again, or "+
					"predict with other weights", l.Noun().One, v)
			}
		}
	}
	e.Scores = map[string]float64{}
	for _, asked := range slices.Concat(ClassNames, named) {
		name, not := Choose(asked, "", l)
		if not != nil { // the metric is not defined on these labels
			continue
		}
		if e.Scores[name], err = Named(name, l)(predictions, l, rows, alone); err != nil {
			return e, err
		}
	}
	hits, predicted, actual, err := countClasses(predictions, l, rows, alone)
	if err != nil {
		return e, err
	}
	if hits == nil { // no rows
		none := make([]float64, l.Classes)
		hits, predicted, actual = none, none, none
	}
	e.Classes = make([]ClassScores, l.Classes)
	for k := range e.Classes {
		e.Classes[k] = ClassScores{
			Name: l.ClassName(k), Support: int(actual[k]), F1: f1Of(hits[k], predicted[k], actual[k]),
			Precision: hits[k] / max(1, predicted[k]), Recall: hits[k] / max(1, actual[k]),
		}
	}
	e.Scores[CalibrationError] = ReliabilityOf(predictions, l, rows).Error()
	if l.MultiLabel() {
		return e, nil
	}
	e.MostFrequent = slices.Max(actual) / float64(len(rows))
	e.Confusion = make([][]int, l.Classes)
	for k := range e.Confusion {
		e.Confusion[k] = make([]int, l.Classes)
	}
	for _, v := range rows {
		e.Confusion[l.Class[v]][argmax(predictions[int(v)*l.Classes:(int(v)+1)*l.Classes])]++
	}
	return e, nil
}

// Curves are the curves over all thresholds, if rows have one of two classes. roc has the share of class
// 1 that is found (Y) by the share of class 0 that is taken for it (X). precisionRecall has precision (Y) by
// recall (X). They have a point for each score, the largest score first. Of points with the same X, the
// highest counts. Curves are nil for other labels, and if a class has no vertex.
func Curves(logits []float32, l *graph.Labels, rows []int64) (roc, precisionRecall []Point) {
	if l.Continuous() || l.MultiLabel() || l.Classes != 2 {
		return nil, nil
	}
	score := func(v int64) float64 { return float64(logits[2*v+1]) - float64(logits[2*v]) }
	sorted := slices.Clone(rows)
	slices.SortFunc(sorted, func(a, b int64) int { return cmp.Compare(score(b), score(a)) })
	var all, found [2]float64 // rows of each class: all, and those with at least this score
	for _, v := range sorted {
		all[l.Class[v]]++
	}
	if all[0] == 0 || all[1] == 0 {
		return nil, nil
	}
	add := func(to []Point, x, y float64) []Point {
		if last := len(to) - 1; last >= 0 && to[last].X == x {
			to[last].Y = max(to[last].Y, y)
			return to
		}
		return append(to, Point{x, y})
	}
	roc, precisionRecall = []Point{{0, 0}}, []Point{{0, 1}}
	for k, v := range sorted {
		found[l.Class[v]]++
		if k+1 < len(sorted) && score(sorted[k+1]) == score(v) {
			continue
		}
		recall := found[1] / all[1]
		roc = add(roc, found[0]/all[0], recall)
		precisionRecall = add(precisionRecall, recall, found[1]/(found[0]+found[1]))
	}
	return roc, precisionRecall
}

// CalibrationError is the expected calibration error with 15 bins (Guo et al. 2017, equation 3): the mean
// difference between how sure the predictions of a bin are, by softmax, and how many of them are right. If
// rows have several labels, each label that is known is a prediction: the row has it or not.
const CalibrationError = "calibration-error"

// calibrationBins is the number of bins.
const calibrationBins = 15

// Reliability compares how sure predictions are, by softmax, with how many of them are right. Each of its 15
// bins has the predictions whose likeliest class has a probability in one of 15 equal parts of 0 … 1.
type Reliability [calibrationBins]struct {
	Sure, Right float64 // sums over the bin
	Count       int
}

// ReliabilityOf is the Reliability of the logits of some rows.
func ReliabilityOf(logits []float32, l *graph.Labels, rows []int64) *Reliability {
	r, p := &Reliability{}, make([]float64, l.Classes)
	for _, v := range rows {
		row := logits[int(v)*l.Classes : (int(v)+1)*l.Classes]
		if l.MultiLabel() {
			for k, z := range row {
				p[k] = 1 / (1 + math.Exp(-float64(z)))
			}
			r.AddLabels(p, l.Multi[int(v)*l.Classes:])
			continue
		}
		top, all := argmax(row), 0.
		for _, z := range row {
			all += math.Exp(float64(z) - float64(row[top]))
		}
		r.Add(1/all, int64(top) == l.Class[v])
	}
	return r
}

// Add adds a prediction to its bin: the probability of its likeliest class, and whether that is right.
func (r *Reliability) Add(probability float64, right bool) {
	bin := &r[min(int(calibrationBins*probability), calibrationBins-1)]
	bin.Sure, bin.Count = bin.Sure+probability, bin.Count+1
	if right {
		bin.Right++
	}
}

// AddLabels adds a prediction for each of several labels: its probability, and whether the row has the label,
// 1 or 0. NaN, a missing label, is left out.
func (r *Reliability) AddLabels(probabilities []float64, labels []float32) {
	for k, p := range probabilities {
		if y := labels[k]; y == y {
			r.Add(max(p, 1-p), (p > .5) == (y > .5))
		}
	}
}

// Error is the expected calibration error.
func (r *Reliability) Error() float64 {
	sum, count := 0., 0
	for _, bin := range r {
		sum, count = sum+math.Abs(bin.Sure-bin.Right), count+bin.Count
	}
	return sum / float64(count)
}

// Curve has a point for each bin with a prediction: the share that is right (Y) by the mean probability (X).
// counts is how many predictions each of these bins has.
func (r *Reliability) Curve() (points []Point, counts []int) {
	for _, bin := range r {
		if n := float64(bin.Count); n > 0 {
			points, counts = append(points, Point{bin.Sure / n, bin.Right / n}), append(counts, bin.Count)
		}
	}
	return points, counts
}
