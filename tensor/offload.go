package tensor

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A worker whose partitions take turns (comm.SharedWorker), or whose stage computes chunk after chunk, may
// need more memory than its limit. Then matrices that the present turn does not use rest in a tier below,
// such as a Disk. Their addresses stay, so views and lists of rows remain valid. Pointer brings a matrix
// back, so that no code above knows about it. The memory of a matrix at rest must not be read or written: a
// slice that was taken before faults.
//
// Matrices leave when others need their memory, and not before. A matrix that was used in this turn stays.
// Matrices whose last use lies in the earliest round of turns leave first. Among these the order is reversed:
// the matrix that was used last leaves first. All partitions have a turn in each round, so that matrix is
// also used again last. A matrix that most turns of the next round read (WillNeed) leaves after matrices that
// one turn reads.

// Moved counts bytes between memory and the tier below.
type Moved struct {
	Written int64 `json:"written"`
	Read    int64 `json:"read"`
}

// Plus returns the sum.
func (m Moved) Plus(more Moved) Moved { return Moved{m.Written + more.Written, m.Read + more.Read} }

// tier is the memory below, in which matrices rest, each in a slot of its own. write and read are called with
// the mutex of the account held. The functions that they return are called once, without it.
type tier interface {
	// write begins to write the elements of a matrix. end returns when they are written.
	write(m *Matrix) (end func() error)
	// read begins to read the elements back. end returns when they are there; nil: whatever uses them from
	// now on waits by itself.
	read(m *Matrix) (end func() error)
	// leave gives the memory of a matrix back, and keeps its addresses.
	leave(m *Matrix) error
	// gather copies the listed rows, which ascend, of a matrix at rest into the first rows of into. It reads
	// as many bytes as gathers says.
	gather(m, into *Matrix, rows []int32) error
	// copy copies all memory of a matrix at rest into the memory of into.
	copy(m, into *Matrix) error
	// mustHold panics unless a matrix has the elements that are saved.
	mustHold(m *Matrix)
}

// slots are the ranges of bytes in which matrices rest below. A free slot is used again for a matrix of as
// many bytes.
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

// offload is the part of an account that keeps memory within the limit. The mutex of the account protects all
// fields that are not atomic.
type offload struct {
	below    tier // nil in a plan, whose matrices have no elements
	limit    int64
	reserved int64         // bytes of split, which the limit counts
	split    *Meter        // nil: there is none
	turn     atomic.Uint64 // the present turn: its round in the upper half, and its number in the lower half
	rests    []*Matrix     // all matrices that may rest, in any order; next goes through them once in a turn
	short    bool          // a matrix has left
	leaving  [kinds]int64  // bytes that are being written, and will then leave
	busy     int           // number of matrices that are being written, or read ahead
	changed  *sync.Cond
	moved    Moved
	slots    slots
	err      error
	watch    atomic.Pointer[func(what string, bytes int64) (end func())]

	list   candidates // the matrices that may leave, as of turn listed
	listed uint64
	unused []*Matrix // matrices of DontNeed and WillNeed since candidates were listed
}

// noTurn is the value of offload.listed when no candidates are listed.
const noTurn = math.MaxUint64

// Offload makes matrices rest on disk when the memory of all Meters of the worker would exceed the limit, in
// bytes. Matrices of all kinds except parameters and buffers may rest; Unpin adds others. It must be called
// before the first allocation. Memory that the present turn uses is never taken from it, so a limit that is
// too low is exceeded. In a plan d is nil: matrices leave and come as in a run, but nothing is written or
// read.
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

// Split returns a separate Meter, for matrices in so many bytes of the host's memory. So these matrices have
// no influence on which others rest. The limit is reduced by the bytes, unless it is a device's. The separate
// matrices may rest, on the Disk d of their own, unless d is nil. It must be called before the first
// allocation.
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

// Takes returns the memory that a matrix of so many bytes takes, and whether it may rest, if matrices rest
// from least bytes on.
func (t *Meter) Takes(bytes, least int) (memory int64, rests bool) {
	size := pages(bytes)
	return int64(size), t.offload != nil && size >= least
}

// NextTurn ends a turn and begins another. If no matrix may rest it does nothing.
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

// EndTurn ends a turn. If memory is short, matrices that it used and nobody changes any more are written
// during the next turn.
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

// ResetResidency makes the set of matrices in memory, and the order in which they leave, the same in every
// run. Until then both depend on the order of the ranks' turns, which follows the arrival of messages.
// Afterwards the matrices of the lowest ranks are in memory, as far as there is room. One rank calls it while
// all ranks of the worker wait.
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
	o.list, o.listed = nil, noTurn // the order has changed
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

// WatchDisk makes the Meter call f when a matrix begins to be written or read, and end when it is done.
// Several goroutines may call f at the same time. Without Offload it does nothing.
func (t *Meter) WatchDisk(f func(what string, bytes int64) (end func())) {
	if o := t.offload; o != nil {
		o.watch.Store(&f)
		if o.split != nil {
			o.split.WatchDisk(f)
		}
	}
}

// watched calls move, which moves so many bytes, and tells the function of WatchDisk.
func (o *offload) watched(what string, bytes int, move func() error) error {
	if f := o.watch.Load(); f != nil {
		defer (*f)(what, int64(bytes))()
	}
	return move()
}

// DiskBytes returns the largest number of bytes that matrices have taken on the disk.
func (t *Meter) DiskBytes() int64 {
	if t.offload == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offload.slots.end
}

// finishAsync calls end, which ends a move, in a goroutine of its own, and then done. If end is nil it calls
// done at once. The caller holds mu, and done is called with mu held.
func (t *account) finishAsync(what string, m *Matrix, end func() error, done func(error)) {
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

// failed keeps the first failure of the tier below. Every later use of the tier panics with it.
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

// makeRoom lets matrices leave until so many more bytes are within the limit, or no more matrices may leave.
// Its error is the tier's failure. The caller holds mu.
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
		o.changed.Wait() // meanwhile others may take the room
	}
	return o.err
}

// shrinkTo lets matrices leave until no more than so many bytes stay, or no more matrices may leave.
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
			o.changed.Wait() // a matrix that is coming leaves when it has come, in the plan's order
		default:
			t.evict(m)
		}
	}
}

// leavingBytes returns the memory of all matrices that are leaving.
func (o *offload) leavingBytes() (sum int64) {
	for _, b := range o.leaving {
		sum += b
	}
	return sum
}

// charged returns the bytes that the limit counts: tensors, also those that are leaving and, if matrices
// rest, the graph's structure and the memory of the split Meter.
func (t *account) charged() int64 {
	if t.offload == nil {
		return t.tensors()
	}
	return t.tensors() + t.live[Graph] + t.offload.reserved
}

// MeasureGraph makes GraphBytes return the largest value from now on, for passes with edges of their own.
func (t *Meter) MeasureGraph() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grows, t.mostGraph = true, t.live[Graph]
}

// GraphBytes returns the memory of the graph's structure: now, or the most since MeasureGraph. If it may rest
// or is on a device, it is the memory at the peak.
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

// evict lets a matrix leave: at once if the disk has its elements, otherwise when they are written. It stays
// if it is used in this turn. To be sure of it without a lock, touch first sets used and then reads absent,
// and evict does the reverse.
func (t *account) evict(m *Matrix) {
	r, o := m.rest, t.offload
	r.absent.Store(true)
	if r.used.Load() == o.turn.Load() { // another goroutine has used it since next looked
		r.absent.Store(false)
		return
	}
	switch {
	case r.state == cleaning:
		r.state = leaving
		o.leaving[m.kind] += int64(m.bytes)
	case r.saved:
		if guard > 0 && o.below != nil {
			o.below.mustHold(m)
		}
		t.leave(m)
	default:
		r.state = leaving
		o.leaving[m.kind] += int64(m.bytes)
		t.write(m)
	}
}
