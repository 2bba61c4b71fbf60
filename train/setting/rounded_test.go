package setting

import (
	"testing"

	"weft/internal/assert"
)

// TestRounded: amounts are written in the largest decimal unit of which there is one (IEC 80000-13), with a
// decimal below ten.
func TestRounded(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0 B", 7: "7 B", 999: "999 B", 1000: "1.0 kB", 9_900: "9.9 kB", 10_000: "10 kB", 999_000: "999 kB",
		1_000_000: "1.0 MB", 2_500_000_000: "2.5 GB", 31_000_000_000_000: "31 TB",
		4_000_000_000_000_000: "4000 TB",
	} {
		assert.Equal(t, want, b.Rounded(), "%d is written", int64(b))
	}
}

// TestRoundedUp: the amount that is written suffices as a limit, and is the least with its digits.
func TestRoundedUp(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0 B", 999: "999 B", 1001: "1.1 kB", 1100: "1.1 kB", 9_901: "10 kB", 10_001: "11 kB",
		44_100_001:  "45 MB",
		999_000_001: "1.0 GB", 2_200_000_000: "2.2 GB", 2_200_000_001: "2.3 GB",
		4_000_000_000_000_001: "4001 TB",
	} {
		got := b.RoundedUp()
		var read Bytes
		if err := read.UnmarshalText([]byte(got)); got != want || read < b || err != nil {
			t.Errorf("%d is written %q and read %d, %v, want %q", int64(b), got, int64(read), err, want)
		}
	}
}
