package generate

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/graph/internal/counter"
)

func containsOneLine(text, part string) bool {
	return strings.Contains(text, part) && !strings.Contains(text, "\n")
}

func TestPermutationIsABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "n")
		p := newPermutation(n, counter.New(rapid.Uint64().Draw(t, "seed"), "test").At(0))
		seen := make([]bool, n)
		for x := range uint64(n) {
			y := p.at(x)
			if seen[y] || p.inverse(y) != x {
				t.Fatalf("%d goes to %d, from which %d comes back, seen before: %t", x, y,
					p.inverse(y), seen[y])
			}
			seen[y] = true
		}
	})
}

func TestClassesHaveTheirMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 300).Draw(t, "n")
		o := Options{
			Kind: SBM, Vertices: n, Classes: rapid.IntRange(2, n).Draw(t, "classes"),
			Seed: rapid.Uint64().Draw(t, "seed"),
		}
		c := newClasses(&o)
		for class := range uint64(o.Classes) {
			seen := make([]bool, n)
			for k := range c.size(class) {
				v := c.member(class, k)
				if seen[v] || c.class(v) != class {
					t.Fatalf("member %d of class %d is %d of class %d", k, class, v, c.class(v))
				}
				seen[v] = true
			}
			for k := range uint64(n) - c.size(class) {
				v := c.other(class, k)
				if seen[v] || c.class(v) == class {
					t.Fatalf("vertex %d outside class %d is %d of class %d, seen before: %t", k, class,
						v, c.class(v), seen[v])
				}
				seen[v] = true
			}
		}
	})
}

// Neighbouring values go to unrelated ones: the χ² of (class of x, class of x+1) is that of independent
// draws.
func TestPermutationMixes(t *testing.T) {
	const n, classes = 100_000, 16
	for seed := range uint64(5) {
		p := newPermutation(n, counter.New(seed, "test").At(0))
		var counts [classes * classes]float64
		for x := range uint64(n - 1) {
			counts[p.at(x)*classes/n*classes+p.at(x+1)%classes]++
		}
		chi := 0.0
		for _, c := range counts {
			e := float64(n-1) / (classes * classes)
			chi += (c - e) * (c - e) / e
		}
		if chi > 330 { // 255 degrees of freedom: one in a thousand
			t.Errorf("seed %d: χ² = %.0f", seed, chi)
		}
	}
}
