package tensor

import (
	"slices"

	"weft/partition"
)

// ownerChunks is the number of chunks of destinations in which ownersOf visits the edges. It is a constant:
// the owner of a row must not depend on the aggregation chunks.
const ownerChunks = 64

// ownersOf lists the rows of a partition that each worker owns, ascending. They depend on its edges alone.
func ownersOf(e *partition.Edges, workers int) [][]int32 {
	start := int32(e.Starts[e.P])
	lists := deal(e.Rows, workers, ownerChunks, func(target int, visit func(source int32)) {
		for _, r := range e.Relations {
			for _, position := range r.In.Sources[r.In.Indptr[target]:r.In.Indptr[target+1]] {
				if row := position - start; row >= 0 && int(row) < e.Rows {
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

// deal visits the chunks of consecutive targets in order. It divides the sources that are new in a chunk
// equally among the workers, in ascending order. Rows that are no chunk's source follow at the end. So a
// chunk waits for equally many rows of every worker. The workers take turns in getting a row more: their
// numbers of rows differ by one at most, and the first workers have more.
func deal(rows, workers, chunks int, sources func(target int, visit func(source int32))) [][]int32 {
	lists, dealt, next := make([][]int32, workers), make([]bool, rows), 0
	for i := range lists {
		lists[i] = make([]int32, 0, rows/workers+1)
	}
	share := func(fresh []int32) {
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
		for target := rows * j / chunks; target < rows*(j+1)/chunks; target++ {
			sources(target, func(source int32) {
				if !dealt[source] {
					dealt[source], fresh = true, append(fresh, source)
				}
			})
		}
		slices.Sort(fresh)
		share(fresh)
	}
	var rest []int32
	for row, had := range dealt {
		if !had {
			rest = append(rest, int32(row))
		}
	}
	share(rest)
	return lists
}

// owned is how many of a partition's rows a worker owns. It depends on the number of rows alone.
func owned(rows, workers, worker int) int {
	n := rows / workers
	if worker < rows%workers {
		n++
	}
	return n
}
