package kernel

import (
	"slices"
	"testing"
)

// TestShares: each thread begins with the same share in every call, so that its caches still hold the data,
// and then goes on with the others' shares.
func TestShares(t *testing.T) {
	for n := 1; n < 20; n++ {
		for threads := 1; threads < 6; threads++ {
			begins := min(n, threads)
			for own := range begins {
				var done []int
				newCall(n, threads, func(k int) { done = append(done, k) }).take(own)
				if first := n * own / begins; done[0] != first {
					t.Errorf("thread %d of %d began %d pieces with %d, not %d", own,
						begins, n, done[0], first)
				}
				slices.Sort(done)
				for k := range n {
					if len(done) != n || done[k] != k {
						t.Fatalf("thread %d of %d alone did %v of %d pieces", own, begins, done, n)
					}
				}
			}
		}
	}
}
