package tensor

import (
	"slices"

	"weft/partition"
)

// walkChunks is how many chunks of destinations the walk takes that finds the rows' owners. It is a constant,
// so that nothing that a row's owner decides depends on how an epoch is scheduled.
const walkChunks = 64

// ownersOf are the rows of a partition that each of so many workers owns, ascending. They follow from its
// edges alone.
func ownersOf(e *partition.Edges, workers int) [][]int32 {
	start := int32(e.Starts[e.P])
	lists := deal(e.Rows, workers, walkChunks, func(target int, visit func(source int32)) {
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

// deal walks over chunks of consecutive targets, so many, and deals the sources of each that no chunk before
// had out to the workers, in ascending order and equal shares; what no chunk has is dealt at the end. So the
// rows that a chunk waits for come from all workers alike. Who gets a row more than others goes round: the
// workers' numbers of rows differ by one at most, the first having more.
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

// owned is how many of a partition's rows a worker owns, by their number alone.
func owned(rows, workers, worker int) int {
	n := rows / workers
	if worker < rows%workers {
		n++
	}
	return n
}
