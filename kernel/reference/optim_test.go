package reference

import (
	"math"
	"testing"
)

// TestAdamEpsilonIsOutsideTheRoot: Adam's ε is added to the root, not under it. A first gradient as small as
// ε makes half a step.
func TestAdamEpsilonIsOutsideTheRoot(t *testing.T) {
	p := []float64{0}
	Adam(p, []float64{1e-8}, []float64{0}, []float64{0}, 1,
		AdamSettings{Rate: 1, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8})
	if math.Abs(p[0]+0.5) > 1e-9 {
		t.Errorf("step %g, want -0.5", p[0])
	}
}
