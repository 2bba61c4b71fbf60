package train

import (
	"maps"
	"math"
	"slices"
	"strings"

	"weft/graph"
	"weft/internal/refusal"
)

// metrics measure logits (V × classes) on some vertices. No vertices give NaN.
var metrics = map[string]func(logits []float32, l *graph.Labels, vertices []int64) float64{
	"accuracy": accuracy,
	"roc-auc":  rocAUC,
	"micro-f1": func(z []float32, l *graph.Labels, v []int64) float64 { return f1(z, l, v, false) },
	"macro-f1": func(z []float32, l *graph.Labels, v []int64) float64 { return f1(z, l, v, true) },
}

// metricNames are the names of the metrics.
var metricNames = slices.Sorted(maps.Keys(metrics))

// chooseMetric is the metric asked for, or with auto the one that the graph names.
func chooseMetric(asked string, g *graph.Graph) (string, error) {
	name := asked
	if name == "auto" {
		switch {
		case g.Metric != "":
			name = g.Metric
		case g.Labels.MultiLabel():
			name = "micro-f1"
		default:
			name = "accuracy"
		}
	}
	switch _, known := metrics[name]; {
	case !known:
		return "", refusal.Errorf("--metric %s: unknown; it is one of %s", name, strings.Join(metricNames, ", "))
	case name == "accuracy" && g.Labels.MultiLabel():
		return "", refusal.Errorf("--metric accuracy: the graph's vertices carry several labels each; take micro-f1, macro-f1 or roc-auc")
	case name == "roc-auc" && !g.Labels.MultiLabel() && g.Labels.Classes != 2:
		return "", refusal.Errorf("--metric roc-auc: the graph has %d classes, not 2; take accuracy", g.Labels.Classes)
	}
	return name, nil
}

// accuracy is the share of vertices whose largest logit is that of their class; the first of equal logits counts.
func accuracy(logits []float32, l *graph.Labels, vertices []int64) float64 {
	right := 0
	for _, v := range vertices {
		if int64(argmax(logits[int(v)*l.Classes:(int(v)+1)*l.Classes])) == l.Class[v] {
			right++
		}
	}
	return float64(right) / float64(len(vertices))
}

func argmax(x []float32) (at int) {
	for c := range x {
		if x[c] > x[at] {
			at = c
		}
	}
	return at
}

// rocAUC is the area under the receiver operating characteristic: the probability that a positive vertex scores above a negative
// one, ties counting half. With several labels it is the mean over the labels that have both.
func rocAUC(logits []float32, l *graph.Labels, vertices []int64) float64 {
	if !l.MultiLabel() {
		return areaUnder(len(vertices), func(i int) (float64, bool) {
			v := int(vertices[i])
			return float64(logits[2*v+1]) - float64(logits[2*v]), l.Class[v] == 1
		})
	}
	sum, n := 0.0, 0
	for c := range l.Classes {
		area := areaUnder(len(vertices), func(i int) (float64, bool) {
			at := int(vertices[i])*l.Classes + c
			return float64(logits[at]), l.Multi[at] == 1
		})
		if !math.IsNaN(area) {
			sum, n = sum+area, n+1
		}
	}
	return sum / float64(n)
}

// areaUnder is the area for n scored vertices, from the ranks of the positive ones (Mann & Whitney 1947).
func areaUnder(n int, at func(i int) (score float64, positive bool)) float64 {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	score := func(i int) float64 { s, _ := at(i); return s }
	slices.SortFunc(order, func(a, b int) int {
		switch x, y := score(a), score(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	positives, ranks := 0, 0.0
	for lo := 0; lo < n; {
		hi := lo + 1
		for hi < n && score(order[hi]) == score(order[lo]) {
			hi++
		}
		for _, i := range order[lo:hi] {
			if _, positive := at(i); positive {
				positives++
				ranks += float64(lo+hi+1) / 2 // the mean rank of the ties, ranks counted from 1
			}
		}
		lo = hi
	}
	p, q := float64(positives), float64(n-positives)
	return (ranks - p*(p+1)/2) / (p * q)
}

// f1 is 2·TP / (2·TP + FP + FN), over all classes together (micro) or as the mean over the classes (macro, a class without
// positives and predictions counting 0). A single-label vertex is predicted its largest logit, a multi-label one every positive.
func f1(logits []float32, l *graph.Labels, vertices []int64, macro bool) float64 {
	if len(vertices) == 0 {
		return math.NaN()
	}
	hit, said, is := make([]float64, l.Classes), make([]float64, l.Classes), make([]float64, l.Classes)
	for _, v := range vertices {
		row := logits[int(v)*l.Classes : (int(v)+1)*l.Classes]
		top := argmax(row)
		for c := range row {
			var predicted, actual bool
			if l.MultiLabel() {
				predicted, actual = row[c] > 0, l.Multi[int(v)*l.Classes+c] == 1
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
	score := func(hit, said, is float64) float64 {
		if said+is == 0 {
			return 0
		}
		return 2 * hit / (said + is)
	}
	if macro {
		sum := 0.0
		for c := range hit {
			sum += score(hit[c], said[c], is[c])
		}
		return sum / float64(l.Classes)
	}
	total := func(x []float64) (s float64) {
		for _, v := range x {
			s += v
		}
		return s
	}
	return score(total(hit), total(said), total(is))
}
