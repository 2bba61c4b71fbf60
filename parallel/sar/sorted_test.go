package sar

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSorted: edges are listed by source, and those of one source in their order, for keys of one digit and
// of several.
func TestSorted(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 2048, 2049, 1 << 20, 1<<31 - 1} {
		for _, count := range []int{0, 1, 700} {
			keys, want := make([]int32, count), make([]int32, count)
			for k := range keys {
				keys[k], want[k] = int32(draw.IntN(n)), int32(k)
				if k%3 == 0 {
					keys[k] = keys[k/2]
				}
			}
			slices.SortStableFunc(want, func(a, b int32) int { return int(keys[a]) - int(keys[b]) })
			if got := sorted(make([]int32, count), keys, n); !slices.Equal(got, want) {
				t.Errorf("%d keys below %d: %v, want %v", count, n, got, want)
			}
		}
	}
}
