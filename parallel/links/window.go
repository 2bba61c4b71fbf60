package links

import (
	"slices"

	"weft/comm"
	"weft/parallel/exchange"
	"weft/tensor"
)

// usualBytes is the size of the matrices of a window, in bytes.
const usualBytes = 4 << 20

// window has the rows of some vertices of this and of other workers, each once, and their gradients. It
// bounds how many rows of other workers a worker holds at a time.
//
// If partitions take turns, the partitions of one worker write the rows that they own into each other's
// windows, and read their gradients there. So no buffer's size depends on the choice of rows, and a plan is
// exact.
type window struct {
	*Edges
	h, x, dx *tensor.Matrix // own rows; the window's rows, and their gradients if training
	// buffer has rows to send to another worker, or gradients received from it; nil: there is none.
	buffer    *tensor.Matrix
	list      *tensor.Matrix // Int32, 1 × n: row numbers for kernels
	positions []int32        // positions of the window's rows in the order of the partitions, ascending
	asked     [][]int32      // by worker: the own rows in its window
	queries   *queries       // edges that are ranked; nil: none
	known     bool           // a plan knows which rows come
	fetches   []fetch        // these windows, one after the other
	fetched   int            // how many have been fetched
	planned   *fetch         // the last window; nil: a plan does not know it
}

// purpose says whether a window has gradients.
type purpose bool

const (
	toScore purpose = false
	toTrain purpose = true
)

// window returns an empty window for a pass, for at most most rows of h.
func (l *Edges) window(h *tensor.Matrix, most int, p pass) *window {
	most = min(most, l.places.Vertices())
	rows := min(most, l.rows)
	w := &window{
		Edges: l, h: h, x: l.team.Memory.New(tensor.Activations, most, h.Cols),
		asked: make([][]int32, l.comm.Size()),
	}
	w.list = l.team.Memory.NewElement(tensor.Activations, tensor.Int32, 1, rows)
	w.fetches, w.known = l.fetches.windows(p, l.comm)
	if p.to == toTrain {
		w.dx = l.team.Memory.New(tensor.Gradients, most, h.Cols)
	}
	if l.comm.Size() > 1 && !l.comm.TakesTurns() {
		w.buffer = w.newBuffer()
	}
	l.comm.Publish(w)
	return w
}

// newBuffer makes a buffer for the rows of a message.
func (w *window) newBuffer() *tensor.Matrix {
	return w.team.Memory.New(tensor.Buffers, w.list.Cols, w.h.Cols)
}

func (w *window) release() { exchange.Release(w.x, w.dx, w.buffer, w.list) }

// ownedBy returns the range of the window's rows that belong to partition q.
func (w *window) ownedBy(q int) (lo, hi int) {
	lo, _ = slices.BinarySearch(w.positions, int32(w.places.Starts[q]))
	hi, _ = slices.BinarySearch(w.positions, int32(w.places.Starts[q+1]))
	return lo, hi
}

// at returns the number of a vertex's row in the window.
func (w *window) at(vertex int32) int {
	i, _ := slices.BinarySearch(w.positions, w.places.Position(vertex))
	return i
}

// next returns the window that comes next, in a plan that knows it; else nil.
func (w *window) next() *fetch {
	if w.fetched >= len(w.fetches) {
		return nil
	}
	return &w.fetches[w.fetched]
}

// rounds returns how many windows a pass over a part has. A plan that knows the windows of all workers counts
// them.
func (w *window) rounds(part Part, each int) int {
	if w.known {
		return len(w.fetches)
	}
	return w.Edges.rounds(part, each)
}

// fetch fills the window with the rows at these positions, which may be in any order and repeat. In a plan it
// has no rows, or those of the plan's Fetches.
func (w *window) fetch(positions []int32) {
	slices.Sort(positions)
	w.positions = slices.Compact(positions)
	w.planned = w.next()
	if w.planned != nil {
		w.positions = w.Edges.fetches.positions(w.planned, w.me)
	}
	w.fetched++
	if w.comm.TakesTurns() {
		w.fetchInTurns()
		return
	}
	lo, hi := w.ownedBy(w.me)
	w.team.Gather(w.x.RowRange(lo, hi), w.h, w.listed(w.rowsAt(lo, hi)))
	if w.comm.Size() == 1 {
		return
	}
	exchange.Must(w.ask())
	w.eachOther(func(to, from int) {
		rows := w.buffer.Prefix(len(w.asked[to]), w.h.Cols)
		w.team.Gather(rows, w.h, w.listed(w.asked[to]))
		lo, hi := w.ownedBy(from)
		w.move(rows, to, w.x.RowRange(lo, hi), from)
	})
}

// sendGradients sends the gradients of the window's rows to their owners. It adds to grad (own rows) first
// the gradients of this worker's window, and then those of other workers in the order of eachOther.
func (w *window) sendGradients(grad *tensor.Matrix) {
	if w.comm.TakesTurns() {
		w.sendGradientsInTurns(grad)
		return
	}
	lo, hi := w.ownedBy(w.me)
	w.team.ScatterAdd(grad, w.dx.RowRange(lo, hi), w.listed(w.rowsAt(lo, hi)))
	w.eachOther(func(from, to int) {
		rows := w.buffer.Prefix(len(w.asked[from]), grad.Cols)
		lo, hi := w.ownedBy(to)
		w.move(w.dx.RowRange(lo, hi), to, rows, from)
		w.team.ScatterAdd(grad, rows, w.listed(w.asked[from]))
	})
}

// eachOther calls use once for each round r, with the workers whose ranks are higher and lower by r, modulo
// their number.
func (w *window) eachOther(use func(ahead, behind int)) {
	k := w.comm.Size()
	for round := 1; round < k; round++ {
		use((w.me+round)%k, (w.me-round+k)%k)
	}
}

// move sends rows to a worker, and receives a message from another worker into incoming.
func (w *window) move(rows *tensor.Matrix, to int, incoming *tensor.Matrix, from int) {
	var sent, received *comm.Pending
	if incoming.Rows > 0 {
		received = w.comm.Receive(comm.Links, incoming.Bytes(), from)
	}
	if rows.Rows > 0 {
		sent = w.comm.Send(comm.Links, rows.Bytes(), to)
	}
	for _, p := range []*comm.Pending{received, sent} {
		if p != nil {
			exchange.Must(p.Wait())
		}
	}
}

// ask tells the other workers which of their rows are in the window. Nearby ranks read that where it lies.
func (w *window) ask() error {
	k := w.comm.Size()
	wanted := make([][]int32, k)
	lengths := make([]int32, k)
	theirs := make([]int32, k)
	send, receive := make([][]byte, k), make([][]byte, k)
	for q := range k {
		if lo, hi := w.ownedBy(q); q != w.me && !w.comm.Nearby(q) {
			wanted[q] = w.rowsAt(lo, hi)
		}
		lengths[q] = int32(len(wanted[q]))
		if !w.comm.Nearby(q) {
			send[q], receive[q] = comm.Bytes(lengths[q:q+1]), comm.Bytes(theirs[q:q+1])
		}
	}
	if err := w.comm.AllToAll(comm.Links, send, receive); err != nil {
		return err
	}
	for q := range k {
		if f := w.planned; f != nil && q != w.me && !w.comm.Nearby(q) {
			theirs[q] = f.rows[q][w.me]
		}
		w.asked[q] = make([]int32, theirs[q])
		send[q], receive[q] = comm.Bytes(wanted[q]), comm.Bytes(w.asked[q])
	}
	var err error
	w.apart(func() { err = w.comm.AllToAll(comm.Links, send, receive) })
	return err
}

// rowsAt returns the row numbers that rows lo … hi−1 of the window have on the worker that owns them. One
// worker must own all of them.
func (w *window) rowsAt(lo, hi int) []int32 {
	rows := slices.Clone(w.positions[lo:hi])
	if len(rows) > 0 {
		q, found := slices.BinarySearch(w.places.Starts, int(rows[0]))
		if !found {
			q--
		}
		for i := range rows {
			rows[i] -= int32(w.places.Starts[q])
		}
	}
	return rows
}

// listed returns row numbers as a matrix for kernels. It is valid until the next call.
func (w *window) listed(rows []int32) *tensor.Matrix {
	list := w.list.Prefix(1, len(rows))
	copy(list.WriteInt32s(), rows)
	return list
}
