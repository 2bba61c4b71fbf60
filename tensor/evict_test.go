package tensor

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
)

// pool is a Disk in Go's memory.
type pool struct {
	mu    sync.Mutex
	bytes [1 << 28]byte
}

func (p *pool) Write(pages []byte, offset int64) ([]uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	copy(p.bytes[offset:], pages)
	return make([]uint32, len(pages)/PageSize), nil
}

func (p *pool) Read(pages []byte, offset int64, _ []uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	copy(pages, p.bytes[offset:])
	return nil
}

// TestSpares: memory that goes from matrix to matrix loses and mixes no elements, whatever their sizes, and
// spares stay within the limit.
func TestSpares(t *testing.T) {
	const limit = 9 << 20
	mem, random := NewMeter(), rand.New(rand.NewPCG(1, 2))
	defer mem.Close()
	mem.Offload(new(pool), limit)
	type filled struct {
		m     *Matrix
		first int32
	}
	var all []filled
	moved := 0
	for turn := range 400 {
		mem.BeginTurn(turn%5 == 0)
		if len(all) > 8 {
			at := random.IntN(len(all))
			all[at].m.Release()
			all = slices.Delete(all, at, at+1)
		}
		if turn%3 == 0 {
			if at := len(all) - 1; at >= 0 && !all[at].m.Rests() { // the system holds it in several areas
				middle := unsafe.Slice((*byte)(unsafe.Add(all[at].m.Pointer(), 5*PageSize)), PageSize)
				_ = unix.Madvise(middle, unix.MADV_DONTDUMP)
			}
			m := mem.NewElement(Activations, Int32, 1, (1<<19)+random.IntN(3)*(1<<17)+random.IntN(2000))
			for i := range m.Int32s() {
				m.Int32s()[i] = int32(turn*1000 + i)
			}
			all = append(all, filled{m, int32(turn * 1000)})
		}
		sample := all[random.IntN(len(all))]
		for i, x := range sample.m.Int32s() {
			if x != sample.first+int32(i) {
				t.Fatalf("turn %d: element %d is %d, want %d", turn, i, x, sample.first+int32(i))
			}
		}
		mem.mu.Lock()
		if n := mem.spares.bytes; n > 0 && n+mem.charged() > limit {
			t.Errorf("turn %d: %d bytes of spares beside %d", turn, mem.spares.bytes, mem.charged())
		}
		moved += len(mem.spares.list)
		mem.mu.Unlock()
	}
	if moved == 0 && guard == 0 {
		t.Error("there was never a spare")
	}
}

// resident is the number of a matrix's pages that are in memory.
func resident(t *testing.T, m *Matrix) (n int) {
	t.Helper()
	there := make([]byte, m.bytes/PageSize)
	if _, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(m.data), uintptr(m.bytes),
		uintptr(unsafe.Pointer(&there[0]))); err != 0 {
		t.Fatal(err)
	}
	for _, b := range there {
		n += int(b & 1)
	}
	return n
}

// TestPagesOfReleased: a new matrix gets the pages of a released matrix of another size, and the pages of a
// matrix that left.
func TestPagesOfReleased(t *testing.T) {
	if guard > 0 {
		t.Skip("memory between guard pages stays where it is")
	}
	mem := NewMeter()
	defer mem.Close()
	mem.Offload(new(pool), 10*hugePage)
	made := func(hugePages int) *Matrix {
		return mem.NewElement(Activations, Byte, 1, hugePages*hugePage)
	}
	filled := func(m *Matrix) *Matrix {
		for i := range m.Bytes() {
			m.Bytes()[i] = 1
		}
		return m
	}
	pages := func(m *Matrix) int { return resident(t, m) }
	mem.BeginTurn(true)
	filled(made(3)).Release()
	filled(made(2)).Release()
	m := made(6)
	if got, want := pages(m), 3*hugePage/PageSize; got != want {
		t.Errorf("%d pages of those released, within a peak of three huge ones, want %d", got, want)
	}
	filled(m)
	mem.BeginTurn(false)
	if got, want := pages(made(7)), 6*hugePage/PageSize; got != want {
		t.Errorf("%d pages of one that left, want %d", got, want)
	}
}

// TestPagesOfIdle: if idle memory beside a new matrix would raise the peak, its pages go to the matrix, also
// without a disk. No page is fresh when three matrices of different sizes come and go one after the other,
// and no more pages are left over than the peak allows.
func TestPagesOfIdle(t *testing.T) {
	if guard > 0 {
		t.Skip("memory between guard pages stays where it is")
	}
	mem := NewMeter()
	defer mem.Close()
	most := mem.New(Activations, 7*hugePage/4, 1)
	clear(most.Bytes())
	most.Release()
	for turn := range 9 {
		size := []int{3, 7, 5}[turn%3]
		m := mem.New(Activations, size*hugePage/4, 1)
		if got, want := resident(t, m), size*hugePage/PageSize; got != want {
			t.Errorf("turn %d: %d of %d pages are in memory", turn, got, want)
		}
		if all := mem.charged() + mem.spares.bytes; all != mem.peak || mem.peak != 7*hugePage {
			t.Errorf("turn %d: %d bytes with spares, a peak of %d", turn, all, mem.peak)
		}
		m.Release()
	}
	last := mem.New(Activations, 3*hugePage/4, 1)
	small := mem.New(Activations, PageSize/4, 1) // its page is fresh
	if all := mem.charged() + mem.spares.bytes; all > mem.peak {
		t.Errorf("%d bytes with spares, a peak of %d", all, mem.peak)
	}
	small.Release()
	if mem.Drain(); mem.spares.bytes+mem.idle.bytes > 0 {
		t.Errorf("%d bytes of spares and %d idle after Drain", mem.spares.bytes, mem.idle.bytes)
	}
	last.Release()

	plan := NewMeter()
	defer plan.Close()
	plan.Plan()
	if sparesOf(plan) > 0 {
		t.Error("a plan keeps spares")
	}
}

// sparesOf makes a Meter release seven huge pages and take three, and returns the spares that are left.
func sparesOf(t *Meter) int64 {
	t.New(Activations, 7*hugePage/4, 1).Release()
	t.New(Activations, 3*hugePage/4, 1)
	return t.spares.bytes
}

// TestSparesBesideCommon: spares also make room for a matrix that workers share.
func TestSparesBesideCommon(t *testing.T) {
	if guard > 0 {
		t.Skip("memory between guard pages stays where it is")
	}
	mem := NewMeter()
	defer mem.Close()
	mem.Share(NewCommon(), false)
	assert.Equal(t, int64(4*hugePage), sparesOf(mem), "spares")
	mem.NewCommon(Graph, Float32, hugePage/4, 1) // the peak does not count it
	assert.Equal(t, int64(4*hugePage), mem.spares.bytes, "spares beside a graph's structure")
	mem.NewCommon(Features, Float32, 2*hugePage/4, 1)
	assert.Equal(t, int64(2*hugePage), mem.spares.bytes, "spares beside five huge pages")
}

// TestAreasOfAllMeters: the Meters of a process move pages while the process has few enough areas, and a
// closed Meter leaves its areas to the others.
func TestAreasOfAllMeters(t *testing.T) {
	if guard > 0 {
		t.Skip("memory between guard pages stays where it is")
	}
	others := mostAreas - areas.Load() - 12 // they leave enough for one Meter with 7
	areas.Add(others)
	defer areas.Add(-others)
	before := areas.Load()
	for range 2 {
		first, second := NewMeter(), NewMeter()
		assert.Equal(t, int64(4*hugePage), sparesOf(first), "spares")
		assert.Equal(t, int64(0), sparesOf(second), "spares of one too many")
		first.Close()
		second.Close()
		assert.Equal(t, before, areas.Load(), "areas")
	}
}

// TestDrained: after Drain, neither idle memory nor a matrix at rest has pages.
func TestDrained(t *testing.T) {
	mem := NewMeter()
	defer mem.Close()
	mem.Offload(new(pool), 4*hugePage)
	mem.BeginTurn(true)
	m := mem.NewElement(Activations, Byte, 1, 3*hugePage)
	clear(m.Bytes())
	mem.BeginTurn(false)
	small := mem.NewElement(Activations, Byte, 1, hugePage+PageSize) // m leaves for it
	clear(small.Bytes())
	if mem.spares.bytes == 0 && guard == 0 {
		t.Error("there is no spare")
	}
	small.Release()
	mem.Drain()
	if n := resident(t, m); n > 0 || mem.spares.bytes > 0 {
		t.Errorf("%d pages of a matrix at rest, %d bytes of spares", n, mem.spares.bytes)
	}
}

// TestAreas: moved pages make no more areas of memory than there are huge pages within the limit, and a few
// for each matrix, however much rests.
func TestAreas(t *testing.T) {
	if guard > 0 {
		t.Skip("memory between guard pages stays where it is")
	}
	const limit, matrices = 16, 24
	mem := NewMeter()
	defer mem.Close()
	mem.Offload(new(pool), limit*hugePage)
	areas := func() int {
		all, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(all, []byte("\n"))
	}
	before := areas()
	var all []*Matrix
	for k := range matrices {
		mem.BeginTurn(k == 0)
		all = append(all, mem.NewElement(Activations, Byte, 1, (3+k%3)*hugePage))
		clear(all[k].Bytes())
	}
	for round := range 4 {
		for k := range all {
			mem.BeginTurn(k == 0)
			all[(k*7+round)%matrices].Bytes()[0]++
		}
		if n := areas() - before; n > limit+matrices+8 {
			t.Errorf("round %d: %d areas", round, n)
		}
	}
}

// still is a Disk that is not used.
type still struct{ Disk }

// TestUsedSinceChosen: a matrix that was used after it was chosen to leave stays.
func TestUsedSinceChosen(t *testing.T) {
	mem := NewMeter()
	defer mem.Close()
	mem.Offload(still{}, LeastResting)
	m := mem.New(Activations, LeastResting/4, 1)
	mem.BeginTurn(true)
	chosen := mem.offload.next()
	if chosen != m {
		t.Fatal("the matrix is not chosen")
	}
	m.Floats()[0] = 1
	mem.mu.Lock()
	mem.evict(chosen)
	mem.mu.Unlock()
	if m.Rests() || m.Floats()[0] != 1 {
		t.Error("the matrix left")
	}
}

// TestPlanTakesAddressesAgain: a plan's next small matrices get the addresses of released ones, also of those
// that rested, and are charged as before.
func TestPlanTakesAddressesAgain(t *testing.T) {
	if guard > 0 {
		t.Skip("between guard pages no memory is divided")
	}
	mem := NewMeter()
	mem.Plan()
	mem.Offload(nil, 12*PageSize)
	alloc := func(pages int) *Matrix { return mem.New(Activations, pages, PageSize/4) }
	first := alloc(8)
	at := first.data
	first.Release()
	second := alloc(9) // to make room for it the first one's memory is given back
	assert.Equal(t, int64(8*PageSize), mem.addresses.bytes, "addresses that a plan keeps")
	mem.BeginTurn(true)
	third := alloc(8) // the second one leaves to make room for it
	if third.data != at || !second.Rests() || mem.charged() != 8*PageSize || mem.peak != 9*PageSize {
		t.Errorf("at %p, want %p; %d bytes, at most %d", third.data, at, mem.charged(), mem.peak)
	}
	rested := second.data
	second.Release()
	if fourth := alloc(4); fourth.data != rested {
		t.Errorf("at %p, want %p", fourth.data, rested)
	}
	mem.Close()
	assert.Equal(t, int64(0), mem.addresses.bytes, "addresses of a closed plan")
}

// TestResetResidency: after ResetResidency the same matrices of two ranks rest, and later turns move the
// same. Neither the order in which the ranks made them nor earlier moves matter.
func TestResetResidency(t *testing.T) {
	moved := func(first int, frozen bool) (m Moved) {
		mem := NewMeter()
		defer mem.Close()
		mem.Offload(nil, 5*LeastResting)
		ranks, all := []*Meter{mem.Another(), mem.Another()}, [2][]*Matrix{}
		for turn := range 6 {
			mem.BeginTurn(turn%2 == 0)
			rank := (turn + first) % 2
			made := ranks[rank].NewElement(Activations, Byte, 1, LeastResting)
			all[rank] = append(all[rank], made)
			if frozen {
				made.SetReadOnly()
			}
			mem.EndTurn()
		}
		mem.ResetResidency()
		for i, m := range slices.Concat(all[0], all[1]) {
			assert.Equal(t, i == 5, m.Rests(), "rank %d first: matrix %d rests", first, i)
			m.SetReadOnly()
		}
		before := mem.OnDisk()
		for turn := range 4 {
			mem.BeginTurn(turn%2 == 0)
			Touch(all[turn%2]...)
			mem.EndTurn()
		}
		m = mem.OnDisk()
		return Moved{m.Written - before.Written, m.Read - before.Read}
	}
	for first := range 2 {
		for _, frozen := range []bool{false, true} {
			assert.Equal(t, Moved{5 * LeastResting, 5 * LeastResting}, moved(first, frozen),
				"rank %d first, frozen %v: moved", first, frozen)
		}
	}
}

// TestLeavesInTheSameTurn: when all matrices of earlier turns have left, the turn at work finds others that
// may leave: those that it does not need any more, once, and after ResetResidency all matrices.
func TestLeavesInTheSameTurn(t *testing.T) {
	mem := NewMeter()
	defer mem.Close()
	const room = 3
	mem.Offload(nil, room*LeastResting)
	alloc := func() *Matrix { return mem.NewElement(Activations, Byte, 1, LeastResting) }
	rest := func(want ...bool) func(ms ...*Matrix) {
		return func(ms ...*Matrix) {
			t.Helper()
			for i, m := range ms {
				assert.Equal(t, want[i], m.Rests(), "matrix %d rests", i)
			}
		}
	}
	mem.BeginTurn(true)
	a := alloc()
	mem.BeginTurn(false)
	b, c, d := alloc(), alloc(), alloc()
	rest(true, false, false, false)(a, b, c, d)
	c.DontNeed()
	d.WillNeed()
	d.Pointer() // all the same
	e := alloc()
	rest(true, false, true, false, false)(a, b, c, d, e)
	alloc()
	assert.Equal(t, int64(4*LeastResting), mem.Peak(), "of what the turn uses")
	mem.ResetResidency()
	g := alloc()
	rest(false, false, true, true, true, false)(a, b, c, d, e, g)
}
