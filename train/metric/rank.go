package metric

import (
	"slices"

	"weft/comm"
)

// MRR is the mean reciprocal rank.
const MRR = "mrr"

// LinkNames are the link metrics; higher is better. All but the area under the curve are means over ranks.
var LinkNames = []string{ROCAUC, MRR, "hits@1", "hits@3", "hits@10"}

// ofRank gives the value of each rank, of which the metric is the mean.
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

// Ranked returns those of the names that are means over ranks.
func Ranked(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return ofRank[name] == nil })
}

// OfRanks are the named means over the ranks of all workers, n in all. They are NaN if n is 0.
func OfRanks(c *comm.Comm, ranks []float64, n int, names []string) ([]float64, error) {
	means := make([]float64, len(names))
	for i, name := range names {
		for _, rank := range ranks {
			means[i] += ofRank[name](rank)
		}
	}
	err := sum(c, means)
	for i := range means {
		means[i] /= float64(n)
	}
	return means, err
}
