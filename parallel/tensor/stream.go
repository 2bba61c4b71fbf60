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
	// pack fills a buffer with what worker q is given of a part, from a row on. take does what a buffer is
	// for that came from worker q.
	pack, take func(buffer *tensor.Matrix, p part, q, row int)

	most                        int              // rows of a message
	out, in, own                [][]message      // of each chunk: to other workers, from them, and to itself
	sending, receiving, keeping []*tensor.Matrix // buffers
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
	// messageElements bounds a message.
	messageElements = 1 << 16
	// mostAhead bounds how many messages are on their way at a time, each way. With messageElements it bounds
	// what a worker holds of others' values: two messages for each of eight workers keep all links busy.
	mostAhead = 2 * (8 - 1)
)

// message is some rows of what one worker gives another, and so many columns: of each part its width.
type message struct {
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

// ends are the worker that is in the row layout there, of two that a message goes between, and the one that
// is in the slice layout.
func (t *stream) ends(sender, receiver int) (owner, slice int) {
	if t.kind == comm.ToRows {
		return receiver, sender
	}
	return sender, receiver
}

// between are the messages of a chunk from one worker to another: own rows of the one, and columns of the
// other. All have at most as many rows, so that the same rows of different workers come in the order of the
// workers.
func (t *stream) between(sender, receiver, chunk int) (list []message) {
	owner, slice := t.ends(sender, receiver)
	peer := receiver
	if sender != t.axis.comm.Rank() {
		peer = sender
	}
	widths, cols := t.widths(slice)
	for r := t.of(owner, chunk); r.lo < r.hi && cols > 0; {
		n := min(r.hi-r.lo, t.most)
		list = append(list, message{peer, r.lo, n, cols, widths})
		r.lo += n
	}
	return list
}

// list makes the lists of each chunk's messages. Those to other workers are the first to each, beginning with
// the one that stands after this one; then the second to each; and so on. Those from them begin with the one
// before. So all links are in use, and no two workers begin with the same one. Both ends of each link have
// the same order, so that any number of buffers will do.
func (t *stream) list() {
	me := t.axis.comm.Rank()
	for chunk := range t.chunks {
		t.out = append(t.out, t.inTurn(1, func(q int) []message { return t.between(me, q, chunk) }))
		t.in = append(t.in, t.inTurn(-1, func(q int) []message { return t.between(q, me, chunk) }))
		t.own = append(t.own, t.between(me, me, chunk))
	}
}

func (t *stream) inTurn(direction int, messages func(q int) []message) (list []message) {
	k := t.axis.comm.Size()
	each, most := make([][]message, k), 0
	for round := 1; round < k; round++ {
		each[round] = messages((t.axis.comm.Rank() + direction*round + k) % k)
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

// elements bounds a message from one worker to another, whatever the chunks are: a plan does not know them.
func (t *stream) elements(sender, receiver int) int {
	owner, slice := t.ends(sender, receiver)
	_, cols := t.widths(slice)
	return min(t.axis.rowsOf[owner].Cols, t.most) * cols
}

// tell tells of a switch in which this worker sends the messages of each chunk.
func (s site) tell(chunks [][]message) {
	if s.axis.redistributed == nil {
		return
	}
	bytes := int64(0)
	for _, out := range chunks {
		for _, m := range out {
			bytes += elementBytes * int64(m.rows*m.cols)
		}
	}
	s.axis.redistributed(s.path, bytes)
}

// open takes a stream's buffers, and tells of it.
func (s site) open(t stream) *stream {
	a, me := s.axis, s.axis.comm.Rank()
	a.comm.At(a.epoch, s.path)
	t.site = s
	widest := 1
	for q := range a.comm.Size() {
		_, width := t.widths(q)
		widest = max(widest, width)
	}
	t.most = max(1, messageElements/widest)
	t.list()
	s.tell(t.out)
	mostOut, mostIn := 0, 0
	for q := range a.comm.Size() {
		if q != me {
			mostOut, mostIn = max(mostOut, t.elements(me, q)), max(mostIn, t.elements(q, me))
		}
	}
	memory, ahead := a.team.Memory, min(2*(a.comm.Size()-1), mostAhead)
	t.sending = exchange.Buffers(memory, ahead, 1, mostOut)
	t.receiving = exchange.Buffers(memory, ahead, 1, mostIn)
	t.keeping = exchange.Buffers(memory, 1, 1, t.elements(me, me))
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
	s := &exchange.Sender{Comm: c, Kind: t.kind, Buffers: t.sending}
	for chunk := range t.chunks {
		if ready != nil {
			if _, is := <-ready; !is {
				break
			}
		}
		for _, m := range t.out[chunk] {
			buffer, err := s.Buffer(m.rows, m.cols)
			if err != nil {
				return err
			}
			t.each(m, buffer, t.pack)
			s.Send(m.peer)
		}
	}
	return s.Finish()
}

// receive takes in what comes with chunks first … last−1, and before it what the worker gives itself with
// each. arrived, unless nil, is told of each chunk.
func (t *stream) receive(c *comm.Comm, first, last int, arrived chan<- struct{}) error {
	r := &exchange.Receiver{Comm: c, Kind: t.kind, Buffers: t.receiving}
	for chunk := first; chunk < last; chunk++ {
		for _, m := range t.in[chunk] {
			r.Expect(m.peer, m.rows, m.cols)
		}
	}
	for chunk := first; chunk < last; chunk++ {
		t.keep(chunk)
		for _, m := range t.in[chunk] {
			buffer, err := r.Next()
			if err != nil {
				return err
			}
			t.each(m, buffer, t.take)
			r.Free()
		}
		if arrived != nil {
			arrived <- struct{}{}
		}
	}
	return nil
}

// each does something with a message, part by part.
func (t *stream) each(m message, buffer *tensor.Matrix, f func(buffer *tensor.Matrix, of part, q, row int)) {
	for i, columns := range exchange.Parts(buffer, m.widths) {
		f(columns, t.parts[i], m.peer, m.row)
	}
}

// keep moves what the worker gives itself with a chunk, through a buffer.
func (t *stream) keep(chunk int) {
	for _, m := range t.own[chunk] {
		buffer := t.keeping[0].Prefix(m.rows, m.cols)
		t.each(m, buffer, t.pack)
		t.each(m, buffer, t.take)
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
