package tensor

import (
	"sync/atomic"
	"unsafe"
)

// rest is the state of a matrix that may rest (offload.go). It is nil for a matrix that always stays in
// memory.
type rest struct {
	state    state
	index    int           // in offload.rests
	number   uint64        // orders matrices by rank, and those of a rank by their creation
	used     atomic.Uint64 // the turn of the last use
	readOnly bool          // nobody changes the elements
	ahead    bool          // it is coming while the turn that asked for it works
	hasSlot  bool          // the matrix has a slot in the tier below, at offset
	offset   int64
	pinned   []byte      // the slot's memory, if the tier is the host's
	saved    bool        // the slot has the elements
	sums     []uint32    // checksums of the pages there
	absent   atomic.Bool // state is neither here nor cleaning
}

// state says where the elements of a matrix are.
type state uint8

const (
	here     state = iota
	cleaning       // being written, and will stay
	leaving        // being written, and will then leave
	away
	coming // being read
)

// LeastResting is the number of bytes from which matrices rest. Moving smaller ones costs more than it gives.
const LeastResting = 16 << 10

// mayRest lets a matrix rest if it has at least so many bytes. The caller holds mu.
func (t *account) mayRest(m *Matrix, least int) {
	o := t.offload
	if o == nil || m.bytes < least {
		return
	}
	m.rest = &rest{number: m.meter.made}
	m.rest.used.Store(o.turn.Load())
	m.meter.made++
	m.rest.index = len(o.rests)
	o.rests = append(o.rests, m)
}

// Pin keeps the matrix in memory until Unpin or Release. A goroutine pins a matrix that it reads or writes
// outside its rank's turns.
func (m *Matrix) Pin() *Matrix {
	if w := m.whole(); w.rest != nil {
		w.meter.mu.Lock()
		defer w.meter.mu.Unlock()
		w.meter.fetch(w)
		w.meter.forget(w)
	}
	return m
}

// Unpin lets a pinned matrix rest again, or a matrix of a kind that stays.
func (m *Matrix) Unpin() *Matrix { return m.UnpinFrom(LeastResting) }

// UnpinFrom is Unpin for a matrix of at least so many bytes.
func (m *Matrix) UnpinFrom(least int) *Matrix {
	if w := m.whole(); w.meter != nil {
		w.meter.mu.Lock()
		defer w.meter.mu.Unlock()
		if w.rest == nil {
			w.meter.mayRest(w, least)
		}
	}
	return m
}

// SetReadOnly says that nobody changes the elements before SetWritable.
func (m *Matrix) SetReadOnly() {
	if m = m.whole(); m != nil && m.rest != nil {
		m.meter.mu.Lock()
		defer m.meter.mu.Unlock()
		m.rest.readOnly = true
	}
}

// SetWritable says that the elements may change again.
func (m *Matrix) SetWritable() {
	if m = m.whole(); m != nil && m.rest != nil {
		m.meter.mu.Lock()
		defer m.meter.mu.Unlock()
		m.rest.used.Store(m.meter.offload.turn.Load())
		m.meter.fetch(m)
		m.rest.readOnly, m.rest.saved = false, false
	}
}

// Touch brings matrices at rest back, as reading them does. A plan reads nothing, so it calls Touch where a
// run reads. Some may be nil.
func Touch(ms ...*Matrix) {
	for _, m := range ms {
		if m != nil {
			m.Pointer()
		}
	}
}

// DontNeed says that this turn does not use the matrix any more, so that it may leave at once.
func (m *Matrix) DontNeed() {
	if m.rest != nil {
		m.meter.unneeded(m, 0)
	}
}

// WillNeed says that most turns of the next round read the matrix.
func (m *Matrix) WillNeed() {
	if m.rest != nil {
		m.meter.unneeded(m, 1)
	}
}

// unneeded says that this turn does not use a matrix any more. It sets the last use to the start of the round
// that is so many rounds away.
func (t *account) unneeded(m *Matrix, rounds uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.offload
	turn := o.turn.Load()
	m.rest.used.Store((turn>>32 + rounds) << 32)
	if o.listed == turn {
		o.unused = append(o.unused, m)
	}
}

// Leave writes the elements to the tier below, and gives the memory back before it returns. It panics if the
// tier fails.
func (m *Matrix) Leave() {
	m.meter.mu.Lock()
	defer m.meter.mu.Unlock()
	r, o := m.rest, m.meter.offload
	m.meter.settled(m)
	if r.state == here {
		r.absent.Store(true)
		r.state = leaving
		o.leaving[m.kind] += int64(m.bytes)
		m.meter.write(m)
		m.meter.settled(m)
	}
	o.check()
}

// Rests reports whether the matrix rests now.
func (m *Matrix) Rests() bool {
	m = m.whole()
	return m.rest != nil && m.rest.absent.Load()
}

// touch brings a matrix back if it rests, and keeps it for this turn.
func (m *Matrix) touch() {
	r, o := m.rest, m.meter.offload
	if turn := o.turn.Load(); r.used.Load() != turn {
		r.used.Store(turn)
	}
	if !r.absent.Load() {
		return
	}
	m.meter.mu.Lock()
	defer m.meter.mu.Unlock()
	m.meter.fetch(m)
}

// fetch brings a matrix back if it rests. The caller holds mu, which fetch releases while the disk works.
func (t *account) fetch(m *Matrix) {
	o := t.offload
	for m.rest.state != here && o.err == nil {
		if m.rest.state != away {
			o.changed.Wait()
		} else if t.come(m) == nil {
			var err error
			if end := o.read(m); end != nil {
				t.mu.Unlock()
				err = o.watched("read", m.bytes, end)
				t.mu.Lock()
			}
			t.came(m, err)
		}
	}
	o.check()
}

// Ahead begins to read a matrix at rest that this turn will use, if it fits the limit beside all matrices in
// memory.
func (m *Matrix) Ahead() {
	if m = m.whole(); m == nil || !m.Rests() {
		return
	}
	t := m.meter.account
	t.mu.Lock()
	defer t.mu.Unlock()
	r, o := m.rest, t.offload
	for r.state == leaving {
		o.changed.Wait() // so that it comes at the same time as in the plan
	}
	if r.state != away || t.metered()-t.idleBytes()+int64(m.bytes) > o.limit {
		return
	}
	r.used.Store(o.turn.Load())
	if t.come(m) == nil {
		r.ahead = true
		t.finishAsync("read", m, o.read(m), func(err error) { t.came(m, err) })
	}
}

// come makes room for a matrix that is away, and charges it. The caller then reads it.
func (t *account) come(m *Matrix) error {
	m.rest.state = coming
	if err := t.makeRoom(int64(m.bytes)); err != nil {
		m.rest.state = away
		t.offload.changed.Broadcast()
		return err
	}
	t.live[m.kind] += int64(m.bytes)
	t.raise()
	t.tell(0)
	t.offload.moved.Read += int64(m.bytes)
	return nil
}

// read begins to read the elements of a matrix that has come. In a plan there are none.
func (o *offload) read(m *Matrix) (end func() error) {
	if o.below == nil {
		return nil
	}
	return o.below.read(m)
}

// came notes that a matrix was read. A matrix that the disk failed to read stays away, so nobody computes
// with it: each use fails.
func (t *account) came(m *Matrix, err error) {
	r, o := m.rest, t.offload
	o.failed(err)
	r.ahead = false
	if err != nil {
		t.leave(m)
	} else {
		r.state = here
		r.saved = r.saved && r.readOnly
		r.absent.Store(false)
	}
	o.changed.Broadcast()
}

// write writes a matrix's elements while the caller goes on. The caller holds mu.
func (t *account) write(m *Matrix) {
	r, o := m.rest, t.offload
	o.moved.Written, o.short = o.moved.Written+int64(m.bytes), true
	if !r.hasSlot {
		r.hasSlot = true
		r.offset = o.slots.take(m.bytes)
	}
	var end func() error
	if o.below != nil {
		end = o.below.write(m)
	}
	t.finishAsync("write", m, end, func(err error) {
		r.saved = true
		o.failed(err)
		if r.state == leaving {
			o.leaving[m.kind] -= int64(m.bytes)
			t.leave(m)
		} else {
			r.state = here
			r.absent.Store(false)
		}
	})
}

// leave gives the memory of a matrix back, and keeps its addresses.
func (t *account) leave(m *Matrix) {
	m.rest.state = away
	t.live[m.kind] -= int64(m.bytes)
	t.tell(0)
	if o := t.offload; o.below != nil {
		o.failed(o.below.leave(m))
	}
}

// settled waits until a matrix is on its way neither to the tier below nor from it. The caller holds mu.
func (t *account) settled(m *Matrix) {
	for r := m.rest; r != nil && r.state != here && r.state != away; {
		t.offload.changed.Wait()
	}
}

// forget makes a matrix stay in memory; it must be settled. The caller holds mu.
func (t *account) forget(m *Matrix) {
	t.dropSpares(m)
	o, last := t.offload, len(t.offload.rests)-1
	o.rests[last].rest.index = m.rest.index
	o.rests[m.rest.index], o.rests[last] = o.rests[last], nil
	o.rests = o.rests[:last]
	if m.rest.hasSlot {
		t.offload.slots.put(m.rest.offset, m.bytes)
	}
	m.rest = nil
}

// memory returns the whole memory of a matrix.
func (m *Matrix) memory() []byte { return unsafe.Slice((*byte)(m.data), m.bytes) }
