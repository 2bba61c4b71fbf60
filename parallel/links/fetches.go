package links

import (
	"slices"

	"weft/comm"
)

// Fetches are the windows of the batches of training edges of an epoch. A plan, which draws no negative
// edges, takes them from here.
type Fetches struct {
	Starts []int       // the first position of each worker's vertices, and V
	Scored [][]int32   // by batch and worker: the edges that it scores, with negative edges
	Rows   [][][]int32 // by batch, worker and owner: the rows that the worker's window has of the owner
}

// Fetches draws the negative edges of an epoch for embeddings of so many columns. All workers call it
// together, and get the same.
func (l *Edges) Fetches(epoch, columns, drawn int) (*Fetches, error) {
	edges, each, k := walk{Edges: l, part: Train}, l.batchEdges(columns, drawn), l.comm.Size()
	rounds := l.rounds(Train, each)
	var mine []int32 // of each batch: the scored edges, and the rows of each owner
	for range rounds {
		all, positions := l.draw(edges.next(each), epoch, drawn)
		w := window{Edges: l, positions: slices.Compact(positions)}
		mine = append(mine, int32(len(all)))
		for q := range k {
			lo, hi := w.of(q)
			mine = append(mine, int32(hi-lo))
		}
	}
	lists, err := comm.GatherLists(l.comm, comm.Setup, mine)
	if err != nil {
		return nil, err
	}
	f := &Fetches{Starts: l.places.Starts}
	for batch := range rounds {
		var scored []int32
		var rows [][]int32
		for _, list := range lists {
			of := list[batch*(1+k) : (batch+1)*(1+k)]
			scored, rows = append(scored, of[0]), append(rows, of[1:])
		}
		f.Scored, f.Rows = append(f.Scored, scored), append(f.Rows, rows)
	}
	return f, nil
}

// positions returns as many positions of each owner as a worker's window has rows of it.
func (f *Fetches) positions(batch, worker int) (positions []int32) {
	for owner, n := range f.Rows[batch][worker] {
		for i := range n {
			positions = append(positions, int32(f.Starts[owner])+i)
		}
	}
	return positions
}
