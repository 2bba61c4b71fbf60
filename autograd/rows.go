package autograd

import (
	"weft/kernel"
	"weft/tensor"
)

// RowSet says which vertices or edges the rows of a value belong to. Constants and inputs are given one; an
// operation's result inherits it. Dropout masks are keyed by the rows' ids, and losses and batch norm sum
// over all workers' rows. Values of the same rows share one RowSet.
type RowSet struct {
	Here  int // rows on this worker
	Total int // rows on all workers, or NotVertices
	// IDs (Int32, 1 × Here) are the keys of the rows in dropout masks: original ids of vertices, or hashes of
	// edges. nil: row i is vertex i.
	IDs   *tensor.Matrix
	Peers Peers // the workers that hold the other rows; nil: none
}

// NotVertices is the Total of rows that no worker may sum over, such as rows that are edges.
const NotVertices = -1

// Peers combines numbers of the workers that hold the rows of one matrix.
type Peers interface {
	// Sum replaces each value by its sum over all workers, added in rank order.
	Sum(values []float64)
	// Max replaces each value by the largest of all workers.
	Max(values []float64)
}

// AllHere returns the RowSet of the vertices 0 … n−1, all on this worker.
func AllHere(n int) *RowSet { return &RowSet{Here: n, Total: n} }

// RowsOf returns the RowSet of some of the total vertices: those with the given ids, which are copied into
// the team's memory, or the first here vertices if ids is nil. peers hold the other vertices; it is nil if
// there are none.
func RowsOf(team *kernel.Team, ids []int32, here, total int, peers Peers) *RowSet {
	r := &RowSet{Here: here, Total: total, Peers: peers}
	if ids != nil {
		r.IDs = kernel.List(team, tensor.Graph, ids).Pin() // pinned: List is called at any time
	}
	return r
}

// Pick returns the rows of x at these places, each at most once. set describes them.
func Pick(x *Var, places []int32, set *RowSet) *Var {
	t := x.tape
	return t.Scope(func() *Var {
		x = Dense(x)
		z, list := t.NewLike(x, len(places), x.Cols()), kernel.List(t.Team, tensor.Buffers, places)
		t.Team.Gather(z, x.Value(), list)
		return t.Record(Op{
			Value: z, Inputs: []*Var{x}, Rows: set, Buffers: []*tensor.Matrix{list}, Reads: true,
			Backward: func(g *tensor.Matrix) {
				sum := x.BlockGradSum(1)
				t.Team.ScatterAdd(sum, g, list)
				x.AddBlockGrad(sum)
				g.Release()
			},
		})
	})
}

// Sum replaces each value by its sum over all workers.
func (r *RowSet) Sum(values []float64) {
	if r.Peers != nil {
		r.Peers.Sum(values)
	}
}

// Max replaces each value by the largest of all workers.
func (r *RowSet) Max(values []float64) {
	if r.Peers != nil {
		r.Peers.Max(values)
	}
}

// List returns the keys of the rows; nil: row i is vertex i.
func (r *RowSet) List() []int32 {
	if r.IDs == nil {
		return nil
	}
	return r.IDs.Int32s()
}
