package tensor

import (
	"weft/comm"
	"weft/parallel/exchange"
	"weft/tensor"
)

// stream is a switch of layouts as messages, chunk after chunk: of one chunk where it is made by itself, of
// those of a schedule in a flow.
type stream struct {
	site
	kind   comm.Kind
	chunks int
	from   *tensor.Matrix // what the worker gives from; may be set when its first chunk is ready
	// of is what one worker gives another with a chunk, and whole with all of them.
	of    func(sender, receiver, chunk int) extent
	whole func(sender, receiver int) extent
	// pack fills a room with what worker q is given, from a row on. take does what a room is for that came
	// from worker q.
	pack func(room, from *tensor.Matrix, q, row int)
	take func(room *tensor.Matrix, q, row int)

	sending, receiving, keeping []*tensor.Matrix // rooms
}

// rows are rows lo … hi−1.
type rows struct{ lo, hi int }

// of is a view of the rows in m.
func (r rows) of(m *tensor.Matrix) *tensor.Matrix { return m.RowRange(r.lo, r.hi) }

// extent is some rows of what one worker gives another, and how many columns they have.
type extent struct {
	rows
	cols int
}

// allOf are all rows that a worker owns, and some columns.
func (a *Axis) allOf(owner int, columns span) extent {
	return extent{rows{0, a.rowsOf[owner].Cols}, columns.count}
}

// listed is n rows of a list, from the given one on.
func listed(list *tensor.Matrix, from, n int) *tensor.Matrix {
	return list.Reshape(list.Cols, 1).RowRange(from, from+n).Reshape(1, n)
}

const (
	elementBytes = 4 // of a number that is sent
	// pieceElements bounds a message.
	pieceElements = 1 << 16
	// mostAhead bounds how many messages are on their way at a time, each way. With pieceElements it bounds
	// what a worker holds of others' values: two messages for each of eight workers keep all links busy.
	mostAhead = 2 * (8 - 1)
)

// piece is a message of some rows of what one worker gives another.
type piece struct{ peer, row, rows, cols int }

// pieces are the messages to or from one worker.
func (e extent) pieces(q int) (list []piece) {
	for row := e.lo; row < e.hi && e.cols > 0; {
		n := min(e.hi-row, max(1, pieceElements/e.cols))
		list = append(list, piece{q, row, n, e.cols})
		row += n
	}
	return list
}

// pieces are the messages of a chunk in one direction: the first of each other worker, beginning with the one
// that stands after this one, or before where they come from it; then the second of each; and so on. So all
// links are in use, and no two workers begin with the same one. Both ends of each link have the same order,
// so that any number of rooms will do.
func (a *Axis) pieces(direction int, of func(q int) extent) (list []piece) {
	k := a.comm.Size()
	each, most := make([][]piece, k), 0
	for round := 1; round < k; round++ {
		q := (a.comm.Rank() + direction*round + k) % k
		each[round] = of(q).pieces(q)
		most = max(most, len(each[round]))
	}
	for i := range most {
		for _, its := range each {
			if i < len(its) {
				list = append(list, its[i])
			}
		}
	}
	return list
}

// rooms are rooms for each of these messages.
func (a *Axis) rooms(n int, list []piece) []*tensor.Matrix {
	most := 0
	for _, p := range list {
		most = max(most, p.rows*p.cols)
	}
	return exchange.Rooms(a.team.Memory, n, 1, most)
}

// tell tells of a switch in which this worker sends these messages.
func (s site) tell(out []piece) {
	if s.axis.switched == nil {
		return
	}
	bytes := int64(0)
	for _, p := range out {
		bytes += elementBytes * int64(p.rows*p.cols)
	}
	s.axis.switched(s.path, bytes)
}

// open takes a stream's rooms, and tells of it.
func (s site) open(t stream) *stream {
	a, me := s.axis, s.axis.comm.Rank()
	a.comm.At(a.epoch, s.path)
	out := a.pieces(1, func(q int) extent { return t.whole(me, q) })
	s.tell(out)
	ahead := min(2*(a.comm.Size()-1), mostAhead)
	t.site = s
	t.sending = a.rooms(ahead, out)
	t.receiving = a.rooms(ahead, a.pieces(-1, func(q int) extent { return t.whole(q, me) }))
	t.keeping = a.rooms(1, t.whole(me, me).pieces(me))
	return &t
}

// close gives them back.
func (t *stream) close() {
	exchange.Release(t.sending...)
	exchange.Release(t.receiving...)
	exchange.Release(t.keeping...)
}

// run makes a switch by itself. A failure of another worker ends the pass.
func (t *stream) run() {
	defer t.close()
	c := t.axis.comm
	send := func(aside *comm.Comm) error { return t.send(aside, nil) }
	exchange.Must(exchange.Beside(c, []exchange.Side{send}, func() error { return t.receive(c, 0, t.chunks, nil) }))
}

// send sends each chunk's messages, once it is ready; nil: all are. Where ready is closed before the last
// chunk, the work has failed.
func (t *stream) send(c *comm.Comm, ready <-chan struct{}) error {
	s := &exchange.Sender{Comm: c, Kind: t.kind, Rooms: t.sending}
	for chunk := range t.chunks {
		if ready != nil {
			if _, is := <-ready; !is {
				break
			}
		}
		for _, p := range t.axis.pieces(1, func(q int) extent { return t.of(c.Rank(), q, chunk) }) {
			room, err := s.Room(p.rows, p.cols)
			if err != nil {
				return err
			}
			t.pack(room, t.from, p.peer, p.row)
			s.Send(p.peer)
		}
	}
	return s.Finish()
}

// receive takes in what comes with chunks first … last−1, and before it what the worker gives itself with
// each. arrived, unless nil, is told of each chunk.
func (t *stream) receive(c *comm.Comm, first, last int, arrived chan<- struct{}) error {
	r := &exchange.Receiver{Comm: c, Kind: t.kind, Rooms: t.receiving}
	messages := func(chunk int) []piece {
		return t.axis.pieces(-1, func(q int) extent { return t.of(q, c.Rank(), chunk) })
	}
	for chunk := first; chunk < last; chunk++ {
		for _, p := range messages(chunk) {
			r.Expect(p.peer, p.rows, p.cols)
		}
	}
	for chunk := first; chunk < last; chunk++ {
		t.keep(chunk)
		for _, p := range messages(chunk) {
			room, err := r.Next()
			if err != nil {
				return err
			}
			t.take(room, p.peer, p.row)
			r.Free()
		}
		if arrived != nil {
			arrived <- struct{}{}
		}
	}
	return nil
}

// keep moves what the worker gives itself with a chunk, through a room.
func (t *stream) keep(chunk int) {
	me := t.axis.comm.Rank()
	for _, p := range t.of(me, me, chunk).pieces(me) {
		room := t.keeping[0].Prefix(p.rows, p.cols)
		t.pack(room, t.from, me, p.row)
		t.take(room, me, p.row)
	}
}

// collect is receive of each chunk by itself, from where this worker has computed it: the others then have
// too, or are late. Where computed is closed before the last chunk, the work has failed.
func (t *stream) collect(c *comm.Comm, computed <-chan struct{}) error {
	for chunk := range t.chunks {
		if _, is := <-computed; !is {
			return nil
		}
		if err := t.receive(c, chunk, chunk+1, nil); err != nil {
			return err
		}
	}
	return nil
}
