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

// OfVertices measures logits (rows × classes) on some of a worker's rows. The result is NaN without vertices.
type OfVertices func(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error)

// Auto asks for the metric of the graph or of the task.
const Auto = "auto"

// Accuracy is the share of vertices whose highest logit is that of their class.
const Accuracy = "accuracy"

// ROCAUC is the area under the receiver operating characteristic, of vertices and of edges.
const ROCAUC = "roc-auc"

// AveragePrecision is scikit-learn's average_precision_score.
const AveragePrecision = "average-precision"

var ofVertices = map[string]OfVertices{
	Accuracy:         accuracy,
	AveragePrecision: ofScores(averagePrecision, unnamed),
	ROCAUC:           ofScores(AreaUnder, unnamed),
	"micro-f1":       ofCounts(micro),
	"macro-f1":       macroF1,
}

// VertexNames are the names of the vertex metrics.
var VertexNames = slices.Sorted(maps.Keys(ofVertices))

// Vertices returns the vertex metric that Choose has returned by name, for such labels.
func Vertices(name string, l *graph.Labels) OfVertices {
	if metric, known := ofVertices[name]; known {
		return metric
	}
	metric, _ := withArgument(name, l)
	return metric
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
	metric, err := withArgument(name, l)
	if err != nil {
		return "", err
	}
	switch _, known := ofVertices[name]; {
	case slices.Contains(ValueNames, name):
		return "", refusal.Errorf("--metric %s: of values, and the graph's labels are classes; take one of "+
			"%s", name, strings.Join(VertexNames, ", "))
	case !known && metric == nil:
		return "", refusal.Errorf("--metric %s: unknown metric; %s", name, suggest.OneOf(name, VertexNames))
	case name == Accuracy && l.MultiLabel():
		return "", refusal.Errorf("--metric accuracy: the graph's %s carry several labels each; take "+
			"micro-f1, macro-f1 or roc-auc", l.Noun().Many)
	case ofTwo(name) && !l.MultiLabel() && l.Classes != 2:
		return "", refusal.Errorf("--metric %s: the graph has %d classes, not 2; take accuracy", name,
			l.Classes)
	}
	return name, nil
}

// ofTwo reports whether a metric tells two classes apart by their scores.
func ofTwo(name string) bool {
	f, _ := formOf(name)
	return name == ROCAUC || name == AveragePrecision || f != nil && f.ofTwo
}

// OfSecond reports whether a metric measures the second of two classes because its name has no class. The
// area under the receiver operating characteristic is the same for both.
func OfSecond(name string) bool {
	argued := strings.HasPrefix(name, top) || strings.HasPrefix(name, found)
	return name == AveragePrecision || argued && !strings.Contains(name, ":")
}

// sum replaces counts by their sums over all workers.
func sum(c *comm.Comm, counts []float64) error { return c.SumDoubles(comm.Statistics, counts) }

// accuracy is the share of vertices whose largest logit is their class's. If several logits are equal, the
// first counts.
func accuracy(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error) {
	right := 0
	for _, v := range vertices {
		if int64(argmax(logits[int(v)*l.Classes:(int(v)+1)*l.Classes])) == l.Class[v] {
			right++
		}
	}
	return AccuracyOf(right, len(vertices), c)
}

// AccuracyOf is the accuracy over all workers, if right of this worker's vertices are predicted right.
func AccuracyOf(right, vertices int, c *comm.Comm) (float64, error) {
	counts := []float64{float64(right), float64(vertices)}
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

// unnamed stands for a class that a metric does not name.
const unnamed = -1

// ofScores is a metric of how high the scores of one class are where it is right: of class 1 if none is
// named. If vertices have several labels, it is the metric of one label, or the mean over all labels that
// some vertices have and others lack.
func ofScores(measure measure, class int) OfVertices {
	return func(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error) {
		if !l.MultiLabel() {
			positive := 1
			if class != unnamed {
				positive = class
			}
			return measure(c, len(vertices), func(i int) (float64, bool) {
				v := int(vertices[i])
				score := float64(logits[2*v+positive]) - float64(logits[2*v+1-positive])
				return score, l.Class[v] == int64(positive)
			})
		}
		sum, n := 0.0, 0
		for label := range l.Classes {
			if class != unnamed && class != label {
				continue
			}
			var at []int // vertices whose label is present
			for _, v := range vertices {
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

// ofCounts is a metric that is computed from what countClasses counts.
func ofCounts(compute func(hit, guesses, is []float64) float64) OfVertices {
	return func(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error) {
		hit, guesses, is, err := countClasses(logits, l, vertices, c)
		if hit == nil {
			return math.NaN(), err
		}
		return compute(hit, guesses, is), nil
	}
}

// macroF1 is the mean of the classes' F1, over the same classes as scikit-learn's f1_score: the ones that
// some of the vertices have or are predicted to have. If a vertex may have several labels, all labels count,
// and a label without positives and predictions counts as 0.
func macroF1(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error) {
	return ofCounts(func(hit, guesses, is []float64) (mean float64) {
		var f1s []float64
		for k := range hit {
			if l.MultiLabel() || guesses[k]+is[k] > 0 {
				f1s = append(f1s, f1Of(hit[k], guesses[k], is[k]))
			}
		}
		for _, f1 := range f1s {
			mean += f1 / float64(len(f1s))
		}
		return mean
	})(logits, l, vertices, c)
}

// countClasses counts vertices for each class, over all workers: is counts those that have it, guesses those
// predicted to have it, and hit those that are both. The counts are nil without vertices. A single-label
// vertex is predicted to have the class with the largest logit, a multi-label vertex each label with a
// positive logit.
func countClasses(logits []float32, l *graph.Labels, vertices []int64,
	c *comm.Comm,
) (hit, guesses, is []float64, err error) {
	counts := make([]float64, 3*l.Classes+1)
	hit, guesses, is = counts[:l.Classes], counts[l.Classes:2*l.Classes], counts[2*l.Classes:3*l.Classes]
	counts[3*l.Classes] = float64(len(vertices))
	for _, v := range vertices {
		row := logits[int(v)*l.Classes : (int(v)+1)*l.Classes]
		top := argmax(row)
		for c := range row {
			var predicted, actual bool
			if l.MultiLabel() {
				label := l.Multi[int(v)*l.Classes+c]
				predicted, actual = row[c] > 0 && label == label, label == 1 // a NaN label is missing
			} else {
				predicted, actual = c == top, l.Class[v] == int64(c)
			}
			if predicted {
				guesses[c]++
			}
			if actual {
				is[c]++
			}
			if predicted && actual {
				hit[c]++
			}
		}
	}
	if err := sum(c, counts); err != nil || counts[3*l.Classes] == 0 {
		return nil, nil, nil, err
	}
	return hit, guesses, is, nil
}

// f1Of is the F1 of a number of hits, the true positives, among so many guesses, the predicted positives, and
// is, the actual positives.
func f1Of(hit, guesses, is float64) float64 {
	if guesses+is == 0 {
		return 0
	}
	return 2 * hit / (guesses + is)
}

// micro is the F1 of all classes together.
func micro(hit, guesses, is []float64) float64 {
	total := func(x []float64) (s float64) {
		for _, v := range x {
			s += v
		}
		return s
	}
	return f1Of(total(hit), total(guesses), total(is))
}
