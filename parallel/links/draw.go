// Package links is link prediction, on one worker or on partitions. It divides the edges of a graph into
// those that train, validate and test, draws negative edges against them, and scores both from the embeddings
// of their ends. Edges that are scored are supervision edges; message-passing edges are those that the model
// aggregates along.
//
// An edge belongs to the worker of its target. What is drawn is a function of the seed, the epoch and the
// edge, and so the same for any number of workers.
package links

import (
	"math/bits"

	"weft/autograd"
	"weft/partition"
)

// Part is what edges are for.
type Part int

// Edges train, validate or test.
const (
	Train Part = iota
	Val
	Test
	parts
)

// Edge is a supervision edge, or a negative one: its ends are vertices of the first type. Relation counts the
// relations with supervision edges.
type Edge struct{ Relation, Source, Target int32 }

// Draw is all that is random about the edges.
type Draw struct {
	Seed   uint64
	Shares [parts]float64 // of the edges, which Part draws; their scale does not matter
}

// What draws are for.
const (
	forParts = iota + 1
	forNegatives
	forCandidates
)

// hash is 64 random bits of the words.
func (d *Draw) hash(words ...uint64) uint64 {
	h := autograd.Mix(d.Seed ^ 0x9e3779b97f4a7c15)
	for _, w := range words {
		h = autograd.Mix((h ^ w) + 0x9e3779b97f4a7c15)
	}
	return h
}

// below is a number from 0 to n−1, drawn by random bits.
func below(n int, random uint64) int32 {
	high, _ := bits.Mul64(random, uint64(n))
	return int32(high)
}

// ends are both ends of an edge in one word.
func ends(u, v int32) uint64 { return uint64(uint32(u))<<32 | uint64(uint32(v)) }

// Part is that of an edge. An edge and its reverse have the same, so that neither tells of the other; so have
// parallel edges.
func (d *Draw) Part(e Edge) Part {
	random := d.hash(forParts, uint64(e.Relation), ends(min(e.Source, e.Target), max(e.Source, e.Target)))
	at := float64(random>>11) / (1 << 53) * (d.Shares[Train] + d.Shares[Val] + d.Shares[Test])
	switch {
	case at < d.Shares[Train]:
		return Train
	case at < d.Shares[Train]+d.Shares[Val]:
		return Val
	}
	return Test
}

// Negative is one of the edges that are drawn in an epoch against e: with another source, or with another
// target, in turn. It may be an edge of the graph, but not e.
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

// Candidates are n different vertices; nil: all, as where n is 0.
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

// supervised are the relations of a share with supervision edges, by their number among all: those that join
// the first vertex type with itself, but for one that is the reverse of another.
func supervised(s *partition.Share) (relations []int32) {
	for i, forward := range forwards(s.Edges.Relations) {
		if s.Edges.Relations[i].Own() && forward == i {
			relations = append(relations, int32(i))
		}
	}
	return relations
}

// forwards are, for each relation, the one that it is the reverse of, or itself.
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

// Passes is what partition.Keep asks, for the relations of a graph: message-passing edges are those that
// train, the reverse ones of such, and self loops, which are not scored.
func (d *Draw) Passes(s *partition.Share) func(relation, source, target int32) bool {
	number := map[int]int32{}
	for k, i := range supervised(s) {
		number[int(i)] = int32(k)
	}
	scored := make([]int32, len(s.Edges.Relations)) // by relation: its number among the supervised, −1: none
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
