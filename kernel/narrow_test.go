package kernel_test

import (
	"math/rand/v2"
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestNarrow: Narrow rounds each element like RoundBFloat16, and the Meter has half the bytes afterwards.
func TestNarrow(t *testing.T) {
	mem := tensor.NewMeter()
	defer mem.Close()
	team, r := kernel.NewTeam(3, mem), rand.New(rand.NewPCG(1, 2))
	for _, rows := range []int{0, 1, 5, 1023, 1024, 1025, 4097, 100_003} {
		m := mem.New(tensor.Buffers, rows, 3)
		want := make([]uint16, m.Len())
		for i := range want {
			x := float32(r.NormFloat64())
			m.Floats()[i], want[i] = x, tensor.RoundBFloat16(x)
		}
		before := mem.Live(tensor.Buffers)
		team.Narrow(m)
		for i, got := range m.BFloat16s() {
			if got != want[i] {
				t.Fatalf("%d rows: element %d is %04x, want %04x", rows, i, got, want[i])
			}
		}
		if live := mem.Live(tensor.Buffers); rows > 4000 && (live > before/2+4096 || live < before/2) {
			t.Errorf("%d rows: %d bytes of %d are left", rows, live, before)
		}
		m.Release()
	}
}
