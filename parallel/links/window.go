package links

import (
	"slices"

	"weft/comm"
	"weft/parallel/exchange"
	"weft/tensor"
)

// usualBytes is how many bytes the matrices have that hold the rows of a batch of the edges.
const usualBytes = 4 << 20

// window is the rows of some vertices, own ones and those of other workers, each once, and buffers for their
// gradients. A worker holds no more of other workers' rows at a time than its window has, and sends as many
// to one of them.
type window struct {
	*Edges
	h, x, dx  *tensor.Matrix // own rows; the window's, and their gradients where they are asked for
	buffer    *tensor.Matrix // rows on their way to another worker, or gradients from it
	list      *tensor.Matrix // Int32, 1 × n: own rows
	positions []int32        // of the window's rows, ascending
	asked     [][]int32      // by worker: own rows that are in its window
}

// purpose says whether gradients are asked for.
type purpose bool

const (
	toScore purpose = false
	toLearn purpose = true
)

// window holds so many rows of h, at most.
func (l *Edges) window(h *tensor.Matrix, most int, to purpose) *window {
	most = min(most, l.places.Vertices())
	rows := min(most, l.rows)
	w := &window{Edges: l, h: h, x: l.team.Memory.New(tensor.Buffers, most, h.Cols), asked: make([][]int32, l.comm.Size())}
	w.list = l.team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, rows)
	if to == toLearn {
		w.dx = l.team.Memory.New(tensor.Buffers, most, h.Cols)
	}
	if l.comm.Size() > 1 {
		w.buffer = l.team.Memory.New(tensor.Buffers, rows, h.Cols)
	}
	return w
}

func (w *window) release() { exchange.Release(w.x, w.dx, w.buffer, w.list) }

// of is where the rows of partition q lie among the window's.
func (w *window) of(q int) (lo, hi int) {
	lo, _ = slices.BinarySearch(w.positions, int32(w.places.Starts[q]))
	hi, _ = slices.BinarySearch(w.positions, int32(w.places.Starts[q+1]))
	return lo, hi
}

// at is the window's row of a vertex.
func (w *window) at(vertex int32) int {
	i, _ := slices.BinarySearch(w.positions, w.places.Position(vertex))
	return i
}

// row is the embedding of a vertex.
func (w *window) row(vertex int32) []float32 { return rowOf(w.x, w.at(vertex)) }

func rowOf(m *tensor.Matrix, i int) []float32 { return m.Floats()[i*m.Cols : (i+1)*m.Cols] }

// open takes in the rows at these positions, in any order, and as often as they occur. Nothing is taken in
// where the team only plans.
func (w *window) open(positions []int32) {
	if w.team.Planning() {
		return
	}
	slices.Sort(positions)
	w.positions = slices.Compact(positions)
	lo, hi := w.of(w.me)
	w.team.Gather(w.x.RowRange(lo, hi), w.h, w.listed(w.rowsAt(lo, hi)))
	if w.comm.Size() == 1 {
		return
	}
	exchange.Must(w.ask())
	w.eachOther(func(to, from int) {
		rows := w.buffer.Prefix(len(w.asked[to]), w.h.Cols)
		w.team.Gather(rows, w.h, w.listed(w.asked[to]))
		lo, hi := w.of(from)
		w.move(rows, to, w.x.RowRange(lo, hi), from)
	})
}

// close adds the gradients of the window's rows to those of the own rows of all workers: own ones first,
// then in the order of eachOther.
func (w *window) close(grad *tensor.Matrix) {
	if w.team.Planning() {
		return
	}
	lo, hi := w.of(w.me)
	w.team.ScatterAdd(grad, w.dx.RowRange(lo, hi), w.listed(w.rowsAt(lo, hi)))
	w.eachOther(func(from, to int) {
		rows := w.buffer.Prefix(len(w.asked[from]), grad.Cols)
		lo, hi := w.of(to)
		w.move(w.dx.RowRange(lo, hi), to, rows, from)
		w.team.ScatterAdd(grad, rows, w.listed(w.asked[from]))
	})
}

// eachOther calls use with each other worker: in round r with the one r places ahead, and the one r places
// behind.
func (w *window) eachOther(use func(ahead, behind int)) {
	k := w.comm.Size()
	for round := 1; round < k; round++ {
		use((w.me+round)%k, (w.me-round+k)%k)
	}
}

// move sends rows to a worker, and receives others from one.
func (w *window) move(rows *tensor.Matrix, to int, come *tensor.Matrix, from int) {
	var sent, received *comm.Pending
	if come.Rows > 0 {
		received = w.comm.Receive(comm.Links, come.Bytes(), from)
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

// ask tells the other workers which of their rows are in the window.
func (w *window) ask() error {
	k := w.comm.Size()
	wanted, lengths, theirs := make([][]int32, k), make([]int32, k), make([]int32, k)
	send, receive := make([][]byte, k), make([][]byte, k)
	for q := range k {
		if lo, hi := w.of(q); q != w.me {
			wanted[q] = w.rowsAt(lo, hi)
		}
		lengths[q] = int32(len(wanted[q]))
		send[q], receive[q] = comm.Bytes(lengths[q:q+1]), comm.Bytes(theirs[q:q+1])
	}
	if err := w.comm.AllToAll(comm.Links, send, receive); err != nil {
		return err
	}
	for q := range k {
		w.asked[q] = make([]int32, theirs[q])
		send[q], receive[q] = comm.Bytes(wanted[q]), comm.Bytes(w.asked[q])
	}
	return w.comm.AllToAll(comm.Links, send, receive)
}

// rowsAt are the rows, of the worker that holds them, that lo … hi−1 of the window are; they are one
// worker's.
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

// listed are own rows, for kernels.
func (w *window) listed(rows []int32) *tensor.Matrix {
	list := w.list.Prefix(1, len(rows))
	copy(list.Int32s(), rows)
	return list
}
