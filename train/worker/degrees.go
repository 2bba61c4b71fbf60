package worker

import (
	"math"

	"weft/gnn"
)

// degrees returns the means over the degrees of the only relation's vertices, in the direction in which the
// model aggregates. Self loops and duplicate edges count as they are stored. All workers call it. In a plan
// they are zeros.
func (w *member) degrees() (d gnn.Degrees, err error) {
	r := &w.Share.Edges.Relations[0]
	sums := make([]float64, 3)
	count := func(degree int64) {
		sums[0]++
		sums[1] += float64(degree)
		sums[2] += math.Log1p(float64(degree))
	}
	w.Team.Serial(func() {
		into, reversed := &r.In, w.Direction == "out"
		switch several := w.Share.Edges.Partitions() > 1; {
		case w.Groups.Stage > 0 || w.Groups.Slice > 0: // another worker counts the same edges
		case reversed && !several: // the share has only the edges into its rows
			out := make([]int64, w.Share.Edges.Types[0].Rows)
			for _, u := range into.Sources {
				out[u]++
			}
			for _, degree := range out {
				count(degree)
			}
		default:
			if reversed {
				into = &r.Out
			}
			for v := range w.Share.Edges.Types[0].Rows {
				count(into.Indptr[v+1] - into.Indptr[v])
			}
		}
	})
	if err := w.sum(sums); err != nil {
		return d, err
	}
	n := max(1, sums[0])
	return gnn.Degrees{Mean: sums[1] / n, MeanLog: sums[2] / n}, nil
}
