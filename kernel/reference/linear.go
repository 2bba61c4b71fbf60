package reference

import "math"

// Kind is one of gnn's linear aggregations.
type Kind int

// The aggregations.
const (
	Sum  Kind = iota // Σ_j x_j + self·x_i
	Mean             // (Σ_j x_j + self·x_i) / (in-degree + self)
	// Symmetric is Σ_j w_ij / √(d_i·d_j) · x_j with one self loop for each vertex. It has the weight of the
	// vertex's last stored loop, or 1. d is the weighted in-degree with that loop.
	Symmetric
	SymmetricNoLoops // Symmetric without added self loops; stored ones count as edges
)

// Linear returns a linear aggregation by its definition, for edges with these weights; nil: all are 1.
func Linear(kind Kind, self float64, indptr []int64, sources []int32, weights []float64) *Aggregation {
	n := len(indptr) - 1
	a := &Aggregation{Indptr: indptr, Indices: sources, Self: make([]float64, n)}
	if kind == Sum {
		for v := range n {
			a.Self[v] = self
		}
		return a
	}
	a.Weights, a.RowScale = make([]float64, len(sources)), make([]float64, n)
	for v := range n {
		degree := 0.
		if kind == Symmetric {
			a.Self[v] = 1
		}
		for k := indptr[v]; k < indptr[v+1]; k++ {
			w := 1.
			if kind != Mean {
				w = or(weights, int(k), 1)
			}
			if kind == Symmetric && int(sources[k]) == v { // the last of several loops
				a.Self[v] = w
				continue
			}
			a.Weights[k] = w
			degree += w
		}
		if kind == Mean {
			a.Self[v] = self
		}
		if degree += a.Self[v]; degree > 0 {
			a.RowScale[v] = 1 / degree
		}
	}
	if kind == Mean && self == 0 { // targets and sources may be of two types
		a.Self = nil
	}
	if kind != Mean {
		for v, s := range a.RowScale {
			a.RowScale[v] = math.Sqrt(s)
			a.Self[v] *= math.Sqrt(s)
		}
		a.ColScale = a.RowScale
	}
	return a
}
