package tp

import (
	"slices"

	"weft/partition"
)

// ownerChunks is the number of chunks of destinations in which ownersOf visits the edges. It is constant,
// because the owner of a row must not depend on the aggregation chunks.
const ownerChunks = 64

// ownersOf returns, for each worker, the rows of a partition and a vertex type that it owns, ascending. They
// depend only on the partition's edges from that type.
func ownersOf(e *partition.PartEdges, kind, workers int) [][]int32 {
	types, relations := e.Types, e.All
	if relations == nil {
		relations = e.Relations
	}
	own := types[kind]
	start := int32(own.Starts[e.P])
	lists := assignOwners(own.Rows, workers, ownerChunks, func(chunk int, visit func(source int32)) {
		for _, r := range relations {
			if r.Source != kind {
				continue
			}
			targets := types[r.Target].Rows
			from, to := r.In.Indptr[targets*chunk/ownerChunks], r.In.Indptr[targets*(chunk+1)/ownerChunks]
			for _, position := range r.In.Sources[from:to] {
				if row := position - start; row >= 0 && int(row) < own.Rows {
					visit(row)
				}
			}
		}
	})
	for _, list := range lists {
		slices.Sort(list)
	}
	return lists
}

// assignOwners returns the rows that each worker owns. It goes through chunks of consecutive targets in
// order. sources visits the sources of a chunk's edges. Sources that no earlier chunk has are divided equally
// among the workers, in ascending order, so that a chunk waits for equally many rows of every worker. Rows
// that are no source come last. The workers get the remainders in turn: their numbers of rows differ by at
// most one, and the first workers have more.
func assignOwners(rows, workers, chunks int, sources func(chunk int, visit func(source int32))) [][]int32 {
	lists := make([][]int32, workers)
	assigned := make([]bool, rows)
	next := 0
	for i := range lists {
		lists[i] = make([]int32, 0, rows/workers+1)
	}
	divide := func(fresh []int32) {
		each, more := len(fresh)/workers, len(fresh)%workers
		for i := range lists {
			n := each
			if (i-next+workers)%workers < more {
				n++
			}
			lists[i], fresh = append(lists[i], fresh[:n]...), fresh[n:]
		}
		next = (next + more) % workers
	}
	for j := range chunks {
		var fresh []int32
		sources(j, func(source int32) {
			if !assigned[source] {
				assigned[source] = true
				fresh = append(fresh, source)
			}
		})
		slices.Sort(fresh)
		divide(fresh)
	}
	var rest []int32
	for row, had := range assigned {
		if !had {
			rest = append(rest, int32(row))
		}
	}
	divide(rest)
	return lists
}

// Places returns the rows of a vertex type that a slice of a partition owns, ascending.
func Places(s *partition.Share, kind, slices, slice int) []int32 {
	return ownersOf(&s.Edges, kind, slices)[slice]
}

// ownedRows returns how many of a partition's rows a worker owns. It depends only on the number of rows.
func ownedRows(rows, workers, worker int) int {
	n := rows / workers
	if worker < rows%workers {
		n++
	}
	return n
}
