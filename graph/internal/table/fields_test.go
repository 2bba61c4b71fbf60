package table

import (
	"strconv"
	"testing"
)

// A number is strconv's.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{
		"0", "-0", "-1.5", "1e22", "12345678901234567890", "0.1", "1e-5", "-.5e+03",
		"nan", "", "1e", "-", "+1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, wrong := strconv.ParseFloat(s, 64)
		x, ok := Number([]byte(s))
		if ok != (wrong == nil) || ok && x != want && x == x {
			t.Fatalf("%q: %v, %v; want %v, %v", s, x, ok, want, wrong)
		}
	})
}
