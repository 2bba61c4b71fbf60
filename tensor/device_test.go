package tensor_test

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
)

// memory is a device in a slice. Its fresh bytes are 0xff. Its addresses begin at 1 << 40.
type memory struct {
	bytes  []byte
	copies []int64 // the bytes of each Copy
	fail   error

	mu sync.Mutex
	// copies beside kernels. Each is made when somebody waits for its mark, or for a later one.
	pending []func()
	last    [2]uint64     // the marks of the last copies up and down
	up      uint64        // the target of the last copy up
	marks   uint64        // the number of marks of the queue of kernels; they are below firstMark
	after   []uint64      // the marks that the last copy waits for
	waits   []uint64      // the marks that the host waited for
	kernels int           // how many the test says were launched
	before  []int         // by mark: how many kernels were launched before it
	reached int           // how many kernels somebody has waited for
	late    chan struct{} // the host waits until it is closed; nil: it does not wait
}

const firstAddress, firstMark = 1 << 40, 1 << 20

func (d *memory) Alloc(bytes int64) (uint64, error) {
	d.bytes = slices.Repeat([]byte{0xff}, int(bytes))
	return firstAddress, d.fail
}

func (d *memory) at(address uint64, n int) []byte { return d.bytes[address-firstAddress:][:n] }

func (d *memory) ToDevice(to uint64, from []byte) error {
	copy(d.at(to, len(from)), from)
	return d.fail
}

func (d *memory) ToHost(to []byte, from uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reached = d.kernels
	copy(to, d.at(from, len(to)))
	return d.fail
}

func (d *memory) Copy(to, from uint64, bytes int64) error {
	if to+uint64(bytes) > from {
		return errors.New("the ranges overlap")
	}
	copy(d.at(to, int(bytes)), d.at(from, int(bytes)))
	d.copies = append(d.copies, bytes)
	return d.fail
}

func (d *memory) Pinned(bytes int64) ([]byte, error) { return make([]byte, bytes), d.fail }

func (d *memory) Mark() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marks++
	d.before = append(d.before, d.kernels)
	return d.marks, d.fail
}

func (d *memory) Up(to uint64, from []byte, after uint64) (uint64, error) {
	d.up, d.after = to, []uint64{after}
	return d.later(0, func() { copy(d.at(to, len(from)), from) })
}

func (d *memory) Down(to []byte, from uint64, after ...uint64) (uint64, error) {
	d.after = after
	return d.later(1, func() {
		d.reached = max(d.reached, d.before[after[0]-1])
		copy(to, d.at(from, len(to)))
	})
}

func (d *memory) later(queue int, f func()) (mark uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.last[queue]
	d.pending = append(d.pending, func() {
		d.make(before)
		f()
	})
	d.last[queue] = firstMark + uint64(len(d.pending)) - 1
	return d.last[queue], d.fail
}

// make makes the copy before a mark.
func (d *memory) make(mark uint64) {
	if mark >= firstMark {
		if f := d.pending[mark-firstMark]; f != nil {
			d.pending[mark-firstMark] = nil
			f()
		}
	}
}

func (d *memory) After(mark uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.make(mark); mark > 0 && mark < firstMark {
		d.reached = max(d.reached, d.before[mark-1])
	}
	return d.fail
}

func (d *memory) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reached = d.kernels
	return d.fail
}

func (*memory) Graphs() tensor.Graphs { return tensor.Graphs{} }

func (d *memory) Wait(mark uint64) error {
	if d.late != nil {
		<-d.late
	}
	d.mu.Lock()
	d.waits = append(d.waits, mark)
	d.mu.Unlock()
	return d.After(mark)
}

// onDevice uses matrices as the operands of a kernel. It returns their addresses on the device.
func onDevice(t *testing.T, m *tensor.Meter, written bool, matrices ...*tensor.Matrix) []uint64 {
	t.Helper()
	var operands []tensor.Operand
	for _, o := range matrices {
		operands = append(operands, tensor.Operand{Address: o.Pointer(), Written: written})
	}
	var at []uint64
	ok := m.ToDevice(operands, func(addresses []uint64) error {
		at = addresses
		return nil
	})
	if !ok {
		t.Fatal("an address of no matrix")
	}
	return at
}

func newOnDevice(t *testing.T, pages int64) (*tensor.Meter, *memory) {
	t.Helper()
	m, d := tensor.NewMeter(), &memory{}
	require.NoError(t, m.On(d, pages*tensor.PageSize))
	t.Cleanup(m.Close)
	return m, d
}

// TestWaitForDevice: the host waits only if the device was asked for something since the host's last wait,
// which may have been a copy's.
func TestWaitForDevice(t *testing.T) {
	m, d := newOnDevice(t, 8)
	x := m.New(tensor.Activations, 2, 3)
	m.WaitForDevice() // in a debug build there are numbers in x to wait for
	before := m.DeviceUse().Waits
	waited := func(reached, waits int) {
		t.Helper()
		m.WaitForDevice()
		assert.Equal(t, reached, d.reached)
		assert.Equal(t, waits, m.DeviceUse().Waits-before)
	}
	waited(0, 0)
	onDevice(t, m, true, x)
	d.kernels = 1
	waited(1, 1)
	d.kernels = 2 // the device was not asked for them
	waited(1, 1)
	onDevice(t, m, true, x)
	x.ReadFloats()
	waited(2, 2)
	onDevice(t, m, false, x)
	d.fail = errors.New("it fell off the bus")
	assert.ErrorIs(t, failure(m.WaitForDevice), d.fail)
	tensor.NewMeter().WaitForDevice()
	planned := tensor.NewMeter()
	require.NoError(t, planned.On(nil, tensor.PageSize))
	planned.WaitForDevice()
}

// TestValid: elements are copied when they are used where they are not valid, and at no other time.
func TestValid(t *testing.T) {
	m, d := newOnDevice(t, 8)
	x := m.New(tensor.Activations, 2, 3)
	moved := func(toDevice, toHost int64, waits int) {
		t.Helper()
		use := m.DeviceUse()
		assert.Equal(t, []int64{toDevice, toHost}, []int64{use.ToDevice, use.ToHost})
		assert.Equal(t, waits, use.Waits)
	}
	row := func(k int) []float32 { return x.RowRange(k, k+1).ReadFloats() }

	at := onDevice(t, m, true, x)[0] // undefined elements do not move
	moved(0, 0, 0)
	copy(unsafe.Slice((*float32)(unsafe.Pointer(&d.at(at, 24)[0])), 6), []float32{1, 2, 3, 4, 5, 6})
	assert.Equal(t, []float32{4, 5, 6}, row(1))
	moved(0, 24, 1)
	assert.Equal(t, []float32{1, 2, 3}, row(0))
	onDevice(t, m, false, x.RowRange(1, 2)) // valid in both places
	moved(0, 24, 1)
	x.RowRange(0, 1).WriteFloats()[1] = 7
	assert.Equal(t, at+12, onDevice(t, m, false, x.RowRange(1, 2))[0])
	moved(24, 24, 1)
	assert.Equal(t, float32(7), *(*float32)(unsafe.Pointer(&d.at(at+4, 4)[0])))
	onDevice(t, m, true, x)
	assert.Equal(t, []float32{1, 7, 3}, row(0))
	moved(24, 48, 2)
	x.Floats()[0] = 2 // changes elements that are valid in both
	onDevice(t, m, false, x)
	moved(48, 48, 2)
	assert.Equal(t, int64(tensor.PageSize), m.DeviceUse().HostBytes)
}

// TestDeviceFails: the error of a device is the panic of the use that it refuses.
func TestDeviceFails(t *testing.T) {
	m, d := newOnDevice(t, 2)
	x := m.New(tensor.Activations, 1, 1)
	x.Floats()[0] = 1
	d.fail = errors.New("the card fell off")
	assert.ErrorIs(t, failure(func() { onDevice(t, m, false, x) }), d.fail)
}

// failure returns the error that f panics with.
func failure(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

// TestPlanOnDevice: a plan has the peak of a run.
func TestPlanOnDevice(t *testing.T) {
	peak := func(m *tensor.Meter) int64 {
		kept := m.New(tensor.Graph, 3, 2000)
		m.New(tensor.Activations, 5, 5000).Release()
		m.New(tensor.Buffers, 9, 1000).Release()
		kept.Release()
		return m.DeviceUse().PeakBytes
	}
	plan := tensor.NewMeter()
	plan.Plan()
	require.NoError(t, plan.On(nil, 0))
	run, _ := newOnDevice(t, 1000)
	assert.Equal(t, peak(run), peak(plan))
	assert.Equal(t, int64(24576+102400), peak(run))
}

// TestBeside: a copy beside kernels has the numbers that the kernels before it wrote, wherever extents slide
// meanwhile. A copy that comes late changes nothing that later kernels write.
func TestBeside(t *testing.T) {
	const four = tensor.LeastResting
	mem, d := newOnDevice(t, 3*four/tensor.PageSize)
	require.NoError(t, mem.OffloadToHost(1<<20, 3*four))
	mem.BeginTurn(true)
	filled := func(n int, written byte) *tensor.Matrix {
		m := mem.NewElement(tensor.Activations, tensor.Byte, n, four)
		copy(d.at(onDevice(t, mem, true, m)[0], n*four), bytes.Repeat([]byte{written}, n*four))
		return m
	}
	holds := func(m *tensor.Matrix, want byte) {
		t.Helper()
		at := onDevice(t, mem, false, m)[0]
		assert.Equal(t, bytes.Repeat([]byte{want}, m.Len()), d.at(at, m.Len()))
		for mark := range d.pending {
			require.NoError(t, d.After(firstMark+uint64(mark))) // also the copies that nobody waits for
		}
		assert.Equal(t, bytes.Repeat([]byte{want}, m.Len()), d.at(at, m.Len()))
	}
	next := func() { mem.EndTurn(); mem.BeginTurn(false) }

	a := filled(1, 1)
	a.SetReadOnly()
	next()
	e, b, c := filled(1, 2), filled(1, 3), filled(1, 4) // a leaves to make room for the last
	require.Equal(t, true, a.Rests(), "it rests")
	e.Release()
	a.Ahead()
	b.Release()
	c.Release()
	f := filled(2, 5) // to make room for it a slides, which is coming
	holds(a, 1)
	holds(f, 5)
	f.Release()

	next()
	e, b = filled(2, 6), filled(1, 7) // a leaves
	b.Release()
	a.Ahead()
	at := d.up
	a.Release()
	c = filled(1, 8)
	assert.Equal(t, at, onDevice(t, mem, true, c)[0], "the address of one that came and was not used")
	holds(c, 8)
	c.Release()
	e.Release()

	c, m := filled(1, 9), filled(1, 10)
	m.SetReadOnly()
	d.late = make(chan struct{})
	next() // m is copied down
	c.Release()
	f = filled(2, 11) // to make room for it m slides
	close(d.late)
	holds(f, 11)
	next()
	f.Release()
	f = filled(3, 12) // m leaves
	require.Equal(t, true, m.Rests(), "it rests")
	f.Release()
	m.SetWritable()
	next()
	f = filled(3, 13)
	f.Release()
	m.Ahead() // and is not used
	next()
	f = filled(3, 14)
	f.Release()
	holds(m, 10)

	before := d.marks
	m.DontNeed()
	f = filled(3, 15) // m leaves in the turn that used it
	assert.Equal(t, before+1, d.after[0], "the mark that its copy waits for")
	assert.Equal(t, byte(15), f.ReadBytes()[0], "what a kernel wrote")

	f.Release()
	m.Ahead()
	next()
	d.fail = errors.New("the card fell off")
	err := failure(func() { filled(3, 16) }) // m leaves while it is still coming
	assert.ErrorIs(t, err, d.fail)
	assert.Equal(t, true, errors.As(err, &tensor.DeviceFailure{}), "the device failed")
}

// TestRestsBeyond: a matrix for which the planned memory of the host has no room rests beside it, also if a
// larger matrix comes to its slot.
func TestRestsBeyond(t *testing.T) {
	const four = tensor.LeastResting
	mem, d := newOnDevice(t, 16*four/tensor.PageSize)
	require.NoError(t, mem.OffloadToHost(four, 4*four))
	for _, size := range []int{1, 2} {
		mem.BeginTurn(size == 1)
		var ms []*tensor.Matrix
		for k := range 4 / size {
			m := mem.NewElement(tensor.Activations, tensor.Byte, size, four)
			written := bytes.Repeat([]byte{byte(10*size + k)}, m.Len())
			copy(d.at(onDevice(t, mem, true, m)[0], m.Len()), written)
			ms = append(ms, m)
		}
		mem.EndTurn()
		mem.BeginTurn(false)
		other := mem.NewElement(tensor.Activations, tensor.Byte, 4, four) // they leave to make room for it
		for _, m := range ms {
			require.Equal(t, true, m.Rests(), "it rests")
		}
		other.Release()
		for k, m := range ms {
			want, at := bytes.Repeat([]byte{byte(10*size + k)}, m.Len()), onDevice(t, mem, false, m)[0]
			assert.Equal(t, want, d.at(at, m.Len()), "of %d", size)
		}
		for _, m := range ms {
			m.Release()
		}
		mem.EndTurn()
	}
}

// TestGathersMuch: rows that exceed a pinned buffer come in pieces.
func TestGathersMuch(t *testing.T) {
	const rows, columns = 1300, 16 << 10 // 21 MB
	mem, d := newOnDevice(t, 3*rows*columns/tensor.PageSize)
	require.NoError(t, mem.OffloadToHost(rows*columns, 2*rows*columns))
	mem.BeginTurn(true)
	m := mem.NewElement(tensor.Activations, tensor.Byte, rows, columns)
	list, want := make([]int32, rows), make([]byte, 0, rows*columns)
	for k := range list {
		list[k] = int32(k)
		want = append(want, bytes.Repeat([]byte{byte(k % 251)}, columns)...)
	}
	copy(d.at(onDevice(t, mem, true, m)[0], len(want)), want)
	mem.BeginTurn(false)
	whole := mem.NewElement(tensor.Buffers, tensor.Byte, 1+rows, columns)
	whole.WriteBytes()[0] = 7
	into := whole.RowRange(1, 1+rows)
	mem.NewElement(tensor.Buffers, tensor.Byte, rows, columns) // m leaves to make room for it
	require.Equal(t, true, m.GatherAtRest(into, list), "it rests")
	got := d.at(onDevice(t, mem, false, into)[0], len(want))
	assert.Equal(t, true, bytes.Equal(want, got), "the rows are there")
	assert.Equal(t, byte(7), whole.ReadBytes()[0], "beside them")
}

// TestGathersBeside: one of two buffers is filled with rows while a kernel uses the rows in the other. The
// host waits for neither of the two copies before. A matrix that leaves to the memory that rows came from
// waits for their copies.
func TestGathersBeside(t *testing.T) {
	const four = tensor.LeastResting
	mem, d := newOnDevice(t, 8*four/tensor.PageSize)
	require.NoError(t, mem.OffloadToHost(four, 2*four))
	mem.BeginTurn(true)
	m := mem.NewElement(tensor.Activations, tensor.Byte, 4, four/4)
	onDevice(t, mem, true, m)
	m.SetReadOnly()
	mem.BeginTurn(false)
	other := mem.NewElement(tensor.Activations, tensor.Byte, 1, four)
	onDevice(t, mem, true, other)
	var into []*tensor.Matrix
	for range 2 { // m leaves to make room for it
		into = append(into, mem.NewElement(tensor.Buffers, tensor.Byte, 1, four/4))
	}
	d.waits = nil
	first, marks := uint64(len(d.pending))+firstMark, d.marks
	for k, after := range []uint64{marks + 1, marks + 1, marks + 2, marks + 3, marks + 4} {
		require.Equal(t, true, m.GatherAtRest(into[k%2], []int32{1}), "it rests")
		assert.Equal(t, []uint64{after}, d.after, "the mark that copy %d waits for", k)
		onDevice(t, mem, false, into[k%2])
	}
	assert.Equal(t, []uint64{0, 0, first, first + 1, first + 2}, d.waits, "the copies that the host waits for")
	m.Release()
	other.DontNeed()
	mem.BeginTurn(false)
	last := mem.NewElement(tensor.Activations, tensor.Byte, 1, four) // the other leaves to where m was
	assert.Equal(t, first+4, d.after[1], "the copy that this one waits for")
	other.Release()
	last.WriteBytes()[0] = 1
	mem.BeginTurn(false)
	mem.NewElement(tensor.Activations, tensor.Byte, 2, four) // the last one leaves from the host
	assert.Equal(t, first+4, d.waits[len(d.waits)-1], "the copy that the host waits for")
}
