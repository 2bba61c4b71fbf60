package tp

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

// allToAll redistributes parts from one layout to the other, one chunk after the other. Without an overlap
// there is one chunk.
type allToAll struct {
	module
	number int // its number among the all-to-alls of an epoch
	kind   comm.Kind
	rowsOf []*tensor.Matrix // vertexRows.rowsOf for the rows that are sent
	parts  []part
	chunks int
	// chunkRows returns which of the owner's rows are sent with a chunk. The owner of a row has it in the
	// row layout.
	chunkRows func(owner, chunk int) rows
	// pack fills a buffer for worker q with rows of a part, from the given row on. unpack stores a buffer
	// that came from worker q.
	pack, unpack func(buffer *tensor.Matrix, p part, q, row int)
	// sentRows (Int32, 1 × n) lists the owner's rows, as rows of the partition, in the order in which they
	// are sent.
	sentRows func(owner int) *tensor.Matrix

	maxRows        int              // the most rows of a message
	out, in, own   [][]message      // messages of each chunk: to other workers, from them, and to itself
	sendBuffers    []*tensor.Matrix // for out
	receiveBuffers []*tensor.Matrix // for in
	ownBuffers     []*tensor.Matrix // for own
	// For encoded messages: the stored form of a message to send, and of a received one.
	toEncode, decoded []*tensor.Matrix
}

// rows is the range of rows lo … hi−1.
type rows struct{ lo, hi int }

// view returns a view of the rows in m.
func (r rows) view(m *tensor.Matrix) *tensor.Matrix { return m.RowRange(r.lo, r.hi) }

// listed returns n entries of a list of rows (Int32, 1 × any), from the given entry on.
func listed(list *tensor.Matrix, from, n int) *tensor.Matrix {
	return list.Reshape(list.Cols, 1).RowRange(from, from+n).Reshape(1, n)
}

const (
	// messageElements bounds the size of a message in the host's memory.
	messageElements = 1 << 16
	// maxInFlight bounds how many messages a worker sends at a time, and how many it receives. Together with
	// messageElements it bounds the memory of the buffers. Two messages to each of seven others keep all
	// links busy.
	maxInFlight = 2 * (8 - 1)
	// messagesOnCard bounds in how many messages a worker on a card sends its rows to each other one. Each
	// aggregation chunk may add one. There a message takes launches and copies, which take longer than to
	// move few rows: large graphs have larger messages, and not more of them.
	messagesOnCard = 8
	// inFlightOnCard is maxInFlight on a card: one message is packed, one copied and one unpacked while
	// another is on a link.
	inFlightOnCard = 4
)

// AtOnce bounds the number of other workers to which a slice sends messages at the same time.
func AtOnce(card bool) int {
	if card {
		return inFlightOnCard
	}
	return maxInFlight / 2
}

// message is some consecutive rows that one worker sends another. It has the columns of all parts side by
// side.
type message struct {
	peer, row, rows int
	form            exchange.Form
}

// form returns the form of messages with the columns of each part that worker q has in the slice layout.
func (t *allToAll) form(q int) (f exchange.Form) {
	for _, p := range t.parts {
		c := exchange.Columns{Count: p.cut[q].count, Element: p.element()}
		if !p.scores {
			c.Format = t.format
		}
		f = append(f, c)
	}
	return f
}

// ends returns which of a message's two workers owns its rows in the row layout, and which has its columns in
// the slice layout.
func (t *allToAll) ends(sender, receiver int) (owner, slice int) {
	if t.kind == comm.ToRows {
		return receiver, sender
	}
	return sender, receiver
}

// between lists the messages of a chunk from one worker to another. maxRows is the same for all workers, so
// the messages of all senders divide a receiver's rows at the same rows, and each row gets its values in the
// order of the senders.
func (t *allToAll) between(sender, receiver, chunk int) (list []message) {
	owner, slice := t.ends(sender, receiver)
	peer := receiver
	if sender != t.axis.comm.Rank() {
		peer = sender
	}
	form := t.form(slice)
	if sender == receiver { // nothing travels
		form = form.Stored()
	}
	for r := t.chunkRows(owner, chunk); r.lo < r.hi && form.Width() > 0; {
		n := min(r.hi-r.lo, t.maxRows)
		list = append(list, message{peer, r.lo, n, form})
		r.lo += n
	}
	return list
}

// list makes the lists out, in and own. A worker sends the first message to each other worker, then the
// second to each, and so on. It begins with the worker of the next rank, and receives from the previous rank
// first. So all links are in use, and no two workers begin with the same receiver. Sender and receiver have
// the same order on each link, so that any number of buffers suffices.
func (t *allToAll) list() {
	me := t.axis.comm.Rank()
	for chunk := range t.chunks {
		t.out = append(t.out, t.roundRobin(1, func(q int) []message { return t.between(me, q, chunk) }))
		t.in = append(t.in, t.roundRobin(-1, func(q int) []message { return t.between(q, me, chunk) }))
		t.own = append(t.own, t.between(me, me, chunk))
	}
}

// roundRobin lists the first message of each other worker, then the second of each, and so on. direction +1
// begins with the next rank, −1 with the previous one.
func (t *allToAll) roundRobin(direction int, messages func(q int) []message) (list []message) {
	k := t.axis.comm.Size()
	each := make([][]message, k)
	most := 0
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

// elements bounds a message's size, for rows of a width. The bound does not depend on the chunks, which a
// plan does not know. If messages have the same size in any large graph, it is that size, for the graph that
// a plan may replace by a smaller one.
func (t *allToAll) elements(sender, receiver int, width func(exchange.Form) int) int {
	owner, slice := t.ends(sender, receiver)
	rows := float64(t.rowsOf[owner].Cols)
	if !t.axis.team.Memory.OnDevice() {
		rows *= max(1, t.axis.largerBy)
	}
	return int(min(rows, float64(t.maxRows))) * width(t.form(slice))
}

// rowsOfMessage is maxRows for messages whose rows have at most widest elements.
func (t *allToAll) rowsOfMessage(widest int) int {
	most := max(1, messageElements/widest)
	if !t.axis.team.Memory.OnDevice() {
		return most
	}
	rows := 0
	for _, list := range t.rowsOf {
		rows = max(rows, list.Cols)
	}
	larger := t.axis.largerBy * float64(rows)
	messages := min(messagesOnCard, int(math.Ceil(larger/float64(most))))
	return max(1, (rows+messages-1)/max(1, messages))
}

// report passes the bytes that this worker sends to Options.Redistributed.
func (t *allToAll) report() {
	if t.axis.redistributed == nil {
		return
	}
	bytes := int64(0)
	for _, out := range t.out {
		for _, m := range out {
			bytes += int64(m.rows * m.form.Bytes())
		}
	}
	t.axis.redistributed(t.path, bytes)
}

// newAllToAll lists the messages of an all-to-all, allocates its buffers, and reports its bytes.
func (m module) newAllToAll(t allToAll) *allToAll {
	a := m.axis
	me := m.axis.comm.Rank()
	a.comm.At(a.epoch, m.path)
	a.allToAlls++
	t.module, t.number = m, a.allToAlls
	widest, encodes := 1, false
	for q := range a.comm.Size() {
		widest = max(widest, t.form(q).Stored().Width())
		encodes = encodes || t.form(q).Encodes()
	}
	t.maxRows = t.rowsOfMessage(widest)
	t.list()
	t.report()
	sent := exchange.Form.Width
	stored := func(f exchange.Form) int { return f.Stored().Width() }
	maxOut, maxIn, storedOut, storedIn := 0, 0, 0, 0
	for q := range a.comm.Size() {
		if q != me {
			maxOut, maxIn = max(maxOut, t.elements(me, q, sent)), max(maxIn, t.elements(q, me, sent))
			storedOut, storedIn = max(storedOut, t.elements(me, q, stored)),
				max(storedIn, t.elements(q, me, stored))
		}
	}
	memory := a.team.Memory
	inFlight := 2 * (a.comm.Size() - 1)
	form := t.form(me)
	switch {
	case a.comm.TakesTurns():
	case memory.OnDevice():
		inFlight = min(inFlight, inFlightOnCard)
	default:
		inFlight = min(inFlight, maxInFlight)
	}
	t.sendBuffers = exchange.Buffers(memory, inFlight, form.Element(), 1, maxOut)
	t.receiveBuffers = exchange.Buffers(memory, inFlight, form.Element(), 1, maxIn)
	t.ownBuffers = exchange.Buffers(memory, 1, form.Stored().Element(), 1, t.elements(me, me, stored))
	if encodes {
		t.toEncode = exchange.Buffers(memory, 1, form.Stored().Element(), 1, storedOut)
		t.decoded = exchange.Buffers(memory, 1, form.Stored().Element(), 1, storedIn)
	}
	return &t
}

// release releases the buffers.
func (t *allToAll) release() {
	exchange.Release(t.sendBuffers...)
	exchange.Release(t.receiveBuffers...)
	exchange.Release(t.ownBuffers...)
	exchange.Release(t.toEncode...)
	exchange.Release(t.decoded...)
}

// run does the whole all-to-all and releases the buffers. It panics if another worker fails.
func (t *allToAll) run() {
	defer t.release()
	c := t.axis.comm
	if c.TakesTurns() {
		exchange.Must(t.inStep(c))
		return
	}
	send := func(aside *comm.Comm) error { return t.send(aside, nil) }
	exchange.Must(exchange.Beside(c, []exchange.Side{send},
		func() error { return t.receive(c, 0, t.chunks, nil) }))
}

// inStep is run for workers whose partitions take turns. The partition keeps its turn. Every worker that
// slices the partition gives it a turn at the same time: all of them hold the same partitions, whose turns
// have the same order. So nobody waits for a partition whose turn comes later.
//
// Each worker sends one message to each other worker and receives one from each before it sends the next. At
// most two to each and two from each are between the workers, on Go's heap. All buffers but one each way
// stand for them. A worker without columns has nothing to send or nothing to receive: there a barrier
// replaces the message.
func (t *allToAll) inStep(c *comm.Comm) error {
	defer c.KeepTurn()()
	out, in, most := t.out[0], t.in[0], 0
	for _, list := range t.rowsOf {
		most = max(most, list.Cols)
	}
	oneWay := slices.ContainsFunc(t.parts[0].cut, func(s span) bool { return s.count == 0 })
	s := &exchange.Sender{Comm: c, Kind: t.kind, Buffers: t.sendBuffers[:1]}
	r := t.receiver(c, 0, 1, t.receiveBuffers[:1])
	t.copyOwn(0)
	for row := 0; row < most; row += t.maxRows {
		for ; len(out) > 0 && out[0].row == row; out = out[1:] {
			if err := t.sendOne(s, out[0]); err != nil {
				return err
			}
		}
		for ; len(in) > 0 && in[0].row == row; in = in[1:] {
			if err := t.receiveOne(r, in[0]); err != nil {
				return err
			}
		}
		if oneWay {
			if err := c.Barrier(comm.Setup); err != nil {
				return err
			}
		}
	}
	return s.Finish()
}

// send sends each chunk's messages after a signal from ready; ready nil: without waiting. It stops if ready
// is closed before the last chunk, because the computation has failed.
func (t *allToAll) send(c *comm.Comm, ready <-chan struct{}) error {
	s := &exchange.Sender{Comm: c, Kind: t.kind, Buffers: t.sendBuffers}
	for chunk := range t.chunks {
		if ready != nil && !c.Signalled(ready) {
			break
		}
		for _, m := range t.out[chunk] {
			if err := t.sendOne(s, m); err != nil {
				return err
			}
		}
	}
	return s.Finish()
}

// sendOne sends a message.
func (t *allToAll) sendOne(s *exchange.Sender, m message) error {
	buffer, err := s.Buffer(m.rows, m.form.Width())
	if err != nil {
		return err
	}
	t.fill(m, buffer)
	s.Send(m.peer)
	return nil
}

// receive receives chunks first … last−1. For each chunk it copies the worker's own rows, receives the
// messages of the others, and then sends a signal to arrived, unless that is nil.
func (t *allToAll) receive(c *comm.Comm, first, last int, arrived chan<- struct{}) error {
	r := t.receiver(c, first, last, t.receiveBuffers)
	for chunk := first; chunk < last; chunk++ {
		t.copyOwn(chunk)
		for _, m := range t.in[chunk] {
			if err := t.receiveOne(r, m); err != nil {
				return err
			}
		}
		if arrived != nil {
			arrived <- struct{}{}
		}
	}
	return nil
}

// receiver returns a receiver of the messages of chunks first … last−1.
func (t *allToAll) receiver(c *comm.Comm, first, last int, buffers []*tensor.Matrix) *exchange.Receiver {
	r := &exchange.Receiver{Comm: c, Kind: t.kind, Buffers: buffers}
	for _, in := range t.in[first:last] {
		for _, m := range in {
			r.Expect(m.peer, m.rows, m.form.Width())
		}
	}
	return r
}

// receiveOne receives a message.
func (t *allToAll) receiveOne(r *exchange.Receiver, m message) error {
	buffer, err := r.Next()
	if err != nil {
		return err
	}
	t.store(m, buffer)
	r.Free()
	return nil
}

// fill makes a message.
func (t *allToAll) fill(m message, buffer *tensor.Matrix) {
	if !m.form.Encodes() {
		t.each(m, buffer, t.pack)
		return
	}
	stored := t.toEncode[0].Prefix(m.rows, m.form.Stored().Width())
	t.each(m, stored, t.pack)
	owner, slice := t.ends(t.axis.comm.Rank(), m.peer)
	key := autograd.Mix(t.random.Key(t.path) + uint64(t.number*t.axis.mesh.Partitions+t.axis.partition))
	m.form.Encode(t.axis.team, buffer, stored, func(i int) kernel.Draws {
		return kernel.Draws{
			Key: autograd.Mix(key + uint64(i)), Stream: uint32(t.parts[i].cut[slice].from),
			IDs: listed(t.sentRows(owner), m.row, m.rows),
		}
	})
}

// store stores the rows of a message.
func (t *allToAll) store(m message, buffer *tensor.Matrix) {
	if m.form.Encodes() {
		stored := t.decoded[0].Prefix(m.rows, m.form.Stored().Width())
		m.form.Decode(t.axis.team, stored, buffer)
		buffer = stored
	}
	t.each(m, buffer, t.unpack)
}

// each calls f for each part of a message as it is stored, with the part's columns of the buffer.
func (t *allToAll) each(m message, buffer *tensor.Matrix,
	f func(buffer *tensor.Matrix, p part, q, row int),
) {
	for i, columns := range m.form.Stored().Parts(buffer) {
		f(columns, t.parts[i], m.peer, m.row)
	}
}

// copyOwn copies, through a buffer, the rows of a chunk that the worker owns in both layouts.
func (t *allToAll) copyOwn(chunk int) {
	for _, m := range t.own[chunk] {
		buffer := t.ownBuffers[0].Prefix(m.rows, m.form.Width())
		t.each(m, buffer, t.pack)
		t.each(m, buffer, t.unpack)
	}
}

// receiveComputed receives each chunk after this worker has computed it, because the other workers compute
// the same chunk at about the same time. It stops if computed is closed before the last chunk, because the
// computation has failed.
func (t *allToAll) receiveComputed(c *comm.Comm, computed <-chan struct{}) error {
	for chunk := range t.chunks {
		if !c.Signalled(computed) {
			return nil
		}
		if err := t.receive(c, chunk, chunk+1, nil); err != nil {
			return err
		}
	}
	return nil
}
