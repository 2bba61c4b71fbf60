package tensor

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A worker whose partitions take turns (comm.Host) may need more memory than its limit. Matrices that the
// partition at work does not use then rest on a Disk. Their addresses stay: views and lists of rows remain
// valid. Pointer brings a matrix back, so that no code above knows about it. Memory of a matrix at rest may
// not be read or written; a slice that was taken before faults.
//
// Matrices leave when others need their room, and not before. Of those that were not used in this turn the
// ones that were last used in the earliest round of turns leave first, and of these the ones that were used
// last: all partitions have a turn in each round, so that these are used again last.

// Moved counts bytes between memory and disk.
type Moved struct {
	Written int64 `json:"written"`
	Read    int64 `json:"read"`
}

// Plus is the sum.
func (m Moved) Plus(more Moved) Moved { return Moved{m.Written + more.Written, m.Read + more.Read} }

// Disk is where matrices rest. Several goroutines may use it.
type Disk interface {
	// Write writes a matrix's bytes to a place of their own.
	Write(data []byte) (Place, error)
	Read(p Place, into []byte) error
	// Free says that the bytes at a place are not needed any more.
	Free(p Place)
	// Plans reports whether matrices have no content, so that nothing is written and read.
	Plans() bool
}

// Place is where a Disk has some bytes.
type Place struct {
	Offset int64
	Bytes  int
	Sum    uint32 // checksum
}

// DiskFailure is the panic value of an allocation or a use of a matrix for which the Disk failed.
type DiskFailure struct{ Err error }

func (e DiskFailure) Error() string { return e.Err.Error() }

// Unwrap returns the error of the Disk.
func (e DiskFailure) Unwrap() error { return e.Err }

// offload is the part of an account that keeps within the limit. All fields but turn are under the account's
// mutex.
type offload struct {
	disk    Disk
	limit   int64
	turn    atomic.Uint64 // the turn at work: its round in the upper half, and its number in the lower one
	rests   map[*Matrix]struct{}
	made    uint64 // matrices
	leaving int64  // bytes that are being written, and leave then
	busy    int    // matrices that are being written, or read ahead
	changed *sync.Cond
	moved   Moved
	err     error
}

// rest is what a matrix needs to rest. It is nil for one that stays.
type rest struct {
	state  state
	number uint64        // in the order of creation
	used   atomic.Uint64 // the turn of the last use
	saved  bool          // place has the elements
	frozen bool          // nobody changes the elements
	place  Place
	absent atomic.Bool // state is not here
}

type state uint8

const (
	here state = iota
	cleaning
	leaving
	away
	coming
)

// leastResting is the size from which matrices rest: smaller ones cost more than they give.
const leastResting = 16 << 10

// Offload makes matrices of features, activations, gradients and the graph rest on disk where the memory of
// all Meters of the worker would exceed the limit, in bytes. It must be called before the first allocation.
// Memory that the turn at work uses is never taken from it, so that a limit which is too low is exceeded.
func (t *Meter) Offload(d Disk, limit int64) {
	t.offload = &offload{disk: d, limit: limit, rests: map[*Matrix]struct{}{}, changed: sync.NewCond(&t.mu)}
}

// BeginTurn begins another turn, which may be the first of a round.
func (t *Meter) BeginTurn(first bool) {
	const round = 1 << 32
	if first {
		t.offload.turn.Add(round)
	}
	t.offload.turn.Add(1)
}

// EndTurn ends a turn: what nobody changes any more is written beside the next one, if memory is short.
func (t *Meter) EndTurn() {
	o := t.offload
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.moved.Written == 0 {
		return
	}
	for m := range o.rests {
		if r := m.rest; r.state == here && r.frozen && !r.saved && r.used.Load() == o.turn.Load() {
			r.state = cleaning
			r.absent.Store(true)
			t.write(m)
		}
	}
}

// OnDisk returns the bytes that were written and read so far.
func (t *Meter) OnDisk() (m Moved) {
	if t.offload == nil {
		return m
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offload.moved
}

// mayRest lets a matrix rest. The caller holds mu.
func (t *account) mayRest(m *Matrix) {
	o := t.offload
	if o == nil || m.bytes < leastResting {
		return
	}
	switch m.kind {
	case Features, Activations, Gradients, Graph:
		m.rest = &rest{number: o.made}
		m.rest.used.Store(o.turn.Load())
		o.made++
		o.rests[m] = struct{}{}
	}
}

// Pin keeps the matrix in memory until Unpin or Release. A goroutine that reads or writes a matrix in other
// turns than those of its rank pins it.
func (m *Matrix) Pin() *Matrix {
	if m.rest != nil {
		m.meter.mu.Lock()
		defer m.meter.mu.Unlock()
		m.meter.fetch(m)
		m.meter.forget(m)
	}
	return m
}

// Unpin lets a pinned matrix rest again.
func (m *Matrix) Unpin() *Matrix {
	m.meter.mu.Lock()
	defer m.meter.mu.Unlock()
	if m.rest == nil {
		m.meter.mayRest(m)
	}
	return m
}

// Freeze says that nobody changes the elements before Thaw.
func (m *Matrix) Freeze() {
	if m != nil && m.rest != nil {
		m.meter.mu.Lock()
		defer m.meter.mu.Unlock()
		m.rest.frozen = true
	}
}

// Thaw says that the elements may change again.
func (m *Matrix) Thaw() {
	if m != nil && m.rest != nil {
		m.meter.mu.Lock()
		defer m.meter.mu.Unlock()
		m.rest.used.Store(m.meter.offload.turn.Load())
		m.meter.fetch(m)
		m.rest.frozen, m.rest.saved = false, false
	}
}

// Leave says that this turn does not use the matrix any more, so that it may leave at once.
func (m *Matrix) Leave() {
	if m.rest != nil {
		m.rest.used.Store(m.meter.offload.turn.Load() >> 32 << 32)
	}
}

// Rests reports whether the matrix rests now.
func (m *Matrix) Rests() bool { return m.rest != nil && m.rest.absent.Load() }

// use brings a matrix back if it rests, and keeps it for this turn.
func (m *Matrix) use() {
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

// fetch brings a matrix back if it rests. The caller holds mu.
func (t *account) fetch(m *Matrix) {
	for m.rest.state != here {
		switch {
		case t.offload.err != nil:
			panic(DiskFailure{t.offload.err})
		case m.rest.state == away:
			t.bring(m)
		default:
			t.offload.changed.Wait()
		}
	}
	if t.offload.err != nil {
		panic(DiskFailure{t.offload.err})
	}
}

// Ahead begins to read a matrix that rests and will be used in this turn, if it fits the limit beside all
// that is here.
func (m *Matrix) Ahead() {
	if m == nil || m.rest == nil || !m.rest.absent.Load() {
		return
	}
	t := m.meter.account
	t.mu.Lock()
	defer t.mu.Unlock()
	r, o := m.rest, t.offload
	if r.state != away || o.err != nil || t.charged()-o.leaving+int64(m.bytes) > o.limit {
		return
	}
	for t.charged()+int64(m.bytes) > o.limit && o.leaving > 0 && o.err == nil {
		o.changed.Wait()
	}
	if r.state != away || o.err != nil {
		return
	}
	r.used.Store(o.turn.Load())
	if t.come(m); o.disk.Plans() {
		t.came(m, nil)
		return
	}
	o.busy++
	go func() {
		err := o.read(m)
		t.mu.Lock()
		defer t.mu.Unlock()
		o.busy--
		t.came(m, err)
	}()
}

// bring reads a matrix. The caller holds mu, which is free while the disk works.
func (t *account) bring(m *Matrix) {
	m.rest.state = coming
	func() {
		defer func() { // makeRoom may panic
			m.rest.state = away
			t.offload.changed.Broadcast()
		}()
		t.makeRoom(int64(m.bytes))
	}()
	t.come(m)
	var err error
	if o := t.offload; !o.disk.Plans() {
		t.mu.Unlock()
		err = o.read(m)
		t.mu.Lock()
	}
	t.came(m, err)
}

// come charges a matrix that is about to be read, for which there is room.
func (t *account) come(m *Matrix) {
	m.rest.state = coming
	t.live[m.kind] += int64(m.bytes)
	t.raise()
	t.offload.moved.Read += int64(m.bytes)
}

// read reads the elements.
func (o *offload) read(m *Matrix) error {
	if err := unix.Mprotect(m.memory(), unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	return o.disk.Read(m.rest.place, m.memory())
}

// came says that a matrix was read.
func (t *account) came(m *Matrix, err error) {
	r, o := m.rest, t.offload
	if err != nil && o.err == nil {
		o.err = err
	}
	r.state = here
	if !r.frozen {
		r.saved = false
	}
	r.absent.Store(false)
	o.changed.Broadcast()
}

// makeRoom lets matrices leave until so many more bytes are within the limit, or none is left that may. The
// caller holds mu.
func (t *account) makeRoom(size int64) {
	o := t.offload
	if o == nil {
		return
	}
	if o.err != nil {
		panic(DiskFailure{o.err})
	}
	t.shrinkTo(o.limit - size)
	for t.charged()+size > o.limit && o.leaving > 0 && o.err == nil {
		o.changed.Wait()
		t.shrinkTo(o.limit - size) // others may have taken the room
	}
	if o.err != nil {
		panic(DiskFailure{o.err})
	}
}

// shrinkTo lets matrices leave until no more than so many bytes stay, or none is left that may.
func (t *account) shrinkTo(limit int64) {
	o := t.offload
	for t.charged()-o.leaving > limit {
		if s, found := t.idle.cut(pages(int(t.charged() - o.leaving - limit))); found {
			giveBack(s.start, s.size)
			continue
		}
		m := o.next()
		if m == nil {
			return
		}
		t.evict(m)
	}
}

// charged is all memory, that of the graph's structure included.
func (t *account) charged() int64 { return t.tensors() + t.live[Graph] }

// GraphBytes is the memory of the graph's structure: now or, where that may rest, at the peak.
func (t *Meter) GraphBytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.offload != nil {
		return t.peakKinds[Graph]
	}
	return t.live[Graph]
}

// FreezeAll freezes all matrices of a kind that this Meter made.
func (t *Meter) FreezeAll(k Kind) {
	if t.offload == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for m := range t.offload.rests {
		if m.kind == k && m.meter == t {
			m.rest.frozen = true
		}
	}
}

// next returns the matrix that leaves next.
func (o *offload) next() (next *Matrix) {
	turn := o.turn.Load()
	order := func(a, b *Matrix) int {
		x, y := a.rest.used.Load(), b.rest.used.Load()
		return cmp.Or(cmp.Compare(x>>32, y>>32), cmp.Compare(y, x), cmp.Compare(a.rest.number, b.rest.number))
	}
	for m := range o.rests {
		if s := m.rest.state; s != here && s != cleaning || m.rest.used.Load() == turn {
			continue
		}
		if next == nil || order(m, next) < 0 {
			next = m
		}
	}
	return next
}

// evict lets a matrix leave: at once if the disk has its elements, or when they are written. It stays if it
// is used in this turn: use notes that first and looks for absent then, and evict does the reverse.
func (t *account) evict(m *Matrix) {
	r, o := m.rest, t.offload
	r.absent.Store(true)
	if r.used.Load() == o.turn.Load() { // by another goroutine, since next looked
		r.absent.Store(r.state == cleaning)
		return
	}
	switch {
	case r.state == cleaning:
		r.state = leaving
		o.leaving += int64(m.bytes)
	case r.saved:
		if guard > 0 {
			o.compare(m)
		}
		t.leave(m)
	default:
		r.state = leaving
		o.leaving += int64(m.bytes)
		t.write(m)
	}
}

// compare panics where a matrix has other elements than the disk, though nobody should have changed them.
func (o *offload) compare(m *Matrix) {
	if o.disk.Plans() {
		return
	}
	saved := make([]byte, m.bytes)
	if err := o.disk.Read(m.rest.place, saved); err != nil || !bytes.Equal(saved, m.memory()) {
		panic(fmt.Sprintf("tensor: a frozen matrix of %d×%d of %v was changed, or is not read (%v)", m.Rows, m.Cols, m.kind, err))
	}
}

// write writes a matrix's elements, beside the caller. The caller holds mu.
func (t *account) write(m *Matrix) {
	r, o := m.rest, t.offload
	o.moved.Written += int64(m.bytes)
	o.busy++
	if r.place.Bytes > 0 {
		o.disk.Free(r.place)
	}
	finish := func(p Place, err error) {
		r.place, r.saved = p, true
		o.busy--
		if err != nil && o.err == nil {
			o.err = err
		}
		if r.state == leaving {
			o.leaving -= int64(m.bytes)
			t.leave(m)
		} else {
			r.state = here
			r.absent.Store(false)
		}
		o.changed.Broadcast()
	}
	if o.disk.Plans() {
		finish(o.disk.Write(m.memory()))
		return
	}
	go func() {
		p, err := o.disk.Write(m.memory())
		t.mu.Lock()
		defer t.mu.Unlock()
		finish(p, err)
	}()
}

// leave gives the memory of a matrix back, and keeps its addresses.
func (t *account) leave(m *Matrix) {
	m.rest.state = away
	t.live[m.kind] -= int64(m.bytes)
	if t.offload.disk.Plans() {
		return
	}
	err := unix.Madvise(m.memory(), unix.MADV_DONTNEED)
	if err == nil {
		err = unix.Mprotect(m.memory(), unix.PROT_NONE)
	}
	if err != nil && t.offload.err == nil {
		t.offload.err = fmt.Errorf("memory is not given back: %w", err)
	}
}

// settled waits until a matrix is neither on its way to the disk nor from it. The caller holds mu.
func (t *account) settled(m *Matrix) {
	for r := m.rest; r != nil && r.state != here && r.state != away; {
		t.offload.changed.Wait()
	}
}

// forget makes a matrix, which must be settled, one that does not rest. The caller holds mu.
func (t *account) forget(m *Matrix) {
	delete(t.offload.rests, m)
	if m.rest.place.Bytes > 0 {
		t.offload.disk.Free(m.rest.place)
	}
	m.rest = nil
}

// memory is the whole memory of a matrix.
func (m *Matrix) memory() []byte { return unsafe.Slice((*byte)(m.data), m.bytes) }
