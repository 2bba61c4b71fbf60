package bench

import (
	"strings"
	"testing"
)

// TestRatesOfLittleMemory: there is no rate where its data would leave too little memory. TestExamine of
// cmd/weft looks at the rates.
func TestRatesOfLittleMemory(t *testing.T) {
	const scarce = 16 << 20
	if _, _, err := MemoryRates(1, scarce); err == nil || !strings.Contains(err.Error(), "16 MB") {
		t.Errorf("memory rates within 16 MB: %v", err)
	}
	if _, err := ArithmeticRate(1, scarce); err == nil {
		t.Error("an arithmetic rate within 16 MB")
	}
}
