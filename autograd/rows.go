package autograd

import (
	"weft/kernel"
	"weft/tensor"
)

// RowSet says what the rows of a value are. Values know theirs: it is given to constants and inputs, and an
// operation's result inherits it. Masks are keyed by the rows' ids; losses and batch norm sum over all
// workers' rows. Values of the same rows share one RowSet.
type RowSet struct {
	Here  int // rows on this worker
	Total int // rows on all workers together, or NotVertices
	// IDs (Int32, 1 × Here) are the keys of the rows in masks: vertices' original ids; of edges, hashes.
	// Where it is nil, row i is vertex i.
	IDs   *tensor.Matrix
	Peers Peers // the workers that hold the other rows; nil when there are none
}

// NotVertices is the Total of rows over which nothing can be summed, as those that are edges.
const NotVertices = -1

// Peers sums over the workers that hold the rows of one matrix.
type Peers interface {
	// Sum replaces each value by its sum over all workers, added in rank order.
	Sum(values []float64)
}

// AllHere is n rows that are the vertices 0 … n−1, all of them on this worker.
func AllHere(n int) *RowSet { return &RowSet{Here: n, Total: n} }

// RowsOf is some of the total vertices: those of the ids, which are copied into the team's memory, or where
// ids is nil the first here. The others are with the peers; nil: with nobody.
func RowsOf(team *kernel.Team, ids []int32, here, total int, peers Peers) *RowSet {
	r := &RowSet{Here: here, Total: total, Peers: peers}
	if ids != nil {
		r.IDs = kernel.List(team, tensor.Graph, ids)
	}
	return r
}

// Sum replaces each value by its sum over all workers.
func (r *RowSet) Sum(values []float64) {
	if r.Peers != nil {
		r.Peers.Sum(values)
	}
}

// List are the keys of the rows, one after the other; nil: row i is vertex i.
func (r *RowSet) List() []int32 {
	if r.IDs == nil {
		return nil
	}
	return r.IDs.Int32s()
}
