package autograd

import "weft/tensor"

// Rows says which vertices the rows of a tape's values are: masks are keyed by them, and losses, metrics and batch norm sum over all
// workers' rows.
type Rows struct {
	Here  int            // rows on this worker
	Total int            // rows on all workers together, or NotVertices
	IDs   *tensor.Matrix // the rows' vertices in the original graph, Int32; nil when row i is vertex i
	Peers Peers          // the workers that hold the other rows; nil when there are none
}

// NotVertices is the Total of rows that are edges, over which nothing can be summed.
const NotVertices = -1

// Peers sums over the workers that hold the rows of one matrix.
type Peers interface {
	// Sum replaces each value by its sum over all workers, added in rank order.
	Sum(values []float64)
}

// Sum replaces each value by its sum over all workers.
func (r Rows) Sum(values []float64) {
	if r.Peers != nil {
		r.Peers.Sum(values)
	}
}
