package train

import (
	"maps"
	"math"
	"slices"

	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/partition"
	"weft/tensor"
)

// metric measures logits (rows × classes) on some of a worker's rows, together with the other workers'. It
// has the same bits on all of them. No vertices give NaN.
type metric func(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error)

const rocAUCMetric = "roc-auc"

var metrics = map[string]metric{
	"accuracy":   accuracy,
	rocAUCMetric: rocAUC,
	"micro-f1":   f1(micro),
	"macro-f1":   f1(macro),
}

// metricNames are the names of the metrics.
var metricNames = slices.Sorted(maps.Keys(metrics))

// chooseMetric is the metric asked for, or with auto the one that the graph names.
func chooseMetric(asked string, whole *partition.Whole, l *graph.Labels) (string, error) {
	name := asked
	if name == autoMetric {
		switch {
		case whole.Metric != "":
			name = whole.Metric
		case l.MultiLabel():
			name = "micro-f1"
		default:
			name = "accuracy"
		}
	}
	switch _, known := metrics[name]; {
	case !known:
		return "", refusal.Errorf("%s %s: unknown metric; %s",
			refusal.Setting("metric"), name, suggest.OneOf(name, metricNames))
	case name == "accuracy" && l.MultiLabel():
		return "", refusal.Errorf("%s accuracy: the graph's vertices carry several labels each; take micro-f1, macro-f1 or roc-auc",
			refusal.Setting("metric"))
	case name == rocAUCMetric && !l.MultiLabel() && l.Classes != 2:
		return "", refusal.Errorf("%s roc-auc: the graph has %d classes, not 2; take accuracy",
			refusal.Setting("metric"), l.Classes)
	}
	return name, nil
}

// scores are the metric on each part of the split, and the validation loss: NaN where there are no such
// vertices, and where something is not finite, which fault then names.
type scores struct {
	train, val, test, valLoss float64
	fault                     string
}

// diverged is how the epoch of the scores ends the run; nil: not.
func (s *scores) diverged(epoch int) *Diverged {
	if s.fault == "" {
		return nil
	}
	return &Diverged{epoch, s.fault}
}

// evaluate measures the model as it is, without dropout. All workers come to the same scores.
func (w *worker) evaluate() (s scores, err error) {
	output := w.infer(0)
	defer output.Drop()
	loss := w.task.validationLoss(output)
	if w.team.Planning() {
		return s, w.task.measure(output.Value(), &s)
	}
	sums := []float64{loss, 0, 0} // and how many workers have weights, and results, that are not finite
	if !w.params.Finite() {
		sums[1] = 1
	}
	if !tensor.Finite(output.Value().Floats()) {
		sums[2] = 1
	}
	if err := sum(w.groups.World, sums); err != nil {
		return s, err
	}
	nan := math.NaN()
	switch {
	case sums[1] > 0:
		return scores{nan, nan, nan, nan, "the weights are not finite"}, nil
	case sums[2] > 0:
		return scores{nan, nan, nan, nan, "the logits are not finite"}, nil
	}
	s.valLoss = sums[0]
	if !w.task.validates() {
		s.valLoss = nan
	}
	return s, w.task.measure(output.Value(), &s)
}

// sum replaces counts by their sums over all workers.
func sum(c *comm.Comm, counts []float64) error { return c.SumDoubles(comm.Statistics, counts) }

// accuracy is the share of vertices whose largest logit is that of their class; the first of equal logits
// counts.
func accuracy(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error) {
	counts := []float64{0, float64(len(vertices))} // right, and all
	for _, v := range vertices {
		if int64(argmax(logits[int(v)*l.Classes:(int(v)+1)*l.Classes])) == l.Class[v] {
			counts[0]++
		}
	}
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

// rocAUC is the area under the receiver operating characteristic: the probability that a positive vertex
// scores above a negative one, ties counting half. With several labels it is the mean over the labels that
// have both.
func rocAUC(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error) {
	if !l.MultiLabel() {
		return areaUnder(c, len(vertices), func(i int) (float64, bool) {
			v := int(vertices[i])
			return float64(logits[2*v+1]) - float64(logits[2*v]), l.Class[v] == 1
		})
	}
	sum, n := 0.0, 0
	for class := range l.Classes {
		var at []int // of the labels that are there
		for _, v := range vertices {
			if k := int(v)*l.Classes + class; l.Multi[k] == l.Multi[k] {
				at = append(at, k)
			}
		}
		area, err := areaUnder(c, len(at), func(i int) (float64, bool) { return float64(logits[at[i]]), l.Multi[at[i]] == 1 })
		if err != nil {
			return 0, err
		}
		if !math.IsNaN(area) {
			sum, n = sum+area, n+1
		}
	}
	return sum / float64(n), nil
}

// areaUnder is the area for n scored vertices and those of all other workers, from the ranks of the positive
// ones (Mann & Whitney 1947).
func areaUnder(c *comm.Comm, n int, at func(i int) (score float64, positive bool)) (float64, error) {
	var mine [2][]float64 // scores of negatives, and of positives
	for i := range n {
		score, positive := at(i)
		if positive {
			mine[1] = append(mine[1], score)
		} else {
			mine[0] = append(mine[0], score)
		}
	}
	negative, positive := mine[0], mine[1]
	slices.Sort(negative)
	slices.Sort(positive)
	// Pairs in order, negatives, positives
	counts := []float64{0, float64(len(negative)), float64(len(positive))}
	err := eachBlock(c, negative, func(block []float64) { counts[0] += inOrder(block, positive) })
	if err == nil {
		err = sum(c, counts)
	}
	return counts[0] / (counts[1] * counts[2]), err
}

// inOrder counts the pairs of a negative and a positive score, both sorted, that are in order, a tie as half
// a pair. Such sums are exact.
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

// eachBlock calls f, on every worker, with the values of each worker, some at a time.
func eachBlock(c *comm.Comm, mine []float64, f func(block []float64)) error {
	lengths, err := comm.Gather(c, comm.Statistics, int64(len(mine)))
	if err != nil {
		return err
	}
	const most = 1 << 16
	room := make([]float64, min(most, int(slices.Max(lengths))))
	for root, n := range lengths {
		for lo := 0; lo < int(n); lo += most {
			block := room[:min(most, int(n)-lo)]
			if root == c.Rank() {
				copy(block, mine[lo:])
			}
			if err := c.Broadcast(comm.Statistics, comm.Bytes(block), root); err != nil {
				return err
			}
			f(block)
		}
	}
	return nil
}

// f1 is 2·TP / (2·TP + FP + FN), put together from the classes. A single-label vertex is predicted its
// largest logit, a multi-label one every positive.
func f1(average func(hit, said, is []float64) float64) metric {
	return func(logits []float32, l *graph.Labels, vertices []int64, c *comm.Comm) (float64, error) {
		counts := make([]float64, 3*l.Classes+1)
		hit, said, is := counts[:l.Classes], counts[l.Classes:2*l.Classes], counts[2*l.Classes:3*l.Classes]
		counts[3*l.Classes] = float64(len(vertices))
		for _, v := range vertices {
			row := logits[int(v)*l.Classes : (int(v)+1)*l.Classes]
			top := argmax(row)
			for c := range row {
				var predicted, actual bool
				if l.MultiLabel() {
					label := l.Multi[int(v)*l.Classes+c]
					predicted, actual = row[c] > 0 && label == label, label == 1 // NaN: it is missing
				} else {
					predicted, actual = c == top, l.Class[v] == int64(c)
				}
				if predicted {
					said[c]++
				}
				if actual {
					is[c]++
				}
				if predicted && actual {
					hit[c]++
				}
			}
		}
		if err := sum(c, counts); err != nil {
			return 0, err
		}
		if counts[3*l.Classes] == 0 {
			return math.NaN(), nil
		}
		return average(hit, said, is), nil
	}
}

// f1Of is the F1 of vertices of which hit are rightly predicted, said are predicted, and is are positive.
func f1Of(hit, said, is float64) float64 {
	if said+is == 0 {
		return 0
	}
	return 2 * hit / (said + is)
}

// macro is the mean of the classes' F1; a class without positives and predictions counts 0.
func macro(hit, said, is []float64) (mean float64) {
	for c := range hit {
		mean += f1Of(hit[c], said[c], is[c]) / float64(len(hit))
	}
	return mean
}

// micro is the F1 of all classes together.
func micro(hit, said, is []float64) float64 {
	total := func(x []float64) (s float64) {
		for _, v := range x {
			s += v
		}
		return s
	}
	return f1Of(total(hit), total(said), total(is))
}
