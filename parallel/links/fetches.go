package links

import (
	"slices"

	"weft/comm"
	"weft/graph"
)

// Fetches are the windows of an epoch of training, and those of an evaluation. A plan takes them from here,
// because it draws no negative edges. A plan that does not know them has a zero Fetches.
type Fetches struct {
	Starts  []int // the first position of each worker's vertices, and V
	passes  map[pass][]fetch
	columns int // columns of an embedding
}

// Known reports whether the Fetches are those of an epoch.
func (f *Fetches) Known() bool { return f != nil && f.Starts != nil }

// windows returns the windows of a pass, if they are known. If a worker with one partition ranks, it does the
// same in all windows: one stands for all, also if only others have edges.
func (f *Fetches) windows(p pass, c *comm.Comm) (windows []fetch, known bool) {
	if f == nil {
		return nil, false
	}
	if p.drawn == ranking && !c.TakesTurns() {
		return []fetch{{rows: slices.Repeat([][]int32{make([]int32, c.Size())}, c.Size())}}, true
	}
	windows, known = f.passes[p]
	return windows, known
}

// pass says what windows are for: a pass over the edges of a part.
type pass struct {
	part  Part
	drawn int // negative edges of each edge; ranking: the pass ranks the edges' targets
	to    purpose
}

// ranking is the value of drawn for a pass that ranks.
const ranking = -1

// fetch is one window of each worker.
type fetch struct {
	scored []int32   // by worker: how many edges it scores, with negative edges
	rows   [][]int32 // by worker and owner: how many of the owner's rows the worker's window has
}

// Fetches draws the negative edges of an epoch, for embeddings of so many columns. With takesTurns it adds
// the windows of an evaluation, which count if messages rest. All workers call it together, and get the same
// Fetches.
func (l *Edges) Fetches(epoch, columns, drawn int, takesTurns bool) (*Fetches, error) {
	f := &Fetches{Starts: l.places.Starts, passes: map[pass][]fetch{}, columns: columns}
	train := pass{Train, drawn, toTrain}
	passes := []pass{train}
	for _, part := range []Part{Val, Test} {
		switch {
		case !takesTurns:
		case l.Negatives == graph.SharedNegatives:
			passes = append(passes, pass{part, 0, toScore}, pass{parts + part, 0, toScore})
		case l.Negatives == graph.TargetNegatives:
			passes = append(passes, pass{part, l.storedNegatives[part], toScore})
		default:
			passes = append(passes, pass{part, ranking, toScore})
		}
		if takesTurns { // for the validation loss, or ROC-AUC
			passes = append(passes, pass{part, 1, toScore})
		}
	}
	for _, p := range passes {
		number := 0
		if p == train {
			number = epoch
		}
		if _, known := f.passes[p]; known {
			continue
		}
		var err error
		if f.passes[p], err = l.fetchesOf(p, number, columns); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Sent is what a worker with one partition sends in the training pass. For each window it sends each other
// worker the number of the rows for which it asks, and their numbers. It also sends the embeddings for which
// others ask, and the gradients of its window's rows.
func (f *Fetches) Sent(worker int) (sent comm.Traffic) {
	message := func(bytes int64) {
		if bytes > 0 {
			sent.Bytes, sent.Messages = sent.Bytes+bytes, sent.Messages+1
		}
	}
	const number = 4 // bytes of a row's number, of a count of rows, and of an element
	row := int64(number * f.columns)
	for p, windows := range f.passes {
		if p.to != toTrain {
			continue
		}
		for _, w := range windows {
			for other := range w.rows {
				if other == worker {
					continue
				}
				asks, asked := int64(w.rows[worker][other]), int64(w.rows[other][worker])
				message(number)
				message(number * asks)
				message(row * asked)
				message(row * asks)
			}
		}
	}
	return sent
}

// fetchesOf are the windows of a pass.
func (l *Edges) fetchesOf(p pass, epoch, columns int) (all []fetch, err error) {
	edges := walk{Edges: l, part: p.part}
	k := l.comm.Size()
	each := batch
	if p.drawn != ranking {
		each = l.batchEdges(columns, p.drawn)
	}
	rounds := l.rounds(p.part, each)
	var own []int32 // by batch: the scored edges, and the rows of each owner
	for range rounds {
		some := edges.next(each)
		scored, positions := l.endsIn(p, epoch, some, edges.numbers)
		w := window{Edges: l, positions: slices.Compact(positions)}
		own = append(own, int32(scored))
		for q := range k {
			lo, hi := w.ownedBy(q)
			own = append(own, int32(hi-lo))
		}
	}
	lists, err := comm.GatherLists(l.comm, comm.Setup, own)
	if err != nil {
		return nil, err
	}
	for round := range rounds {
		var f fetch
		for _, list := range lists {
			counts := list[round*(1+k) : (round+1)*(1+k)]
			f.scored, f.rows = append(f.scored, counts[0]), append(f.rows, counts[1:])
		}
		all = append(all, f)
	}
	return all, nil
}

// endsIn returns how many edges a pass scores in a window, and the sorted positions of the window's rows.
func (l *Edges) endsIn(p pass, epoch int, edges []Edge, numbers []int) (scored int, positions []int32) {
	var all []Edge
	switch {
	case p.drawn == ranking:
		for _, e := range edges {
			positions = append(positions, l.places.Position(e.Source))
		}
		slices.Sort(positions)
		return len(edges), positions
	case l.Negatives == graph.TargetNegatives && p.part != Train && p.drawn == l.storedNegatives[p.part]:
		all, positions = l.withGiven(edges, numbers, p.part)
	default:
		all, positions = l.draw(edges, epoch, p.drawn)
	}
	return len(all), positions
}

// positions returns positions of each owner, as many as a worker's window has rows of it.
func (f *Fetches) positions(needed *fetch, worker int) (positions []int32) {
	for owner, n := range needed.rows[worker] {
		for i := range n {
			positions = append(positions, int32(f.Starts[owner])+i)
		}
	}
	return positions
}
