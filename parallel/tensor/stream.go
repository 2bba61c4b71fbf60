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
	parts  []part
	chunks int
	// of are which of a worker's own rows travel with a chunk, to it or from it.
	of func(owner, chunk int) rows
	// pack fills a room with what worker q is given of a part, from a row on. take does what a room is for
	// that came from worker q.
	pack, take func(room *tensor.Matrix, p part, q, row int)

	most                        int              // rows of a message
	sending, receiving, keeping []*tensor.Matrix // rooms
}

// rows are rows lo … hi−1.
type rows struct{ lo, hi int }

// of is a view of the rows in m.
func (r rows) of(m *tensor.Matrix) *tensor.Matrix { return m.RowRange(r.lo, r.hi) }

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

// piece is a message of some rows of what one worker gives another, and so many columns: of each part its
// width.
type piece struct {
	peer, row, rows, cols int
	widths                []int
}

// widths are how many columns of each part worker q has in the slice layout, and their sum.
func (t *stream) widths(q int) (list []int, sum int) {
	for _, p := range t.parts {
		list, sum = append(list, p.cut[q].count), sum+p.cut[q].count
	}
	return list, sum
}

// between are the messages from one worker to another: own rows of the one that is in the row layout there,
// and columns of the other. All of a switch have at most as many rows, so that the same rows of different
// workers come in the order of the workers.
func (t *stream) between(sender, receiver int, of func(owner int) rows) (list []piece) {
	owner, slice, peer := sender, receiver, receiver
	if t.kind == comm.ToRows {
		owner, slice = receiver, sender
	}
	if sender != t.axis.comm.Rank() {
		peer = sender
	}
	widths, cols := t.widths(slice)
	for r := of(owner); r.lo < r.hi && cols > 0; {
		n := min(r.hi-r.lo, t.most)
		list = append(list, piece{peer, r.lo, n, cols, widths})
		r.lo += n
	}
	return list
}

// whole are the rows of all chunks.
func (t *stream) whole(owner int) rows { return rows{0, t.axis.rowsOf[owner].Cols} }

// chunk are those of one.
func (t *stream) chunk(chunk int) func(owner int) rows {
	return func(owner int) rows { return t.of(owner, chunk) }
}

// outgoing are the messages of some rows to all other workers: the first to each, beginning with the one that
// stands after this one; then the second to each; and so on. incoming are those from them, beginning with the
// one before. So all links are in use, and no two workers begin with the same one. Both ends of each link
// have the same order, so that any number of rooms will do.
func (t *stream) outgoing(of func(owner int) rows) []piece {
	return t.inTurn(1, func(q int) []piece { return t.between(t.axis.comm.Rank(), q, of) })
}

func (t *stream) incoming(of func(owner int) rows) []piece {
	return t.inTurn(-1, func(q int) []piece { return t.between(q, t.axis.comm.Rank(), of) })
}

// own are what the worker gives itself.
func (t *stream) own(of func(owner int) rows) []piece {
	me := t.axis.comm.Rank()
	return t.between(me, me, of)
}

func (t *stream) inTurn(direction int, pieces func(q int) []piece) (list []piece) {
	k := t.axis.comm.Size()
	each, most := make([][]piece, k), 0
	for round := 1; round < k; round++ {
		each[round] = pieces((t.axis.comm.Rank() + direction*round + k) % k)
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
	a := s.axis
	a.comm.At(a.epoch, s.path)
	t.site = s
	widest := 1
	for q := range a.comm.Size() {
		_, width := t.widths(q)
		widest = max(widest, width)
	}
	t.most = max(1, pieceElements/widest)
	out := t.outgoing(t.whole)
	s.tell(out)
	ahead := min(2*(a.comm.Size()-1), mostAhead)
	t.sending = a.rooms(ahead, out)
	t.receiving = a.rooms(ahead, t.incoming(t.whole))
	t.keeping = a.rooms(1, t.own(t.whole))
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
		for _, p := range t.outgoing(t.chunk(chunk)) {
			room, err := s.Room(p.rows, p.cols)
			if err != nil {
				return err
			}
			t.each(p, room, t.pack)
			s.Send(p.peer)
		}
	}
	return s.Finish()
}

// receive takes in what comes with chunks first … last−1, and before it what the worker gives itself with
// each. arrived, unless nil, is told of each chunk.
func (t *stream) receive(c *comm.Comm, first, last int, arrived chan<- struct{}) error {
	r := &exchange.Receiver{Comm: c, Kind: t.kind, Rooms: t.receiving}
	for chunk := first; chunk < last; chunk++ {
		for _, p := range t.incoming(t.chunk(chunk)) {
			r.Expect(p.peer, p.rows, p.cols)
		}
	}
	for chunk := first; chunk < last; chunk++ {
		t.keep(chunk)
		for _, p := range t.incoming(t.chunk(chunk)) {
			room, err := r.Next()
			if err != nil {
				return err
			}
			t.each(p, room, t.take)
			r.Free()
		}
		if arrived != nil {
			arrived <- struct{}{}
		}
	}
	return nil
}

// each does something with a message, part by part.
func (t *stream) each(p piece, message *tensor.Matrix, f func(room *tensor.Matrix, of part, q, row int)) {
	for i, room := range exchange.Parts(message, p.widths) {
		f(room, t.parts[i], p.peer, p.row)
	}
}

// keep moves what the worker gives itself with a chunk, through a room.
func (t *stream) keep(chunk int) {
	for _, p := range t.own(t.chunk(chunk)) {
		room := t.keeping[0].Prefix(p.rows, p.cols)
		t.each(p, room, t.pack)
		t.each(p, room, t.take)
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
