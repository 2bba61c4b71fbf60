package rundir

import (
	"math"
	"testing"

	"weft/internal/assert"
)

// TestStudent: quantiles of scipy.stats.t.ppf(.975, freedom).
func TestStudent(t *testing.T) {
	for freedom, want := range map[int]float64{
		1: 12.706204736174694, 2: 4.302652729749462, 3: 3.1824463052837073, 4: 2.7764451051977925,
		7: 2.3646242515927849, 10: 2.2281388519649376, 29: 2.0452296421327034, 100: 1.9839715185235556,
	} {
		assert.Near(t, want, student95(freedom), 1e-9*want, "%d degrees of freedom", freedom)
	}
}

// TestInterval: of 1, 2, 3, 4, whose deviation is √(5/3), and of one number.
func TestInterval(t *testing.T) {
	assert.Near(t, 3.1824463052837073*math.Sqrt(5./3)/2, Interval([]float64{1, 2, 3, 4}), 1e-9)
	assert.Equal(t, true, math.IsNaN(Interval([]float64{1})))
}
