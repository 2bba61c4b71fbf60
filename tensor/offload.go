package tensor

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A worker whose partitions take turns (comm.SharedWorker), or a stage's chunks, may need more memory than
// its limit. Matrices that the one at work does not use then rest on a tier below, as a Disk. Their addresses
// stay: views and lists of rows remain valid. Pointer brings a matrix back, so that no code above knows about
// it. Memory of a matrix at rest may not be read or written; a slice that was taken before faults.
//
// Matrices leave when others need their memory, and not before. A matrix that was used in this turn stays.
// First leave those whose last use lies in the earliest round of turns. Among these the order is reversed:
// the one that was used last leaves first. All partitions have a turn in each round, so that it is also used
// again last. What most turns of the next round read (Wanted) leaves after what one of them reads.

// Moved counts bytes between memory and the tier below.
type Moved struct {
	Written int64 `json:"written"`
	Read    int64 `json:"read"`
}

// Plus is the sum.
func (m Moved) Plus(more Moved) Moved { return Moved{m.Written + more.Written, m.Read + more.Read} }

// tier is memory below that of the matrices, where they rest: each in an extent of its own. write and read
// are called with the mutex of the account, and what they return without it, once.
type tier interface {
	// write begins to write the elements of a matrix, and end returns when they are there.
	write(m *Matrix) (end func() error)
	// read begins to read them back. nil: all that uses them from now on waits by itself.
	read(m *Matrix) (end func() error)
	// leave gives the memory of a matrix back, and keeps its addresses.
	leave(m *Matrix) error
	// gather copies the listed rows, which ascend, of a matrix that rests into those of another one. It reads
	// as many bytes as gathers says.
	gather(m, into *Matrix, rows []int32) error
	// copy copies all memory of a matrix that rests into that of another one.
	copy(m, into *Matrix) error
	// holds panics unless a matrix has the elements that are saved.
	holds(m *Matrix)
}

// slots are the ranges of bytes below that matrices have. A free one is used again for as many bytes.
type slots struct {
	end  int64
	free map[int][]int64 // by the number of bytes
}

func (s *slots) take(bytes int) (offset int64) {
	if free := s.free[bytes]; len(free) > 0 {
		s.free[bytes] = free[:len(free)-1]
		return free[len(free)-1]
	}
	offset = s.end
	s.end += int64(bytes)
	return offset
}

func (s *slots) put(offset int64, bytes int) { s.free[bytes] = append(s.free[bytes], offset) }

// offload is the part of an account that keeps within the limit. All but atomic fields are under the mutex of
// the account.
type offload struct {
	below    tier // nil: a plan, whose matrices have no elements
	limit    int64
	reserved int64         // of split, within the limit
	split    *Meter        // nil: there is none
	turn     atomic.Uint64 // the turn at work: its round in the upper half, and its number in the lower one
	rests    []*Matrix     // in any order: next goes through all once in a turn
	short    bool          // a matrix has left
	leaving  [kinds]int64  // bytes that are being written, and leave then
	busy     int           // matrices that are being written, or read ahead
	changed  *sync.Cond
	moved    Moved
	slots    slots
	err      error
	watch    atomic.Pointer[func(what string, bytes int64) (end func())]

	list   candidates // of what may leave in turn listed
	listed uint64
	unused []*Matrix // of DontNeed and WillNeed, since candidates were listed
}

// noTurn is offload.listed where the candidates of no turn are listed.
const noTurn = math.MaxUint64

// Offload makes matrices of all kinds but parameters and buffers rest on disk where the memory of all Meters
// of the worker would exceed the limit, in bytes. Unpin adds others. It must be called before the first
// allocation. Memory that the turn at work uses is never taken from it, so that a limit which is too low is
// exceeded. In a plan d is nil: matrices leave and come as in a run, and nothing is written and read.
func (t *Meter) Offload(d Disk, limit int64) {
	var below tier
	if d != nil {
		below = &onDisk{disk: d, account: t.account}
	}
	t.offloadTo(below, limit)
}

// offloadTo is Offload to a tier; nil in a plan.
func (t *Meter) offloadTo(below tier, limit int64) {
	t.offload = &offload{
		below: below, limit: limit, changed: sync.NewCond(&t.mu),
		slots: slots{free: map[int][]int64{}},
	}
}

// Split returns a Meter of its own for matrices in so many bytes of the host's memory, which the limit loses
// unless it is of a device: what rests of all others does not depend on them. Unless d is nil they may rest,
// on a Disk of their own. It must be called before the first allocation.
func (t *Meter) Split(d Disk, bytes int64) *Meter {
	o := t.offload
	if t.device == nil {
		o.reserved = bytes
	}
	o.split = NewMeter()
	if d != nil {
		o.split.Offload(d, bytes)
	}
	return o.split
}

// Count adds to the bytes that were written and read.
func (t *Meter) Count(m Moved) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.offload.moved = t.offload.moved.Plus(m)
}

// Takes returns the memory that a matrix of so many bytes takes, and whether it may rest where matrices do
// from a least size on.
func (t *Meter) Takes(bytes, least int) (memory int64, rests bool) {
	size := pages(bytes)
	return int64(size), t.offload != nil && size >= least
}

// NextTurn ends a turn and begins another one. Where nothing rests it does nothing.
func (t *Meter) NextTurn(first bool) {
	if t.offload != nil {
		t.EndTurn()
		t.BeginTurn(first)
	}
}

// BeginTurn begins another turn, which may be the first of a round.
func (t *Meter) BeginTurn(first bool) {
	const round = 1 << 32
	if first {
		t.offload.turn.Add(round)
	}
	t.offload.turn.Add(1)
	if t.device != nil && t.device.ram != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.offload.failed(t.device.ram.now())
	}
}

// EndTurn ends a turn: what nobody changes any more is written beside the next one, if memory is short.
func (t *Meter) EndTurn() {
	o := t.offload
	t.mu.Lock()
	defer t.mu.Unlock()
	if !o.short {
		return
	}
	var final []*Matrix
	for _, m := range o.rests {
		if r := m.rest; r.state == here && r.readOnly && !r.saved && r.used.Load() == o.turn.Load() {
			final = append(final, m)
		}
	}
	slices.SortFunc(final, func(a, b *Matrix) int { return cmp.Compare(a.rest.number, b.rest.number) })
	for _, m := range final {
		m.rest.state = cleaning
		t.write(m)
	}
}

// ResetResidency makes what is in memory, and the order in which it leaves, the same in every run. Before,
// ranks take their turns as messages come. The matrices of the lowest ranks are here as far as there is room.
// One rank calls it while all of the worker wait.
func (t *Meter) ResetResidency() {
	o := t.offload
	if o == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.SortedFunc(slices.Values(o.rests), func(a, b *Matrix) int {
		return cmp.Compare(a.rest.number, b.rest.number)
	})
	room := o.limit - t.metered() + t.idleBytes()
	for i, m := range all {
		t.settled(m)
		m.rest.used.Store(uint64(i))
		if m.rest.state == here {
			room += int64(m.bytes)
		}
	}
	fits := 0
	for ; fits < len(all) && int64(all[fits].bytes) <= room; fits++ {
		room -= int64(all[fits].bytes)
	}
	o.list, o.listed = nil, noTurn // the candidates are others
	for _, m := range all[fits:] {
		if m.rest.state == here {
			t.evict(m)
		}
	}
	for _, m := range all[:fits] {
		t.fetch(m)
		m.rest.saved = false
	}
	o.short = fits < len(all)
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

// WatchDisk has f called when a matrix begins to be written or read, and what f returns at the end. Several
// goroutines may call it at the same time. Without Offload it does nothing.
func (t *Meter) WatchDisk(f func(what string, bytes int64) (end func())) {
	if o := t.offload; o != nil {
		o.watch.Store(&f)
		if o.split != nil {
			o.split.WatchDisk(f)
		}
	}
}

// watched makes a move of so many bytes.
func (o *offload) watched(what string, bytes int, move func() error) error {
	if f := o.watch.Load(); f != nil {
		defer (*f)(what, int64(bytes))()
	}
	return move()
}

// DiskBytes returns the bytes that matrices have taken on the disk at most.
func (t *Meter) DiskBytes() int64 {
	if t.offload == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offload.slots.end
}

// beside ends a move in a goroutine of its own, and calls done at its end. nil is done at once. The caller
// holds mu, and so does done.
func (t *account) beside(what string, m *Matrix, end func() error, done func(error)) {
	if end == nil {
		done(nil)
		return
	}
	o := t.offload
	o.busy++
	bytes := m.bytes
	go func() {
		err := o.watched(what, bytes, end)
		t.mu.Lock()
		defer t.mu.Unlock()
		o.busy--
		done(err)
		o.changed.Broadcast()
	}()
}

// failed keeps the first failure of the tier below, as the panic of what needs it from now on.
func (o *offload) failed(err error) {
	switch {
	case err == nil:
	case saysWhat(err):
		o.err = cmp.Or(o.err, err)
	default:
		o.err = cmp.Or(o.err, error(DiskFailure{err}))
	}
}

// check panics if the tier below has failed.
func (o *offload) check() {
	if o.err != nil {
		panic(o.err)
	}
}

// makeRoom lets matrices leave until so many more bytes are within the limit, or none is left that may. It
// fails if the disk has. The caller holds mu.
func (t *account) makeRoom(size int64) error {
	o := t.offload
	if o == nil {
		return nil
	}
	for o.err == nil {
		t.shrinkTo(o.limit - size)
		if t.charged()+size <= o.limit || o.leavingBytes() == 0 {
			break
		}
		o.changed.Wait() // others may take the room then
	}
	return o.err
}

// shrinkTo lets matrices leave until no more than so many bytes stay, or none is left that may.
func (t *account) shrinkTo(limit int64) {
	o := t.offload
	for t.metered() > limit {
		if t.idleBytes() > 0 {
			s, _ := t.idle.cut(pages(int(t.metered() - limit)))
			t.spareOrGiveBack(s)
			continue
		}
		switch m := o.next(); {
		case m == nil:
			return
		case m.rest.state == coming:
			o.changed.Wait() // it leaves after it has come, in the order of the plan
		default:
			t.evict(m)
		}
	}
}

// leavingBytes is the memory of all matrices that leave.
func (o *offload) leavingBytes() (sum int64) {
	for _, b := range o.leaving {
		sum += b
	}
	return sum
}

// charged is what the peak and the limit are of, with what leaves: tensors and, where matrices rest, the
// graph's structure and the memory of the split Meter.
func (t *account) charged() int64 {
	if t.offload == nil {
		return t.tensors()
	}
	return t.tensors() + t.live[Graph] + t.offload.reserved
}

// MeasureGraph has GraphBytes be the most from now on, of passes that have edges of their own.
func (t *Meter) MeasureGraph() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grows, t.mostGraph = true, t.live[Graph]
}

// GraphBytes is the memory of the graph's structure: now, at most since MeasureGraph or, where it may rest or
// is on a device, at the peak.
func (t *Meter) GraphBytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.offload != nil || t.device != nil {
		return t.peakKinds[Graph]
	}
	return max(t.live[Graph], t.mostGraph)
}

// SetAllReadOnly is SetReadOnly for all matrices of a kind that this Meter made.
func (t *Meter) SetAllReadOnly(k Kind) {
	if t.offload == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.offload.rests {
		if m.kind == k && m.meter == t {
			m.rest.readOnly = true
		}
	}
}

// evict lets a matrix leave: at once if the disk has its elements, or when they are written. It stays if it
// is used in this turn: use notes that first and looks for absent then, and evict does the reverse.
func (t *account) evict(m *Matrix) {
	r, o := m.rest, t.offload
	r.absent.Store(true)
	if r.used.Load() == o.turn.Load() { // by another goroutine, since next looked
		r.absent.Store(false)
		return
	}
	switch {
	case r.state == cleaning:
		r.state = leaving
		o.leaving[m.kind] += int64(m.bytes)
	case r.saved:
		if guard > 0 && o.below != nil {
			o.below.holds(m)
		}
		t.leave(m)
	default:
		r.state = leaving
		o.leaving[m.kind] += int64(m.bytes)
		t.write(m)
	}
}
