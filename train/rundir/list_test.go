package rundir

import (
	"math"
	"testing"

	"weft/train/metric"
)

// numpy.mean and numpy.std(ddof=1) of 1, 2 and 4.
func TestMeanAndDeviation(t *testing.T) {
	if m, d := MeanAndDeviation([]float64{1, 2, 4}); m != 7./3 || math.Abs(float64(d)-1.5275252316519468) > 1e-15 {
		t.Errorf("%v ± %v", m, d)
	}
	if m, d := MeanAndDeviation([]float64{.5}); m != .5 || d == d {
		t.Errorf("%v ± %v", m, d)
	}
}

func TestCompareMetric(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name string
		a, b float64
		want int
	}{
		{metric.Accuracy, .8, .7, -1},
		{metric.Accuracy, .7, .7, 0},
		{metric.RMSE, 8, 7, 1},
		{metric.RMSE, nan, 7, 1},
		{metric.Accuracy, 0, nan, -1},
		{metric.Accuracy, nan, nan, 0},
	} {
		if got := CompareMetric(c.name, c.a, c.b); got != c.want {
			t.Errorf("%s: %v and %v compare as %d", c.name, c.a, c.b, got)
		}
	}
}
