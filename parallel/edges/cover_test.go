package edges

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// pair is an edge of a bipartite graph.
type pair struct{ left, right int32 }

func bipartiteOf(lefts, rights int, edges []pair) bipartite {
	return newBipartite(lefts, rights, func(edge func(left, right int32)) {
		for _, e := range edges {
			edge(e.left, e.right)
		}
	})
}

// TestMinimumCover tries all sets of vertices of small graphs: none smaller than the cover has an end of each
// edge. The cover does not depend on the order of the edges, which decides on the matching.
func TestMinimumCover(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		lefts, rights := 1+r.IntN(6), 1+r.IntN(6)
		var edges []pair
		for range r.IntN(2 * (lefts + rights)) {
			edges = append(edges, pair{r.Int32N(int32(lefts)), r.Int32N(int32(rights))})
		}
		left, right := bipartiteOf(lefts, rights, edges).minimumCover()
		size := 0
		for _, in := range slices.Concat(left, right) {
			if in {
				size++
			}
		}
		for _, e := range edges {
			if !left[e.left] && !right[e.right] {
				t.Fatalf("%v: %v and %v cover no end of %v", edges, left, right, e)
			}
		}
		for set := range 1 << (lefts + rights) {
			covers := !slices.ContainsFunc(edges,
				func(e pair) bool { return set>>e.left&1 == 0 && set>>(lefts+int(e.right))&1 == 0 })
			if covers && bits.OnesCount(uint(set)) < size {
				t.Fatalf("%v: %b is smaller than %v and %v", edges, set, left, right)
			}
		}
		for range 5 {
			r.Shuffle(len(edges), func(i, j int) { edges[i], edges[j] = edges[j], edges[i] })
			if l, r := bipartiteOf(lefts, rights, edges).minimumCover(); !slices.Equal(l, left) ||
				!slices.Equal(r, right) {
				t.Fatalf("%v: %v and %v, in another order %v and %v", edges, left, right, l, r)
			}
		}
	}
}

// TestMatchingOfAPath: on a path the greedy matching leaves both ends free. An augmenting path of all edges
// joins them.
func TestMatchingOfAPath(t *testing.T) {
	const n = 20000
	var edges []pair
	for u := range int32(n) {
		if u < n-1 {
			edges = append(edges, pair{u, u + 1})
		}
		edges = append(edges, pair{u, u})
	}
	if m := bipartiteOf(n, n, edges).maximumMatching(); slices.Contains(m.left, none) ||
		slices.Contains(m.right, none) {
		t.Error("the matching is not perfect")
	}
}
