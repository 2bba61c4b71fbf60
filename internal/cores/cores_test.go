package cores

import (
	"runtime"
	"testing"
)

// TestSpare: the scheduler gets one processor more, once, and the count of cores stays.
func TestSpare(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	if got := Count(); got != 3 {
		t.Errorf("%d cores, want 3", got)
	}
	for range 2 {
		Spare()
		if Count() != 3 || runtime.GOMAXPROCS(0) != 4 {
			t.Errorf("with a spare: %d cores of %d processors, want 3 of 4", Count(), runtime.GOMAXPROCS(0))
		}
	}
}
