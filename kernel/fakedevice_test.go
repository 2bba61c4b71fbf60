package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"weft/internal/assert"
	"weft/tensor"
)

// elsewhere is a card in other memory of this machine. It runs the CPU's kernels.
type elsewhere struct {
	tensor.Mover        // copies beside kernels, which are not used
	arena        []byte // its memory, NaNs at first
	kernels      bool   // it has all kernels; otherwise it has none
	waits        int    // number of calls of Sync
	launches     int
}

// NewTeamElsewhere returns a function that makes a team on such a card, with kernels or without.
func NewTeamElsewhere(kernels bool) func(threads int, memory *tensor.Meter) *Team {
	return func(threads int, memory *tensor.Meter) *Team {
		c := &elsewhere{kernels: kernels}
		if err := memory.On(c, 32<<20); err != nil {
			panic(err)
		}
		t := NewDeviceTeam(c, threads, memory)
		t.partials = cpuPartials // as many as the CPU's kernels have
		if kernels {
			t.backend.(*device).shapes = everyShape()
		}
		return t
	}
}

// asked is a card that notes which of the kernels it was asked for it lacks.
type asked struct {
	Device
	lacks []string
	next  string // the kernel that was cut, until it is launched
}

// cut sets next to a kernel.
func (c *asked) cut(kernel string) {
	if c.next != "" {
		c.lacks = append(c.lacks, c.next)
	}
	c.next = kernel
}

func (c *asked) Launch(kernel string, blocks, threads int, args unsafe.Pointer, bytes int) error {
	c.next = ""
	return c.Device.Launch(kernel, blocks, threads, args, bytes)
}

// asks returns the function of a kernel's shape that also calls cut: the kernel must then be launched.
// Attention with features of edges is an exception.
func asks[T any](c *asked, k routine, f func(unsafe.Pointer, T, int) shape) func(unsafe.Pointer, T, int) shape {
	return func(args unsafe.Pointer, element T, n int) shape {
		s, features := f(args, element, n), false
		pointers, _ := k.pointers()
		for _, p := range pointers {
			if strings.HasPrefix(p.name, "edge_") {
				features = features || *(*unsafe.Pointer)(unsafe.Add(args, p.offset)) != nil
			}
		}
		if s.threads > 0 || s.block == 0 && !features {
			c.cut(names[k.name])
		}
		return s
	}
}

func (c *asked) Has(kernel string) bool {
	has := c.Device.Has(kernel)
	if !has {
		c.lacks = append(c.lacks, kernel)
	}
	return has
}

// FellBack calls run. It returns the kernels that the team's device lacks, or that ran on the CPU although
// devices have them. Attention with features of edges may do so.
func FellBack(t *Team, run func()) (fell []string) {
	d, ok := t.backend.(*device)
	if !ok {
		run()
		return nil
	}
	card := &asked{Device: d.card}
	d.card, d.shapes = card, maps.Clone(d.shapes)
	for k := range names {
		r := routine{}
		set(&r.name, k)
		if d.shapes[r.name] != nil {
			d.shapes[r.name] = asks(card, r, d.shapes[r.name])
		}
	}
	run()
	card.cut("")
	for k, name := range names {
		kernel := routine{}
		set(&kernel.name, k)
		if _, ran := t.Memory.DeviceUse().OnCPU[name]; ran && shapes[kernel.name] != nil && !strings.HasPrefix(name, "attend") {
			fell = append(fell, name)
		}
	}
	return append(fell, card.lacks...)
}

// everyShape returns a shape for all kernels: the card of this machine needs none.
func everyShape() shapeTable {
	all := shapeTable{}
	for k := range names {
		r := routine{}
		set(&r.name, k)
		all[r.name] = anyShape(all[r.name])
	}
	return all
}

func anyShape[T any](func(unsafe.Pointer, T, int) shape) func(unsafe.Pointer, T, int) shape {
	return func(unsafe.Pointer, T, int) shape { return shape{"", 1, 1} }
}

func (c *elsewhere) Alloc(bytes int64) (uint64, error) {
	c.arena = slices.Repeat([]byte{0xff}, int(bytes))
	return uint64(uintptr(unsafe.Pointer(&c.arena[0]))), nil
}

func (c *elsewhere) at(address uint64, bytes int) []byte {
	first := address - uint64(uintptr(unsafe.Pointer(&c.arena[0])))
	return c.arena[first:][:bytes]
}

func (c *elsewhere) ToDevice(to uint64, from []byte) error {
	copy(c.at(to, len(from)), from)
	return nil
}

func (c *elsewhere) ToHost(to []byte, from uint64) error {
	copy(to, c.at(from, len(to)))
	return nil
}

func (c *elsewhere) Copy(to, from uint64, bytes int64) error {
	copy(c.at(to, int(bytes)), c.at(from, int(bytes)))
	return nil
}

func (c *elsewhere) Sync() error {
	c.waits++
	return nil
}

// Elapsed counts a second for each launch.
func (c *elsewhere) Elapsed(ask func()) (float64, error) {
	before := c.launches
	ask()
	return float64(c.launches - before), c.Sync()
}

func (*elsewhere) Cache() int64 { return 0 }

func (*elsewhere) Graphs() tensor.Graphs { return tensor.Graphs{} }

// Has leaves out kernels that weft.h's tables do not have on this machine: products, which are oneDNN's, and
// Go code.
func (c *elsewhere) Has(kernel string) bool {
	return c.kernels && !strings.HasPrefix(kernel, "product") && !strings.HasPrefix(kernel, "weight") &&
		!strings.HasPrefix(kernel, "gelu") && !strings.HasPrefix(kernel, "sqrt") &&
		!strings.HasPrefix(kernel, "merge_moments") && !strings.HasPrefix(kernel, "move") &&
		!strings.HasPrefix(kernel, "running")
}

// Launch runs a kernel of the CPU.
func (c *elsewhere) Launch(kernel string, _, _ int, args unsafe.Pointer, _ int) error {
	c.launches++
	name, segments := strings.CutSuffix(kernel, "_segments")
	var l launch
	l.links = make([]link, 1)
	r := &l.links[0].routine
	name, isFloat := strings.CutSuffix(name, "_float32")
	if !isFloat {
		r.element = typeOf(&tensor.Matrix{Element: tensor.BFloat16})
		name, _ = strings.CutSuffix(name, "_bfloat16")
	}
	k := slices.Index(names[:], name)
	if k < 0 {
		return fmt.Errorf("no kernel %s", kernel)
	}
	set(&r.name, k)
	_, size := r.pointers()
	l.links[0].args = args
	behind := unsafe.Add(args, (size+7)/8*8)
	if !segments {
		rows := (*[2]int)(behind)
		for lo := rows[0]; lo < rows[1]; { // no more than a tile at a time: some kernels have sums of tiles
			hi := min((lo/1024+1)*1024, rows[1])
			l.links[0].over(lo, hi)
			lo = hi
		}
		return nil
	}
	valueAt(&l.partials, behind)
	l.segments = sliceAt(l.segments, unsafe.Pointer(l.partials.of), int(l.partials.count))
	newCPU(1).run(l)
	return nil
}

// set sets a number of a C type.
func set[T ~int32](p *T, k int) { *p = T(k) }

// sliceAt returns n elements of a C type.
func sliceAt[T any](_ []T, p unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(p), n) }

// valueAt copies a value of a C type from an address.
func valueAt[T any](to *T, p unsafe.Pointer) { *to = *(*T)(p) }

// TestWaits: on a team that Waits, a call that Watch makes is done when run returns.
func TestWaits(t *testing.T) {
	memory := tensor.NewMeter()
	defer memory.Close()
	team := NewTeamElsewhere(true)(1, memory)
	card := team.backend.(*device).card.(*elsewhere)
	m := memory.New(tensor.Buffers, 3, 5)
	defer m.Release()
	for waits := range 2 {
		team.Waits = waits > 0
		team.Watch = func(c Call, run func()) {
			assert.Equal(t, "fill", c.Kernel)
			before := card.waits
			run()
			assert.Equal(t, waits, card.waits-before)
		}
		team.Fill(m, 1)
	}
}

// TestTiming: a call is made three times, and then twenty times between the device's timers. An equal call is
// made once.
func TestTiming(t *testing.T) {
	memory := tensor.NewMeter()
	defer memory.Close()
	team := NewTeamElsewhere(true)(1, memory)
	card := team.backend.(*device).card.(*elsewhere)
	m, n := memory.New(tensor.Buffers, 3, 5), memory.New(tensor.Buffers, 4, 5)
	defer m.Release()
	defer n.Release()
	var told []float64
	team.Watch = team.Timing(func(c Call, seconds float64) {
		assert.Equal(t, "fill", c.Kernel)
		told = append(told, seconds)
	})
	for k, made := range []struct {
		m        *tensor.Matrix
		launches int
	}{{m, 23}, {m, 1}, {n, 23}, {m, 1}} {
		before := card.launches
		team.Fill(made.m, 1)
		assert.Equal(t, made.launches, card.launches-before, "call %d", k)
	}
	assert.Equal(t, []float64{1, 1, 1, 1}, told)
}

// everything is a card that claims to have all kernels.
type everything struct{ Device }

func (everything) Has(string) bool { return true }

// TestNoMatrix: a kernel that only devices have refuses an operand that is no matrix of the device's memory.
func TestNoMatrix(t *testing.T) {
	memory, other := tensor.NewMeter(), tensor.NewMeter()
	defer memory.Close()
	defer other.Close()
	card := &elsewhere{}
	assert.NoError(t, memory.On(card, 1<<20))
	team := NewDeviceTeam(everything{card}, 1, memory)
	m, strange := memory.New(tensor.Buffers, 3, 3), other.New(tensor.Buffers, 3, 3)
	for operand, run := range map[string]func(){
		"gelu: x":      func() { team.GELU(m, strange) },
		"gelu_back: y": func() { team.GELUBackward(m, m, strange) },
		"sqrt: z":      func() { team.Sqrt(strange, m, 0) },
		"product: w":   func() { team.MatMul(m, m, strange, Straight, Replace) },
		"weight: g":    func() { team.MatMulT(m, m, strange, Replace) },
	} {
		func() {
			defer func() {
				assert.Equal(t, any("kernel: "+operand+" is no matrix of the device's memory"), recover())
			}()
			run()
		}()
	}
}
