package links

import (
	"weft/comm"
	"weft/parallel/exchange"
	"weft/tensor"
)

// fetchInTurns is fetch for a worker that holds several partitions. All of them send the rows that they own
// before one uses its window.
func (w *window) fetchInTurns() {
	exchange.Must(w.ask())
	remote := w.remote()
	buffer := w.bufferFor(remote)
	lo, hi := w.ownedBy(w.me)
	w.team.Gather(w.x.RowRange(lo, hi), w.h, w.listed(w.rowsAt(lo, hi)))
	w.eachOther(func(to, _ int) {
		if w.comm.Nearby(to) {
			there := w.there(to)
			lo, hi := there.ownedBy(w.me)
			w.team.Gather(there.x.RowRange(lo, hi), w.h, w.listed(there.rowsAt(lo, hi)))
			there.x.DontNeed()
			return
		}
		rows := buffer.Prefix(len(w.asked[to]), w.h.Cols)
		w.team.Gather(rows, w.h, w.listed(w.asked[to]))
		w.bounded(rows, buffer, comm.Outgoing, to)
	})
	buffer.Release()
	w.comm.LocalBarrier()
	exchange.Must(w.comm.Aborted())
	defer w.comm.KeepTurn()()
	w.allFrom(remote, w.x, comm.Incoming)
}

// sendGradientsInTurns is sendGradients for a worker that holds several partitions.
func (w *window) sendGradientsInTurns(grad *tensor.Matrix) {
	remote := w.remote()
	w.allFrom(remote, w.dx, comm.Outgoing)
	w.comm.LocalBarrier()
	exchange.Must(w.comm.Aborted())
	defer w.comm.KeepTurn()()
	buffer := w.bufferFor(remote)
	defer buffer.Release()
	lo, hi := w.ownedBy(w.me)
	w.team.ScatterAdd(grad, w.dx.RowRange(lo, hi), w.listed(w.rowsAt(lo, hi)))
	w.eachOther(func(from, _ int) {
		if w.comm.Nearby(from) {
			there := w.there(from)
			lo, hi := there.ownedBy(w.me)
			w.team.ScatterAdd(grad, there.dx.RowRange(lo, hi), w.listed(there.rowsAt(lo, hi)))
			there.dx.DontNeed()
			return
		}
		rows := buffer.Prefix(len(w.asked[from]), grad.Cols)
		w.bounded(rows, buffer, comm.Incoming, from)
		w.team.ScatterAdd(grad, rows, w.listed(w.asked[from]))
	})
}

// allFrom moves the rows of a window that belong to ranks of other workers.
func (w *window) allFrom(remote []int, rows *tensor.Matrix, path comm.Path) {
	w.apart(func() {
		for _, rank := range remote {
			lo, hi := w.ownedBy(rank)
			w.pass(rows.RowRange(lo, hi), path, rank)
		}
	})
	if len(remote) > 0 { // a plan bounds all messages together
		w.bounded(rows.RowRange(0, 0), rows, path, remote[0])
	}
}

// bounded moves rows to or from a rank of another worker. A plan that does not know their number takes as
// many as a message may have. A plan that knows it queues as many.
func (w *window) bounded(rows, most *tensor.Matrix, path comm.Path, rank int) {
	switch {
	case w.Edges.fetches == nil:
		w.pass(rows, path, rank)
	case w.planned == nil:
		w.pass(most, path, rank)
	default:
		w.apart(func() { w.pass(rows, path, rank) })
		w.comm.Bound(comm.Links, most.Len()*most.Element.Size(), path)
	}
}

// apart leaves messages out of what a plan queues, if it knows how many they are. Others bound them.
func (w *window) apart(f func()) {
	if w.planned == nil || !w.comm.TakesTurns() {
		f()
		return
	}
	w.comm.Apart(f)
}

// there returns the window of a nearby rank.
func (w *window) there(rank int) *window { return w.comm.Published(rank).(*window) }

// remote returns the ranks of other workers, in the order in which this one receives from them.
func (w *window) remote() (ranks []int) {
	w.eachOther(func(_, from int) {
		if !w.comm.Nearby(from) {
			ranks = append(ranks, from)
		}
	})
	return ranks
}

// bufferFor makes a buffer for messages to or from these ranks; nil for none.
func (w *window) bufferFor(ranks []int) *tensor.Matrix {
	if len(ranks) == 0 {
		return nil
	}
	return w.newBuffer()
}

// pass sends rows to a rank of another worker, or receives them.
func (w *window) pass(rows *tensor.Matrix, path comm.Path, rank int) {
	if rows.Rows == 0 {
		return
	}
	move := w.comm.Send
	if path == comm.Incoming {
		move = w.comm.Receive
	}
	exchange.Must(move(comm.Links, rows.Bytes(), rank).Wait())
}
