package tensor_test

import (
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/require"
	"weft/tensor"
)

const page = 4096

// kinds are all kinds of memory.
var kinds = []tensor.Kind{
	tensor.Features, tensor.Parameters, tensor.Optimizer, tensor.Activations,
	tensor.Gradients, tensor.Buffers, tensor.Graph,
}

func TestMeterCharges(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	want := func(kind tensor.Kind, live int64) {
		t.Helper()
		if got := meter.Live(kind); got != live {
			t.Errorf("%d bytes of %v are live, want %d", got, kind, live)
		}
	}
	a := meter.New(tensor.Activations, 1, 1)          // takes one page
	b := meter.New(tensor.Activations, 1, page/4+1)   // takes two
	c := meter.New(tensor.Gradients, 10*page/4, 1)    // ten
	graph := meter.New(tensor.Graph, 1000, page/1000) // takes four, which the peak leaves out
	want(tensor.Activations, 3*page)
	want(tensor.Gradients, 10*page)
	want(tensor.Graph, 4*page)
	want(tensor.Features, 0)
	b.Release()
	want(tensor.Activations, 1*page)
	if live, peak := meter.LiveTensors(), meter.Peak(); live != 11*page || peak != 13*page {
		t.Errorf("%d bytes live and a peak of %d, want 11 and 13 pages", live, peak)
	}
	if meter.PeakOf(tensor.Activations) != 3*page || meter.PeakOf(tensor.Gradients) != 10*page {
		t.Errorf("the peak was %d of activations and %d of gradients", meter.PeakOf(tensor.Activations),
			meter.PeakOf(tensor.Gradients))
	}
	for _, m := range []*tensor.Matrix{a, c, graph} {
		m.Release()
	}
	if meter.LiveTensors() != 0 || meter.Live(tensor.Graph) != 0 || meter.Peak() != 13*page {
		t.Errorf("after all releases %d bytes are live, %d of the graph, and the peak is %d",
			meter.LiveTensors(), meter.Live(tensor.Graph), meter.Peak())
	}
}

// TestMeterReuses: released memory is the next matrix of its size, of any kind and shape.
func TestMeterReuses(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	a := meter.New(tensor.Activations, 100, 100)
	p := a.Pointer()
	a.Release()
	if b := meter.New(tensor.Gradients, 50, 200); b.Pointer() != p {
		t.Error("memory of the same size was not used again")
	}
	if c := meter.New(tensor.Gradients, 50, 200); c.Pointer() == p {
		t.Error("memory in use was given away")
	}
}

// TestClear: all matrices are released at once, and the next matrices get their memory.
func TestClear(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	for range 3 {
		meter.New(tensor.Activations, 3*page/4, 1)
		meter.New(tensor.Graph, page/4, 1)
		meter.Clear(8 * page)
		for _, kind := range kinds {
			require.Equal(t, 0, meter.Live(kind), "%v", kind)
		}
	}
	a := meter.New(tensor.Activations, 3*page/4, 1).Pointer()
	meter.Clear(8 * page)
	require.Equal(t, a, meter.New(tensor.Buffers, 3*page/4, 1).Pointer())
	idle := int64(-1)
	meter.Watch(func(u tensor.Usage) { idle = u.Idle })
	meter.Clear(8 * page)
	require.Equal(t, 3*page, idle)
	if meter.Clear(page); idle > page { // memory between guard pages is not divided
		t.Errorf("%d bytes are idle, want %d at most", idle, page)
	}
}

// TestPeakIsLargestLive: in whatever order matrices are made and released, the peak is the largest number of
// bytes that were live at one time. Idle memory never adds to it.
func TestPeakIsLargestLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meter := tensor.NewMeter()
		defer meter.Close()
		type made struct {
			m     *tensor.Matrix
			kind  tensor.Kind
			bytes int64
			// the value of all elements; no other matrix may have the same memory
			content float32
		}
		var live []made
		var peak int64
		byKind := map[tensor.Kind]int64{}
		sum := func() (s int64) {
			for kind, bytes := range byKind {
				if kind != tensor.Graph {
					s += bytes
				}
			}
			return s
		}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if at := rapid.IntRange(-1, len(live)-1).Draw(t, "release"); at >= 0 {
				for i, v := range live[at].m.Floats() {
					if v != live[at].content {
						t.Fatalf("element %d of a matrix of %d bytes was overwritten", i, live[at].bytes)
					}
				}
				live[at].m.Release()
				byKind[live[at].kind] -= live[at].bytes
				live = append(live[:at], live[at+1:]...)
				continue
			}
			pages := rapid.IntRange(0, 5).Draw(t, "pages")
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			m := made{meter.New(kind, pages, page/4), kind, int64(max(1, pages)) * page, float32(step)}
			for i := range m.m.Floats() {
				m.m.Floats()[i] = m.content
			}
			live = append(live, m)
			byKind[kind] += m.bytes
			peak = max(peak, sum())
		}
		for _, kind := range kinds {
			if got := meter.Live(kind); got != byKind[kind] {
				t.Errorf("%d bytes of %v are live, want %d", got, kind, byKind[kind])
			}
		}
		if got := meter.LiveTensors(); got != sum() {
			t.Errorf("%d bytes of tensors are live, want %d", got, sum())
		}
		if got := meter.Peak(); got != peak {
			t.Errorf("a peak of %d bytes, want %d", got, peak)
		}
		parts := int64(0)
		for _, kind := range kinds[:len(kinds)-1] {
			parts += meter.PeakOf(kind)
		}
		if parts != peak {
			t.Errorf("the peak's parts are %d bytes, want %d", parts, peak)
		}
	})
}

// resident returns the bytes that the process has in physical memory.
func resident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc/self/statm")
	}
	n, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	require.NoError(t, err)
	return n * int64(os.Getpagesize())
}

// TestMemoryIsGivenBack: memory is resident once it is written, and Close gives all of it back, live and
// idle.
func TestMemoryIsGivenBack(t *testing.T) {
	const size, slack = 64 << 20, 16 << 20
	meter := tensor.NewMeter()
	debug.FreeOSMemory() // what other tests left as garbage would go in the meantime
	before := resident(t)
	a, b := meter.New(tensor.Features, size/4, 1), meter.New(tensor.Features, size/4, 1)
	if grown := resident(t) - before; grown > slack {
		t.Errorf("%d bytes became resident before they were written", grown)
	}
	for _, m := range []*tensor.Matrix{a, b} {
		for i := 0; i < m.Len(); i += page / 4 {
			m.Floats()[i] = 1
		}
	}
	if grown := resident(t) - before; grown < 2*size-slack {
		t.Errorf("%d bytes are resident after %d were written", grown, 2*size)
	}
	a.Release()
	// larger than the idle memory, which must be given back for it
	c := meter.New(tensor.Features, size/4+page, 1)
	for i := 0; i < c.Len(); i += page / 4 {
		c.Floats()[i] = 1
	}
	if grown := resident(t) - before; grown > 2*size+slack {
		t.Errorf("%d bytes are resident: idle memory did not go for a new matrix", grown)
	}
	peak := meter.Peak()
	meter.Close()
	if left := resident(t) - before; left > slack {
		t.Errorf("%d bytes are left after Close", left)
	}
	if meter.Peak() != peak {
		t.Error("Close changed the peak")
	}
}

func TestRefusedMemory(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	for name, shape := range map[string][2]int{
		"more than an address space":  {1 << 50, 1},
		"more than 64 bits of bytes":  {1 << 31, 1 << 31},
		"a negative number of bytes":  {2_000_000_000, 2_000_000_000},
		"an overflow to few elements": {1<<62 + 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				p, ok := recover().(error)
				if refused := (tensor.OutOfMemory{}); !ok || !errors.As(p, &refused) ||
					!strings.Contains(p.Error(), "out of memory") {
					t.Errorf("panic %v, want OutOfMemory", p)
				}
			}()
			meter.New(tensor.Buffers, shape[0], shape[1])
		})
	}
	if meter.LiveTensors() != 0 || meter.Peak() != 0 {
		t.Errorf("%d bytes live and a peak of %d after refusals", meter.LiveTensors(), meter.Peak())
	}
}

// TestMeterOfSeveralGoroutines makes and releases matrices at the same time; each keeps its own numbers.
func TestMeterOfSeveralGoroutines(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 300 {
				m := meter.New(kinds[g], 1+i%7, page/4)
				at := &m.Floats()[m.Len()-1]
				*at = float32(g)
				if *at != float32(g) {
					t.Errorf("goroutine %d reads %v", g, *at)
				}
				m.Release()
			}
		})
	}
	group.Wait()
	if meter.LiveTensors() != 0 || meter.Peak() > 4*7*page {
		t.Errorf("%d bytes live and a peak of %d", meter.LiveTensors(), meter.Peak())
	}
}

func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range kinds {
		if name := kind.String(); name == "" || seen[name] {
			t.Errorf("kind %d is called %q", kind, name)
		}
		seen[kind.String()] = true
	}
}

// TestReserve: Reserve raises the peak as far as taking and releasing the memory does, beside idle memory
// too, and takes nothing.
func TestReserve(t *testing.T) {
	for _, idle := range []int{0, 50 * page / 4} {
		var peaks, live [2]int64
		for k := range peaks {
			m := tensor.NewMeter()
			m.New(tensor.Features, 1, 10*page/4)
			m.New(tensor.Activations, 1, idle).Release()
			if k == 0 {
				a, b := m.New(tensor.Buffers, 1, 30*page/4+1), m.New(tensor.Buffers, 1, page/4)
				a.Release()
				b.Release()
			} else {
				m.Reserve(30*page+4, page)
			}
			peaks[k], live[k] = m.Peak(), m.LiveTensors()
			if k == 1 && m.PeakOf(tensor.Features) != 10*page {
				t.Errorf("of the peak %d bytes are features", m.PeakOf(tensor.Features))
			}
			m.Close()
		}
		if peaks[0] != peaks[1] || live[0] != live[1] {
			t.Errorf("with %d idle elements: taken, the peak is %d and %d are live; reserved, %d and %d",
				idle, peaks[0], live[0], peaks[1], live[1])
		}
	}
}

// TestContinue: a Meter that continues another has the other's peak, by kind too, until its own is higher.
func TestContinue(t *testing.T) {
	before := tensor.NewMeter()
	defer before.Close()
	before.New(tensor.Activations, 3*page/4, 1)
	before.New(tensor.Gradients, 2*page/4, 1)
	meter := tensor.NewMeter()
	defer meter.Close()
	meter.New(tensor.Features, 4*page/4, 1)
	want := func(total int64, pages map[tensor.Kind]int64) {
		t.Helper()
		if meter.Peak() != total*page {
			t.Errorf("a peak of %d bytes, want %d pages", meter.Peak(), total)
		}
		for _, k := range kinds {
			if got := meter.PeakOf(k); got != pages[k]*page {
				t.Errorf("the peak has %d bytes of %v, want %d pages", got, k, pages[k])
			}
		}
	}
	meter.Continue(before.Peaks())
	earlier := map[tensor.Kind]int64{tensor.Activations: 3, tensor.Gradients: 2}
	want(5, earlier)
	meter.New(tensor.Parameters, page/4, 1) // no more than the earlier peak
	want(5, earlier)
	meter.New(tensor.Optimizer, page/4, 1)
	own := map[tensor.Kind]int64{tensor.Features: 4, tensor.Parameters: 1, tensor.Optimizer: 1}
	want(6, own)
	meter.Continue(before.Peaks())
	want(6, own)
}
