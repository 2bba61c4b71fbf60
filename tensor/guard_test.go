//go:build weftdebug

package tensor_test

import (
	"encoding/binary"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"weft/internal/assert"
	"weft/tensor"
)

// TestGuardPages: in a debug build a step before or after a matrix that fills its pages faults.
func TestGuardPages(t *testing.T) {
	debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(false)
	meter := tensor.NewMeter()
	defer meter.Close()
	for _, rows := range []int{1, 2, 1 << 10} { // one page, two, and enough for huge pages
		m := meter.New(tensor.Buffers, rows, page/4)
		m.Floats()[0], m.Floats()[m.Len()-1] = 1, 1
		for _, step := range []int{-4, 4 * m.Len()} {
			func() {
				defer func() {
					if p, ok := recover().(error); !ok ||
						!strings.Contains(p.Error(), "invalid memory address") {
						t.Errorf("byte %d of %d: %v, want a fault", step, 4*m.Len(), p)
					}
				}()
				*(*float32)(unsafe.Add(m.Pointer(), step)) = 1
			}()
		}
		m.Release()
	}
}

// TestPlanFaults: in a debug build a write to a plan's matrix faults. A read finds zeros.
func TestPlanFaults(t *testing.T) {
	debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(false)
	meter := tensor.NewMeter()
	defer meter.Close()
	meter.Plan()
	m := meter.New(tensor.Buffers, 1, 1)
	if x := m.Floats()[0]; x != 0 || meter.Peak() == 0 {
		t.Errorf("a plan's matrix has %v, and is charged %d bytes", x, meter.Peak())
	}
	defer func() {
		if p, ok := recover().(error); !ok || !strings.Contains(p.Error(), "invalid memory address") {
			t.Errorf("%v, want a fault", p)
		}
	}()
	m.Floats()[0] = 1
}

// TestExtentsAreBlank: in a debug build a new matrix, and the gap behind each, hold numbers that show in
// results. A kernel must not write to the gap.
func TestExtentsAreBlank(t *testing.T) {
	m, d := newOnDevice(t, 8)
	for written, want := range map[uint64]any{
		0: nil, 24: "tensor: byte 0 behind a matrix of 2×3 was written on the device",
		2*page - 1: "tensor: byte 8167 behind a matrix of 2×3 was written on the device",
	} {
		x := m.New(tensor.Activations, 2, 3)
		x.Floats()[0] = 1
		at := onDevice(t, m, false, x)[0]
		for p := at + 24; p < at+2*page; p += 4 {
			assert.Equal(t, 0x7fffffff, binary.LittleEndian.Uint32(d.at(p, 4)))
		}
		there := &d.at(at+written, 1)[0]
		before := *there
		*there = 1
		func() {
			defer func() { assert.Equal(t, want, recover()) }()
			x.Release()
		}()
		*there = before
	}
}
