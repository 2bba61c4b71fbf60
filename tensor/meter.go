package tensor

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// Kind says what memory is for.
type Kind uint8

// The kinds of memory. Graph is the graph's structure, which a run reports apart from its tensors.
const (
	Features Kind = iota
	Parameters
	Optimizer
	Activations
	Gradients
	Buffers
	Graph
	kinds
)

var kindNames = [kinds]string{
	"features", "parameters", "optimizer", "activations", "gradients",
	"buffers", "graph",
}

// String is the kind's name.
func (k Kind) String() string { return kindNames[k] }

// KindNames are the names of all kinds, in order.
func KindNames() []string { return kindNames[:] }

// Meter is a worker's allocator. It charges every byte to a Kind and remembers the peak. Released memory is
// kept idle for the next matrices, because fresh pages cost more than most kernels; idle memory is charged as
// Buffers and never raises the peak: before an allocation would, idle memory is given back to the operating
// system, or its pages go to the new matrix. A Meter may be used by several goroutines.
//
// Several Meters may charge the same worker. What is live, idle and the peak are then those of all of them.
type Meter struct {
	*account
	used    map[unsafe.Pointer]charge // the memory of this Meter's matrices
	sharing *sharing                  // nil: with nobody
	made    uint64                    // rest.number of the next matrix that may rest
}

// charge is what a matrix is charged for.
type charge struct {
	bytes int
	kind  Kind
}

// account is what the Meters of a worker share.
type account struct {
	mu        sync.Mutex
	live      [kinds]int64
	idle      idle
	peak      int64 // with the graph's structure, where matrices rest
	peakKinds [kinds]int64
	grows     bool      // the graph's structure, since MeasureGraph
	mostGraph int64     // of it, if so
	offload   *offload  // nil: no matrix rests
	device    *onDevice // nil: the elements are on the host
	spares    spares
	meters    []*Meter
	addresses idle        // of a plan, without pages, which matrices may have again
	areas     int64       // its part of the areas of all Meters of the process
	plan      bool        // matrices hold nothing: see Plan
	watch     func(Usage) // nil: nobody watches
}

// Usage is the memory that a worker's Meters charge at a moment.
type Usage struct {
	Kinds [kinds]int64 // live bytes, by Kind
	Idle  int64        // bytes that no matrix has
	// Counted is what the peak is the largest of: all but the graph's structure or, where matrices rest, all.
	Counted int64
}

// Watch calls f with what is charged now and after each change, until it is called again. f must not use the
// Meter. nil ends it.
func (t *Meter) Watch(f func(Usage)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = f
	t.tell(0)
}

// tell tells whoever watches what is charged now and, beside it, buffers that are not there.
func (t *account) tell(buffers int64) {
	if t.watch == nil {
		return
	}
	u := Usage{t.staying(), t.idleBytes(), t.metered() + buffers}
	if buffers > 0 { // idle memory would be freed first
		u.Idle, u.Counted = 0, u.Counted-u.Idle
	}
	u.Kinds[Buffers] += t.reserved() + buffers
	t.watch(u)
}

// NewMeter returns a Meter with nothing allocated.
func NewMeter() *Meter {
	a := &account{idle: newIdle(), addresses: newIdle()}
	return a.meter()
}

func (t *account) meter() *Meter {
	m := &Meter{account: t, used: map[unsafe.Pointer]charge{}, made: uint64(len(t.meters)) << 32}
	t.meters = append(t.meters, m)
	return m
}

// Owner returns the address and the size of the memory that holds p, of a matrix of a Meter that charges the
// same worker; nil: there is none.
func (t *Meter) Owner(p unsafe.Pointer) (first unsafe.Pointer, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.meters {
		for first, of := range m.used {
			if at := uintptr(p) - uintptr(first); at < uintptr(of.bytes) {
				return first, of.bytes
			}
		}
	}
	return nil, 0
}

// Another returns another Meter that charges the same worker.
func (t *Meter) Another() *Meter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meter()
}

// Uncounted returns another Meter, which only plans if this one does. What it counts is not this one's.
func (t *Meter) Uncounted() *Meter {
	m := NewMeter()
	m.plan = t.plan
	return m
}

// Plan says that matrices from now on hold nothing, because the worker only plans. Nobody may write to them,
// as that would take their memory. In a debug build it faults. Readers find zeros.
func (t *Meter) Plan() { t.plan = true }

// New returns a Float32 matrix with undefined elements.
func (t *Meter) New(kind Kind, rows, cols int) *Matrix {
	return t.NewElement(kind, Float32, rows, cols)
}

// NewElement returns a matrix of the given element type with undefined elements. It panics with an
// OutOfMemory when the operating system refuses.
func (t *Meter) NewElement(kind Kind, element Element, rows, cols int) *Matrix {
	if rows < 0 || cols < 0 {
		panic(fmt.Sprintf("tensor: a matrix of %d×%d", rows, cols))
	}
	if cols > 0 && rows > maxBytes/cols/element.Size() {
		panic(OutOfMemory{maxBytes, fmt.Errorf("a matrix of %d×%d", rows, cols)})
	}
	size := pages(rows * cols * element.Size())
	t.mu.Lock()
	defer t.mu.Unlock()
	m := &Matrix{
		Rows: rows, Cols: cols, Element: element, planned: t.plan, meter: t, kind: kind, bytes: size,
	}
	m.data = t.idle.take(size)
	if err := t.makeRoom(int64(size)); err != nil {
		panic(err)
	}
	t.freeIdle(int64(size))
	if m.data == nil && !whole(size) {
		m.data = t.addresses.take(size)
	}
	if m.data == nil {
		m.data = acquire(size)
		t.supply(m)
		if t.plan {
			forbidWrites(m.data, size)
		}
	}
	t.used[m.data] = charge{size, kind}
	t.live[kind] += int64(size)
	t.takeExtent(m)
	t.trimSpares()
	t.raise()
	t.tell(0)
	if kind != Parameters && kind != Buffers {
		t.mayRest(m, LeastResting)
	}
	return m
}

// raise raises the peak to what is charged now. Where matrices rest, memory may be equally full at several
// times, as with shares of the graph alone before the first epoch. The peak is then that with the most
// tensors.
func (t *account) raise() {
	if t.grows {
		t.mostGraph = max(t.mostGraph, t.live[Graph])
	}
	now := t.metered()
	if live := t.staying(); now > t.peak ||
		t.offload != nil && now == t.peak && live[Graph] < t.peakKinds[Graph] {
		t.peak, t.peakKinds = now, live
		t.peakKinds[Buffers] += t.idleBytes() + t.reserved()
	}
}

// metered is what the peak is of: tensors, and the graph's structure where that comes and goes, too, or is on
// a device. What leaves does not count any more: how long the disk takes for it is no property of the run. It
// is within the limit.
func (t *account) metered() int64 {
	switch {
	case t.offload != nil:
		return t.charged() - t.offload.leavingBytes()
	case t.device != nil:
		return t.tensors() + t.live[Graph]
	}
	return t.tensors()
}

// staying is the live memory of each kind without what leaves.
func (t *account) staying() (live [kinds]int64) {
	live = t.live
	if t.offload != nil {
		for k, b := range t.offload.leaving {
			live[k] -= b
		}
	}
	return live
}

// reserved is the memory of the split Meter.
func (t *account) reserved() int64 {
	if t.offload == nil {
		return 0
	}
	return t.offload.reserved
}

// Reserve raises the peak to where it would be if Buffers of so many bytes each were taken now, and released:
// scratch of which a computation takes less on some computers or data then counts in full on all. Matrices
// leave as they would then.
func (t *Meter) Reserve(bytes ...int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	more := int64(0)
	for _, n := range bytes {
		more += int64(pages(n))
	}
	if err := t.makeRoom(more); err != nil {
		panic(err)
	}
	t.tell(more)
	if then := t.metered() - t.idleBytes() + more; then > t.peak { // idle memory would be freed first
		t.peak, t.peakKinds = then, t.staying()
		t.peakKinds[Buffers] += more + t.reserved()
	}
}

// freeIdle gives idle memory back to the system until size more bytes do not raise the peak, or none is left.
func (t *account) freeIdle(size int64) {
	for short := t.metered() + size - t.peak; short > 0; short = t.metered() + size - t.peak {
		s, found := t.idle.cut(int(short))
		if !found {
			return
		}
		t.spareOrGiveBack(s)
	}
}

func (t *Meter) free(m *Matrix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.rest != nil {
		t.settled(m)
	}
	if _, ours := t.used[m.data]; !ours {
		return // given back by Close
	}
	delete(t.used, m.data)
	rests := m.rest != nil && m.rest.state == away
	if m.rest != nil {
		t.forget(m)
	}
	t.leaveExtent(m)
	switch {
	case !rests:
		t.live[m.kind] -= int64(m.bytes)
		fallthrough
	case t.device != nil:
		t.idle.put(span{m.data, m.bytes})
		t.tell(0)
	case t.planned():
		t.spareOrGiveBack(span{m.data, m.bytes})
	default:
		giveBack(m.data, m.bytes)
	}
}

// shrink takes the memory of a matrix from size on.
func (t *Meter) shrink(m *Matrix, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ours := t.used[m.data]; !ours || size == m.bytes {
		return
	}
	if guard > 0 {
		giveBackEnd(m.data, m.bytes, size)
	} else {
		t.idle.put(span{unsafe.Add(m.data, size), m.bytes - size})
	}
	t.used[m.data] = charge{size, m.kind}
	t.shrinkExtent(m, size)
	t.live[m.kind] -= int64(m.bytes - size)
	m.bytes = size
	t.tell(0)
}

// tensors is what is charged now, without the graph's structure.
func (t *account) tensors() int64 {
	sum := t.idleBytes()
	for k, b := range t.live {
		if Kind(k) != Graph {
			sum += b
		}
	}
	return sum
}

// idleBytes is the memory that no matrix has. On a device there is none: idle are addresses alone.
func (t *account) idleBytes() int64 {
	if t.device != nil {
		return 0
	}
	return t.idle.bytes
}

// Live is the number of bytes of matrices not yet released, of one kind.
func (t *Meter) Live(k Kind) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[k]
}

// LiveTensors is the number of bytes of all matrices not yet released, without the graph's structure and
// without idle memory.
func (t *Meter) LiveTensors() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tensors() - t.idleBytes()
}

// Peak is the largest number of bytes that tensors of all kinds, idle memory included, took at one time; the
// graph's structure is not counted.
func (t *Meter) Peak() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.offload != nil || t.device != nil {
		return t.peak - t.peakKinds[Graph]
	}
	return t.peak
}

// PeakOf is how much of the Peak was of one kind; idle memory counts as Buffers.
func (t *Meter) PeakOf(k Kind) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peakKinds[k]
}

// Peaks is the Peak, and PeakOf each kind: what a Meter that continues the work of this one begins with.
type Peaks struct {
	Bytes int64        `json:"bytes"`
	Kinds [kinds]int64 `json:"kinds"`
}

// Peaks are the peaks so far.
func (t *Meter) Peaks() Peaks {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Peaks{t.peak, t.peakKinds}
}

// Continue raises the peaks to those of an earlier Meter, if that is higher.
func (t *Meter) Continue(from Peaks) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from.Bytes > t.peak {
		t.peak, t.peakKinds = from.Bytes, from.Kinds
	}
}

// Drain gives all idle memory back to the operating system.
func (t *Meter) Drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drain(0)
}

// drain gives idle memory back to the operating system until so many bytes are left at most, and all spares.
func (t *account) drain(most int64) {
	t.keepSpares(0)
	for t.addresses.bytes > 0 {
		s, _ := t.addresses.cut(int(t.addresses.bytes))
		giveBack(s.start, s.size)
	}
	for t.idle.bytes > most {
		s, _ := t.idle.cut(int(t.idle.bytes - most))
		giveBack(s.start, s.size)
	}
}

// Clear releases all matrices, which must not be used any more, and keeps so many bytes of idle memory at
// most. The Meter is alone in charging its worker, and no matrix rests on disk.
func (t *Meter) Clear(most int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idleAll()
	t.live = [kinds]int64{}
	t.drain(most)
	t.tell(0)
}

// Retire releases all matrices of this Meter, which must not be used any more, nor may the Meter. Others that
// charge the same worker go on. No matrix rests, and the worker's elements are on the host.
func (t *Meter) Retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.used {
		t.live[of.kind] -= int64(of.bytes)
	}
	t.idleAll()
	t.meters = slices.DeleteFunc(t.meters, func(m *Meter) bool { return m == t })
	t.tell(0)
}

// idleAll makes the memory of this Meter's matrices idle.
func (t *Meter) idleAll() {
	t.leaveExtents()
	for p, of := range t.used {
		t.idle.put(span{p, of.bytes})
	}
	clear(t.used)
}

// Close gives this Meter's matrices, which must not be used any more, and all idle memory back to the
// operating system. Peak and the other figures stay.
func (t *Meter) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for o := t.offload; o != nil && o.busy > 0; {
		o.changed.Wait()
	}
	if t.offload != nil { // other Meters of the worker go on
		for _, m := range slices.Clone(t.offload.rests) {
			if m.meter == t {
				if m.rest.state != away {
					t.live[m.kind] -= int64(m.bytes)
				}
				t.forget(m)
			}
		}
	}
	t.idleAll() // what is next to each other is given back at once
	t.drain(0)
	t.leaveAreas()
	if s := t.sharing; s != nil && s.with != nil {
		s.with.Close()
		t.sharing = nil
	}
}
