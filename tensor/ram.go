package tensor

import (
	"bytes"
	"cmp"
	"fmt"
)

// Matrices on a device rest in pinned memory of the host. They are copied beside kernels, in two queues of
// the device: down to the host, and up. A copy down begins after the last kernel that used the matrix, and
// after the last copy up from the memory that it writes. The extent is free when the copy has ended. A copy
// up to a new extent begins after all kernels so far, because they may use the extent's former elements;
// otherwise it begins after the last kernel that used the matrix. A kernel that uses the matrix waits for the
// copy, and no goroutine does.

// ram is the tier below a device's memory.
type ram struct {
	*account
	pool    []byte           // memory of slots, by their offsets
	beyond  map[int64][]byte // by offset: memory of slots that end beyond the pool
	lastUp  map[int64]uint64 // by offset: a mark after the last copy up from there
	buffers [2]buffer        // for gathered rows
	next    int              // the number of the next buffer
}

// bufferBytes is the size of a buffer: so many bytes are gathered before they are copied.
const bufferBytes = 8 << 20

// OffloadToHost is Offload for matrices on a device, which rest in the host's memory. It allocates so many
// bytes, the number that a plan has found. If passes of several kinds follow each other, more may rest; that
// memory is allocated when it is needed. It must be called after On. An error is the device's.
func (t *Meter) OffloadToHost(bytes, limit int64) error {
	pool, err := t.device.mover.Pinned(bytes + 2*bufferBytes)
	if err != nil {
		return err
	}
	r := &ram{account: t.account, pool: pool[:bytes], beyond: map[int64][]byte{}, lastUp: map[int64]uint64{}}
	for k := range r.buffers {
		r.buffers[k].memory = pool[bytes+int64(k)*bufferBytes:][:bufferBytes]
	}
	t.device.ram = r
	t.offloadTo(r, limit)
	return nil
}

// at returns the memory in which the elements of a matrix rest.
func (r *ram) at(m *Matrix) []byte { return m.rest.pinned[:len(m.content())] }

// pin gives a matrix the memory of its slot.
func (r *ram) pin(m *Matrix) (err error) {
	offset := m.rest.offset
	if end := offset + int64(m.bytes); end <= int64(len(r.pool)) {
		m.rest.pinned = r.pool[offset:end]
		return nil
	}
	if len(r.beyond[offset]) < m.bytes { // Close frees the memory that was there: copies may still go on
		if r.beyond[offset], err = r.device.mover.Pinned(int64(m.bytes)); err != nil {
			return ofDevice(err)
		}
	}
	m.rest.pinned = r.beyond[offset]
	return nil
}

// GathersBeside reports whether kernels run while GatherAtRest copies rows that they do not use.
func (t *Meter) GathersBeside() bool { return t.device != nil && t.offload != nil }

// saved returns the elements of a matrix in the host's memory, if they are there; else nil.
func (r *ram) saved(m *Matrix) []byte {
	if r == nil || m.rest == nil || !m.rest.saved {
		return nil
	}
	return r.at(m)
}

// now marks this moment, which copies may begin after. It is called when a turn begins, because matrices that
// leave in the turn were mostly last used before it. It is also called before a gather, whose rows replace
// others that were last used before then.
func (r *ram) now() error {
	_, err := r.device.since(r.device.asked)
	return err
}

func (r *ram) write(m *Matrix) (end func() error) {
	p, d := m.extent, r.device
	if err := r.pin(m); err != nil {
		return failing(err)
	}
	// perhaps for a matrix that had the slot before, and was released
	to, read := r.at(m), r.lastUp[m.rest.offset]
	switch valid := p.valid.Load(); {
	case valid == 0:
		return failing(nil)
	case valid&onTheHost != 0:
		return func() error {
			err := r.device.wait(read)
			copy(to, m.content())
			return err
		}
	}
	err := d.await(p)
	mark := uint64(0)
	if err == nil {
		mark, err = d.since(p.used)
	}
	if err == nil {
		mark, err = d.copyDown(to, d.addressOf(p), mark, read)
	}
	if err != nil {
		return failing(err)
	}
	return func() error { return d.wait(mark) }
}

func failing(err error) (end func() error) { return func() error { return err } }

func (r *ram) read(m *Matrix) (end func() error) {
	p, d := m.extent, r.device
	if err := d.extend(p); err != nil {
		return failing(err)
	}
	p.valid.Store(onTheDevice)
	if err := r.up(m, p, 0, r.at(m)); err != nil {
		return failing(err)
	}
	if mark := p.coming; r.offload.watch.Load() != nil {
		r.finishAsync("read", m, func() error { return r.device.wait(mark) }, r.offload.failed)
	}
	return nil
}

// up copies elements of a matrix at rest to an extent, from byte at on, after the extent's last use. The
// caller holds mu.
func (r *ram) up(m *Matrix, p *extent, at uintptr, from []byte) error {
	err := r.device.copyUp(p, r.device.addressOf(p)+uint64(at), from)
	r.lastUp[m.rest.offset] = p.coming
	return err
}

func (r *ram) leave(m *Matrix) error {
	r.device.vacate(m.extent)
	return nil
}

func (r *ram) mustHold(m *Matrix) {
	now := make([]byte, len(m.content()))
	p, d := m.extent, r.device
	d.check(d.await(p))
	d.check(d.mover.ToHost(now, d.addressOf(p)))
	if p.valid.Load() == onTheDevice && !bytes.Equal(now, r.at(m)) {
		panic(fmt.Sprintf("tensor: a read-only matrix of %d×%d of %v was changed", m.Rows, m.Cols, m.kind))
	}
}

// into returns the extent of a matrix or view that elements will be copied to, and the byte in it at which
// they begin.
func (r *ram) into(m *Matrix) (p *extent, at uintptr) {
	first := m.Pointer()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.device
	p = d.extentOf(first)
	if p.valid.Load() == onTheHost {
		d.toDevice(p)
	}
	d.written(p)
	return p, uintptr(first) - uintptr(p.m.data)
}

func (r *ram) copy(m, into *Matrix) error {
	p, at := r.into(into)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up(m, p, at, r.at(m))
}

func (r *ram) gather(m, into *Matrix, rows []int32) error {
	p, at := r.into(into)
	r.mu.Lock()
	err := r.now()
	r.mu.Unlock()
	from, row := r.at(m), m.Cols*m.Element.Size()
	most := max(1, bufferBytes/row)
	for err == nil && len(rows) > 0 {
		some := rows[:min(most, len(rows))]
		rows = rows[len(some):]
		s := &r.buffers[r.next%len(r.buffers)]
		r.next++
		pieces := from[int(some[0])*row:][:row]
		if most > 1 {
			err = r.device.wait(s.mark)
			pieces = s.memory[:len(some)*row]
			_ = inParts(len(some), func(lo, hi int) error {
				for i := lo; i < hi; i++ {
					copy(pieces[i*row:(i+1)*row], from[int(some[i])*row:])
				}
				return nil
			})
		}
		r.mu.Lock()
		err = cmp.Or(err, r.up(m, p, at, pieces))
		s.mark = p.coming
		r.mu.Unlock()
		at += uintptr(len(pieces))
	}
	return err
}
