package tensor

import (
	"bytes"
	"cmp"
	"fmt"
)

// Matrices on a device rest in pinned memory of the host. They are copied beside kernels, in two queues of
// the device: down to the host, and up. A copy down begins after the last kernel that used the matrix, and
// after the last copy up from where it writes. The extent is free when it has ended. A copy up begins after
// the last kernel that used the matrix, or where it has a new extent after all kernels so far, which may use
// what that was before. A kernel that uses the matrix waits for it, and no goroutine does.

// ram is the tier below a device's memory.
type ram struct {
	*account
	pool   []byte           // of matrices, by their offsets
	beyond map[int64][]byte // by offset: of matrices that end beyond the pool
	lastUp map[int64]uint64 // by offset: a mark after the last copy up from there
	buffers [2]buffer        // for rows that are gathered
	next   int              // of buffers
}

// bufferBytes is the number of bytes that are gathered before they are copied.
const bufferBytes = 8 << 20

// OffloadToHost is Offload for matrices on a device, which rest in the host's memory: in so many bytes, as a
// plan has found. Where passes of several kinds follow each other more may rest, which is then allocated. It
// must be called after On.
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

// at is where the elements of a matrix rest.
func (r *ram) at(m *Matrix) []byte { return m.rest.pinned[:len(m.content())] }

// pin gives a matrix the memory of its offset.
func (r *ram) pin(m *Matrix) (err error) {
	offset := m.rest.offset
	if end := offset + int64(m.bytes); end <= int64(len(r.pool)) {
		m.rest.pinned = r.pool[offset:end]
		return nil
	}
	if len(r.beyond[offset]) < m.bytes { // Close frees what was there: copies may still go on
		if r.beyond[offset], err = r.device.mover.Pinned(int64(m.bytes)); err != nil {
			return ofDevice(err)
		}
	}
	m.rest.pinned = r.beyond[offset]
	return nil
}

// GathersBeside reports whether kernels work while GatherAtRest copies rows that they do not use.
func (t *Meter) GathersBeside() bool { return t.device != nil && t.offload != nil }

// saved are the elements of a matrix, if they are in the host's memory.
func (r *ram) saved(m *Matrix) []byte {
	if r == nil || m.rest == nil || !m.rest.saved {
		return nil
	}
	return r.at(m)
}

// now marks a moment that copies may begin after: what leaves in a turn was last used before it, mostly, and
// rows that are gathered come to where others were used before the last ones were.
func (r *ram) now() error {
	_, err := r.device.since(r.device.asked)
	return err
}

func (r *ram) write(m *Matrix) (end func() error) {
	p, d := m.extent, r.device
	if err := r.pin(m); err != nil {
		return failing(err)
	}
	to, read := r.at(m), r.lastUp[m.rest.offset] // perhaps of another matrix, which was released
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
		r.beside("read", m, func() error { return r.device.wait(mark) }, r.offload.failed)
	}
	return nil
}

// up copies elements of a matrix that rests to a place, from so many bytes there on, after what used the
// place last. The caller holds mu.
func (r *ram) up(m *Matrix, p *extent, at uintptr, from []byte) error {
	err := r.device.copyUp(p, r.device.addressOf(p)+uint64(at), from)
	r.lastUp[m.rest.offset] = p.coming
	return err
}

func (r *ram) leave(m *Matrix) error {
	r.device.vacate(m.extent)
	return nil
}

func (r *ram) holds(m *Matrix) {
	now := make([]byte, len(m.content()))
	p, d := m.extent, r.device
	d.check(d.await(p))
	d.check(d.mover.ToHost(now, d.addressOf(p)))
	if p.valid.Load() == onTheDevice && !bytes.Equal(now, r.at(m)) {
		panic(fmt.Sprintf("tensor: a read-only matrix of %d×%d of %v was changed", m.Rows, m.Cols, m.kind))
	}
}

// into returns the place of a matrix some of whose elements will come, and where there these begin.
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
