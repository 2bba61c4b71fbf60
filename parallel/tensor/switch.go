package tensor

import (
	"slices"

	"weft/comm"
	"weft/parallel/exchange"
	"weft/tensor"
)

// listed is n rows of a list, from the given one on.
func listed(rows *tensor.Matrix, from, n int) *tensor.Matrix {
	return rows.Reshape(rows.Cols, 1).RowRange(from, from+n).Reshape(1, n)
}

// extent is rows from … to−1 of what one worker gives another, and its columns.
type extent struct{ from, to, cols int }

// switching is a switch of layouts: what goes to each worker and comes from it, and what is done with a piece
// of it that begins at some row.
type switching struct {
	kind       comm.Kind
	out, in    func(q int) extent
	pack, take func(room *tensor.Matrix, q, row int)
}

// pieceElements bounds a message, and with it what a worker holds of others' values besides its own: two
// messages to and two from each other worker.
const pieceElements = 1 << 16

// elementBytes is the size of a number that is sent.
const elementBytes = 4

// piece is a message of some rows of what one worker gives another.
type piece struct{ peer, row, rows, cols int }

// pieces are the messages of a switch in one direction: the first of each other worker, beginning with the
// one that stands after this one, or before where they come from it; then the second of each; and so on. So
// all links are in use, and no two workers begin with the same one.
func (l *layout) pieces(direction int, of func(q int) extent) (list []piece) {
	k := l.comm.Size()
	each, most := make([][]piece, k), 0
	for round := 1; round < k; round++ {
		q := (l.comm.Rank() + direction*round + k) % k
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

// ahead is how many messages are on their way at a time: two for each other worker.
func (l *layout) ahead() int { return 2 * (l.comm.Size() - 1) }

// rooms are rooms for each of these messages.
func (l *layout) rooms(n int, list []piece) []*tensor.Matrix {
	most := 0
	for _, p := range list {
		most = max(most, p.rows*p.cols)
	}
	return exchange.Rooms(l.team.Memory, n, 1, most)
}

// pieces are the messages to or from one worker.
func (e extent) pieces(q int) (list []piece) {
	for row := e.from; row < e.to && e.cols > 0; {
		n := min(e.to-row, max(1, pieceElements/e.cols))
		list = append(list, piece{q, row, n, e.cols})
		row += n
	}
	return list
}

// tell tells of a switch in which this worker sends these messages.
func (l place) tell(out []piece) {
	if l.switched == nil {
		return
	}
	bytes := int64(0)
	for _, p := range out {
		bytes += elementBytes * int64(p.rows*p.cols)
	}
	l.switched(l.site, bytes)
}

// move runs a switch. A failure of another worker ends the pass.
func (l place) move(s switching) {
	l.comm.At(l.epoch, l.site)
	out, in, kept := l.pieces(1, s.out), l.pieces(-1, s.in), s.out(l.comm.Rank()).pieces(l.comm.Rank())
	l.tell(out)
	sending, receiving, keeping := l.rooms(l.ahead(), out), l.rooms(l.ahead(), in), l.rooms(1, kept)
	defer exchange.Release(slices.Concat(sending, receiving, keeping)...)
	send := func(aside *comm.Comm) error {
		sender := &exchange.Sender{Comm: aside, Kind: s.kind, Rooms: sending}
		if err := sendAll(sender, out, s.pack); err != nil {
			return err
		}
		return sender.Finish()
	}
	exchange.Must(exchange.Beside(l.comm, []exchange.Side{send}, func() error {
		receiver := &exchange.Receiver{Comm: l.comm, Kind: s.kind, Rooms: receiving}
		expectAll(receiver, in)
		keep(keeping[0], kept, s.pack, s.take)
		return takeAll(receiver, in, s.take)
	}))
}

// sendAll, expectAll, takeAll and keep are what is done with a list of messages. keep moves those of a worker
// to itself, through a room.
func sendAll(s *exchange.Sender, list []piece, pack func(room *tensor.Matrix, q, row int)) error {
	for _, p := range list {
		room, err := s.Room(p.rows, p.cols)
		if err != nil {
			return err
		}
		pack(room, p.peer, p.row)
		s.Send(p.peer)
	}
	return nil
}

func expectAll(r *exchange.Receiver, list []piece) {
	for _, p := range list {
		r.Expect(p.peer, p.rows, p.cols)
	}
}

func takeAll(r *exchange.Receiver, list []piece, take func(room *tensor.Matrix, q, row int)) error {
	for _, p := range list {
		room, err := r.Next()
		if err != nil {
			return err
		}
		take(room, p.peer, p.row)
		r.Free()
	}
	return nil
}

func keep(room *tensor.Matrix, list []piece, pack, take func(room *tensor.Matrix, q, row int)) {
	for _, p := range list {
		some := room.Prefix(p.rows, p.cols)
		pack(some, p.peer, p.row)
		take(some, p.peer, p.row)
	}
}
