package bench

import (
	"testing"

	"weft/internal/assert"
)

// TestRatesOfLittleMemory: there is no rate where its data would leave too little memory. TestExamine of
// cmd/weft looks at the rates.
func TestRatesOfLittleMemory(t *testing.T) {
	const scarce = 16 << 20
	_, _, err := MemoryRates(1, scarce)
	assert.ErrorContains(t, err, "16 MB", "memory rates within 16 MB")
	_, err = ArithmeticRate(1, scarce)
	assert.Error(t, err, "an arithmetic rate within 16 MB")
}
