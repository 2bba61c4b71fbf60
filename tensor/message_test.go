package tensor_test

import (
	"bytes"
	"testing"
	"unsafe"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
)

// TestMessages: a sender of elements on a device waits for the kernels launched before, and not for later
// ones. The copy of a received message waits for the kernels launched before ReceiveBuffer, and a kernel that
// reads the message waits for the copy.
func TestMessages(t *testing.T) {
	const n = 3000
	mem, d := newOnDevice(t, 8)
	buffer, other := mem.NewElement(tensor.Buffers, tensor.Byte, 2, n), mem.New(tensor.Buffers, 1, 1)
	x := buffer.RowRange(1, 2)
	launch := func(m *tensor.Matrix) (at uint64) {
		d.kernels++
		return onDevice(t, mem, true, m)[0]
	}
	repeated := func(b byte) []byte { return bytes.Repeat([]byte{b}, n) }
	for k, by := range []tensor.MessageUser{tensor.Transport, tensor.Host} {
		copy(d.at(launch(x), n), repeated(1))
		before := d.kernels
		data, made := x.SendBuffer(by)
		launch(other)
		require.NoError(t, made())
		assert.Equal(t, repeated(1), data)
		assert.Equal(t, before, d.reached, "the last kernel that the sender waits for")

		at := launch(x)
		before = d.kernels
		into, free := x.ReceiveBuffer(by)
		launch(other)
		require.NoError(t, free())
		copy(into, repeated(2))
		x.Arrived(by)
		assert.Equal(t, before, d.before[d.after[0]-1], "the last kernel that the copy waits for")
		assert.Equal(t, true, d.at(at, 1)[0] != 2, "the copy goes on beside the host")
		onDevice(t, mem, false, x)
		assert.Equal(t, repeated(2), d.at(at, n))
		use := mem.DeviceUse()
		assert.Equal(t, []int64{int64(k+1) * n, int64(k+1) * n}, []int64{use.ToHost, use.ToDevice})
		assert.Equal(t, 0, use.Waits)
	}
	into, _ := x.ReceiveBuffer(tensor.Transport) // a message that no kernel reads is sent on
	copy(into, repeated(3))
	x.Arrived(tensor.Transport)
	data, made := x.SendBuffer(tensor.Transport)
	require.NoError(t, made())
	assert.Equal(t, repeated(3), data)
}

// TestMessagesOnHost: elements that are valid on the host are the message, and a received message replaces
// them.
func TestMessagesOnHost(t *testing.T) {
	mem, d := newOnDevice(t, 32)
	for k, m := range []*tensor.Meter{mem, tensor.NewMeter()} {
		x := m.New(tensor.Buffers, 1, tensor.LeastResting) // large enough for its pages to be given back
		x.Floats()[0] = 1
		if k == 0 {
			onDevice(t, m, false, x) // valid in both
		}
		data, made := x.SendBuffer(tensor.Host)
		assert.Equal(t, true, made == nil, "nobody waits")
		tensor.FloatsOf(data)[0] = 2
		into, _ := x.ReceiveBuffer(tensor.Host)
		copy(into, data)
		x.Arrived(tensor.Host)
		if k == 0 {
			onDevice(t, m, false, x)
		}
		assert.Equal(t, float32(2), x.ReadFloats()[0])
		x.Release()

		x = m.New(tensor.Buffers, 2, 3)
		copy(x.Floats(), []float32{1, 2, 3, 4, 5, 6})
		row := x.RowRange(1, 2)
		data, made = row.SendBuffer(tensor.Transport)
		assert.Equal(t, []float32{4, 5, 6}, tensor.FloatsOf(data))
		assert.Equal(t, true, made == nil, "nobody waits")
		into, _ = row.ReceiveBuffer(tensor.Transport)
		copy(tensor.FloatsOf(into), []float32{7, 8, 9})
		row.Arrived(tensor.Transport)
		for mark := range d.pending {
			require.NoError(t, d.After(firstMark+uint64(mark)))
		}
		assert.Equal(t, []float32{1, 2, 3, 7, 8, 9}, x.ReadFloats())
		x.Release()
		m.Close()
	}
}

// TestStaged: the pinned memory of messages is used again, and a plan knows its size.
func TestStaged(t *testing.T) {
	plan := tensor.NewMeter()
	plan.Plan()
	require.NoError(t, plan.On(nil, 0))
	run, _ := newOnDevice(t, 100)
	for _, m := range []*tensor.Meter{plan, run} {
		var kept *tensor.Matrix
		for _, pages := range []int{1, 3, 4, 2} { // 3 and 4 pages take the same memory, one after the other
			x := m.NewElement(tensor.Buffers, tensor.Byte, pages, tensor.PageSize)
			x.RowRange(0, 1).ReceiveBuffer(tensor.Transport)
			x.SendBuffer(tensor.Transport)
			if pages == 2 {
				kept = x
			} else {
				x.Release()
			}
		}
		kept.SendBuffer(tensor.Host)
		m.New(tensor.Buffers, 0, 3).SendBuffer(tensor.Host)
		assert.Equal(t, int64(7*tensor.PageSize), m.DeviceUse().StagedBytes)
		kept.Release()
	}
	assert.Equal(t, int64(7*tensor.PageSize), run.DeviceUse().HostBytes)
}

// TestDirectMessages: a transport that takes addresses of the device gets them, and the extents do not slide.
func TestDirectMessages(t *testing.T) {
	mem, d := newOnDevice(t, 5)
	mem.DirectMessages()
	page := func() *tensor.Matrix { return mem.NewElement(tensor.Buffers, tensor.Byte, 1, tensor.PageSize) }
	a, x, b := page(), page(), page()
	page()
	at := onDevice(t, mem, true, x)[0]
	for k, message := range []func(tensor.MessageUser) ([]byte, func() error){x.SendBuffer, x.ReceiveBuffer} {
		d.kernels++
		onDevice(t, mem, true, x)
		data, ready := message(tensor.Transport)
		require.NoError(t, ready())
		assert.Equal(t, at, uint64(uintptr(unsafe.Pointer(&data[0]))))
		assert.Equal(t, []int{k + 1, k + 1}, []int{d.kernels, d.reached}, "the kernels that transports wait for")
		x.Arrived(tensor.Transport)
	}
	assert.Equal(t, 0, len(d.pending))
	a.Release()
	b.Release()
	// to make room for it the last page slides
	mem.NewElement(tensor.Buffers, tensor.Byte, 2, tensor.PageSize)
	assert.Equal(t, at, onDevice(t, mem, true, x)[0])
	assert.Equal(t, int64(0), mem.DeviceUse().StagedBytes)
	data, _ := x.SendBuffer(tensor.Host)
	assert.Equal(t, true, at != uint64(uintptr(unsafe.Pointer(&data[0]))), "the host takes none")
	for range 2 { // the host's copy of one message must not pass as the next
		into, free := x.ReceiveBuffer(tensor.Transport)
		require.NoError(t, free())
		copy(d.at(uint64(uintptr(unsafe.Pointer(&into[0]))), 1), []byte{7})
		x.Arrived(tensor.Transport)
		onDevice(t, mem, false, x)
		assert.Equal(t, byte(7), d.at(at, 1)[0])
	}
}

// TestStagedAgain: pinned memory that another matrix had is written only when the copy from there has ended.
func TestStagedAgain(t *testing.T) {
	for _, by := range []string{"the device", "the host"} {
		mem, d := newOnDevice(t, 8)
		x, y := mem.New(tensor.Buffers, 1, 9), mem.New(tensor.Buffers, 1, 9)
		onDevice(t, mem, true, y)
		x.ReceiveBuffer(tensor.Transport)
		x.Arrived(tensor.Transport)
		copies := firstMark + uint64(len(d.pending)) - 1
		x.Release()
		if by == "the device" {
			y.SendBuffer(tensor.Transport)
			assert.Equal(t, []uint64{1, copies}, d.after, by)
			continue
		}
		_, free := y.ReceiveBuffer(tensor.Transport)
		d.waits = nil
		require.NoError(t, free())
		assert.Equal(t, []uint64{copies}, d.waits, by)
	}
}
