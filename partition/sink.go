package partition

import "weft/graph"

// sink takes what a divider makes of a partition: a graph.Writer, for files, or a graph.Held, for memory.
type sink interface {
	Features(t, columns, stored int, batches graph.Batches[*graph.Features]) error
	In(r int, edges int64, like *graph.Relation, batches graph.Batches[*graph.Relation]) error
	Out(r int, edges int64, like *graph.Relation, batches graph.Batches[*graph.Relation]) error
	Written(r int) (*graph.Graph, error)
}
