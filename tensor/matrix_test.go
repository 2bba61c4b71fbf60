package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"weft/tensor"
)

// panics fails unless f panics with a message that contains the text.
func panics(t *testing.T, text string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), text) {
			t.Errorf("panic %v, want one with %q", p, text)
		}
	}()
	f()
}

func TestViews(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	m := meter.New(tensor.Features, 4, 3)
	for i := range m.Floats() {
		m.Floats()[i] = float32(i)
	}
	rows := m.RowRange(1, 3)
	if rows.Rows != 2 || rows.Cols != 3 || rows.Floats()[0] != 3 || rows.Floats()[5] != 8 {
		t.Errorf("rows 1 and 2 are %d×%d %v", rows.Rows, rows.Cols, rows.Floats())
	}
	flat := m.Reshape(1, 12)
	flat.Floats()[4] = -1
	if m.Floats()[4] != -1 || rows.Floats()[1] != -1 {
		t.Error("a view is a copy")
	}
	if empty := m.RowRange(4, 4); empty.Len() != 0 || len(empty.Floats()) != 0 {
		t.Errorf("no rows hold %d elements", empty.Len())
	}
	live := meter.LiveTensors()
	rows.Release()
	flat.Release()
	if meter.LiveTensors() != live || m.Floats()[0] != 0 {
		t.Error("the release of a view gave memory back")
	}
	panics(t, "rows 3 to 5 of 4", func() { m.RowRange(3, 5) })
	panics(t, "rows -1 to 2 of 4", func() { m.RowRange(-1, 2) })
	panics(t, "rows 2 to 1 of 4", func() { m.RowRange(2, 1) })
	panics(t, "4×3 as 5×3", func() { m.Reshape(5, 3) })
}

func TestElements(t *testing.T) {
	meter, plan := tensor.NewMeter(), tensor.NewMeter()
	defer meter.Close()
	defer plan.Close()
	plan.Plan()
	// the bytes of what each accessor gives: to read and write, to read, to write
	for element, bytes := range map[tensor.Element]func(*tensor.Matrix) [3]int{
		tensor.Float32: func(m *tensor.Matrix) [3]int {
			return [3]int{4 * len(m.Floats()), 4 * len(m.ReadFloats()), 4 * len(m.WriteFloats())}
		},
		tensor.Float64: func(m *tensor.Matrix) [3]int {
			return [3]int{8 * len(m.Doubles()), 8 * len(m.ReadDoubles()), 8 * len(m.WriteDoubles())}
		},
		tensor.Int32: func(m *tensor.Matrix) [3]int {
			return [3]int{4 * len(m.Int32s()), 4 * len(m.ReadInt32s()), 4 * len(m.WriteInt32s())}
		},
		tensor.Int64: func(m *tensor.Matrix) [3]int {
			return [3]int{8 * len(m.Int64s()), 8 * len(m.ReadInt64s()), 8 * len(m.WriteInt64s())}
		},
		tensor.BFloat16: func(m *tensor.Matrix) [3]int {
			return [3]int{2 * len(m.BFloat16s()), 2 * len(m.ReadBFloat16s()), 2 * len(m.WriteBFloat16s())}
		},
	} {
		m := meter.NewElement(tensor.Buffers, element, 5, 7)
		planned := plan.NewElement(tensor.Buffers, element, 5, 7)
		all := 35 * element.Size()
		if n := bytes(m); n != [3]int{all, all, all} || m.Len() != 35 || len(m.Bytes()) != all ||
			len(m.ReadBytes()) != all || len(m.WriteBytes()) != all {
			t.Errorf("element type %d: %d bytes of %d elements", element, n, m.Len())
		}
		for _, matrix := range []*tensor.Matrix{planned, planned.RowRange(1, 5)} {
			if n := bytes(matrix); n != [3]int{matrix.Len() * element.Size()} ||
				len(matrix.ReadBytes()) != 0 ||
				len(matrix.WriteBytes()) != 0 {
				t.Errorf("element type %d: a plan gives %d bytes", element, n)
			}
		}
		for other := range tensor.Int64 + 1 {
			if other != element {
				panics(t, "element type", func() { bytes(&tensor.Matrix{Element: other}) })
			}
		}
	}
	var none *tensor.Matrix
	if len(none.ReadFloats())+len(none.WriteInt32s())+len(none.ReadBytes())+len(none.WriteBytes()) > 0 {
		t.Error("nil has elements")
	}
	for _, mem := range []*tensor.Meter{meter, plan} {
		m := mem.NewElement(tensor.Buffers, tensor.Int32, 1, 2)
		m.Known([]int32{3, 4})
		known := []int32{0, 0}
		if mem == plan {
			known = []int32{3, 4}
		}
		if got := m.ReadInt32s(); !slices.Equal(got, known) {
			t.Errorf("%v is known, want %v", got, known)
		}
	}
	panics(t, "-1×2", func() { meter.New(tensor.Buffers, -1, 2) })
}

// TestUseAfterRelease: a released matrix cannot be read or passed to a kernel, and a second release does
// nothing.
func TestUseAfterRelease(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	m := meter.New(tensor.Activations, 3, 3)
	m.Release()
	for name, use := range map[string]func(){
		"pointer": func() {
			m.Pointer()
		}, "floats": func() {
			m.Floats()
		}, "rows": func() { m.RowRange(0, 1) }, "reshape": func() { m.Reshape(9, 1) },
	} {
		t.Run(name, func(t *testing.T) { panics(t, "released", use) })
	}
	other := meter.New(tensor.Activations, 3, 3) // takes m's memory
	m.Release()
	if live := meter.Live(tensor.Activations); live != 4096 {
		t.Errorf("a second release left %d bytes live", live)
	}
	other.Floats()[0] = 1
	(*tensor.Matrix)(nil).Release()
}

func TestSameShape(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	m := meter.New(tensor.Buffers, 2, 3)
	tensor.SameShape(m, meter.New(tensor.Graph, 2, 3))
	panics(t, "2×3 and 3×2", func() { tensor.SameShape(m, m.Reshape(3, 2)) })
}

// TestRoundBFloat16 has numbers by hand: 1 + 2⁻⁸ lies between 1, which is even, and 1 + 2⁻⁷.
func TestRoundBFloat16(t *testing.T) {
	for _, c := range []struct {
		x    float32
		bits uint16
	}{
		{0, 0},
		{float32(math.Copysign(0, -1)), 0x8000},
		{1, 0x3f80},
		{-2, 0xc000},
		{1 + 1.0/256, 0x3f80},
		{1 + 3.0/256, 0x3f82},
		{1 + 1.0/256 + 1.0/(1<<20), 0x3f81},
		{-1 - 3.0/256, 0xbf82},
		{math.MaxFloat32, 0x7f80},
		{0x1.fep127, 0x7f7f},
		{0x1p-133, 0x0001},
		{0x1p-134, 0x0000},
		{0x1.8p-133, 0x0002},
		{float32(math.Inf(1)), 0x7f80},
		{float32(math.Inf(-1)), 0xff80},
		{math.Float32frombits(0x7f800001), 0x7fc0},
		{math.Float32frombits(0xffffffff), 0xffff},
	} {
		if got := tensor.RoundBFloat16(c.x); got != c.bits {
			t.Errorf("%g rounds to %#04x, want %#04x", c.x, got, c.bits)
		}
	}
	for bits := range 1 << 16 {
		x := tensor.FromBFloat16(uint16(bits))
		if got := tensor.RoundBFloat16(x); got != uint16(bits) && x == x {
			t.Errorf("%#04x becomes %#04x", bits, got)
		}
		if y := tensor.FromBFloat16(tensor.RoundBFloat16(x)); x != x && y == y {
			t.Errorf("%#04x is no NaN any more", bits)
		}
	}
}

// TestBFloat16Matrix: views of rows count two bytes for an element.
func TestBFloat16Matrix(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	m := meter.NewElement(tensor.Activations, tensor.BFloat16, 3, 5)
	for i := range m.BFloat16s() {
		m.BFloat16s()[i] = uint16(i)
	}
	if got := m.RowRange(1, 3).Reshape(1, 10).BFloat16s(); got[0] != 5 || got[9] != 14 {
		t.Errorf("rows 1 and 2 are %v", got)
	}
	if got := len(m.Bytes()); got != 30 {
		t.Errorf("15 elements have %d bytes", got)
	}
}
