package train

import (
	"weft/graph"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/partition"
)

// Parts are a graph's partitions. Each worker opens its own.
type Parts struct {
	Whole   partition.Whole
	ID      string // of a stored partition
	Balance string // what was balanced, "": unknown
	Open    func(p int) (*partition.Share, error)
}

// chunks are the chunks that the workers of a job share.
type chunks struct {
	made division
	of   []int32 // the chunk of each vertex, in the order of the partitions
}

// division is everything that the chunks depend on.
type division struct {
	edges  *graph.Relation // the first relation of a stored graph, whose edges stay; nil: Parts have them
	parts  *Parts
	chunks axis.Chunks
	mesh   mesh.Mesh
	method string
	seed   uint64
	alike  bool
}
