package setting

import (
	"testing"

	"weft/internal/assert"
)

// TestCount: numbers of things have the letters of thousands; what is between two, or none, is refused.
func TestCount(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "5000": 5000, "010": 10, "200k": 200_000, "2M": 2_000_000, "1.5b": 1_500_000_000,
		"3 G": 3_000_000_000,
		"1T":  1_000_000_000_000, "1e7": 10_000_000, "1_000": 1000,
		"10,000,000": 10_000_000, "1.1M": 1_100_000, "4.1M": 4_100_000, "10000000.0": 10_000_000,
	} {
		got, err := Count(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "k", "-1", "1.5", "64,12", "1000,000",
		"2MB", "0x10", "1e400", "9.3e18", "ten",
	} {
		if got, err := Count(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	for text, want := range map[string]string{
		"-5": "", "-9223372036854775808": "", "2k": "",
		"9223372036854775807":  "must be a whole number below 9.2e18",
		"1e300":                "must be a whole number below 9.2e18",
		"-9223372036854775809": "must be a whole number, as in 5000, 200k or 2M",
		"-1k":                  "must be a whole number, as in 5000, 200k or 2M",
	} {
		message := ""
		if _, err := Integer(text); err != nil {
			message = err.Error()
		}
		assert.Equal(t, want, message, text)
	}
	o := Defaults()
	for name, want := range map[string]string{"epochs": "2000", "eval-every": "2000", "patience": "2000"} {
		s, _ := settingNamed(name)
		assert.NoError(t, s.Set(&o, "2k"), name)
		assert.Equal(t, want, s.Text(&o), name)
	}
}
