package tensor

import (
	"bytes"
	"fmt"
)

// Matrices on a device rest in pinned memory of the host. They are copied beside kernels, in two queues of
// the device: down to the host, and up. A copy down begins after the last kernel that used the matrix. The
// extent is free when it has ended. A copy up begins after all kernels so far, which may use what the extent
// was before, and a kernel that uses the matrix waits for it. No goroutine waits for a copy up.

// Queues is a device that copies beside its kernels. A mark is a moment of one of its queues; 0: long ago.
type Queues interface {
	Mover
	// Pinned returns memory of the host that such copies are from and to.
	Pinned(bytes int64) ([]byte, error)
	// Mark marks what the queue of kernels was asked so far.
	Mark() (mark uint64, err error)
	// Up begins to copy to the device after a mark, and returns one at the end. from must not change before.
	Up(to uint64, from []byte, after uint64) (mark uint64, err error)
	// Down begins to copy from the device in the same way.
	Down(to []byte, from uint64, after uint64) (mark uint64, err error)
	// After has the queue of kernels wait for a mark.
	After(mark uint64) error
	// Wait waits for a mark.
	Wait(mark uint64) error
}

// ram is the level below a device's memory.
type ram struct {
	*account
	queues Queues
	pool   []byte // of all matrices, by their offsets
	staged [2]staged
	mark   uint64 // of the queue of kernels
	marked int64  // onDevice.asked then
	down   uint64 // after the last copy down
}

// staged is memory for rows that are gathered.
type staged struct {
	memory []byte
	mark   uint64 // after the copy from there
}

// stage is the number of bytes that are gathered before they are copied.
const stage = 8 << 20

// OffloadToHost is Offload for matrices on a device, which rest in the host's memory: in so many bytes, as a
// plan has found. It must be called after On.
func (t *Meter) OffloadToHost(d Queues, bytes, limit int64) error {
	pool, err := d.Pinned(bytes + 2*stage)
	if err != nil {
		return err
	}
	r := &ram{account: t.account, queues: d, pool: pool[:bytes]}
	for k := range r.staged {
		r.staged[k].memory = pool[bytes+int64(k)*stage:][:stage]
	}
	t.device.ram = r
	t.rest(r, limit)
	return nil
}

// at is where the elements of a matrix rest.
func (r *ram) at(m *Matrix) []byte { return r.pool[m.rest.offset:][:len(m.content())] }

// saved are the elements of a matrix, if they are in the host's memory.
func (r *ram) saved(m *Matrix) []byte {
	if r == nil || m.rest == nil || !m.rest.saved {
		return nil
	}
	return r.at(m)
}

// since returns a mark after what the queue of kernels was asked up to a number.
func (r *ram) since(asked int64) (mark uint64, err error) {
	if r.marked < asked {
		if r.mark, err = r.queues.Mark(); err == nil {
			r.marked = r.device.asked
		}
	}
	return r.mark, err
}

// turns marks the end of a turn: what the next one lets leave was last used before, mostly.
func (r *ram) turns() error {
	_, err := r.since(r.device.asked)
	return err
}

// await has the queue of kernels wait for the elements of a place that come.
func (d *onDevice) await(p *place) error {
	if p.coming == 0 {
		return nil
	}
	mark := p.coming
	d.asked++
	p.coming, p.used = 0, d.asked
	return d.ram.queues.After(mark)
}

// awaitDown has the queue of kernels wait for all copies down.
func (r *ram) awaitDown() error {
	if r == nil {
		return nil
	}
	return r.queues.After(r.down)
}

func (r *ram) write(m *Matrix) (end func() error) {
	p, d := m.place, r.device
	if int(m.rest.offset)+m.bytes > len(r.pool) {
		return failing(fmt.Errorf("the host's memory has %d bytes for this worker, and more rests", len(r.pool)))
	}
	to := r.at(m)
	switch valid := p.valid.Load(); {
	case valid == 0:
		return failing(nil)
	case valid&onTheHost != 0:
		return func() error {
			copy(to, m.content())
			return nil
		}
	}
	err := d.await(p)
	mark := uint64(0)
	if err == nil {
		mark, err = r.since(p.used)
	}
	if err == nil {
		r.down, err = r.queues.Down(to, d.addressOf(p), mark)
	}
	if err != nil {
		return failing(DeviceFailure{err})
	}
	d.use.ToHost += int64(len(to))
	mark = r.down
	return func() error { return r.wait(mark) }
}

func failing(err error) (end func() error) { return func() error { return err } }

// wait waits for a mark.
func (r *ram) wait(mark uint64) error {
	if err := r.queues.Wait(mark); err != nil {
		return DeviceFailure{err}
	}
	return nil
}

func (r *ram) read(m *Matrix) (end func() error) {
	p, d := m.place, r.device
	if err := d.extend(p); err != nil {
		return failing(err)
	}
	p.valid.Store(onTheDevice)
	if err := r.up(p, d.addressOf(p), r.at(m), d.asked); err != nil {
		return failing(err)
	}
	if mark := p.coming; r.offload.watch.Load() != nil {
		r.beside("read", m, func() error { return r.wait(mark) }, r.offload.failed)
	}
	return nil
}

// up copies elements of a place after what the queue of kernels was asked up to a number. The caller holds
// mu.
func (r *ram) up(p *place, to uint64, from []byte, asked int64) error {
	mark, err := r.since(asked)
	if err == nil {
		p.coming, err = r.queues.Up(to, from, mark)
	}
	if err != nil {
		return DeviceFailure{err}
	}
	r.device.use.ToDevice += int64(len(from))
	return nil
}

func (r *ram) leave(m *Matrix) error {
	r.device.vacate(m.place)
	return nil
}

func (r *ram) holds(m *Matrix) {
	now := make([]byte, len(m.content()))
	p, d := m.place, r.device
	d.check(d.await(p))
	d.check(d.mover.ToHost(now, d.addressOf(p)))
	if p.valid.Load() == onTheDevice && !bytes.Equal(now, r.at(m)) {
		panic(fmt.Sprintf("tensor: a read-only matrix of %d×%d of %v was changed", m.Rows, m.Cols, m.kind))
	}
}

// into returns the place of a matrix whose elements will come, and its first address.
func (r *ram) into(m *Matrix) (p *place, at uint64) {
	first := m.Pointer()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.device
	p = d.placeOf(first)
	d.toDevice(p)
	d.written(p)
	return p, d.addressOf(p) + uint64(uintptr(first)-uintptr(p.m.data))
}

func (r *ram) copy(m, into *Matrix) error {
	p, at := r.into(into)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up(p, at, r.at(m), p.used)
}

func (r *ram) gather(m, into *Matrix, rows []int32) error {
	p, at := r.into(into)
	from, row := r.at(m), m.Cols*m.Element.Size()
	most := max(1, stage/row)
	for k := 0; len(rows) > 0; k++ {
		some := rows[:min(most, len(rows))]
		rows = rows[len(some):]
		s := &r.staged[k%len(r.staged)]
		pieces := from[int(some[0])*row:][:row]
		if most > 1 {
			if err := r.wait(s.mark); err != nil {
				return err
			}
			pieces = s.memory[:len(some)*row]
			_ = inParts(len(some), func(lo, hi int) error {
				for i := lo; i < hi; i++ {
					copy(pieces[i*row:(i+1)*row], from[int(some[i])*row:])
				}
				return nil
			})
		}
		r.mu.Lock()
		err := r.up(p, at, pieces, p.used)
		s.mark = p.coming
		r.mu.Unlock()
		if err != nil {
			return err
		}
		at += uint64(len(pieces))
	}
	return nil
}
