package tensor

import (
	"cmp"
	"math/bits"
	"unsafe"
)

// Messages to and from other workers are bytes of the host. Messages of a matrix on a device are staged in
// pinned memory. A copy down begins after the kernels that were launched before SendBuffer, and a copy up
// after those launched before ReceiveBuffer. Later kernels do not delay it. A kernel that reads a message
// waits for its copy in the device's queue, and the host does not. A matrix keeps its pinned memory, whose
// size is a power of two, until its release. Then another matrix gets the memory, so that it is allocated
// only in the first epoch.
//
// Messages are not divided here. The axes do so, and one message is copied while another travels: the rows of
// another partition come in up to six messages (package edges), the rows of a slice in about eight (package
// tp), and the rows of a stage chunk by chunk.
//
// With DirectMessages a transport reads and writes the elements on the device. Then their extent does not
// slide.

// MessageUser says who reads or writes the bytes of a message.
type MessageUser uint8

// The users of messages.
const (
	Transport MessageUser = iota // MPI or the like, which may take addresses of the device
	Host                         // Go code, which may change the bytes, and has none in a plan
)

// staging is the pinned memory of a worker's messages.
type staging struct {
	free  map[int][]*buffer // by their number of bytes
	bytes int64             // bytes of all buffers
	// larger is the factor of LargerMessages; 0 stands for 1.
	larger float64
}

// buffer is pinned memory, from and to which elements are copied.
type buffer struct {
	bytes  int
	memory []byte // nil in a plan
	mark   uint64 // after the last copy from there to the device, perhaps of another matrix
}

// LargerMessages is for a plan on a smaller graph: a run's messages between workers are times as long as the
// plan's; 0 stands for 1. The plan's pinned memory is the run's divided by times. It must be called after On.
func (t *Meter) LargerMessages(times float64) { t.device.staging.larger = times }

// DirectMessages says that transports can take addresses of the device. It must be called after On.
func (t *Meter) DirectMessages() { t.device.direct = true }

// SendBuffer returns the elements as the bytes of a message. Unless made is nil, the bytes are there when
// made has returned nil; its error is the device's. Nobody may change the elements before the message is
// sent.
func (m *Matrix) SendBuffer(by MessageUser) (data []byte, made func() error) {
	x := m.exchanged()
	if x.account == nil {
		return x.onHost(by), nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	d, p := x.device, x.base.extent
	direct := x.stages(by) // called wherever the elements are, because a plan does not know
	if p == nil || p.valid.Load() != onTheDevice {
		return x.onHost(by), nil
	}
	d.check(d.await(p))
	mark, err := d.since(p.used)
	d.check(err)
	if direct {
		return x.there(), func() error { return d.wait(mark) }
	}
	end := d.begin(Moving{Matrix: m, Bytes: len(x.host), Message: true})
	mark, err = d.copyDown(x.staged(), x.address(), mark, x.base.staged.mark)
	d.check(err)
	return x.staged(), func() error {
		defer end()
		return d.wait(mark)
	}
}

// ReceiveBuffer returns memory for the bytes of a message, which become the elements by Arrived. Unless free
// is nil, the memory may be written when free has returned nil; its error is the device's. Nobody may use the
// elements before Arrived.
func (m *Matrix) ReceiveBuffer(by MessageUser) (data []byte, free func() error) {
	x := m.exchanged()
	if x.account == nil {
		return x.onHost(by), nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	d, p := x.device, x.base.extent
	direct := x.stages(by)
	if p == nil || by == Host && p.valid.Load()&onTheHost != 0 {
		return x.onHost(by), nil
	}
	if p.valid.Load() == onTheHost {
		d.toDevice(p)
	}
	d.written(p)
	mark, err := d.since(p.used) // marked now, so that the copy of Arrived waits for no later kernel
	d.check(err)
	if direct {
		return x.there(), func() error { return d.wait(mark) }
	}
	mark = x.base.staged.mark
	return x.staged(), func() error { return d.wait(mark) }
}

// Arrived makes the bytes in the memory of ReceiveBuffer the elements. The user must be the same.
func (m *Matrix) Arrived(by MessageUser) {
	x := m.exchanged()
	if x.account == nil || x.base.extent == nil || x.direct(by) || x.base.extent.valid.Load() == onTheHost {
		return
	}
	x.mu.Lock()
	d, s := x.device, x.base.staged
	end := d.begin(Moving{Matrix: m, Bytes: len(x.host), ToDevice: true, Message: true})
	err := d.copyUp(x.base.extent, x.address(), x.staged())
	s.mark = x.base.extent.coming
	mark, watched := s.mark, d.watch != nil
	x.mu.Unlock()
	if err == nil && watched { // so that the watcher sees the time of the copy
		err = d.wait(mark)
	}
	end()
	d.check(err)
}

// exchanged is a matrix, or a view, whose elements are a message.
type exchanged struct {
	*account         // nil: the elements are on the host, and are the message
	base     *Matrix // the matrix that has the memory
	host     []byte  // the message's bytes there
	offset   uintptr // where they begin in the matrix
}

func (m *Matrix) exchanged() (x exchanged) {
	x.host = unsafe.Slice((*byte)(m.Pointer()), m.Len()*m.Element.Size())
	if x.base = m; m.base != nil {
		x.base = m.base
	}
	if meter := x.base.meter; meter != nil && meter.device != nil && len(x.host) > 0 {
		x.account, x.offset = meter.account, uintptr(m.data)-uintptr(x.base.data)
	}
	return x
}

// onHost returns the message's bytes on the host.
func (x *exchanged) onHost(by MessageUser) []byte {
	switch {
	case by == Host && x.base.planned:
		return nil
	case by == Host && x.account != nil:
		x.device.toHost(x.base.extent, true)
	}
	return x.host
}

// stages gives the matrix pinned memory if it has none, unless the user takes the device's addresses. The
// caller holds mu.
func (x *exchanged) stages(by MessageUser) (direct bool) {
	d, m := x.device, x.base
	switch {
	case x.direct(by):
		if m.extent != nil {
			m.extent.fixed = true
		}
		return true
	case m.staged != nil:
		return false
	}
	larger := 1.
	if by == Transport {
		larger = cmp.Or(d.staging.larger, 1)
	}
	bytes := 1 << bits.Len(uint(larger*float64(m.bytes))-1)
	if free := d.staging.free[bytes]; len(free) > 0 {
		m.staged = free[len(free)-1]
		d.staging.free[bytes] = free[:len(free)-1]
	} else {
		m.staged = &buffer{bytes: bytes}
		d.staging.bytes += int64(float64(bytes) / larger)
		if d.mover != nil {
			var err error
			m.staged.memory, err = d.mover.Pinned(int64(bytes))
			d.check(err)
		}
	}
	return false
}

// unstage takes a matrix's pinned memory back when it is released. The caller holds mu.
func (d *onDevice) unstage(m *Matrix) {
	if s := m.staged; s != nil {
		d.staging.free[s.bytes] = append(d.staging.free[s.bytes], s)
		m.staged = nil
	}
}

// direct reports whether the user takes addresses of the device.
func (x *exchanged) direct(by MessageUser) bool { return x.device.direct && by == Transport }

func (x *exchanged) address() uint64 { return x.device.addressOf(x.base.extent) + uint64(x.offset) }

func (x *exchanged) staged() []byte { return x.base.staged.memory[x.offset:][:len(x.host)] }

// there returns the message at its addresses on the device.
func (x *exchanged) there() []byte {
	at := x.address()
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), len(x.host))
}

// FloatsOf returns the bytes of a message of Float32s as numbers.
func FloatsOf(data []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/Float32.Size())
}
