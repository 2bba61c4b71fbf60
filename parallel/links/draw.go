// Package links is link prediction, on one worker or on partitions: a model learns which vertices an edge
// joins. The package divides the edges of a graph into training, validation and test edges. It draws negative
// edges, which the graph need not have. It scores both from the embeddings of their ends, and computes
// losses, gradients and ranks. The scored edges are supervision edges. The model aggregates along
// message-passing edges: the training edges, their reverse edges, and relations without supervision edges.
//
// An edge belongs to the worker of its target. A worker goes through its edges in windows, which bound how
// many embeddings of other workers it holds at a time. It asks their workers for them, computes scores, and
// sends the gradients back. Random draws are functions of the seed, the epoch and the edge, so they are the
// same for any number of workers.
//
// Package task makes a Task of it.
package links

import (
	"math/bits"
	"slices"
	"strings"

	"weft/autograd"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/partition"
)

// Part is a part of the split: training, validation or test edges.
type Part int

// The parts of the split, and lists of negative edges that a stored split gives to all edges of a part
// together.
const (
	Train Part = iota
	Val
	Test
	parts
	valNegatives  = parts + Val
	testNegatives = parts + Test
	lists         = testNegatives + 1
)

// Edge is a supervision edge or a negative edge. Relation is its number among the relations with supervision
// edges. Its ends are vertices of the types that these relations join, in the numbering of Draw.Supervised.
type Edge struct{ Relation, Source, Target int32 }

// Draw makes all random choices about edges: the split, negative edges, and candidates for ranks.
type Draw struct {
	Seed   uint64
	Shares [parts]float64 // the fraction of edges in each part, in any unit
	// Relations are the relations to learn: source type, name and target type. nil: the relations that a
	// stored split divides, or else those from the first vertex type to itself.
	Relations [][3]string
}

// Range is the vertices Low … High−1.
type Range struct{ Low, High int32 }

// contains reports whether a vertex is in the range.
func (r Range) contains(v int32) bool { return v >= r.Low && v < r.High }

// other returns a vertex of the range other than v, from 64 random bits. v need not be in the range.
func (r Range) other(v int32, random uint64) int32 {
	if !r.contains(v) {
		return r.Low + below(int(r.High-r.Low), random)
	}
	other := r.Low + below(int(r.High-r.Low)-1, random)
	if other >= v {
		other++
	}
	return other
}

// Ends are the vertices that a relation joins: the ranges of its source type and of its target type.
type Ends struct{ Sources, Targets Range }

// The purposes of draws. Each purpose has random numbers of its own.
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

// Part returns the part of an edge. An edge, its reverse and parallel edges are in the same part, so no
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

// Negative returns a negative edge for e. Within one vertex type it is e with another source or, in turn,
// another target. Between two types it is e with another target. number counts the negative edges of e in an
// epoch. The result may be an edge of the graph, but is not e.
func (d *Draw) Negative(epoch, number int, e Edge, between Ends) Edge {
	key := d.hash(forNegatives, uint64(epoch), uint64(e.Relation), ends(e.Source, e.Target))
	random := d.hash(key, uint64(number))
	if between.Sources == between.Targets && (key+uint64(number))&1 == 0 {
		e.Source = between.Sources.other(e.Source, random)
	} else {
		e.Target = between.Targets.other(e.Target, random)
	}
	return e
}

// Candidates returns n different random numbers below vertices. It returns nil, for all, if n is 0, or at
// least vertices.
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

// Supervised are the relations with supervision edges.
type Supervised struct {
	Relations []int // their numbers among all relations of a share
	// Numbering numbers the vertices at their ends.
	Numbering partition.Numbering
	Ends      []Ends // of each relation
}

// Supervised returns the relations of a share with supervision edges: the ones that Relations asks for, or
// the ones that a stored split divides, or else the ones from the first vertex type to itself. It leaves out
// relations that are the reverse of another. It refuses a relation that the graph lacks, or that the stored
// split leaves out.
func (d *Draw) Supervised(s *partition.Share) (learned Supervised, err error) {
	switch {
	case d.Relations != nil:
		learned.Relations, err = d.asked(s)
	case len(s.Whole.EdgeSplits) > 0:
		learned.Relations = divided(s)
	default:
		for i, forward := range forwards(s.Edges.Relations) {
			if r := &s.Edges.Relations[i]; r.Source == 0 && r.Target == 0 && forward == i {
				learned.Relations = append(learned.Relations, i)
			}
		}
	}
	if err != nil {
		return learned, err
	}
	kinds := []int{}
	for _, i := range learned.Relations {
		r := &s.Edges.Relations[i]
		kinds = append(kinds, r.Source, r.Target)
	}
	if len(kinds) == 0 {
		kinds = []int{0}
	}
	slices.Sort(kinds)
	learned.Numbering = s.Whole.Number(slices.Compact(kinds))
	in := func(kind int) Range {
		lo, hi := learned.Numbering.Range(kind)
		return Range{lo, hi}
	}
	for _, i := range learned.Relations {
		r := &s.Edges.Relations[i]
		learned.Ends = append(learned.Ends, Ends{in(r.Source), in(r.Target)})
		if s.Whole.Types[r.Target].Vertices == 1 && (r.Source != r.Target || len(s.Whole.EdgeSplits) > 0) {
			return learned, refusal.Errorf("the edges of %s have one target, the only vertex of its type, and "+
				"negative edges need another; name other relations with --link-relation",
				tripleOf(r))
		}
	}
	return learned, nil
}

// divided returns the relations that a stored split divides.
func divided(s *partition.Share) (relations []int) {
	for _, split := range s.Whole.EdgeSplits {
		relations = append(relations, split.Relation)
	}
	return relations
}

// asked returns the numbers of the relations that Draw.Relations names.
func (d *Draw) asked(s *partition.Share) (relations []int, err error) {
	setting, all := "--link-relation", s.Edges.Relations
	var names []string
	for i := range all {
		names = append(names, tripleOf(&all[i]))
	}
	stored := divided(s)
	for _, triple := range d.Relations {
		name := strings.Join(triple[:], ",")
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return nil, refusal.Errorf("%s %s: the graph has no such relation; %s", setting, name,
				suggest.OneOf(name, names))
		case slices.Contains(relations, i):
			return nil, refusal.Errorf("%s %s: stands twice; name each relation once", setting, name)
		case stored != nil && !slices.Contains(stored, i):
			return nil, refusal.Errorf("%s %s: the graph's split of edges does not divide it; take %s, or "+
				"import the graph without that split",
				setting, name, names[stored[0]])
		case slices.ContainsFunc(relations, func(k int) bool { return all[k].In.Mirrors(&all[i].In) }):
			return nil, refusal.Errorf("%s %s: the reverse of another one, with the same edges; name "+
				"one of the two", setting, name)
		}
		relations = append(relations, i)
	}
	return relations, nil
}

// tripleOf names a relation: its source type, its own name and its target type.
func tripleOf(r *partition.Relation) string {
	source, name, target := r.In.Ends()
	return source + "," + name + "," + target
}

// forwards returns, for each relation, the relation of which it is the reverse, or itself.
func forwards(all []partition.Relation) []int {
	number := map[[3]string]int{}
	forward := make([]int, len(all))
	for i := range all {
		source, name, target := all[i].In.Ends()
		number[[3]string{source, name, target}] = i
	}
	for i := range all {
		forward[i] = i
		if source, name, target, ok := all[i].In.ReverseOf(); ok {
			if k, there := number[[3]string{source, name, target}]; there {
				forward[i] = k
			}
		}
	}
	return forward
}

// Passes calls use with the rule for partition.EdgeSubgraph that keeps message-passing edges. In a relation
// with supervision edges, or its reverse, these are the training edges and self loops, which are not scored.
// Other relations keep all edges. With a stored split, which has edges of its own, all relations do.
func (d *Draw) Passes(s *partition.Share, use func(partition.Rule) error) error {
	learned, err := d.Supervised(s)
	if err != nil {
		return err
	}
	if len(s.Whole.EdgeSplits) > 0 {
		return use(func(int) func(source, target int32, before int) bool { return nil })
	}
	all := s.Edges.Relations
	return use(func(relation int) func(source, target int32, before int) bool {
		k := slices.IndexFunc(learned.Relations, func(i int) bool {
			return relation == i || all[relation].In.Mirrors(&all[i].In)
		})
		if k < 0 {
			return nil
		}
		r := &s.Edges.Relations[relation]
		sources, _ := learned.Numbering.Range(r.Source)
		targets, _ := learned.Numbering.Range(r.Target)
		return func(source, target int32, _ int) bool {
			e := Edge{int32(k), sources + source, targets + target}
			return e.Source == e.Target || d.Part(e) == Train
		}
	})
}
