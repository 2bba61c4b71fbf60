package sar

import (
	"slices"

	"weft/comm"
	"weft/parallel/exchange"
	"weft/tensor"
)

// mailbox has the messages of one direction of a call, rows or gradients, from one epoch to the next.
type mailbox struct {
	*wire
	kind     comm.Kind
	form     exchange.Form
	in       []*lateMessage   // from other workers, in the order of the halo exchange
	out      []*tensor.Matrix // to others
	sent     []*comm.Pending  // by message of out; nil: none was sent yet
	averages []*tensor.Matrix // of in: Float32, with all columns; nil: there are none
}

// lateMessage is a message of the epoch before.
type lateMessage struct {
	peer  int
	words *tensor.Matrix // Float32, 1 × n: its memory, as a checkpoint has it
	value *tensor.Matrix // its elements
	comes *comm.Pending  // nil: it is there
}

// The parts of a call's history.
const (
	lateRows         = "rows"
	lateGradients    = "gradients"
	averageRows      = "average-rows"
	averageGradients = "average-gradients"
)

// parts names the messages and the averages.
func (m *mailbox) parts() (part, average string) {
	if m.kind == comm.HaloGradient {
		return lateGradients, averageGradients
	}
	return lateRows, averageRows
}

// mailbox makes the messages of a direction of a call: those that a checkpoint has, or zeros.
func (d *delay) mailbox(call *Call, kind comm.Kind, form exchange.Form, smooth bool) *mailbox {
	m := &mailbox{wire: d.wire, kind: kind, form: form}
	type ends struct{ peer, rows int }
	var in, out []ends
	for _, b := range call.Edges.Remote() {
		in = append(in, ends{b.Peer, b.In.Cols})
	}
	for _, p := range call.Edges.Needed {
		out = append(out, ends{p.Peer, p.Len()})
	}
	if kind == comm.HaloGradient {
		in, out = out, in
	}
	m.sent = make([]*comm.Pending, len(out))
	for _, to := range out {
		m.out = append(m.out, form.New(d.team.Memory, 1, to.rows)[0])
	}
	initial := func(part string, cols func(rows int) int) []*tensor.Matrix {
		saved := d.saved.Take(call.Key, part)
		for i := len(saved); i < len(in); i++ {
			saved = append(saved, d.team.Zeros(tensor.Buffers, 1, cols(in[i].rows)))
		}
		return saved
	}
	const word = 4
	part, average := m.parts()
	for i, words := range initial(part, func(rows int) int { return (rows*form.Bytes() + word - 1) / word }) {
		elements := words.As(form.Element(), 1, words.Len()*word/form.Element().Size())
		value := elements.Prefix(in[i].rows, form.Width())
		m.in = append(m.in, &lateMessage{peer: in[i].peer, words: words, value: value})
	}
	if smooth {
		m.averages = initial(average, func(rows int) int { return rows * form.InFloat32().Width() })
	}
	return m
}

// moves reports whether rows have other memory than their messages.
func (m *mailbox) moves() bool {
	return m.form.Encodes() || m.averages != nil && !slices.Equal(m.form.Stored(), m.form.InFloat32())
}

// smooth adds message i to its average, and returns that. scratch has room for it.
func (m *mailbox) smooth(i int, scratch *tensor.Matrix) *tensor.Matrix {
	message := m.in[i].value
	floats := m.form.InFloat32()
	received := scratch.Prefix(message.Rows, floats.Width())
	m.form.DecodeInto(m.team, floats.Parts(received), message)
	average := m.averages[i].Prefix(message.Rows, floats.Width())
	m.team.Add(average, momentum, average, 1-momentum, received)
	return average
}

// arrive waits for a message of the epoch before. Any number of calls may.
func (l *lateMessage) arrive() error {
	if l.comes == nil {
		return nil
	}
	return l.comes.Wait()
}

// leave waits until message i of the epoch before has been sent.
func (m *mailbox) leave(i int) error {
	if m.sent[i] == nil {
		return nil
	}
	return m.sent[i].Wait()
}

// settle waits until no message is on its way.
func (m *mailbox) settle() error {
	for _, message := range m.in {
		if err := message.arrive(); err != nil {
			return err
		}
	}
	for i := range m.out {
		if err := m.leave(i); err != nil {
			return err
		}
	}
	return nil
}

// lateInbox gives the messages of the epoch before, or with smoothing their averages in Float32, and lets
// those of this epoch come in their place.
type lateInbox struct {
	*mailbox
	scratch []*tensor.Matrix // of averages: a matrix
	taken   int
}

func (m *mailbox) inbox(scratch []*tensor.Matrix) inbox {
	return &lateInbox{mailbox: m, scratch: scratch}
}

func (b *lateInbox) Expect(int, int, int) {}

func (b *lateInbox) Next() (*tensor.Matrix, error) {
	i := b.taken
	b.taken++
	if err := b.in[i].arrive(); err != nil || b.averages == nil {
		return b.in[i].value, err
	}
	return b.smooth(i, b.scratch[0]), nil
}

func (b *lateInbox) Free() {
	message := b.in[b.taken-1]
	message.comes = b.comm.Receive(b.kind, message.value.Bytes(), message.peer)
}

// lateOutbox sends messages that nobody waits for in this epoch.
type lateOutbox struct {
	*mailbox
	next int
}

func (m *mailbox) outbox() outbox { return &lateOutbox{mailbox: m} }

func (b *lateOutbox) Buffer(int, int) (*tensor.Matrix, error) { return b.out[b.next], b.leave(b.next) }

func (b *lateOutbox) Send(peer int) {
	b.sent[b.next] = exchange.Send(b.comm, b.kind, b.out[b.next], peer)
	b.next++
}

func (b *lateOutbox) Finish() error { return nil }
