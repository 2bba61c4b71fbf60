package cli

import (
	"os"
	"testing"
)

func TestPeakResident(t *testing.T) {
	if peak := PeakResident(); peak < 1<<20 || peak > 1<<36 {
		t.Errorf("%d bytes", peak)
	}
	if _, err := os.Stat("/proc/meminfo"); err == nil && ProcBytes("/proc/meminfo", "MemTotal") < 1<<26 {
		t.Error("no memory was found")
	}
}
