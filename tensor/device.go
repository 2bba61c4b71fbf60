package tensor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Meter may have the elements of its matrices on a device. Then a matrix has an extent, which is a range of
// the device's memory. It also has addresses of the host without pages, which serve as its name: kernels take
// these, and ToDevice finds the extent. The elements are valid on the host, on the device, or on both. Before
// a kernel, its operands are moved to the device; its results are valid there alone. An accessor moves
// elements back. No code above knows about it.

// onDevice is the part of an account that has matrices on a device.
type onDevice struct {
	mover   Mover // nil: a plan
	use     DeviceUse
	onHost  int64  // bytes that are valid on the host
	base    uint64 // the address of the arena
	size    int64
	extents []*extent // in the order of their offsets
	names   []*extent // the same in the order of their host addresses, with those of matrices at rest
	watch   func(Moving) (end func())
	asked   int64    // how many launches and copies the queue of kernels was asked for
	awaited int64    // how many of these the host has waited for
	marks   []marked // the last marks of the queue of kernels
	down    uint64   // a mark after the last copy down
	ram     *ram     // nil: no matrix rests
	staging staging
	direct  bool // transports take addresses of the device
}

// marked is a mark, and onDevice.asked when it was made.
type marked struct {
	asked int64
	mark  uint64
}

// Moving is a copy between a device and the host.
type Moving struct {
	Matrix   *Matrix
	Bytes    int
	ToDevice bool
	Message  bool // the copy runs beside kernels, for a message between workers
}

// extent is the range of the device's memory with the elements of a matrix.
type extent struct {
	m      *Matrix
	offset int64 // in the arena; nowhere: the matrix rests, and has no range
	valid  atomic.Uint32
	used   int64 // onDevice.asked at the last use
	// a mark after a copy to the extent, which the queue of kernels does not wait for yet; 0: none
	coming uint64
	fixed  bool // a transport has its addresses, so it does not slide
}

const nowhere = -1

// The bits of extent.valid. Undefined elements have neither.
const (
	onTheHost   = 1
	onTheDevice = 2
)

// On puts the elements of all matrices on a device, in an arena of so many bytes. In a plan d is nil. It must
// be called before the first allocation. An error is the device's.
func (t *Meter) On(d Mover, bytes int64) error {
	size := bytes + bytes*guard/PageSize // with room for a gap behind each page
	t.device = &onDevice{
		mover: d, size: size, use: DeviceUse{OnCPU: map[string]int64{}},
		staging: staging{free: map[int][]*buffer{}},
	}
	if d == nil {
		return nil
	}
	var err error
	t.device.base, err = d.Alloc(t.device.size)
	return err
}

// OnDevice reports whether matrices have their elements on a device.
func (t *Meter) OnDevice() bool { return t.device != nil }

// DeviceUse returns the counts so far.
func (t *Meter) DeviceUse() DeviceUse {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.device == nil {
		return DeviceUse{}
	}
	use := t.device.use
	use.PeakBytes, use.OnCPU, use.StagedBytes = t.peak, maps.Clone(use.OnCPU), t.device.staging.bytes
	use.HostBytes += use.StagedBytes
	if t.device.mover != nil {
		use.Graphs = t.device.mover.Graphs()
	}
	if t.offload != nil {
		use.HostBytes += t.offload.slots.end
	}
	return use
}

// WatchMoves makes the Meter call f before it copies a matrix, and end after the copy. f must not use the
// Meter. If matrices are on the host it does nothing.
func (t *Meter) WatchMoves(f func(Moving) (end func())) {
	if t.device != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.device.watch = f
	}
}

// takeExtent gives a new matrix an extent. The caller holds mu.
func (t *account) takeExtent(m *Matrix) {
	d := t.device
	if d == nil || d.mover == nil {
		return
	}
	p := &extent{m: m}
	d.check(d.extend(p))
	at, _ := d.named(m.data)
	d.names = slices.Insert(d.names, at, p)
	m.extent = p
}

// leaveExtent gives back what takeExtent took. The caller holds mu.
func (t *account) leaveExtent(m *Matrix) {
	d, p := t.device, m.extent
	if d != nil {
		d.unstage(m)
	}
	if p == nil {
		return
	}
	d.vacate(p)
	at, _ := d.named(m.data)
	d.names = slices.Delete(d.names, at, at+1)
	m.extent = nil
}

// vacate frees an extent's range, and the pages of the host's copy.
func (d *onDevice) vacate(p *extent) {
	if p.offset == nowhere {
		return
	}
	_ = d.await(p) // the next wait for the device returns the error
	d.leaveHost(p)
	d.mustBeBlank(p)
	protectHost(p.m, true)
	at := d.at(p.offset)
	d.extents = slices.Delete(d.extents, at, at+1)
	p.offset = nowhere
	p.valid.Store(0)
}

// shrinkExtent prepares the extent for a matrix that will have fewer bytes. The caller holds mu.
func (t *account) shrinkExtent(m *Matrix, bytes int) {
	p := m.extent
	if p == nil {
		return
	}
	if p.valid.Load()&onTheHost != 0 {
		t.device.onHost -= int64(m.bytes - bytes)
	}
	t.device.blank(p, len(p.m.content()))
}

// leaveExtents is leaveExtent for all matrices of a Meter. The caller holds mu.
func (t *Meter) leaveExtents() {
	d := t.device
	if d == nil {
		return
	}
	for _, p := range slices.Clone(d.names) {
		if p.m.meter == t {
			t.leaveExtent(p.m)
		}
	}
}

// named returns the index in names of the matrix that begins at an address, or the index where it would be.
func (d *onDevice) named(p unsafe.Pointer) (at int, found bool) {
	return slices.BinarySearchFunc(d.names, uintptr(p), func(p *extent, address uintptr) int {
		return cmp.Compare(uintptr(p.m.data), address)
	})
}

// at returns the index of the first extent that begins at an offset or behind it.
func (d *onDevice) at(offset int64) int {
	k, _ := slices.BinarySearchFunc(d.extents, offset,
		func(p *extent, offset int64) int { return cmp.Compare(p.offset, offset) })
	return k
}

// end returns the offset at which the k-th extent ends; 0 before the first.
func (d *onDevice) end(k int) int64 {
	if k < 0 {
		return 0
	}
	p := d.extents[k]
	return p.offset + p.size()
}

// size returns the bytes of an extent, with the gap behind it.
func (p *extent) size() int64 { return int64(p.m.bytes) + guard }

// extend gives an extent the smallest range of the arena that is large enough. If there is none, extents
// slide together to make one.
func (d *onDevice) extend(p *extent) error {
	need := p.size()
	find := func() (best int, found bool) {
		smallest := int64(0)
		for k := range len(d.extents) + 1 {
			next := d.size
			if k < len(d.extents) {
				next = d.extents[k].offset
			}
			if free := next - d.end(k-1); free >= need && (!found || free < smallest) {
				best, smallest, found = k, free, true
			}
		}
		return best, found
	}
	k, found := find()
	if !found {
		if err := d.slide(); err != nil {
			return ofDevice(err)
		}
		if k, found = find(); !found {
			return OutOfMemory{p.m.bytes, fmt.Errorf("the device has %d bytes for this worker", d.size)}
		}
	}
	p.offset = d.end(k - 1)
	p.used = d.asked // until then another matrix may have used the range
	d.extents = slices.Insert(d.extents, k, p)
	d.blank(p, 0)
	return nil
}

// slide moves all extents to the front of the arena, after the copies beside kernels that have begun.
func (d *onDevice) slide() error {
	d.asked++
	if err := d.mover.After(d.down); err != nil {
		return err
	}
	for k, p := range d.extents {
		if p.fixed {
			continue
		}
		if err := d.await(p); err != nil {
			return err
		}
		p.used = d.asked
		to, bytes := d.end(k-1), p.size()
		gap := p.offset - to
		if gap > 0 && (guard > 0 || p.valid.Load()&onTheDevice != 0) {
			for done := int64(0); done < bytes; done += gap {
				from := d.base + uint64(p.offset+done)
				if err := d.mover.Copy(from-uint64(gap), from, min(gap, bytes-done)); err != nil {
					return err
				}
			}
		}
		p.offset = to
	}
	return nil
}

// check panics with an error of the device, or of its memory.
func (d *onDevice) check(err error) {
	if err != nil {
		panic(ofDevice(err))
	}
}

// ofDevice wraps an error in a DeviceFailure, unless the error is one already, is OutOfMemory, or is nil.
func ofDevice(err error) error {
	if err == nil || saysWhat(err) {
		return err
	}
	return DeviceFailure{err}
}

// saysWhat reports whether an error already says what has failed.
func saysWhat(err error) bool {
	return errors.As(err, &OutOfMemory{}) || errors.As(err, &DeviceFailure{})
}

func (d *onDevice) addressOf(p *extent) uint64 { return d.base + uint64(p.offset) }

// Operand says what a kernel does with a matrix. A kernel may also read a matrix that it writes.
type Operand struct {
	Address unsafe.Pointer // an address of the host, within the matrix
	Written bool
}

// ToDevice makes the operands of a kernel valid on the device, and those that it writes valid there alone. It
// then calls launch with their addresses on the device; no other goroutine moves them before launch returns.
// It returns false, and does not call launch, if an address belongs to no matrix of the worker. It panics if
// the device fails.
func (t *Meter) ToDevice(operands []Operand, launch func(addresses []uint64) error) (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, ok := t.device.extentsOf(operands)
	if !ok {
		return false
	}
	var addresses []uint64
	for k, p := range all {
		t.device.toDevice(p)
		addresses = append(addresses,
			t.device.addressOf(p)+uint64(uintptr(operands[k].Address)-uintptr(p.m.data)))
	}
	for k, p := range all {
		if operands[k].Written {
			t.device.written(p)
		}
	}
	t.device.use.Launches++
	t.device.check(launch(addresses))
	return true
}

// ToHost makes the operands of a kernel that runs on the CPU valid on the host, and those that it writes
// valid there alone. kernel is its name in DeviceUse.OnCPU.
func (t *Meter) ToHost(kernel string, operands []Operand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.device.use.ToHost
	for _, o := range operands {
		if p := t.device.extentOf(o.Address); p != nil {
			t.device.toHost(p, o.Written)
		}
	}
	t.device.use.OnCPU[kernel] += t.device.use.ToHost - before
}

// WaitForDevice returns when the device has done all it was asked. It does nothing if the host has waited for
// that already, or if matrices are on the host.
func (t *Meter) WaitForDevice() {
	d := t.device
	if d == nil || d.mover == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.awaited < d.asked {
		d.use.Waits++
		d.check(d.mover.Sync())
		d.awaited = d.asked
	}
}

// Holds reports whether an address belongs to a matrix of the worker on the device.
func (t *Meter) Holds(address unsafe.Pointer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.device.extentOf(address) != nil
}

func (d *onDevice) extentsOf(operands []Operand) (all []*extent, ok bool) {
	for _, o := range operands {
		p := d.extentOf(o.Address)
		if p == nil {
			return nil, false
		}
		if p.offset == nowhere {
			panic(fmt.Sprintf("tensor: a kernel takes a matrix of %d×%d that rests", p.m.Rows, p.m.Cols))
		}
		all = append(all, p)
	}
	return all, true
}

// extentOf returns the extent of the matrix that an address belongs to; nil: there is none.
func (d *onDevice) extentOf(address unsafe.Pointer) *extent {
	at, found := d.named(address)
	if !found {
		at--
	}
	if at < 0 || uintptr(address)-uintptr(d.names[at].m.data) >= uintptr(d.names[at].m.bytes) {
		return nil
	}
	return d.names[at]
}

// toDevice makes the elements valid on the device, for the next launch in the queue of kernels.
func (d *onDevice) toDevice(p *extent) {
	d.check(d.await(p))
	d.asked++
	p.used = d.asked
	if p.valid.Load() == onTheHost {
		d.use.ToDevice += int64(len(p.m.content()))
		d.move(p, true, func() error { return d.mover.ToDevice(d.addressOf(p), p.m.content()) })
		protectHost(p.m, false)
	}
	p.valid.Or(onTheDevice)
}

// written says that the elements are valid on the device alone.
func (d *onDevice) written(p *extent) {
	if p.valid.Load() != onTheDevice {
		d.leaveHost(p)
		hideHost(p.m)
		p.valid.Store(onTheDevice)
	}
}

func (d *onDevice) toHost(p *extent, written bool) {
	valid := p.valid.Load()
	if valid&onTheHost == 0 {
		protectHost(p.m, true)
		if saved := d.ram.saved(p.m); saved != nil {
			copy(p.m.content(), saved)
		} else if valid == onTheDevice {
			d.check(d.await(p))
			d.use.ToHost += int64(len(p.m.content()))
			d.use.Waits++
			d.move(p, false, func() error { return d.mover.ToHost(p.m.content(), d.addressOf(p)) })
			d.awaited = d.asked
		}
		if valid == onTheDevice && !written {
			protectHost(p.m, false)
		}
		d.onHost += int64(p.m.bytes)
		d.use.HostBytes = max(d.use.HostBytes, d.onHost)
		valid |= onTheHost
	}
	if written {
		if valid&onTheDevice != 0 {
			protectHost(p.m, true)
		}
		valid = onTheHost
	}
	p.valid.Store(valid)
}

// move copies the elements of a matrix.
func (d *onDevice) move(p *extent, toDevice bool, copy func() error) {
	defer d.begin(Moving{Matrix: p.m, Bytes: len(p.m.content()), ToDevice: toDevice})()
	d.check(copy())
}

// begin tells the function of WatchMoves that a copy begins. It returns the function to call at the end.
func (d *onDevice) begin(m Moving) (end func()) {
	if d.watch == nil {
		return func() {}
	}
	return d.watch(m)
}

// recent is the number of marks that are kept.
const recent = 32

// since returns the first mark at or after a value of asked. It makes one if there is none.
func (d *onDevice) since(asked int64) (uint64, error) {
	for _, m := range d.marks {
		if m.asked >= asked {
			return m.mark, nil
		}
	}
	mark, err := d.mover.Mark()
	if err != nil {
		return 0, ofDevice(err)
	}
	d.marks = append(d.marks[max(0, len(d.marks)+1-recent):], marked{d.asked, mark})
	return mark, nil
}

// copyUp begins to copy elements to an extent, after its last use. The caller holds mu.
func (d *onDevice) copyUp(p *extent, to uint64, from []byte) error {
	mark, err := d.since(p.used)
	if err != nil {
		return err
	}
	if p.coming, err = d.mover.Up(to, from, mark); err == nil {
		d.use.ToDevice += int64(len(from))
	}
	return ofDevice(err)
}

// copyDown begins to copy to the host. The caller holds mu.
func (d *onDevice) copyDown(to []byte, from uint64, after ...uint64) (mark uint64, err error) {
	if d.down, err = d.mover.Down(to, from, after...); err == nil {
		d.use.ToHost += int64(len(to))
	}
	return d.down, ofDevice(err)
}

// await makes the queue of kernels wait for the copy that is coming to an extent, if there is one.
func (d *onDevice) await(p *extent) error {
	if p.coming == 0 {
		return nil
	}
	mark := p.coming
	d.asked++
	p.coming, p.used = 0, d.asked
	return ofDevice(d.mover.After(mark))
}

// wait waits for a mark.
func (d *onDevice) wait(mark uint64) error { return ofDevice(d.mover.Wait(mark)) }

// leaveHost says that the elements are not valid on the host any more. It gives the host's pages back.
func (d *onDevice) leaveHost(p *extent) {
	if p.valid.Load()&onTheHost == 0 {
		return
	}
	d.onHost -= int64(p.m.bytes)
	if p.m.bytes >= LeastResting {
		if err := unix.Madvise(p.m.memory(), unix.MADV_DONTNEED); err != nil {
			panic(fmt.Sprintf("tensor: memory is not given back: %v", err))
		}
	}
}

// content returns the bytes of the elements.
func (m *Matrix) content() []byte { return unsafe.Slice((*byte)(m.data), m.Len()*m.Element.Size()) }

// host makes a matrix valid on the host for an accessor, and with written valid there alone.
func (m *Matrix) host(written bool) {
	p := m.extent
	if m.base != nil {
		p = m.base.extent
	}
	if p == nil {
		return
	}
	if valid := p.valid.Load(); valid == onTheHost || valid&onTheHost != 0 && !written {
		return
	}
	t := p.m.meter.account
	t.mu.Lock()
	defer t.mu.Unlock()
	t.device.toHost(p, written)
}
