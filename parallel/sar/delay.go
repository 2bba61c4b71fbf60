package sar

import (
	"weft/checkpoint"
	"weft/comm"
	"weft/parallel/axis"
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
type late struct{ rows, gradients *mailbox }

// Exchange implements Exchanger.
func (d *delay) Exchange(call *Call, t Transfer, yield func(Visit) bool) {
	switch {
	case !call.Late:
		d.wire.Exchange(call, t, yield)
	case !call.Edges.Alone():
		exchange.Must(d.exchange(call, t, yield))
	}
}

// exchange makes and takes messages in the order in which wire does, so that they are matched. It does so one
// after the other, as it waits for none of this epoch.
func (d *delay) exchange(call *Call, t Transfer, yield func(Visit) bool) error {
	held := d.calls[call.Key]
	if held == nil {
		held = &late{}
		d.calls[call.Key] = held
	}
	v := d.visits(call, t)
	defer v.release()
	if t.fetches() {
		if err := held.sendRows(v, d); err != nil {
			return err
		}
	}
	if t.Returns() {
		if err := held.addGradients(v, d); err != nil {
			return err
		}
	}
	return v.visit(yield)
}

// sendRows sends the local rows that other workers need. Visits take those of the epoch before.
func (l *late) sendRows(v *visits, d *delay) error {
	if l.rows == nil {
		l.rows = d.mailbox(v.call, comm.Halo, v.rows, d.smoothing&axis.OfFeatures != 0)
	}
	from := d.toSend(v.call, v.rows)
	err := d.sendRows(v.call, l.rows.outbox(), from, v.Rows)
	from.release()
	if err != nil {
		return err
	}
	memory, most := d.team.Memory, v.call.Edges.MostIn
	if v.Buffers == nil && l.rows.moves() {
		v.decoded = v.stored.New(memory, 1, most)[0]
	}
	if l.rows.averages != nil {
		v.rows = v.rows.InFloat32()
		v.own = v.rows.New(memory, 1, most)
	}
	v.in = l.rows.inbox(v.own)
	return nil
}

// addGradients adds the gradients of the epoch before to those of the local rows. Visits send this epoch's.
func (l *late) addGradients(v *visits, d *delay) error {
	if l.gradients == nil {
		l.gradients = d.mailbox(v.call, comm.HaloGradient, v.Sent, d.smoothing&axis.OfGradients != 0)
	}
	into := &local{form: v.Sent, spread: d.spread(v.call, v.Sent)}
	if l.gradients.averages != nil {
		into.form = v.Sent.InFloat32()
		into.buffers = into.form.New(d.team.Memory, 1, v.call.Edges.MostOut)
	} else {
		into.sums = d.storedSums(v.call, v.Sent)
	}
	err := d.addGradients(v.call, l.gradients.inbox(into.buffers), into, v.Grads)
	into.release()
	v.sendsFrom(l.gradients.outbox())
	return err
}

// mailboxes calls f for all that travels.
func (d *delay) mailboxes(f func(key Key, m *mailbox)) {
	for key, l := range d.calls {
		for _, m := range []*mailbox{l.rows, l.gradients} {
			if m != nil {
				f(key, m)
			}
		}
	}
}

// Arrays lists what the next epoch reads of this one: with a late halo the rows and gradients that came last,
// and their averages. Settle must come before anybody reads them. Names hold the partition.
func (p *Partition) Arrays() (all []checkpoint.Array) {
	if p.late == nil {
		return nil
	}
	p.late.mailboxes(func(key Key, m *mailbox) {
		part, average := m.parts()
		add := func(part string, i int, m *tensor.Matrix) {
			a := checkpoint.Matrix(p.late.saved.Name(key, part, i), m)
			a.Own = true
			all = append(all, a)
		}
		for i, message := range m.in {
			add(part, i, message.words)
		}
		for i, m := range m.averages {
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
	p.late.mailboxes(func(_ Key, m *mailbox) {
		if err == nil {
			err = m.settle()
		}
	})
	return err
}
