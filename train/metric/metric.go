// Package metric computes the metrics. Each is a function of a worker's rows, which it combines with the rows
// of the other workers. All workers call it together, and get the same bits. Tasks measure evaluations by it,
// and commands measure predictions.
package metric

import (
	"maps"
	"math"
	"slices"
	"strings"

	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/suggest"
)

// OfClasses measures logits (rows × classes) on some of a worker's rows, of vertices or of edges. The result
// is NaN without rows.
type OfClasses func(logits []float32, l *graph.Labels, rows []int64, c *comm.Comm) (float64, error)

// Auto asks for the metric of the graph or of the task.
const Auto = "auto"

// Accuracy is the share of rows whose highest logit is that of their class.
const Accuracy = "accuracy"

// ROCAUC is the area under the receiver operating characteristic, of vertices and of edges.
const ROCAUC = "roc-auc"

// AveragePrecision is scikit-learn's average_precision_score.
const AveragePrecision = "average-precision"

// scope says of which labels a metric of classes is.
type scope struct {
	oneClass   bool // of one class per row, and not of several labels
	twoClasses bool // of two classes where each row has one: it tells them apart by their scores
	second     bool // of the second of two classes, unless its name has a class
}

// has reports whether a metric is defined on labels.
func (s scope) has(l *graph.Labels) bool {
	if l.MultiLabel() {
		return !s.oneClass
	}
	return !s.twoClasses || l.Classes == 2
}

// ofClasses are the metrics of classes whose names have no argument. The area under the receiver operating
// characteristic is the same for both of two classes.
var ofClasses = map[string]struct {
	measure OfClasses
	scope
}{
	Accuracy:         {accuracy, scope{oneClass: true}},
	AveragePrecision: {ofScores(averagePrecision, noClass), secondOfTwo},
	ROCAUC:           {ofScores(AreaUnder, noClass), scope{twoClasses: true}},
	"micro-f1":       {ofCounts(micro), scope{}},
	"macro-f1":       {macroF1, scope{}},
}

// ClassNames are the names of these metrics, which measure classes of vertices and of edges.
var ClassNames = slices.Sorted(maps.Keys(ofClasses))

// Named returns the metric of classes that Choose has returned by name, for such labels.
func Named(name string, l *graph.Labels) OfClasses {
	if metric, known := ofClasses[name]; known {
		return metric.measure
	}
	measure, _ := withArgument(name, l)
	return measure
}

// scopeOf is the scope of a metric of classes.
func scopeOf(name string) (s scope, known bool) {
	if f, _ := formOf(name); f != nil {
		return f.scope, true
	}
	metric, known := ofClasses[name]
	return metric.scope, known
}

// namesOn are the names of the metrics without an argument that are defined on labels.
func namesOn(l *graph.Labels) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(ClassNames), func(name string) bool {
		return !ofClasses[name].has(l)
	}), ", ")
}

// Choose returns the name of the metric asked for. For Auto it is the one that the graph names; "": none.
func Choose(asked, named string, l *graph.Labels) (string, error) {
	name := asked
	if name == Auto {
		switch {
		case named != "":
			name = named
		case l.MultiLabel():
			name = "micro-f1"
		default:
			name = Accuracy
		}
	}
	if _, err := withArgument(name, l); err != nil {
		return "", err
	}
	switch s, known := scopeOf(name); {
	case slices.Contains(ValueNames, name):
		return "", refusal.Errorf("--metric %s: of values, and the graph's labels are classes; take one of "+
			"%s", name, strings.Join(ClassNames, ", "))
	case !known:
		return "", refusal.Errorf("--metric %s: unknown metric; %s", name, suggest.OneOf(name, ClassNames))
	case !s.has(l) && l.MultiLabel():
		return "", refusal.Errorf("--metric %s: it is of one class per %s, and %s of this graph may have "+
			"several labels; take one of %s", name, l.Noun().One, l.Noun().A(), namesOn(l))
	case !s.has(l):
		return "", refusal.Errorf("--metric %s: the graph has %d classes, not 2; take one of %s", name,
			l.Classes, namesOn(l))
	}
	return name, nil
}

// MeasuresSecond reports whether a metric measures the second of two classes because its name has no class.
func MeasuresSecond(name string) bool {
	s, _ := scopeOf(name)
	return s.second && !strings.Contains(name, ":")
}

// sum replaces counts by their sums over all workers.
func sum(c *comm.Comm, counts []float64) error { return c.SumDoubles(comm.Statistics, counts) }

// accuracy is the share of rows whose largest logit is their class's. If several logits are equal, the
// first counts.
func accuracy(logits []float32, l *graph.Labels, rows []int64, c *comm.Comm) (float64, error) {
	right := 0
	for _, v := range rows {
		if int64(argmax(logits[int(v)*l.Classes:(int(v)+1)*l.Classes])) == l.Class[v] {
			right++
		}
	}
	return AccuracyOf(right, len(rows), c)
}

// AccuracyOf is the accuracy over all workers, if right of this worker's rows are predicted right.
func AccuracyOf(right, rows int, c *comm.Comm) (float64, error) {
	counts := []float64{float64(right), float64(rows)}
	err := sum(c, counts)
	return counts[0] / counts[1], err
}

func argmax(x []float32) (at int) {
	for c := range x {
		if x[c] > x[at] {
			at = c
		}
	}
	return at
}

// measure measures n scored rows of each worker.
type measure func(c *comm.Comm, n int, at func(i int) (score float64, positive bool)) (float64, error)

// noClass stands for the class of a metric whose name has none.
const noClass = -1

// ofScores is a metric of how high the scores of one class are where it is right: of class 1 if none is
// named. If rows have several labels, it is the metric of one label, or the mean over all labels that some
// rows have and others lack.
func ofScores(measure measure, class int) OfClasses {
	return func(logits []float32, l *graph.Labels, rows []int64, c *comm.Comm) (float64, error) {
		if !l.MultiLabel() {
			positive := 1
			if class != noClass {
				positive = class
			}
			return measure(c, len(rows), func(i int) (float64, bool) {
				v := int(rows[i])
				score := float64(logits[2*v+positive]) - float64(logits[2*v+1-positive])
				return score, l.Class[v] == int64(positive)
			})
		}
		sum, n := 0.0, 0
		for label := range l.Classes {
			if class != noClass && class != label {
				continue
			}
			var at []int // labels that are present
			for _, v := range rows {
				if k := int(v)*l.Classes + label; l.Multi[k] == l.Multi[k] {
					at = append(at, k)
				}
			}
			x, err := measure(c, len(at), func(i int) (float64, bool) {
				return float64(logits[at[i]]), l.Multi[at[i]] == 1
			})
			if err != nil {
				return 0, err
			}
			if !math.IsNaN(x) {
				sum, n = sum+x, n+1
			}
		}
		return sum / float64(n), nil
	}
}

// sorted returns the sorted scores of the negative rows and of the positive rows, n in all.
func sorted(n int, at func(i int) (score float64, positive bool)) (negative, positive []float64) {
	for i := range n {
		if score, is := at(i); is {
			positive = append(positive, score)
		} else {
			negative = append(negative, score)
		}
	}
	slices.Sort(negative)
	slices.Sort(positive)
	return negative, positive
}

// averagePrecision is the mean, over the positive rows of all workers, of the precision at the row's score:
// all rows that score as high count as positive. This worker has n scored rows. It is NaN if one of the
// classes has no rows.
func averagePrecision(c *comm.Comm, n int, at func(i int) (score float64, positive bool)) (float64, error) {
	negative, positive := sorted(n, at)
	var asHigh [2][]float64 // for each positive row: how many negative and positive rows score as high
	for k, scores := range [][]float64{negative, positive} {
		asHigh[k] = make([]float64, len(positive))
		err := eachBlock(c, scores, func(block []float64) {
			below := 0
			for i, score := range positive {
				for below < len(block) && block[below] < score {
					below++
				}
				asHigh[k][i] += float64(len(block) - below)
			}
		})
		if err != nil {
			return 0, err
		}
	}
	totals := []total{{}, {sum: float64(len(negative))}, {sum: float64(len(positive))}}
	for i, right := range asHigh[1] {
		totals[0].add(right / (asHigh[0][i] + right))
	}
	sums, err := valuesOf(c, totals)
	if err != nil {
		return 0, err
	}
	if sums[1] == 0 {
		return math.NaN(), nil
	}
	return sums[0] / sums[2], nil
}

// AreaUnder is the area under the receiver operating characteristic of the scored rows of all workers; this
// one has n. It follows from the ranks of the positive rows (Mann & Whitney 1947): it is the probability that
// a positive row scores above a negative one, where a tie counts half.
func AreaUnder(c *comm.Comm, n int, at func(i int) (score float64, positive bool)) (float64, error) {
	negative, positive := sorted(n, at)
	// The pairs in order, the negative rows and the positive rows.
	counts := []float64{0, float64(len(negative)), float64(len(positive))}
	err := eachBlock(c, negative, func(block []float64) { counts[0] += inOrder(block, positive) })
	if err == nil {
		err = sum(c, counts)
	}
	return counts[0] / (counts[1] * counts[2]), err
}

// inOrder counts the pairs of a negative score and a higher positive score. A tie counts half. Both lists are
// sorted. Such sums are exact.
func inOrder(negative, positive []float64) (pairs float64) {
	below, upTo := 0, 0 // negatives below the positive score, and below or equal
	for _, s := range positive {
		for below < len(negative) && negative[below] < s {
			below++
		}
		for upTo < len(negative) && negative[upTo] <= s {
			upTo++
		}
		pairs += float64(below+upTo) / 2
	}
	return pairs
}

// eachBlock calls f on every worker with the values of each worker, block by block.
func eachBlock(c *comm.Comm, local []float64, f func(block []float64)) error {
	lengths, err := comm.Gather(c, comm.Statistics, int64(len(local)))
	if err != nil {
		return err
	}
	const most = 1 << 16
	buffer := make([]float64, min(most, int(slices.Max(lengths))))
	for root, n := range lengths {
		for lo := 0; lo < int(n); lo += most {
			block := buffer[:min(most, int(n)-lo)]
			if root == c.Rank() {
				copy(block, local[lo:])
			}
			if err := c.Broadcast(comm.Statistics, comm.Bytes(block), root); err != nil {
				return err
			}
			f(block)
		}
	}
	return nil
}

// ofCounts is a metric that compute computes from what countClasses counts, a number for each class. Without
// rows it is NaN, and compute is not called.
func ofCounts(compute func(hits, predicted, actual []float64) float64) OfClasses {
	return func(logits []float32, l *graph.Labels, rows []int64, c *comm.Comm) (float64, error) {
		hits, predicted, actual, err := countClasses(logits, l, rows, c)
		if hits == nil {
			return math.NaN(), err
		}
		return compute(hits, predicted, actual), nil
	}
}

// macroF1 is the mean of the classes' F1, over the same classes as scikit-learn's f1_score: the ones that
// some of the rows have or are predicted to have. If a row may have several labels, all labels count,
// and a label without positives and predictions counts as 0.
func macroF1(logits []float32, l *graph.Labels, rows []int64, c *comm.Comm) (float64, error) {
	return ofCounts(func(hits, predicted, actual []float64) (mean float64) {
		var f1s []float64
		for k := range hits {
			if l.MultiLabel() || predicted[k]+actual[k] > 0 {
				f1s = append(f1s, f1Of(hits[k], predicted[k], actual[k]))
			}
		}
		for _, f1 := range f1s {
			mean += f1 / float64(len(f1s))
		}
		return mean
	})(logits, l, rows, c)
}

// countClasses counts rows for each class, over all workers: actual counts those that have it, predicted
// those predicted to have it, and hits those that are both. The counts are nil without rows. A row with one
// class is predicted to have the class with the largest logit, one with several labels each label with a
// positive logit.
func countClasses(logits []float32, l *graph.Labels, rows []int64,
	c *comm.Comm,
) (hits, predicted, actual []float64, err error) {
	n := l.Classes
	counts := make([]float64, 3*n+1)
	hits, predicted, actual = counts[:n], counts[n:2*n], counts[2*n:3*n]
	counts[3*n] = float64(len(rows))
	for _, v := range rows {
		row := logits[int(v)*n : (int(v)+1)*n]
		top := argmax(row)
		for k := range row {
			var isPredicted, isActual bool
			if l.MultiLabel() {
				label := l.Multi[int(v)*n+k]
				isPredicted, isActual = row[k] > 0 && label == label, label == 1 // a NaN label is missing
			} else {
				isPredicted, isActual = k == top, l.Class[v] == int64(k)
			}
			if isPredicted {
				predicted[k]++
			}
			if isActual {
				actual[k]++
			}
			if isPredicted && isActual {
				hits[k]++
			}
		}
	}
	if err := sum(c, counts); err != nil || counts[3*n] == 0 {
		return nil, nil, nil, err
	}
	return hits, predicted, actual, nil
}

// f1Of is the F1 of a number of hits, the true positives, among the predicted positives and the actual ones.
func f1Of(hits, predicted, actual float64) float64 {
	if predicted+actual == 0 {
		return 0
	}
	return 2 * hits / (predicted + actual)
}

// micro is the F1 of all classes together.
func micro(hits, predicted, actual []float64) float64 {
	total := func(x []float64) (s float64) {
		for _, v := range x {
			s += v
		}
		return s
	}
	return f1Of(total(hits), total(predicted), total(actual))
}
