package metric

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
)

// MRR is the mean reciprocal rank.
const MRR = "mrr"

// LinkNames are all link metrics; higher is better.
var LinkNames = []string{ROCAUC, MRR, "hits@1", "hits@3", "hits@10", "hits@20", "hits@50", "hits@100"}

// linkNames are the metrics by the form of the given negative edges, the default first. If the negative edges
// are shared, hits@K takes their K-th highest score as a threshold. Otherwise all metrics but the area under
// the curve are means over ranks.
var linkNames = map[graph.NegativeForm][]string{
	graph.NoNegatives:     {MRR, ROCAUC, "hits@1", "hits@3", "hits@10"},
	graph.SharedNegatives: {"hits@50", ROCAUC, "hits@10", "hits@20", "hits@100"},
	graph.TargetNegatives: {MRR, "hits@1", "hits@3", "hits@10"},
}

// LinkNamesOf returns the link metrics that such negative edges define.
func LinkNamesOf(negatives graph.NegativeForm) []string { return linkNames[negatives] }

// ChooseOfEdges returns the link metric asked for, or for Auto the default.
func ChooseOfEdges(asked string, negatives graph.NegativeForm) (string, error) {
	known := linkNames[negatives]
	switch {
	case asked == Auto:
		return known[0], nil
	case !slices.Contains(known, asked):
		what := map[graph.NegativeForm]string{
			graph.NoNegatives:     "no negative edges are given",
			graph.SharedNegatives: "the graph's split gives all edges the same negative ones",
			graph.TargetNegatives: "the graph's split gives each edge negative targets of its own",
		}[negatives]
		return "", refusal.Errorf("--metric %s: %s; take one of %s", asked, what,
			strings.Join(slices.Sorted(slices.Values(known)), ", "))
	}
	return asked, nil
}

// ofRank gives the value of each rank. The metric is the mean of these values.
var ofRank = map[string]func(rank float64) float64{
	MRR:       func(rank float64) float64 { return 1 / rank },
	"hits@1":  hits(1),
	"hits@3":  hits(3),
	"hits@10": hits(10),
}

func hits(k float64) func(float64) float64 {
	return func(rank float64) float64 {
		if rank <= k {
			return 1
		}
		return 0
	}
}

// Ranked returns the names of the metrics that are means over ranks.
func Ranked(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return ofRank[name] == nil })
}

// OfRanks are the named means over the ranks of all workers, n in all. They are NaN if n is 0.
func OfRanks(c *comm.Comm, ranks []float64, n int, names []string) ([]float64, error) {
	totals := make([]total, len(names))
	for i, name := range names {
		for _, rank := range ranks {
			totals[i].add(ofRank[name](rank))
		}
	}
	means, err := valuesOf(c, totals)
	for i := range means {
		means[i] /= float64(n)
	}
	return means, err
}

// RankOf returns the rank of an edge among its negative edges, from 1. With equal scores it is the mean of
// the best and the worst possible rank, as in OGB's evaluator.
func RankOf(edge float32, negatives []float32) float64 {
	above, same := 0, 0
	for _, score := range negatives {
		switch {
		case score > edge:
			above++
		case score == edge:
			same++
		}
	}
	return 1 + float64(above) + float64(same)/2
}

// thresholds has K of each metric hits@K of shared negative edges.
var thresholds = map[string]int{"hits@10": 10, "hits@20": 20, "hits@50": 50, "hits@100": 100}

// HitsAbove are the named metrics hits@K of edges and of the negative edges that they share, over all
// workers: the share of edges that score above the K-th highest negative edge (Hu et al. 2020, as OGB's
// evaluator). It is 1 if there are fewer negative edges than K, and NaN without edges.
func HitsAbove(c *comm.Comm, edges, negatives []float32, names []string) ([]float64, error) {
	most := 0
	for _, name := range names {
		most = max(most, thresholds[name])
	}
	var highest []float64 // of this worker, then of all workers
	for _, score := range negatives {
		highest = append(highest, float64(score))
	}
	keep := func() {
		slices.SortFunc(highest, func(a, b float64) int { return cmp.Compare(b, a) })
		highest = highest[:min(most, len(highest))]
	}
	keep()
	local := highest
	highest = nil
	err := eachBlock(c, local, func(block []float64) { highest = append(highest, block...) })
	if err != nil {
		return nil, err
	}
	keep()
	hits := make([]float64, len(names), len(names)+1)
	for i, name := range names {
		threshold := math.Inf(-1)
		if k := thresholds[name]; k <= len(highest) {
			threshold = highest[k-1]
		}
		for _, score := range edges {
			if float64(score) > threshold {
				hits[i]++
			}
		}
	}
	hits = append(hits, float64(len(edges)))
	err = sum(c, hits)
	for i := range names {
		hits[i] /= hits[len(names)]
	}
	return hits[:len(names)], err
}
