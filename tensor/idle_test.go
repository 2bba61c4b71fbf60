//go:build !weftdebug

package tensor_test

import (
	"testing"
	"unsafe"

	"weft/tensor"
)

// TestIdleMemoryIsDivided: released memory of less than a huge page is divided among smaller matrices, and
// joined again when they are released, in either order. Memory of larger matrices stays whole.
func TestIdleMemoryIsDivided(t *testing.T) {
	for _, pages := range []int{10, 600} {
		for _, leftFirst := range []bool{true, false} {
			meter := tensor.NewMeter()
			defer meter.Close()
			meter.Reserve(1 << 30) // nothing is given back
			first := meter.New(tensor.Activations, pages, page/4)
			p := first.Pointer()
			first.Release()
			left, right := meter.New(tensor.Buffers, 4, page/4), meter.New(tensor.Buffers, 6, page/4)
			if divided := left.Pointer() == p && right.Pointer() == unsafe.Add(p, 4*page); divided != (pages == 10) {
				t.Errorf("%d pages: divided is %v", pages, divided)
			}
			if !leftFirst {
				left, right = right, left
			}
			left.Release()
			right.Release()
			if again := meter.New(tensor.Features, pages, page/4); pages == 10 && again.Pointer() != p {
				t.Error("4 and 6 pages side by side were not joined")
			}
		}
	}
}
