package table

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"weft/internal/number"
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

// TestSingle: a field is the float32 that strconv has, to the bit, also where float64 lies between two.
func TestSingle(t *testing.T) {
	fields := []string{
		"0", "-0", "1", ".5", "16777217", "16777219", "1.00000005960464477539", "1.000000059604644775390625",
		"1.0000000596046448", "3.4028235e38", "3.4028236e+38", "1e39", "1.17549435e-38", "1e-45", "7e-46",
		"nan", "inf", "-Inf", "", "x", "1_000", "0x1p4", "8388608.5", "33554434.0000001", "123.456",
		"-99.995",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		fields = append(fields, strconv.FormatFloat(r.NormFloat64()*1000, 'f', r.IntN(12), 64),
			strconv.FormatFloat(float64(math.Float32frombits(r.Uint32())), 'g', 1+r.IntN(17), 64))
	}
	for _, field := range fields {
		want, refused := number.Parse(field, 32)
		got, err := single([]byte(field))
		if (err == nil) != (refused == nil) || math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%s: %v, %v, want %v, %v", field, got, err, want, refused)
		}
	}
}
