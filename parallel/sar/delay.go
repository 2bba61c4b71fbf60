package sar

import (
	"slices"

	"weft/checkpoint"
	"weft/comm"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// momentum is γ of the moving averages: average ← γ·average + (1−γ)·received. 0.95 is PipeGCN's default.
const momentum = .95

// delay is the Exchanger of partitions whose halo is an epoch late (PipeGCN; Wan et al., ICLR 2022). In the
// training pass of epoch t an aggregation reads the halo rows that were sent in epoch t−1, and adds the
// gradients of local rows that were sent in epoch t−1. It sends those of epoch t, which travel while the
// worker goes on: it waits for them at the same place in epoch t+1. All are zeros before epoch 1.
//
// Rows travel once: aggregations that read them again in the backward pass keep them (Call.fetchAgain). Calls
// that are not Late exchange as wire does.
type delay struct {
	*wire
	smoothing axis.Smoothing
	calls     map[Key]*late
	saved     Saved
}

// late is what a call holds from one epoch to the next.
type late struct{ rows, gradients *travelling }

// travelling are the messages of one direction of a call: rows, or gradients.
type travelling struct {
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

// Exchange implements Exchanger.
func (d *delay) Exchange(call *Call, t Transfer, yield func(Visit) bool) {
	switch {
	case !call.Late:
		d.wire.Exchange(call, t, yield)
	case !call.Edges.Alone():
		exchange.Must(d.exchange(call, &t, yield))
	}
}

// exchange makes and takes messages in the order in which wire does, so that they are matched.
func (d *delay) exchange(call *Call, t *Transfer, yield func(Visit) bool) error {
	v, err := d.visits(call, t)
	defer v.release()
	if err != nil {
		return err
	}
	for i, b := range call.Edges.Remote() {
		visit, err := v.begin(i, b)
		if err != nil {
			return err
		}
		yield(visit)
		v.end(i, b)
	}
	return nil
}

// lateVisits are what a worker visits the remote blocks of a call with.
type lateVisits struct {
	*delay
	call *Call
	*Transfer
	*late
	form, back exchange.Form // of rows and of gradients as they are stored
	// stored has the rows of a block as they are stored, sum has them in Float32, and toEncode has their
	// gradients as they are stored. Each is nil where it is not needed.
	stored, sum, toEncode *tensor.Matrix
}

// visits sends the local rows that other workers need, adds the gradients of the epoch before to those of the
// local rows, and makes what the visits need.
func (d *delay) visits(call *Call, t *Transfer) (v *lateVisits, err error) {
	v = &lateVisits{delay: d, call: call, Transfer: t, late: d.calls[call.Key()], form: call.Form(t.Rows).Stored(), back: t.Sent.Stored()}
	if v.late == nil {
		v.late = &late{}
		d.calls[call.Key()] = v.late
	}
	memory, most := d.team.Memory, call.Edges.MostIn
	if t.fetches() {
		if v.rows == nil {
			v.rows = d.travelling(call, comm.Halo, call.Form(t.Rows), d.smoothing&axis.OfFeatures != 0)
		}
		if err := v.rows.sendRows(call, t.Rows); err != nil {
			return v, err
		}
		if t.Buffers == nil && v.rows.moves() {
			v.stored = v.form.New(memory, 1, most)[0]
		}
		if v.rows.averages != nil {
			v.sum = v.form.InFloat32().New(memory, 1, most)[0]
		}
	}
	if len(t.Grads) > 0 {
		if v.gradients == nil {
			v.gradients = d.travelling(call, comm.HaloGradient, t.Sent, d.smoothing&axis.OfGradients != 0)
		}
		if err := v.gradients.addGradients(call, t); err != nil {
			return v, err
		}
		if t.Sent.Encodes() {
			v.toEncode = v.back.New(memory, 1, most)[0]
		}
	}
	return v, nil
}

func (v *lateVisits) release() { exchange.Release(v.stored, v.sum, v.toEncode) }

// begin returns the visit of block b, which is remote block number i.
func (v *lateVisits) begin(i int, b *edges.Block) (visit Visit, err error) {
	visit.Block = b
	if v.fetches() {
		into := v.stored
		if v.Buffers != nil {
			into = v.Buffers[i]
		}
		rows, err := v.rows.rowsOf(i, into, v.sum)
		if err != nil {
			return visit, err
		}
		visit.Rows = v.form.Parts(rows)
	} else if v.Received {
		visit.Rows = v.form.Parts(v.Buffers[i])
	}
	if len(v.Grads) > 0 {
		message, err := v.gradients.buffer(i)
		if err != nil {
			return visit, err
		}
		visit.Grads = v.back.Parts(v.gradientsOf(b, message))
	}
	return visit, nil
}

// gradientsOf is where a visit of block b sets the gradients of a message: in the message, or apart where
// they are encoded.
func (v *lateVisits) gradientsOf(b *edges.Block, message *tensor.Matrix) *tensor.Matrix {
	if v.toEncode == nil {
		return message
	}
	return v.toEncode.Prefix(b.In.Cols, v.toEncode.Cols)
}

// end sends the gradients that the visit of block b has set, and lets this epoch's rows come.
func (v *lateVisits) end(i int, b *edges.Block) {
	if len(v.Grads) > 0 {
		if message := v.gradients.out[i]; v.toEncode != nil {
			v.encode(v.call, v.Sent, message, v.gradientsOf(b, message), b, i)
		}
		v.gradients.send(i, b.Peer)
	}
	if v.fetches() {
		v.rows.receive(i, b.Peer)
	}
}

// travelling makes the messages of a direction of a call: those that a checkpoint has, or zeros.
func (d *delay) travelling(call *Call, kind comm.Kind, form exchange.Form, smooth bool) *travelling {
	var in, out []int // rows of each message
	for _, b := range call.Edges.Remote() {
		in = append(in, b.In.Cols)
	}
	for _, p := range call.Edges.Needed {
		out = append(out, p.Len())
	}
	part, average := lateRows, averageRows
	if kind == comm.HaloGradient {
		in, out = out, in
		part, average = lateGradients, averageGradients
	}
	t := &travelling{wire: d.wire, kind: kind, form: form, sent: make([]*comm.Pending, len(out))}
	for _, rows := range out {
		t.out = append(t.out, form.New(d.team.Memory, 1, rows)[0])
	}
	const word = 4
	initial := func(part string, cols func(rows int) int) []*tensor.Matrix {
		saved := d.saved.Take(call.Key(), part)
		for i := len(saved); i < len(in); i++ {
			saved = append(saved, d.team.Zeros(tensor.Buffers, 1, cols(in[i])))
		}
		return saved
	}
	for i, words := range initial(part, func(rows int) int { return (rows*form.Bytes() + word - 1) / word }) {
		elements := words.As(form.Element(), 1, words.Len()*word/form.Element().Size())
		t.in = append(t.in, &lateMessage{words: words, value: elements.Prefix(in[i], form.Width())})
	}
	if smooth {
		t.averages = initial(average, func(rows int) int { return rows * form.InFloat32().Width() })
	}
	return t
}

// buffer waits until message i of the epoch before has been sent, and returns its memory.
func (t *travelling) buffer(i int) (*tensor.Matrix, error) {
	if t.sent[i] != nil {
		if err := t.sent[i].Wait(); err != nil {
			return nil, err
		}
	}
	return t.out[i], nil
}

// send sends message i.
func (t *travelling) send(i, peer int) { t.sent[i] = t.comm.Send(t.kind, t.out[i].Bytes(), peer) }

// receive lets message i of this epoch come, in place of that of the epoch before.
func (t *travelling) receive(i, peer int) {
	t.in[i].comes = t.comm.Receive(t.kind, t.in[i].value.Bytes(), peer)
}

// arrive waits for message i of the epoch before. Any number of calls may.
func (t *travelling) arrive(i int) error {
	if t.in[i].comes == nil {
		return nil
	}
	return t.in[i].comes.Wait()
}

// sendRows sends the rows of xs that other workers need.
func (t *travelling) sendRows(call *Call, xs []*tensor.Matrix) error {
	from := &local{sums: t.storedSums(call, t.form)}
	defer from.release()
	for i, p := range call.Edges.Needed {
		message, err := t.buffer(i)
		if err != nil {
			return err
		}
		t.pack(call, t.form, message, p, i, from, xs)
		t.send(i, p.Peer)
	}
	return nil
}

// moves reports whether rows have other memory than their messages.
func (t *travelling) moves() bool {
	return t.form.Encodes() || t.averages != nil && !slices.Equal(t.form.Stored(), t.form.InFloat32())
}

// rowsOf returns the rows of message i as they are stored: in a matrix, or nil where they need no other
// memory. sum is scratch for the rows in Float32.
func (t *travelling) rowsOf(i int, into, sum *tensor.Matrix) (*tensor.Matrix, error) {
	if err := t.arrive(i); err != nil {
		return nil, err
	}
	message := t.in[i].value
	if into != nil {
		into = into.Prefix(message.Rows, t.form.Stored().Width())
	}
	switch {
	case t.averages != nil:
		average := t.smooth(i, sum)
		if into == nil {
			return average, nil
		}
		from := t.form.InFloat32().Parts(average)
		for m, rows := range t.form.Stored().Parts(into) {
			t.team.Convert(rows, from[m])
		}
	case into == nil:
		return message, nil
	default:
		t.form.Decode(t.team, into, message)
	}
	return into, nil
}

// smooth adds message i to its average, and returns that. sum is scratch.
func (t *travelling) smooth(i int, sum *tensor.Matrix) *tensor.Matrix {
	message, floats := t.in[i].value, t.form.InFloat32()
	received := sum.Prefix(message.Rows, floats.Width())
	to := floats.Parts(received)
	for m, part := range t.form.Parts(message) {
		t.form[m].Decode(t.team, to[m], part, nil, kernel.Replace)
	}
	average := t.averages[i].Prefix(message.Rows, floats.Width())
	t.team.Add(average, momentum, average, 1-momentum, received)
	return average
}

// addGradients adds the gradients of the epoch before to those of the local rows, and lets this epoch's come.
func (t *travelling) addGradients(call *Call, to *Transfer) error {
	e, memory := call.Edges, t.team.Memory
	into := &local{}
	defer into.release()
	if e.MostSpread > 0 {
		into.spread = memory.New(tensor.Buffers, e.MostSpread, t.form.InFloat32().Width())
	}
	var sum *tensor.Matrix
	if t.averages != nil {
		sum = t.form.InFloat32().New(memory, 1, e.MostOut)[0]
	} else {
		into.sums = t.storedSums(call, t.form)
	}
	for i, p := range e.Needed {
		if err := t.arrive(i); err != nil {
			return err
		}
		if t.averages == nil {
			t.unpack(call, to, t.in[i].value, p, into)
		} else {
			for m, rows := range t.form.InFloat32().Parts(t.smooth(i, sum)) {
				call.by.Unpack(t.team, to.Grads[m], p, rows, into.spread)
			}
		}
		t.receive(i, p.Peer)
	}
	exchange.Release(sum)
	return nil
}

// directions calls f for all that travels.
func (d *delay) directions(f func(key Key, t *travelling, part, average string)) {
	for key, l := range d.calls {
		if l.rows != nil {
			f(key, l.rows, lateRows, averageRows)
		}
		if l.gradients != nil {
			f(key, l.gradients, lateGradients, averageGradients)
		}
	}
}

// Arrays lists what the next epoch reads of this one: with a late halo the rows and gradients that came last,
// and their averages. Settle must come before anybody reads them. Names hold the partition.
func (p *Partition) Arrays() (all []checkpoint.Array) {
	if p.late == nil {
		return nil
	}
	p.late.directions(func(key Key, t *travelling, part, average string) {
		add := func(part string, i int, m *tensor.Matrix) {
			a := checkpoint.Matrix(p.late.saved.Name(key, part, i), m)
			a.Own = true
			all = append(all, a)
		}
		for i, message := range t.in {
			add(part, i, message.words)
		}
		for i, m := range t.averages {
			add(average, i, m)
		}
	})
	return all
}

// Restore loads what a checkpoint holds of Arrays. The next epoch begins with it.
func (p *Partition) Restore(from *checkpoint.Checkpoint) error {
	if p.late == nil {
		return nil
	}
	return p.late.saved.Restore(p.team.Memory, from, "")
}

// Settle waits until no message of the last epoch is on its way. The next epoch may follow all the same.
func (p *Partition) Settle() (err error) {
	if p.late == nil {
		return nil
	}
	p.late.directions(func(_ Key, t *travelling, _, _ string) {
		for i := range t.in {
			if err == nil {
				err = t.arrive(i)
			}
		}
		for i := range t.out {
			if err == nil {
				_, err = t.buffer(i)
			}
		}
	})
	return err
}
