package tensor

import (
	"cmp"
	"math/bits"
	"unsafe"
)

// Messages to and from other workers are bytes of the host. Those of a matrix on a device are staged in
// pinned memory. A copy down begins after what the queue of kernels was asked before SendBuffer, and a copy
// up after what it was asked before ReceiveBuffer: later kernels do not delay it. A kernel that reads a
// message waits for its copy in the device's queue. A matrix has its pinned memory, a power of two bytes,
// until its release. Then another matrix gets it, so that pinned memory is allocated in the first epoch
// alone.
//
// Nothing is cut here. The rows of another partition come in up to six messages (package edges), those of a
// slice in about eight (package tp), and those of a stage by chunk: one is copied while another travels.
//
// With DirectMessages a transport reads and writes the elements on the device. Their extent stays then.

// MessageUser says who reads the bytes of a message, or writes them.
type MessageUser uint8

// The users of messages.
const (
	Transport MessageUser = iota // it may take addresses of the device
	Host                         // it may change them, and has none in a plan
)

// staging is the pinned memory of a worker's messages.
type staging struct {
	free  map[int][]*buffer // by the number of bytes
	bytes int64             // of all
	// larger is how many times longer transports' messages are than those of a plan; 0: as long.
	larger float64
}

// buffer is pinned memory, from which elements are copied to the device.
type buffer struct {
	bytes  int
	memory []byte // nil in a plan
	mark   uint64 // after the last copy from there, perhaps for another matrix
}

// LargerMessages says that a plan's messages between workers stand for ones that are so many times longer; 0:
// as long. Pinned is a part of their memory that is as many times smaller. It must be called after On.
func (t *Meter) LargerMessages(times float64) { t.device.staging.larger = times }

// DirectMessages says that transports take addresses of the device. It must be called after On.
func (t *Meter) DirectMessages() { t.device.direct = true }

// SendBuffer returns the elements as the bytes of a message. Unless made is nil they are there when it has
// returned without an error. Nobody changes the elements before the message is sent.
func (m *Matrix) SendBuffer(by MessageUser) (data []byte, made func() error) {
	x := m.exchanged()
	if x.account == nil {
		return x.onHost(by), nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	d, p := x.device, x.of.extent
	direct := x.stages(by) // wherever the elements are, which a plan does not know
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
	mark, err = d.copyDown(x.staged(), x.address(), mark, x.of.staged.mark)
	d.check(err)
	return x.staged(), func() error {
		defer end()
		return d.wait(mark)
	}
}

// ReceiveBuffer returns where the bytes of a message are received that Arrived makes the elements. Unless
// free is nil they may be written when it has returned without an error. Nobody uses the elements before
// Arrived.
func (m *Matrix) ReceiveBuffer(by MessageUser) (data []byte, free func() error) {
	x := m.exchanged()
	if x.account == nil {
		return x.onHost(by), nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	d, p := x.device, x.of.extent
	direct := x.stages(by)
	if p == nil || by == Host && p.valid.Load()&onTheHost != 0 {
		return x.onHost(by), nil
	}
	if p.valid.Load() == onTheHost {
		d.toDevice(p)
	}
	d.written(p)
	mark, err := d.since(p.used) // now: what Arrived begins waits for no later kernel
	d.check(err)
	if direct {
		return x.there(), func() error { return d.wait(mark) }
	}
	mark = x.of.staged.mark
	return x.staged(), func() error { return d.wait(mark) }
}

// Arrived makes the bytes of ReceiveBuffer, which was called by the same user, the elements.
func (m *Matrix) Arrived(by MessageUser) {
	x := m.exchanged()
	if x.account == nil || x.of.extent == nil || x.direct(by) || x.of.extent.valid.Load() == onTheHost {
		return
	}
	x.mu.Lock()
	d, s := x.device, x.of.staged
	end := d.begin(Moving{Matrix: m, Bytes: len(x.host), ToDevice: true, Message: true})
	err := d.copyUp(x.of.extent, x.address(), x.staged())
	s.mark = x.of.extent.coming
	mark, watched := s.mark, d.watch != nil
	x.mu.Unlock()
	if err == nil && watched { // the span has the time of the copy
		err = d.wait(mark)
	}
	end()
	d.check(err)
}

// exchanged is a message of elements.
type exchanged struct {
	*account         // nil: the elements are the message
	of       *Matrix // that has the memory
	host     []byte  // the elements there, of as many bytes
	offset   uintptr // of the first one
}

func (m *Matrix) exchanged() (x exchanged) {
	x.host = unsafe.Slice((*byte)(m.Pointer()), m.Len()*m.Element.Size())
	if x.of = m; m.of != nil {
		x.of = m.of
	}
	if of := x.of.meter; of != nil && of.device != nil && len(x.host) > 0 {
		x.account, x.offset = of.account, uintptr(m.data)-uintptr(x.of.data)
	}
	return x
}

// onHost is the message on the host.
func (x *exchanged) onHost(by MessageUser) []byte {
	switch {
	case by == Host && x.of.planned:
		return nil
	case by == Host && x.account != nil:
		x.device.toHost(x.of.extent, true)
	}
	return x.host
}

// stages gives the matrix pinned memory, unless the user takes the device's addresses. The caller holds mu.
func (x *exchanged) stages(by MessageUser) (direct bool) {
	d, m := x.device, x.of
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

// unstage ends stages, of a matrix that has no elements any more. The caller holds mu.
func (d *onDevice) unstage(m *Matrix) {
	if s := m.staged; s != nil {
		d.staging.free[s.bytes] = append(d.staging.free[s.bytes], s)
		m.staged = nil
	}
}

// direct reports whether the user takes the device's addresses.
func (x *exchanged) direct(by MessageUser) bool { return x.device.direct && by == Transport }

func (x *exchanged) address() uint64 { return x.device.addressOf(x.of.extent) + uint64(x.offset) }

func (x *exchanged) staged() []byte { return x.of.staged.memory[x.offset:][:len(x.host)] }

// there is the message at the device's addresses.
func (x *exchanged) there() []byte {
	at := x.address()
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), len(x.host))
}

// FloatsOf is the memory of a message of Float32s.
func FloatsOf(data []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/Float32.Size())
}
