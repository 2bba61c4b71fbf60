package links

import (
	"weft/comm"
	"weft/parallel/exchange"
	"weft/tensor"
)

// fetchInTurns is fetch for a worker that holds several partitions: all of them have sent the rows that they
// own before one uses its window.
func (w *window) fetchInTurns() {
	exchange.Must(w.ask())
	remote := w.remote()
	buffer := w.bufferFor(remote)
	lo, hi := w.of(w.me)
	w.team.Gather(w.x.RowRange(lo, hi), w.h, w.listed(w.rowsAt(lo, hi)))
	w.eachOther(func(to, _ int) {
		if w.comm.Nearby(to) {
			there := w.there(to)
			lo, hi := there.of(w.me)
			w.team.Gather(there.x.RowRange(lo, hi), w.h, w.listed(there.rowsAt(lo, hi)))
			there.x.Unused()
			return
		}
		rows := buffer.Prefix(len(w.asked[to]), w.h.Cols)
		w.team.Gather(rows, w.h, w.listed(w.asked[to]))
		w.send(w.orAll(rows, buffer), to)
	})
	buffer.Release()
	w.comm.Meet()
	defer w.comm.KeepTurn()()
	for _, from := range remote {
		lo, hi := w.of(from)
		w.receive(w.x.RowRange(lo, hi), from)
	}
	if w.team.Planning() && len(remote) > 0 {
		w.receive(w.x, remote[0]) // as much as all messages together
	}
	w.x.Pointer() // where a plan has no edges to score
}

// sendGradientsInTurns is sendGradients for a worker that holds several partitions.
func (w *window) sendGradientsInTurns(grad *tensor.Matrix) {
	remote := w.remote()
	for _, to := range remote {
		lo, hi := w.of(to)
		w.send(w.dx.RowRange(lo, hi), to)
	}
	if w.team.Planning() && len(remote) > 0 {
		w.send(w.dx, remote[0])
	}
	w.comm.Meet()
	defer w.comm.KeepTurn()()
	buffer := w.bufferFor(remote)
	defer buffer.Release()
	lo, hi := w.of(w.me)
	w.team.ScatterAdd(grad, w.dx.RowRange(lo, hi), w.listed(w.rowsAt(lo, hi)))
	w.eachOther(func(from, _ int) {
		if w.comm.Nearby(from) {
			there := w.there(from)
			lo, hi := there.of(w.me)
			w.team.ScatterAdd(grad, there.dx.RowRange(lo, hi), w.listed(there.rowsAt(lo, hi)))
			there.dx.Unused()
			return
		}
		rows := buffer.Prefix(len(w.asked[from]), grad.Cols)
		w.receive(w.orAll(rows, buffer), from)
		w.team.ScatterAdd(grad, rows, w.listed(w.asked[from]))
	})
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

// orAll returns rows or, in a plan, which does not know how many a message has, as many as it may have.
func (w *window) orAll(rows, most *tensor.Matrix) *tensor.Matrix {
	if w.team.Planning() {
		return most
	}
	return rows
}

// send sends rows to a rank of another worker.
func (w *window) send(rows *tensor.Matrix, to int) {
	if rows.Rows > 0 {
		exchange.Must(w.comm.Send(comm.Links, rows.Bytes(), to).Wait())
	}
}

// receive receives rows from a rank of another worker.
func (w *window) receive(rows *tensor.Matrix, from int) {
	if rows.Rows > 0 {
		exchange.Must(w.comm.Receive(comm.Links, rows.Bytes(), from).Wait())
	}
}
