package sar

import (
	"cmp"
	"math"
	"slices"

	"weft/comm"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// lockstep is the inbox of a partition in its turn. It makes messages from what the partitions of its worker
// expose: the messages to itself, and those to the partitions that are at work on other workers. The other
// workers do the same for this partition, so that no message waits. A partition receives Prefetch+1 messages
// of other workers at a time, and sends two.
//
// Workers may hold different numbers of partitions. If a worker holds fewer than another one, its last
// partition also sends, after all else, what the remaining partitions of that worker need in their turns.
//
// There is no deadlock, as all partitions have one order of steps: by the round of the halo exchange, and
// within a round by the number of the message between two partitions. Before a partition waits for what comes
// in a step, it has sent all messages up to that step, with a Prefetch up to the next one. Suppose that
// partitions wait, and take one whose step is the lowest. What it is to receive has been sent, as the
// sender's step is no lower. What it sends is received: the receiver's step is no lower, so that it has a
// free buffer for at least the next message.
type lockstep struct {
	inbox // of messages from other workers
	*wire
	kind comm.Kind
	cols int // of a message
	make maker
	near []*tensor.Matrix // buffers for messages to itself, in turn; none: the maker has its own

	expected []passage
	taken    int // how many of expected have been taken
	made     int // how many messages have been made in near
	used     []*tensor.Matrix
	to       []passage // messages to other workers that have not been sent
	sending  [2]sending
	sent     int
}

// passage is a message from a partition to another one.
type passage struct {
	from, to, number int // the partitions, and the message's number between them
	rows             int
	step             int // its place in the order of all messages
}

// maker makes a message from what a partition exposes, in the matrix in or in one of its own. It returns the
// matrices that it used, which the caller releases.
type maker func(o *exposed, p passage, in *tensor.Matrix) (message *tensor.Matrix, used []*tensor.Matrix)

// sending is a message on its way.
type sending struct {
	buffer  *tensor.Matrix // of a message that the partition makes
	pending *comm.Pending  // nil: nothing was sent
	used    []*tensor.Matrix
}

// lockstep finds the messages of a kind that this partition sends to other workers, of a form.
func (w *wire) lockstep(k comm.Kind, form exchange.Form) *lockstep {
	l := &lockstep{wire: w, kind: k, cols: form.Width()}
	serves := make([]bool, w.comm.Size()) // by rank: the rank is at work on another worker while this one is
	for to := range serves {
		serves[to] = !l.isLocal(to) && w.comm.Opposite(to, w.rank) == w.rank
	}
	for from := range w.comm.Size() {
		if !l.isLocal(from) {
			continue
		}
		numbers := map[int]int{}
		for _, p := range l.exposedBy(from).passages(k) {
			p.from, p.number = from, numbers[p.to]
			numbers[p.to]++
			if serves[p.to] {
				p.step = l.stepOf(p)
				l.to = append(l.to, p)
			}
		}
	}
	slices.SortFunc(l.to, func(a, b passage) int { return cmp.Compare(a.step, b.step) })
	return l
}

// passages are the messages of a kind from a partition to others, in the order of the rounds.
func (o *exposed) passages(k comm.Kind) (all []passage) {
	if k == comm.Halo {
		for _, p := range o.call.Edges.Needed {
			all = append(all, passage{to: p.Peer, rows: p.Len()})
		}
		return all
	}
	for _, b := range o.call.Edges.Remote() {
		all = append(all, passage{to: b.Peer, rows: b.In.Cols})
	}
	return all
}

// isLocal reports whether the partition is one of this worker's.
func (l *lockstep) isLocal(rank int) bool { return rank == l.rank || l.comm.Nearby(rank) }

func (l *lockstep) exposedBy(rank int) *exposed { return l.comm.Exposed(rank).(*exposed) }

// stepOf is the place of a message in the order of all messages: by the receiver's turn, the round and the
// number.
func (l *lockstep) stepOf(p passage) int {
	n := l.comm.Size()
	round := p.to - p.from
	if l.kind == comm.HaloGradient { // gradients go opposite to the rows
		round = -round
	}
	return (l.comm.Turn(p.to)*n+(round+n)%n)*edges.MostMessages + p.number
}

// buffers makes the matrices in which messages are made.
func (l *lockstep) buffers(form exchange.Form) {
	for i := range min(len(l.sending), len(l.to)) {
		l.sending[i].buffer = form.New(l.team.Memory, 1, l.most())[0]
	}
}

// most is the number of rows of the largest message to another worker.
func (l *lockstep) most() (rows int) {
	for _, p := range l.to {
		rows = max(rows, p.rows)
	}
	return rows
}

func (l *lockstep) release() {
	for i := range l.sending {
		l.sending[i].buffer.Release()
	}
}

func (l *lockstep) Expect(peer, rows, cols int) {
	p := passage{from: peer, to: l.rank, rows: rows}
	for _, e := range l.expected {
		if e.from == peer {
			p.number++
		}
	}
	p.step = l.stepOf(p)
	l.expected = append(l.expected, p)
	if !l.comm.Nearby(peer) {
		l.inbox.Expect(l.comm.Opposite(l.rank, peer), rows, cols)
	}
}

func (l *lockstep) Next() (*tensor.Matrix, error) {
	p := l.expected[l.taken]
	l.taken++
	if err := l.sendUntil(p.step + min(1, l.prefetch)); err != nil {
		return nil, err
	}
	if !l.comm.Nearby(p.from) {
		return l.inbox.Next()
	}
	var in *tensor.Matrix
	if len(l.near) > 0 {
		in = l.near[l.made%len(l.near)].Prefix(p.rows, l.cols)
		l.made++
	}
	message, used := l.make(l.exposedBy(p.from), p, in)
	l.used = used
	return message, nil
}

func (l *lockstep) Free() {
	if !l.comm.Nearby(l.expected[l.taken-1].from) {
		l.inbox.Free()
		return
	}
	done(l.used)
}

// sendUntil makes the messages to other workers up to a step, and sends them.
func (l *lockstep) sendUntil(step int) error {
	for len(l.to) > 0 && l.to[0].step <= step {
		p := l.to[0]
		l.to = l.to[1:]
		s := &l.sending[l.sent%len(l.sending)]
		l.sent++
		if err := s.wait(); err != nil {
			return err
		}
		in := s.buffer
		if in != nil {
			in = in.Prefix(p.rows, l.cols)
		}
		message, used := l.make(l.exposedBy(p.from), p, in)
		s.pending, s.used = exchange.Send(l.comm.Unqueued(), l.kind, message, p.to), used
		if message == in { // it is a copy of what was used
			done(used)
			s.used = nil
		}
	}
	return nil
}

// finish sends the other messages, and waits until all are sent.
func (l *lockstep) finish() error {
	const last = math.MaxInt
	err := l.sendUntil(last)
	for i := range l.sending {
		err = cmp.Or(err, l.sending[i].wait())
	}
	return err
}

// wait waits until the message is sent.
func (s *sending) wait() error {
	if s.pending == nil {
		return nil
	}
	err := s.pending.Wait()
	done(s.used)
	s.pending, s.used = nil, nil
	return err
}

// done says that this turn no longer needs matrices that were kept for it.
func done(used []*tensor.Matrix) {
	for _, m := range used {
		m.DontNeed()
		m.Release()
	}
}
