package planning

import (
	"math"
	"testing"

	"weft/internal/assert"
	"weft/train/plan"
)

// TestInVain: by hand, 100 bytes that no partition divides and 800 of all: 500 in two, 300 in four, 200 in
// eight.
func TestInVain(t *testing.T) {
	for _, c := range []struct {
		before, need, room int64
		want               bool
	}{
		{math.MaxInt64, 500, 1, false}, // nothing is known of fewer
		{500, 300, 99, false},
		{300, 200, 1, false}, // it might be halved yet
		{200, 150, 60, false},
		{200, 150, 49, true},
		{125, 113, 80, true},
		{500, 500, 499, true},
		{400, 500, 450, true},
	} {
		assert.Equal(t, c.want, inVain(c.before, plan.Exceeds{Need: c.need, Room: c.room}), "%+v", c)
	}
}
