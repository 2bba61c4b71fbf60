//go:build !weftdebug

package tensor_test

import (
	"slices"
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
			if divided := left.Pointer() == p &&
				right.Pointer() == unsafe.Add(p, 4*page); divided != (pages == 10) {
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

// TestWatch: the function of Watch is told after each change what is charged. The largest value is the peak,
// also if it was only reserved.
func TestWatch(t *testing.T) {
	m := tensor.NewMeter()
	defer m.Close()
	features := m.New(tensor.Features, 1, 10*page/4)
	var told []tensor.Usage
	m.Watch(func(u tensor.Usage) { told = append(told, u) })
	m.New(tensor.Activations, 1, 5*page/4).Release()
	m.New(tensor.Graph, 1, page/4)
	m.Reserve(20 * page)
	m.Watch(nil)
	features.Release()
	use := func(features, activations, buffers, graph, idle, counted int64) (u tensor.Usage) {
		u.Kinds[tensor.Features], u.Kinds[tensor.Activations] = features*page, activations*page
		u.Kinds[tensor.Buffers], u.Kinds[tensor.Graph] = buffers*page, graph*page
		u.Idle, u.Counted = idle*page, counted*page
		return u
	}
	want := []tensor.Usage{
		use(10, 0, 0, 0, 0, 10), use(10, 5, 0, 0, 0, 15), use(10, 0, 0, 0, 5, 15), use(10, 0, 0, 1, 4, 14),
		use(10, 0, 20, 1, 0, 30),
	}
	if !slices.Equal(told, want) || m.Peak() != 30*page {
		t.Errorf("told %+v, want %+v; the peak is %d", told, want, m.Peak())
	}
}
