//go:build weftdebug

package tensor_test

import (
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

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

// TestPlanFaults: in a debug build who writes to a plan's matrix faults. Who reads it finds zeros.
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
