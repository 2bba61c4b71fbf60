package setting

import "testing"

// TestRounded: amounts are written in the largest decimal unit of which there is one (IEC 80000-13), with a
// decimal below ten.
func TestRounded(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0 B", 7: "7 B", 999: "999 B", 1000: "1.0 kB", 9_900: "9.9 kB", 10_000: "10 kB", 999_000: "999 kB",
		1_000_000: "1.0 MB", 2_500_000_000: "2.5 GB", 31_000_000_000_000: "31 TB", 4_000_000_000_000_000: "4000 TB",
	} {
		if got := b.Rounded(); got != want {
			t.Errorf("%d is written %q, want %q", int64(b), got, want)
		}
	}
}
