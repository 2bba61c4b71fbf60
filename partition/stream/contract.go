package stream

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"weft/internal/memory"
	"weft/partition/metis"
)

// The contracted graph has at most maxClusters vertices and maxPairs edges, whatever the graph has. It takes
// at most 270 MB in this process (Memory), and METIS takes 35 to 70 bytes for each of twice as many entries.
const (
	maxClusters = 1 << 20
	maxPairs    = 1 << 22
)

// pack numbers the clusters 0, 1, … in the order of their first vertices, and returns how many there are. If
// there are more than most, it joins clusters with consecutive numbers while the sizes of their vertices add
// up to less than 2/most of all.
func pack(label []int32, sizeOf func(v int) float32, most int) int {
	number := make([]int32, len(label)) // by label, from 1; 0: not seen
	count := int32(0)
	for v, c := range label {
		if number[c] == 0 {
			count++
			number[c] = count
		}
		label[v] = number[c] - 1
	}
	if int(count) <= most {
		return int(count)
	}
	size := make([]float32, count)
	all := 0.0
	for v, c := range label {
		size[c] += sizeOf(v)
		all += float64(sizeOf(v))
	}
	joined, sum := int32(0), 0.0
	for c := range count {
		sum += float64(size[c])
		if c > 0 && sum > 2*all/float64(most) {
			joined, sum = joined+1, float64(size[c])
		}
		number[c] = joined
	}
	for v, c := range label {
		label[v] = number[c]
	}
	return int(joined) + 1
}

// divide lets METIS divide the graph of clusters. A cluster weighs as much as its vertices. An edge weighs 1
// for each edge of the graph that it stands for.
func (s *passes) divide(label []int32, clusters int) (parts []int32, err error) {
	joined := pairs{most: maxPairs}
	err = s.pass("contracting", func(v int32, sources []int32) {
		for _, u := range sources {
			if a, b := label[u], label[v]; a != b {
				joined.add(min(a, b), max(a, b))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	p, err := joined.problem(clusters, len(s.Weights))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for c, weight := range s.Weights {
		sums := make([]int64, clusters)
		for v, cluster := range label {
			sums[cluster] += int64(weight(v))
		}
		scale := scaled(sums, math.MaxInt32) // METIS adds weights in 32 bits
		for cluster, sum := range sums {
			p.VertexWeights[cluster*len(s.Weights)+c] = scale(sum)
		}
	}
	joined = pairs{}
	memory.Free() // METIS's process needs the memory
	return s.Divide(p)
}

// scaled returns a function that divides all of the weights by the same number, so that their sum is at most
// most. A weight above 0 stays above 0.
func scaled(weights []int64, most int64) func(weight int64) int32 {
	sum := int64(0)
	for _, w := range weights {
		sum += w
	}
	by := 1 + sum/(most-int64(len(weights)))
	return func(w int64) int32 { return int32((w + by - 1) / by) }
}

// pairs counts the edges between clusters, in both directions together. It holds a bounded number of pairs of
// clusters: when it is full, it drops those with the fewest edges (lossy counting: Manku and Motwani, VLDB
// 2002). It is a hash table with linear probing.
type pairs struct {
	most  int // pairs that it holds
	slots []pair
	used  int
}

type pair struct {
	a, b  int32 // a < b; 0, 0: the slot is free
	edges int32
}

// add counts an edge between clusters a < b.
func (t *pairs) add(a, b int32) {
	if 2*t.used >= len(t.slots) {
		t.rebuild()
	}
	s := t.slot(a, b)
	if s.edges == 0 {
		*s = pair{a: a, b: b}
		t.used++
	}
	s.edges += min(1, math.MaxInt32-s.edges)
}

// slot returns the slot of a pair, or the free one that it goes into.
func (t *pairs) slot(a, b int32) *pair {
	mask := uint64(len(t.slots) - 1)
	for i := mix(uint64(a)<<32|uint64(b)) & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.edges == 0 || s.a == a && s.b == b {
			return s
		}
	}
}

// rebuild doubles the table. A full one drops the lightest half of the pairs in place, and more if weights
// are equal.
func (t *pairs) rebuild() {
	const least = 1 << 10
	if t.used < t.most {
		old := t.slots
		t.slots = make([]pair, max(2*len(old), least))
		for _, s := range old {
			if s.edges > 0 {
				*t.slot(s.a, s.b) = s
			}
		}
		return
	}
	t.slots = t.pack()
	weights := make([]int32, 0, t.used)
	for _, s := range t.slots {
		weights = append(weights, s.edges)
	}
	slices.Sort(weights)
	above := weights[len(weights)/2]
	kept := slices.Clone(slices.DeleteFunc(t.slots, func(s pair) bool { return s.edges <= above }))
	t.slots, t.used = t.slots[:cap(t.slots)], len(kept)
	clear(t.slots)
	for _, s := range kept {
		*t.slot(s.a, s.b) = s
	}
}

// pack moves the pairs to the beginning of the table and returns them.
func (t *pairs) pack() []pair {
	return slices.DeleteFunc(t.slots, func(s pair) bool { return s.edges == 0 })
}

// problem returns the pairs as an undirected graph, with space for vertex weights.
func (t *pairs) problem(clusters, weights int) (*metis.Problem, error) {
	t.slots = t.pack()
	slices.SortFunc(t.slots, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	p, err := metis.New(clusters, 2*len(t.slots), metis.Weights{Edges: true, Vertex: weights})
	if err != nil {
		return nil, err
	}
	edges := make([]int64, 0, len(t.slots))
	for _, s := range t.slots {
		p.Indptr[s.a+1]++
		p.Indptr[s.b+1]++
		edges = append(edges, int64(s.edges))
	}
	for c := range clusters {
		p.Indptr[c+1] += p.Indptr[c]
	}
	scale := scaled(edges, math.MaxInt32/2)
	next := slices.Clone(p.Indptr) // each pair is there twice
	put := func(from, to int32, weight int32) {
		p.Neighbours[next[from]], p.EdgeWeights[next[from]] = to, weight
		next[from]++
	}
	for i, s := range t.slots {
		weight := scale(edges[i])
		put(s.a, s.b, weight)
		put(s.b, s.a, weight)
	}
	return p, nil
}
