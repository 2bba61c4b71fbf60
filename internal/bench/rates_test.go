package bench

import (
	"strings"
	"testing"
)

// TestRates: there is a rate for one thread and for several, and none where its data would leave too little
// memory.
func TestRates(t *testing.T) {
	const plenty = 1 << 40
	read, gather, err := MemoryRates(2, plenty)
	if err != nil {
		t.Fatal(err)
	}
	flops, err := ArithmeticRate(2, plenty)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Rate{"read": read, "gather": gather, "flops": flops} {
		if !(r.One > 1e6 && r.All > 1e6 && r.One < 1e15 && r.All < 1e15) {
			t.Errorf("%s: %v a second", name, r)
		}
	}
	const scarce = 16 << 20
	if _, _, err := MemoryRates(1, scarce); err == nil || !strings.Contains(err.Error(), "16 MB") {
		t.Errorf("memory rates within 16 MB: %v", err)
	}
	if _, err := ArithmeticRate(1, scarce); err == nil {
		t.Error("an arithmetic rate within 16 MB")
	}
}
