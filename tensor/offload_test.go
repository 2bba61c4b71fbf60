package tensor_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/device"
	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/internal/require"
	_ "weft/kernel" // has the tables of kernels that device names
	"weft/tensor"
	"weft/tensor/offload"
)

// drum is a Disk in Go's memory. It fails after a number of calls; 0: never.
type drum struct {
	mu    sync.Mutex
	pages map[int64][]byte // the pages, by their offset
	calls int
	fails int
	slow  time.Duration // the time that a read takes, by the clock of synctest
	lazy  time.Duration // the time that a write of less than a unit takes
}

var errDrum = errors.New("the drum is stuck")

func (d *drum) call() error {
	if d.calls++; d.fails > 0 && d.calls >= d.fails {
		return errDrum
	}
	return nil
}

func (d *drum) Write(data []byte, offset int64) (sums []uint32, err error) {
	if len(data) < unit {
		time.Sleep(d.lazy)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages[offset] = bytes.Clone(data)
	for i := range len(data) / tensor.PageSize {
		sums = append(sums, uint32(offset)+uint32(i))
	}
	return sums, d.call()
}

func (d *drum) Read(into []byte, offset int64, sums []uint32) error {
	time.Sleep(d.slow)
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, data := range d.pages { // one of them has the pages
		first := (offset - at) / tensor.PageSize
		if first >= 0 && offset < at+int64(len(data)) && copy(into, data[offset-at:]) == len(into) &&
			sums[0] == uint32(at)+uint32(first) {
			return d.call()
		}
	}
	return fmt.Errorf("no %d bytes at %d, with checksums %d", len(into), offset, sums)
}

const unit = 32 << 10 // bytes of a matrix of the tests

func unitOf(m *tensor.Meter, k tensor.Kind) *tensor.Matrix { return m.New(k, unit/4/8, 8) }

// tiers are Meters whose matrices rest beyond a limit, in each tier, and plans of these.
var tiers = []struct {
	name     string
	plan     bool
	device   bool // matrices are on a device, and rest in the host's memory
	newMeter func(t *testing.T, limit int64) *tensor.Meter
}{
	{"a disk", false, false, func(t *testing.T, limit int64) *tensor.Meter {
		return offloaded(t, newDrum(), limit)
	}},
	{"a file", false, false, func(t *testing.T, limit int64) *tensor.Meter {
		file, err := offload.Open(t.TempDir())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, file.Close()) })
		return offloaded(t, file, limit)
	}},
	{"the plan of a disk", true, false, func(t *testing.T, limit int64) *tensor.Meter {
		return offloaded(t, nil, limit)
	}},
	{"memory below a device", false, true, func(t *testing.T, limit int64) *tensor.Meter {
		// matrices that are not at rest may exceed the limit
		mem, _ := newOnDevice(t, 3*limit/tensor.PageSize)
		require.NoError(t, mem.OffloadToHost(4<<20, limit))
		mem.BeginTurn(true)
		return mem
	}},
	{"memory below a card", false, true, func(t *testing.T, limit int64) *tensor.Meter {
		devicetest.Library(t)
		card, err := device.Open(0)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, card.Close()) })
		mem := tensor.NewMeter()
		t.Cleanup(mem.Close)
		require.NoError(t, mem.On(card, 3*limit))
		require.NoError(t, mem.OffloadToHost(4<<20, limit))
		mem.BeginTurn(true)
		return mem
	}},
	{"a plan of that", true, true, func(t *testing.T, limit int64) *tensor.Meter {
		mem := tensor.NewMeter()
		t.Cleanup(mem.Close)
		mem.Plan()
		require.NoError(t, mem.On(nil, limit))
		mem.Offload(nil, limit)
		mem.BeginTurn(true)
		return mem
	}},
}

// onTiers runs a test on a Meter of each tier, in its first turn.
func onTiers(t *testing.T, limit int64, f func(t *testing.T, mem *tensor.Meter, plan bool)) {
	for _, tier := range tiers {
		t.Run(tier.name, func(t *testing.T) { f(t, tier.newMeter(t, limit), tier.plan) })
	}
}

// offloaded returns a Meter whose matrices rest on a disk, in its first turn. If d is nil it plans.
func offloaded(t *testing.T, d tensor.Disk, limit int64) *tensor.Meter {
	t.Helper()
	mem := tensor.NewMeter()
	t.Cleanup(mem.Close)
	mem.Offload(d, limit)
	mem.BeginTurn(true)
	return mem
}

// newDrum returns an empty drum.
func newDrum() *drum { return &drum{pages: map[int64][]byte{}} }

// TestEqualPeaks: of two moments at which memory is equally full, the peak is the one with the most tensors.
func TestEqualPeaks(t *testing.T) { onTiers(t, 4*unit, equalPeaks) }

func equalPeaks(t *testing.T, mem *tensor.Meter, _ bool) {
	first, second := unitOf(mem, tensor.Graph), unitOf(mem, tensor.Graph)
	if mem.Peak() != 0 || mem.GraphBytes() != 2*unit {
		t.Errorf("%d bytes of tensors and %d of the graph, want 0 and %d", mem.Peak(),
			mem.GraphBytes(), 2*unit)
	}
	second.Release()
	tensors := unitOf(mem, tensor.Features)
	if mem.Peak() != unit || mem.GraphBytes() != unit {
		t.Errorf("%d bytes of tensors and %d of the graph, want %d of each", mem.Peak(),
			mem.GraphBytes(), unit)
	}
	tensors.Release()
	first.Release()
}

// TestResting: matrices keep their elements while more exist than fit the limit. The limit is kept as long as
// each turn needs less. Released matrices leave nothing on the disk.
func TestResting(t *testing.T) {
	onTiers(t, 8*unit, func(t *testing.T, mem *tensor.Meter, plan bool) {
		if !plan {
			resting(t, mem, 8*unit)
		}
	})
}

func resting(t *testing.T, mem *tensor.Meter, limit int64) {
	const ranks, each = 4, 5
	random := rand.New(rand.NewPCG(1, 2))
	var own [ranks][each]*tensor.Matrix
	var want [ranks][each]float32
	for range 50 {
		for rank := range ranks {
			mem.BeginTurn(rank == 0)
			for range 3 {
				i := random.IntN(each)
				switch m := own[rank][i]; {
				case m == nil:
					own[rank][i] = unitOf(mem, tensor.Activations)
					fallthrough
				case random.IntN(2) == 0: // changes
					want[rank][i] = random.Float32()
					view := own[rank][i].RowRange(3, 4).Reshape(8, 1)
					view.Floats()[2], own[rank][i].Floats()[0] = want[rank][i], -want[rank][i]
				case random.IntN(4) == 0:
					m.Release()
					own[rank][i] = nil
				default:
					if f := m.Floats(); f[3*8+2] != want[rank][i] || f[0] != -want[rank][i] {
						t.Fatalf("rank %d, matrix %d: %v, want %v", rank, i, f[3*8+2], want[rank][i])
					}
				}
			}
			mem.EndTurn()
		}
	}
	if mem.Peak() > limit || mem.Peak() < limit-unit {
		t.Errorf("a peak of %d, with a limit of %d", mem.Peak(), limit)
	}
	if moved := mem.OnDisk(); moved.Read == 0 || moved.Written == 0 {
		t.Errorf("moved %+v", moved)
	}
	for rank := range ranks {
		for _, m := range own[rank] {
			m.Release()
		}
	}
	if most := mem.DiskBytes(); most == 0 || most > ranks*each*unit {
		t.Errorf("%d bytes rest, of %d matrices at a time", most, ranks*each)
	}
}

// TestFrozen: a read-only matrix is written once, however often it is read, and a pinned matrix never.
func TestFrozen(t *testing.T) {
	onTiers(t, 2*unit, func(t *testing.T, mem *tensor.Meter, plan bool) {
		if !plan {
			frozen(t, mem)
		}
	})
}

func frozen(t *testing.T, mem *tensor.Meter) {
	frozen, pinned := unitOf(mem, tensor.Activations), unitOf(mem, tensor.Gradients).Pin()
	frozen.Floats()[5], pinned.Floats()[5] = 1, 3
	frozen.SetReadOnly()
	mem.BeginTurn(false)
	changing := unitOf(mem, tensor.Features)
	changing.Floats()[5] = 2
	for turn := range 4 {
		mem.BeginTurn(true)
		if frozen.Floats()[5] != 1 || pinned.Floats()[5] != 3 {
			t.Errorf("turn %d: %v and %v, want 1 and 3", turn, frozen.Floats()[5], pinned.Floats()[5])
		}
		mem.BeginTurn(false)
		if changing.Floats()[5] != 2 {
			t.Errorf("turn %d: %v, want 2", turn, changing.Floats()[5])
		}
	}
	// frozen leaves when the other matrix is made; then in each turn one leaves and the other comes
	if moved, want := mem.OnDisk(), (tensor.Moved{
		Written: (1 + 4) * unit,
		Read:    2 * 4 * unit,
	}); moved != want {
		t.Errorf("moved %+v, want %+v", moved, want)
	}
	frozen.SetWritable()
	frozen.Floats()[5] = 7
	mem.BeginTurn(false)
	changing.Pointer()
	mem.BeginTurn(false)
	if frozen.Floats()[5] != 7 {
		t.Errorf("%v after a change, want 7", frozen.Floats()[5])
	}
}

// TestFailingDisk: the error of a disk ends the use of a matrix, and the next allocation.
func TestFailingDisk(t *testing.T) {
	for fails := 1; fails <= 2; fails++ { // a write, or a read
		d := newDrum()
		d.fails = fails
		mem := offloaded(t, d, unit)
		m := unitOf(mem, tensor.Activations)
		failed := func(f func()) (err error) {
			defer func() { err, _ = recover().(error) }()
			f()
			return nil
		}
		err := failed(func() {
			mem.BeginTurn(false)
			unitOf(mem, tensor.Activations)
			mem.BeginTurn(false)
			m.Pointer()
		})
		if failure := (tensor.DiskFailure{}); !errors.As(err, &failure) || !errors.Is(err, errDrum) {
			t.Errorf("call %d fails: %v", fails, err)
		}
		if err := failed(func() { unitOf(mem, tensor.Activations) }); !errors.Is(err, errDrum) {
			t.Errorf("after it: %v", err)
		}
	}
}

// TestPlannedRest: a plan counts what a run moves, and moves nothing.
func TestPlannedRest(t *testing.T) {
	var moved []tensor.Moved
	var most []int64
	onTiers(t, 3*unit, func(_ *testing.T, mem *tensor.Meter, _ bool) {
		var all []*tensor.Matrix
		for turn := range 12 {
			mem.BeginTurn(turn%4 == 0)
			all = append(all, unitOf(mem, tensor.Activations))
			all[turn/2].Pointer()
		}
		moved, most = append(moved, mem.OnDisk()), append(most, mem.DiskBytes())
	})
	for k := range moved {
		assert.Equal(t, moved[0], moved[k], "%s: moved", tiers[k].name)
		assert.Equal(t, most[0], most[k], "%s: at rest", tiers[k].name)
	}
	if moved[0].Read == 0 || most[0] == 0 {
		t.Errorf("moved %+v, and %d bytes rest", moved[0], most[0])
	}
}

// TestWillNeed: a matrix that most turns of the next round read leaves after those that were used at the same
// time and later. In that round it leaves after all matrices that the round has used.
func TestWillNeed(t *testing.T) {
	onTiers(t, 3*unit, func(t *testing.T, mem *tensor.Meter, _ bool) {
		var all []*tensor.Matrix
		turn := func(first bool, leaves string) {
			mem.BeginTurn(first)
			all = append(all, unitOf(mem, tensor.Activations))
			var left string
			for i, m := range all {
				if m.Rests() {
					left += string(rune('a' + i))
				}
			}
			assert.Equal(t, leaves, left, "at rest")
		}
		turn(true, "")
		all[0].WillNeed() // a
		turn(false, "")
		turn(false, "")
		turn(false, "c") // used last of all but a
		turn(true, "cd")
		turn(false, "bcd") // of the round before
		turn(false, "bcdf")
		all[0].Pointer() // this turn uses it now
		turn(false, "abcdf")
	})
}

// TestEndTurn: when a turn ends, matrices that it used and nobody changes any more are written once, if
// memory is short.
func TestEndTurn(t *testing.T) {
	onTiers(t, 4*unit, func(t *testing.T, mem *tensor.Meter, plan bool) {
		made := func(readOnly bool) *tensor.Matrix {
			m := unitOf(mem, tensor.Activations)
			if !plan {
				m.Floats()[0] = 1
			}
			if readOnly {
				m.SetReadOnly()
			}
			return m
		}
		written := func(units int64) {
			t.Helper()
			mem.NextTurn(false)
			assert.Equal(t, units*unit, mem.OnDisk().Written)
		}
		before, frozen := made(true), made(true)
		written(0)
		made(false)
		frozen.Pointer()
		made(false)
		made(false).Release() // to make room for it one of the turn before leaves
		require.Equal(t, true, before.Rests(), "it rests")
		written(2) // the one that leaves, and the frozen one
		written(2)
	})
}

// TestSplit: memory that is reserved for messages counts in the limit, unless the limit is a device's.
func TestSplit(t *testing.T) {
	for _, tier := range tiers {
		t.Run(tier.name, func(t *testing.T) {
			mem, want := tier.newMeter(t, 4*unit), int64(2*unit)
			if tier.device {
				want = unit
			}
			mem.Split(nil, unit)
			unitOf(mem, tensor.Activations)
			assert.Equal(t, want, mem.Peak())
		})
	}
}

// TestReserveWithinLimit: matrices leave for buffers that are only reserved, so that the limit is kept.
func TestReserveWithinLimit(t *testing.T) {
	onTiers(t, 2*unit, func(t *testing.T, mem *tensor.Meter, _ bool) {
		a, b := unitOf(mem, tensor.Activations), unitOf(mem, tensor.Activations)
		mem.BeginTurn(false)
		mem.Reserve(tensor.PageSize)
		assert.Equal(t, int64(2*unit), mem.Peak())
		assert.Equal(t, tensor.Moved{Written: unit}, mem.OnDisk())
		a.Release()
		b.Release()
	})
}

// TestReadAheadOfALateWrite: a matrix that is still being written is read ahead, as in a plan.
func TestReadAheadOfALateWrite(t *testing.T) { synctest.Test(t, readAheadOfALateWrite) }

func readAheadOfALateWrite(t *testing.T) {
	for _, d := range []tensor.Disk{&drum{pages: map[int64][]byte{}, lazy: time.Second}, nil} {
		mem := offloaded(t, d, 3*unit)
		mem.New(tensor.Activations, 2*unit/4, 1)
		mem.BeginTurn(false)
		late := mem.New(tensor.Activations, unit/4/2, 1)
		mem.BeginTurn(false)
		mem.New(tensor.Activations, 3*unit/4/2, 1) // it has room when the first one has left
		late.Ahead()
		if moved, want := mem.OnDisk(), (tensor.Moved{Written: 5 * unit / 2, Read: unit / 2}); moved != want {
			t.Errorf("moved %+v, want %+v", moved, want)
		}
	}
}

// TestPeakOfALateWrite: a matrix that is still being written does not raise the peak when others take its
// room, as in a plan.
func TestPeakOfALateWrite(t *testing.T) { synctest.Test(t, peakOfALateWrite) }

func peakOfALateWrite(t *testing.T) {
	for _, d := range []tensor.Disk{&drum{pages: map[int64][]byte{}, lazy: time.Second}, nil} {
		mem := offloaded(t, d, 4*unit)
		mem.New(tensor.Gradients, unit/4/2, 1)
		mem.New(tensor.Features, 2*unit/4, 1)
		mem.BeginTurn(false)
		mem.New(tensor.Activations, 3*unit/4, 1) // both leave, and it has room beside the first one
		if peak, late := mem.Peak(), mem.PeakOf(tensor.Gradients); peak != 3*unit || late != 0 {
			t.Errorf("a peak of %d bytes, of which %d leave, want %d", peak, late, 3*unit)
		}
	}
}

// TestLateReadAhead: a matrix that is read ahead for a turn that has ended leaves for the next one, as in a
// plan.
func TestLateReadAhead(t *testing.T) { synctest.Test(t, lateReadAhead) }

func lateReadAhead(t *testing.T) {
	var moved [2]tensor.Moved
	for i, d := range []tensor.Disk{&drum{pages: map[int64][]byte{}, slow: time.Second}, nil} {
		mem := offloaded(t, d, 2*unit)
		late := unitOf(mem, tensor.Activations)
		mem.BeginTurn(false)
		a, b := unitOf(mem, tensor.Activations), unitOf(mem, tensor.Activations)
		a.Release()
		b.Release()
		mem.Drain()
		late.Ahead()
		mem.BeginTurn(false)
		unitOf(mem, tensor.Activations)
		unitOf(mem, tensor.Activations)
		if moved[i] = mem.OnDisk(); mem.Peak() > 2*unit || moved[i].Read == 0 {
			t.Errorf("a peak of %d of %d bytes, and %+v was moved", mem.Peak(), 2*unit, moved[i])
		}
	}
	if moved[0] != moved[1] {
		t.Errorf("moved %+v, planned %+v", moved[0], moved[1])
	}
}

// TestFailedReturn: a matrix cannot come back because another, which must leave for it, cannot be written. It
// is then released without waiting.
func TestFailedReturn(t *testing.T) {
	d := newDrum()
	d.fails = 2
	mem := offloaded(t, d, unit)
	m := unitOf(mem, tensor.Activations)
	mem.BeginTurn(false)
	unitOf(mem, tensor.Activations) // m leaves
	mem.BeginTurn(false)
	func() {
		defer m.Release()
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, errDrum) {
				t.Errorf("%v, want the error of the disk", err)
			}
		}()
		m.Pointer()
	}()
}

// TestFailedReadAhead: a matrix that the disk failed to read ahead is not used.
func TestFailedReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrum()
		d.fails = 2
		mem := offloaded(t, d, 2*unit)
		m := unitOf(mem, tensor.Activations)
		m.Floats()[0] = 1
		mem.BeginTurn(false)
		a, b := unitOf(mem, tensor.Activations), unitOf(mem, tensor.Activations) // m leaves
		a.Release()
		b.Release()
		mem.Drain()
		m.Ahead()
		synctest.Wait() // for the disk
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, errDrum) {
				t.Errorf("%v, want the error of the disk", err)
			}
			m.Release()
		}()
		m.Pointer()
		t.Error("it is used")
	})
}

// TestClosedMeter: matrices of a Meter that was closed do not leave, and take no room.
func TestClosedMeter(t *testing.T) { onTiers(t, 2*unit, closedMeter) }

func closedMeter(t *testing.T, mem *tensor.Meter, _ bool) {
	ended := mem.Another()
	unitOf(ended, tensor.Activations)
	unitOf(ended, tensor.Activations)
	ended.Close()
	mem.BeginTurn(false)
	unitOf(mem, tensor.Activations)
	unitOf(mem, tensor.Activations)
	if moved := mem.OnDisk(); moved != (tensor.Moved{}) || mem.Peak() != 2*unit {
		t.Errorf("moved %+v, and took %d bytes", moved, mem.Peak())
	}
}

// TestUsedElsewhere: goroutines beside the one that takes turns make matrices, while it uses its own.
func TestUsedElsewhere(t *testing.T) {
	onTiers(t, 64*unit, func(t *testing.T, mem *tensor.Meter, plan bool) {
		if !plan {
			usedElsewhere(t, mem)
		}
	})
}

func usedElsewhere(t *testing.T, mem *tensor.Meter) {
	const matrices, rounds = 64, 50
	var own []*tensor.Matrix
	for range matrices {
		own = append(own, unitOf(mem, tensor.Activations))
		clear(own[len(own)-1].Floats())
	}
	var group sync.WaitGroup
	ended := make(chan struct{})
	for range 2 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
				}
				m := unitOf(mem, tensor.Activations).Pin()
				m.Floats()[0] = float32(i)
				m.Unpin().SetReadOnly()
				if got := m.Pin().Floats()[0]; got != float32(i) {
					t.Errorf("%v, want %d", got, i)
				}
				m.Release()
			}
		})
	}
	defer group.Wait()
	defer close(ended)
	for i := range rounds {
		for _, m := range own {
			mem.BeginTurn(true)
			for range 100 {
				m.Floats()[7]++
			}
			if got := m.Floats()[7]; got != float32(100*(i+1)) {
				t.Fatalf("round %d: %v, want %v", i, got, 100*(i+1))
			}
			mem.EndTurn()
		}
	}
}
