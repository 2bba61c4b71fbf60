package main

import (
	"math"
	"testing"
)

// numpy.mean and numpy.std(ddof=1) of 1, 2 and 4.
func TestMeanAndDeviation(t *testing.T) {
	if m, d := meanAndDeviation([]float64{1, 2, 4}); m != 7./3 || math.Abs(float64(d)-1.5275252316519468) > 1e-15 {
		t.Errorf("%v ± %v", m, d)
	}
	if m, d := meanAndDeviation([]float64{.5}); m != .5 || d == d {
		t.Errorf("%v ± %v", m, d)
	}
	if got, want := spread("rmse", 123.456, 1.23), "123.5 ± 1.2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
