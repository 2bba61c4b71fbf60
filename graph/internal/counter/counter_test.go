package counter

import (
	"math"
	"slices"
	"testing"

	"weft/internal/assert"
)

// The first draws of SplitMix64 from state 0, as published with the Java reference implementation.
func TestNextIsSplitMix64(t *testing.T) {
	var q Sequence
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		assert.Equal(t, want, q.Next(), "draw %d", i)
	}
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(20) {
		for _, purpose := range []string{"edges", "features"} {
			s := New(seed, purpose)
			for index := range uint64(20) {
				q := s.At(index)
				seen[q.Next()] = true
			}
		}
	}
	assert.Len(t, seen, 20*2*20, "distinct first draws")
}

func TestBelowIsUniform(t *testing.T) {
	const n, draws = 7, 70000
	s, counts := New(3, "test"), [n]float64{}
	for i := range uint64(draws) {
		q := s.At(i)
		counts[q.Below(n)]++
	}
	chi := 0.0
	for _, c := range counts {
		chi += (c - draws/n) * (c - draws/n) / (draws / n)
	}
	if chi > 22.5 { // six degrees of freedom: one in a thousand
		t.Errorf("χ² = %.1f over %v", chi, counts)
	}
}

func TestNormals(t *testing.T) {
	const rows, columns = 4000, 9
	s, row := New(1, "test"), make([]float32, columns)
	moments := [5]float64{}
	for i := range uint64(rows) {
		s.Normals(row, i)
		short := make([]float32, 4)
		if s.Normals(short, i); !slices.Equal(short, row[:4]) {
			t.Fatalf("row %d: %v is no prefix of %v", i, short, row)
		}
		for _, x := range row {
			for k := range moments {
				moments[k] += math.Pow(float64(x), float64(k)) / (rows * columns)
			}
		}
	}
	for k, want := range []float64{1, 0, 1, 0, 3} {
		assert.Near(t, want, moments[k], 0.1, "moment %d", k)
	}
}
