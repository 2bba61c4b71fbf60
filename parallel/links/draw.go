// Package links is link prediction, on one worker or on partitions: a model learns which vertices an edge
// joins. The package divides the edges of a graph into training, validation and test edges. It draws
// negative edges, which the graph need not have. It scores both from the embeddings of their ends, and
// computes losses, gradients and ranks. The edges that are scored are supervision edges. The model
// aggregates along message-passing edges: those that train, their reverse edges, and relations without
// supervision edges.
//
// An edge belongs to the worker of its target. Random draws are functions of the seed, the epoch and the
// edge. So they are the same for any number of workers.
package links

import (
	"math/bits"

	"weft/autograd"
	"weft/partition"
)

// Part is a part of the split: training, validation or test edges.
type Part int

// The parts of the split, and the negative edges that a stored split gives all edges of a part together.
const (
	Train Part = iota
	Val
	Test
	parts
	valNegatives  = parts + Val
	testNegatives = parts + Test
	lists         = testNegatives + 1
)

// Edge is a supervision edge or a negative edge. Its ends are vertices of the first type. Relation is its
// number among the relations with supervision edges.
type Edge struct{ Relation, Source, Target int32 }

// Draw makes all random choices about edges: the split, negative edges, and candidates for ranks.
type Draw struct {
	Seed   uint64
	Shares [parts]float64 // the fraction of edges in each part, in any unit
}

// The purposes of draws. Each has random numbers of its own.
const (
	forSplit = iota + 1
	forNegatives
	forCandidates
)

// hash returns 64 random bits, a function of the seed and the words.
func (d *Draw) hash(words ...uint64) uint64 {
	h := autograd.Mix(d.Seed ^ 0x9e3779b97f4a7c15)
	for _, w := range words {
		h = autograd.Mix((h ^ w) + 0x9e3779b97f4a7c15)
	}
	return h
}

// below maps 64 random bits to a number from 0 to n−1.
func below(n int, random uint64) int32 {
	high, _ := bits.Mul64(random, uint64(n))
	return int32(high)
}

// ends packs both ends of an edge into one word.
func ends(u, v int32) uint64 { return uint64(uint32(u))<<32 | uint64(uint32(v)) }

// Part returns the part of an edge. An edge, its reverse and parallel edges are in the same part. So no
// training edge gives a test edge away.
func (d *Draw) Part(e Edge) Part {
	random := d.hash(forSplit, uint64(e.Relation), ends(min(e.Source, e.Target), max(e.Source, e.Target)))
	at := float64(random>>11) / (1 << 53) * (d.Shares[Train] + d.Shares[Val] + d.Shares[Test])
	switch {
	case at < d.Shares[Train]:
		return Train
	case at < d.Shares[Train]+d.Shares[Val]:
		return Val
	}
	return Test
}

// Negative returns a negative edge for e: e with another source or another target, in turn. number counts the
// negative edges of e in an epoch. The result may be an edge of the graph, but not e.
func (d *Draw) Negative(epoch, number int, e Edge, vertices int) Edge {
	key := d.hash(forNegatives, uint64(epoch), uint64(e.Relation), ends(e.Source, e.Target))
	end := &e.Source
	if (key+uint64(number))&1 == 1 {
		end = &e.Target
	}
	other := below(vertices-1, d.hash(key, uint64(number)))
	if other >= *end {
		other++
	}
	*end = other
	return e
}

// Candidates returns n different random vertices, or nil for all vertices: if n is 0, or at least vertices.
func (d *Draw) Candidates(n, vertices int) []int32 {
	if n == 0 || n >= vertices {
		return nil
	}
	seen := make(map[int32]bool, n)
	var drawn []int32
	for k := uint64(0); len(drawn) < n; k++ {
		if v := below(vertices, d.hash(forCandidates, k)); !seen[v] {
			seen[v] = true
			drawn = append(drawn, v)
		}
	}
	return drawn
}

// supervised returns the relations with supervision edges, by their numbers among all relations of a share:
// those that a stored split divides, else those from the first vertex type to itself, without relations that
// are the reverse of another.
func supervised(s *partition.Share) (relations []int32) {
	for _, split := range s.Whole.EdgeSplits {
		relations = append(relations, int32(split.Relation))
	}
	if relations != nil {
		return relations
	}
	for i, forward := range forwards(s.Edges.Relations) {
		if s.Edges.Relations[i].Own() && forward == i {
			relations = append(relations, int32(i))
		}
	}
	return relations
}

// forwards returns, for each relation, the relation that it is the reverse of, or itself.
func forwards(all []partition.Relation) []int {
	number, of := map[[3]string]int{}, make([]int, len(all))
	for i := range all {
		source, name, target := all[i].In.Ends()
		number[[3]string{source, name, target}] = i
	}
	for i := range all {
		of[i] = i
		if source, name, target, ok := all[i].In.ReverseOf(); ok {
			if k, there := number[[3]string{source, name, target}]; there {
				of[i] = k
			}
		}
	}
	return of
}

// Passes returns the rule for partition.Keep, which keeps message-passing edges. In a relation with
// supervision edges, or its reverse, these are the training edges and self loops, which are not scored.
// Other relations keep all edges. So do all relations beside a stored split, which has edges of its own.
func (d *Draw) Passes(s *partition.Share) func(relation, source, target int32) bool {
	if len(s.Whole.EdgeSplits) > 0 {
		return func(_, _, _ int32) bool { return true }
	}
	number := map[int]int32{}
	for k, i := range supervised(s) {
		number[int(i)] = int32(k)
	}
	scored := make([]int32, len(s.Edges.Relations)) // by relation: its number among the supervised relations; −1: none
	for i, forward := range forwards(s.Edges.Relations) {
		scored[i] = -1
		if k, known := number[forward]; known {
			scored[i] = k
		}
	}
	return func(relation, source, target int32) bool {
		k := scored[relation]
		return k < 0 || source == target || d.Part(Edge{k, source, target}) == Train
	}
}
