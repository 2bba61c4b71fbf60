package partition

import "math/rand/v2"

// random assigns the vertices to k partitions at random, by the seed. The partitions' sizes differ by at
// most one.
func random(vertices, k int, seed uint64) []int32 {
	parts := make([]int32, vertices)
	for i := range parts {
		parts[i] = int32(i % k)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(vertices, func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return parts
}

// ranges divides the ids into k ranges whose sizes differ by at most one.
func ranges(vertices, k int) []int32 {
	parts := make([]int32, vertices)
	for p := range k {
		for v := vertices * p / k; v < vertices*(p+1)/k; v++ {
			parts[v] = int32(p)
		}
	}
	return parts
}

// rangesOfEdges divides the ids into k ranges of about equal weight. A vertex's weight is its in-degree plus
// one. A vertex goes to the range that has the middle of its weight. So no range differs from the even
// weight by more than its heaviest vertex.
func rangesOfEdges(indptr []int64, k int) []int32 {
	vertices := len(indptr) - 1
	parts := make([]int32, vertices)
	total := float64(indptr[vertices]) + float64(vertices)
	for v := range parts {
		middle := (float64(indptr[v]+indptr[v+1])+1)/2 + float64(v)
		parts[v] = int32(min(int(middle/total*float64(k)), k-1))
	}
	return parts
}
