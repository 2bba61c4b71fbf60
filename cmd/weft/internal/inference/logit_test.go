package inference

import (
	"testing"

	"weft/internal/assert"
)

// TestLogitOf: by hand, also where exp of the difference is beyond float64.
func TestLogitOf(t *testing.T) {
	for _, c := range []struct {
		row   []float32
		class int
		want  float64
	}{
		{[]float32{1, 3}, 1, 2},
		{[]float32{0, 0, 0}, 0, -0.6931471805599453}, // log(1/2)
		{[]float32{-1000, 1000}, 1, 2000},
		{[]float32{-1000, 1000}, 0, -2000},
		{[]float32{2e6, 0, 0}, 0, 2e6 - 0.6931471805599453},
	} {
		assert.Near(t, c.want, logitOf(c.row, c.class), 1e-9, "%v", c.row)
	}
}
