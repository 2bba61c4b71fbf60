package tensor

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// Kind is the purpose of memory.
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

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// KindNames returns the names of all kinds, in order.
func KindNames() []string { return kindNames[:] }

// Meter is a worker's allocator. It charges every byte to a Kind and remembers the peak. Released memory is
// kept idle for the next matrices, because fresh pages cost more than most kernels. Idle memory is charged as
// Buffers, and never raises the peak: if an allocation would raise it, idle memory is given back to the
// operating system first, or its pages go to the new matrix. A Meter may be used by several goroutines.
//
// Several Meters may charge the same worker. They share the counts of live and idle memory, and the peak.
type Meter struct {
	*account
	used    map[unsafe.Pointer]charge // the memory of this Meter's matrices
	sharing *sharing                  // nil: it shares no matrices
	made    uint64                    // rest.number of the next matrix that may rest
}

// charge is the bytes of a matrix, and their kind.
type charge struct {
	bytes int
	kind  Kind
}

// account is the part of the Meters of a worker that they share.
type account struct {
	mu        sync.Mutex
	live      [kinds]int64
	idle      idle
	peak      int64 // with the graph's structure if matrices rest
	peakKinds [kinds]int64
	grows     bool      // MeasureGraph was called
	mostGraph int64     // the most bytes of the graph's structure since then
	offload   *offload  // nil: no matrix rests
	device    *onDevice // nil: the elements are on the host
	spares    spares
	meters    []*Meter
	addresses idle        // addresses of a plan, without pages, for the next matrices
	areas     int64       // its part of areas, the process's sum
	plan      bool        // matrices hold nothing (Plan)
	watch     func(Usage) // nil: nobody watches
}

// Usage is the memory that a worker's Meters charge at a moment.
type Usage struct {
	Kinds [kinds]int64 // live bytes, by Kind
	Idle  int64        // bytes that belong to no matrix
	// Counted is the number of bytes whose largest value is the peak: all but the graph's structure, or all
	// if matrices rest.
	Counted int64
}

// Watch calls f with the memory that is charged, now and after each change. f must not use the Meter.
// Watch(nil) ends it.
func (t *Meter) Watch(f func(Usage)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = f
	t.tell(0)
}

// tell tells the function of Watch what is charged now, with so many bytes of Buffers that are only reserved.
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

// Owner returns the address and the size of the memory of the matrix that p points into. The matrix may
// belong to any Meter that charges the same worker; nil: there is none.
func (t *Meter) Owner(p unsafe.Pointer) (first unsafe.Pointer, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.meters {
		for first, c := range m.used {
			if at := uintptr(p) - uintptr(first); at < uintptr(c.bytes) {
				return first, c.bytes
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

// Uncounted returns a Meter with an account of its own, which plans if this one does.
func (t *Meter) Uncounted() *Meter {
	m := NewMeter()
	m.plan = t.plan
	return m
}

// Plan says that matrices hold nothing from now on, because the worker only plans. Nobody may write to them,
// because a write would take memory; in a debug build it faults. Readers find zeros.
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

// raise raises the peak to the bytes that are charged now. If matrices rest, memory may be equally full at
// several moments, one of them before the first epoch, with parts of the graph alone. The peak is then the
// moment with the most tensors.
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

// metered returns the bytes whose largest value is the peak: tensors, and also the graph's structure if it
// may rest or is on a device. A matrix that is being written to leave does not count any more, because the
// time that the disk takes is no property of the run. The limit still counts it.
func (t *account) metered() int64 {
	switch {
	case t.offload != nil:
		return t.charged() - t.offload.leavingBytes()
	case t.device != nil:
		return t.tensors() + t.live[Graph]
	}
	return t.tensors()
}

// staying returns the live bytes of each kind, without matrices that are leaving.
func (t *account) staying() (live [kinds]int64) {
	live = t.live
	if t.offload != nil {
		for k, b := range t.offload.leaving {
			live[k] -= b
		}
	}
	return live
}

// reserved returns the bytes of the split Meter.
func (t *account) reserved() int64 {
	if t.offload == nil {
		return 0
	}
	return t.offload.reserved
}

// Reserve raises the peak as if Buffers of so many bytes each were taken now, and released. A computation may
// take less scratch on some computers, or for some data; with Reserve it counts in full on all. Matrices
// leave as they would for these Buffers.
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

// freeIdle gives idle memory back to the system until size more bytes do not raise the peak, or no idle
// memory is left.
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

// shrink takes back the memory of a matrix from byte size on.
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

// tensors returns the bytes that are charged now, without the graph's structure.
func (t *account) tensors() int64 {
	sum := t.idleBytes()
	for k, b := range t.live {
		if Kind(k) != Graph {
			sum += b
		}
	}
	return sum
}

// idleBytes returns the bytes of idle memory. On a device it is 0: idle are addresses without memory.
func (t *account) idleBytes() int64 {
	if t.device != nil {
		return 0
	}
	return t.idle.bytes
}

// Live returns the number of bytes of matrices not yet released, of one kind.
func (t *Meter) Live(k Kind) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[k]
}

// LiveTensors returns the number of bytes of all matrices not yet released, without the graph's structure and
// without idle memory.
func (t *Meter) LiveTensors() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tensors() - t.idleBytes()
}

// Peak returns the largest number of bytes that tensors of all kinds, idle memory included, took at one time.
// The graph's structure counts only if matrices rest or are on a device.
func (t *Meter) Peak() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.offload != nil || t.device != nil {
		return t.peak - t.peakKinds[Graph]
	}
	return t.peak
}

// PeakOf returns how many bytes of the Peak were of one kind. Idle memory counts as Buffers.
func (t *Meter) PeakOf(k Kind) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peakKinds[k]
}

// Peaks is the Peak, and PeakOf each kind. A Meter that continues the work of another begins with them.
type Peaks struct {
	Bytes int64        `json:"bytes"`
	Kinds [kinds]int64 `json:"kinds"`
}

// Peaks returns the peaks so far.
func (t *Meter) Peaks() Peaks {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Peaks{t.peak, t.peakKinds}
}

// Continue raises the peaks to those of an earlier Meter, if its Peak is higher.
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

// drain gives all spares back to the operating system, and idle memory until at most so many bytes are left.
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

// Clear releases all matrices, which must not be used any more, and keeps at most so many bytes of idle
// memory. No other Meter may charge the worker, and no matrix may rest.
func (t *Meter) Clear(most int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idleAll()
	t.live = [kinds]int64{}
	t.drain(most)
	t.tell(0)
}

// Retire releases all matrices of this Meter, which must not be used any more, nor may the Meter. Other
// Meters that charge the same worker go on. No matrix may rest, and the elements must be on the host.
func (t *Meter) Retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.used {
		t.live[c.kind] -= int64(c.bytes)
	}
	t.idleAll()
	t.meters = slices.DeleteFunc(t.meters, func(m *Meter) bool { return m == t })
	t.tell(0)
}

// idleAll makes the memory of all matrices of this Meter idle.
func (t *Meter) idleAll() {
	t.leaveExtents()
	for p, c := range t.used {
		t.idle.put(span{p, c.bytes})
	}
	clear(t.used)
}

// Close gives all matrices of this Meter, which must not be used any more, and all idle memory back to the
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
	t.idleAll() // adjacent memory is joined, and given back by one call
	t.drain(0)
	t.leaveAreas()
	if s := t.sharing; s != nil && s.with != nil {
		s.with.Close()
		t.sharing = nil
	}
}
