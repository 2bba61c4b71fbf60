package kernel

import (
	"sync"
	"testing"

	"weft/tensor"
)

// TestIdleProducts: teams that multiply at the same time share oneDNN's products. A bounded number of them is
// kept, each once. The next product of a shape takes a kept one.
func TestIdleProducts(t *testing.T) {
	multiply := func(in, out int) {
		team := NewTeam(1, tensor.NewMeter())
		defer team.Memory.Close()
		x, w, z := team.Memory.New(tensor.Buffers, 2, in), team.Memory.New(tensor.Buffers, in, out),
			team.Memory.New(tensor.Buffers, 2, out)
		team.Fill(x, 2)
		team.Fill(w, 3)
		for _, to := range []Output{Replace, Accumulate} {
			team.MatMul(z, x, w, Straight, to)
		}
		for _, got := range z.Floats() {
			if want := float32(12 * in); got != want {
				t.Errorf("%d columns to %d: %v, want %v", in, out, got, want)
				return
			}
		}
	}
	kept := func() int {
		idleProducts.mu.Lock()
		defer idleProducts.mu.Unlock()
		n, seen := 0, map[any]bool{}
		for _, list := range idleProducts.idle {
			for _, p := range list {
				if seen[p] {
					t.Error("a product is kept twice")
				}
				seen[p] = true
				n++
			}
		}
		if n != idleProducts.count || n > mostIdleProducts {
			t.Errorf("%d products are kept, %d are counted, %d may be kept", n,
				idleProducts.count, mostIdleProducts)
		}
		return n
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for in := 1; in <= mostIdleProducts/2+20; in++ { // two shapes for each width
				multiply(in, 1)
			}
		})
	}
	all.Wait()
	if kept() == 0 {
		t.Fatal("no product is kept")
	}
	multiply(5, 4)
	before := kept()
	multiply(5, 4)
	if after := kept(); after != before {
		t.Errorf("%d products are kept after a shape that was there, %d before", after, before)
	}
}
