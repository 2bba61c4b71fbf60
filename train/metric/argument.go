package metric

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
)

// form is a kind of metric of classes whose name has an argument behind a prefix.
type form struct {
	prefix, argument string
	scope
	// build returns the metric for such labels. If the argument does not fit them, asked is what it must be.
	build func(argument string, l *graph.Labels) (measure OfClasses, asked string)
}

// The prefixes of precision@K and of recall@fpr=RATE.
const (
	precisionAt = "precision@"
	recallAt    = "recall@fpr="
)

// secondOfTwo is the scope of a metric of the second of two classes.
var secondOfTwo = scope{twoClasses: true, second: true}

var forms = []form{
	// The F1 of one class or label, by its name or number.
	{"f1:", "CLASS", scope{}, func(class string, l *graph.Labels) (OfClasses, string) {
		k, asked := classOf(class, l)
		return ofCounts(func(hits, predicted, actual []float64) float64 {
			return f1Of(hits[k], predicted[k], actual[k])
		}), asked
	}},
	// Average precision and area under the curve of one class or label.
	{AveragePrecision + ":", "CLASS", scope{twoClasses: true}, rankingOf(averagePrecision)},
	{ROCAUC + ":", "CLASS", scope{twoClasses: true}, rankingOf(AreaUnder)},
	// The share of a class, or of class 1, among the K rows that score highest, or among all if they are
	// fewer. Rows that tie for the last places count by their mean.
	{precisionAt, "K[:CLASS]", secondOfTwo, func(argument string, l *graph.Labels) (OfClasses, string) {
		text, class, named := strings.Cut(argument, ":")
		k, err := strconv.Atoi(text)
		if err != nil || k < 1 {
			return nil, "it needs a number of " + l.Noun().Many + ", as in precision@100"
		}
		return ranking(precisionOfTop(k), named, class, l)
	}},
	// The share of a class, or of class 1, that is found while at most the share RATE of the other rows
	// is taken for it: the largest tpr of scikit-learn's roc_curve with fpr ≤ RATE.
	{recallAt, "RATE[:CLASS]", secondOfTwo, func(argument string, l *graph.Labels) (OfClasses, string) {
		text, class, named := strings.Cut(argument, ":")
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate >= 0 && rate <= 1) {
			return nil, "it needs a rate from 0 to 1, as in recall@fpr=0.01"
		}
		return ranking(recallOfRate(rate), named, class, l)
	}},
}

// classOf returns the number of a class or label, given its name or number. If there is none, it returns what
// the argument has to be.
func classOf(class string, l *graph.Labels) (k int, asked string) {
	for k := range l.Classes {
		if l.ClassName(k) == class {
			return k, ""
		}
	}
	return 0, "no class of the graph is called " + strconv.Quote(class)
}

// ranking is a measure of the named class. If no class is named, it is ofScores.
func ranking(m measure, named bool, class string, l *graph.Labels) (OfClasses, string) {
	if !named {
		return ofScores(m, noClass), ""
	}
	k, asked := classOf(class, l)
	return ofScores(m, k), asked
}

// rankingOf is a measure of the class that the argument names.
func rankingOf(m measure) func(class string, l *graph.Labels) (OfClasses, string) {
	return func(class string, l *graph.Labels) (OfClasses, string) { return ranking(m, true, class, l) }
}

// Forms are the names of these metrics, as help shows them.
func Forms() (names []string) {
	for _, f := range forms {
		names = append(names, f.prefix+f.argument)
	}
	return names
}

// formOf returns the form of a metric's name, and the argument; nil: the name has no form.
func formOf(name string) (f *form, argument string) {
	for i := range forms {
		if argument, has := strings.CutPrefix(name, forms[i].prefix); has {
			return &forms[i], argument
		}
	}
	return nil, ""
}

// HasArgument reports whether a name is of a metric with an argument.
func HasArgument(name string) bool {
	f, _ := formOf(name)
	return f != nil
}

// withArgument returns the metric whose name has an argument, for such labels; nil if the name has none.
func withArgument(name string, l *graph.Labels) (OfClasses, error) {
	f, argument := formOf(name)
	if f == nil {
		return nil, nil
	}
	measure, asked := f.build(argument, l)
	if asked != "" {
		return nil, refusal.Errorf("--metric %s: %s", name, asked)
	}
	return measure, nil
}

// Top returns K of precision@K; is is false for any other metric.
func Top(name string) (k int, is bool) {
	text, is := strings.CutPrefix(name, precisionAt)
	text, _, _ = strings.Cut(text, ":")
	k, err := strconv.Atoi(text)
	return k, is && err == nil
}

// highest are the n highest scores of all workers, the largest first, or all scores if they are fewer.
func highest(c *comm.Comm, n int, local []float64) (all []float64, err error) {
	descending := func(a, b float64) int { return cmp.Compare(b, a) }
	slices.SortFunc(local, descending)
	err = eachBlock(c, local[:min(n, len(local))], func(block []float64) {
		all = append(all, block...)
		slices.SortFunc(all, descending)
		all = all[:min(n, len(all))]
	})
	return all, err
}

// precisionOfTop measures precision@k. It is NaN where there are no rows.
func precisionOfTop(k int) measure {
	return func(c *comm.Comm, n int, at func(i int) (score float64, positive bool)) (float64, error) {
		negative, positive := sorted(n, at)
		top, err := highest(c, k, slices.Concat(negative, positive))
		if err != nil {
			return 0, err
		}
		if len(top) == 0 {
			return math.NaN(), nil
		}
		last := top[len(top)-1]
		counts := make([]float64, 4) // positive and negative rows above the last score, and at it
		for k, scores := range [][]float64{positive, negative} {
			for _, score := range scores {
				if score > last {
					counts[k]++
				} else if score == last {
					counts[2+k]++
				}
			}
		}
		if err := sum(c, counts); err != nil {
			return 0, err
		}
		left := float64(len(top)) - counts[0] - counts[1]
		return (counts[0] + left*counts[2]/(counts[2]+counts[3])) / float64(len(top)), nil
	}
}

// recallOfRate measures recall@fpr=rate. It is NaN where one of the classes has no rows.
func recallOfRate(rate float64) measure {
	return func(c *comm.Comm, n int, at func(i int) (score float64, positive bool)) (float64, error) {
		negative, positive := sorted(n, at)
		counts := []float64{float64(len(negative)), float64(len(positive)), 0}
		if err := sum(c, counts[:2]); err != nil {
			return 0, err
		}
		may := int(rate * counts[0]) // how many negative rows may be taken for positive, up to a rounding
		for float64(may+1)/counts[0] <= rate {
			may++
		}
		top, err := highest(c, may+1, negative)
		if err != nil {
			return 0, err
		}
		for _, score := range positive {
			if len(top) <= may || score > top[may] {
				counts[2]++
			}
		}
		if err := sum(c, counts[2:]); err != nil {
			return 0, err
		}
		if counts[0] == 0 {
			return math.NaN(), nil
		}
		return counts[2] / counts[1], nil
	}
}
