package number

import (
	"errors"
	"strconv"
	"testing"

	"weft/internal/assert"
)

// TestParse: numbers as other programs write them are read, and literals of Go are not.
func TestParse(t *testing.T) {
	for text, want := range map[string]float64{"10": 10, "-1.5e3": -1500, ".5": .5, "+2": 2, "1E-1": .1} {
		x, err := Parse(text, 64)
		assert.NoError(t, err)
		assert.Equal(t, want, x)
	}
	for _, text := range []string{"1_0", "0x1p3", "0X10", "1_000.5", "", "ten"} {
		if x, err := Parse(text, 64); !errors.Is(err, strconv.ErrSyntax) {
			t.Errorf("%q is %v: %v", text, x, err)
		}
	}
}
