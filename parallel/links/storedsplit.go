package links

import (
	"cmp"
	"slices"

	"weft/graph"
	"weft/partition"
	"weft/tensor"
)

// readSplits copies the edges of the stored splits that lead into this worker's vertices, and their negative
// edges. It calls add with the counts of each relation.
func (l *Edges) readSplits(s *partition.Share, add func(relation, [lists]int64)) error {
	l.Negatives = s.Whole.EdgeSplits[0].Negatives
	return s.ReadEdgeSplits(func(splits []*graph.EdgeSplit) {
		for _, i := range l.learned.Relations {
			for part := range splits[i].Edges {
				if l.Negatives == graph.TargetNegatives {
					l.storedNegatives[part] = max(l.storedNegatives[part], splits[i].Given(part))
				}
			}
		}
		for k, i := range l.learned.Relations {
			add(l.readSplit(splits[i], l.learned.Ends[k]))
		}
	})
}

// listed is an edge of a stored split.
type listed struct {
	ends uint64 // the source, and the own row of the target
	part Part
	at   int // its place in the list of its part
}

// readSplit copies the edges of a relation, and counts them.
func (l *Edges) readSplit(split *graph.EdgeSplit, between Ends) (r relation, counts [lists]int64) {
	var edges []listed
	read := func(part Part, pairs []int32) {
		for at := range len(pairs) / 2 {
			if row, own := l.row(between.Targets.Low + pairs[2*at+1]); own {
				counts[part]++
				edges = append(edges, listed{ends(between.Sources.Low+pairs[2*at], int32(row)), part, at})
			}
		}
	}
	for part := range parts {
		read(part, split.Edges[part])
		if split.Negatives == graph.SharedNegatives && part != Train {
			read(parts+part, split.Negative[part])
		}
	}
	slices.SortFunc(edges, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.ends, b.ends), cmp.Compare(a.part, b.part), cmp.Compare(a.at, b.at))
	})
	r.sources, r.targets, r.parts = l.int32s(len(edges)), l.int32s(len(edges)), l.int32s(len(edges))
	for part, each := range l.storedNegatives {
		if each > 0 {
			r.negatives[part] = l.int32s(int(counts[part]) * each)
		}
	}
	l.team.Serial(func() { r.fill(edges, split, between) })
	for _, list := range r.lists() {
		list.SetReadOnly()
	}
	return r, counts
}

// fill copies the edges and, in the same order, the negative targets of the edges of each part.
func (r *relation) fill(edges []listed, split *graph.EdgeSplit, between Ends) {
	sources, targets, parted := r.sources.WriteInt32s(), r.targets.WriteInt32s(), r.parts.WriteInt32s()
	var passed [lists]int
	for i, e := range edges {
		sources[i], targets[i], parted[i] = int32(e.ends>>32), int32(uint32(e.ends)), int32(e.part)
		if e.part < parts && r.negatives[e.part] != nil {
			each := split.Given(int(e.part))
			targets := r.negatives[e.part].WriteInt32s()[passed[e.part]*each:]
			for k, v := range split.Negative[e.part][e.at*each : (e.at+1)*each] {
				targets[k] = between.Targets.Low + v
			}
		}
		passed[e.part]++
	}
}

// GivenScores returns the scores of this worker's edges of a part, and of the negative edges in a stored
// split. Shared negative edges are those with a target of this worker. Other negative edges belong to
// an edge. They are edge by edge, and each is their number for an edge.
func (l *Edges) GivenScores(h *tensor.Matrix, d Decoder, part Part) (edges, negatives []float32, each int) {
	if l.Negatives == graph.SharedNegatives {
		return l.scoresOf(h, d, part, 0), l.scoresOf(h, d, parts+part, 0), 0
	}
	p := l.batchOf(h, d, pass{part, l.storedNegatives[part], toScore})
	defer p.release()
	walked := walk{Edges: l, part: part}
	for range p.rounds(part, p.edges) {
		some := walked.next(p.edges)
		p.scoreWith(len(some), func() ([]Edge, []int32) { return l.withGiven(some, walked.numbers, part) })
		for i, score := range p.scores {
			if i%(1+p.drawn) == 0 {
				edges = append(edges, score)
			} else {
				negatives = append(negatives, score)
			}
		}
	}
	return edges, negatives, p.drawn
}

// withGiven returns edges of a part, each followed by its negative edges, and the sorted positions of their
// ends. numbers are the numbers of the edges in their relations.
func (l *Edges) withGiven(edges []Edge, numbers []int, part Part) (all []Edge, positions []int32) {
	each := l.storedNegatives[part]
	for i, e := range edges {
		all = append(all, e)
		targets := l.relations[e.Relation].negatives[part].ReadInt32s()[numbers[i]*each:][:each]
		for _, target := range targets {
			all = append(all, Edge{e.Relation, e.Source, target})
		}
	}
	return all, l.endsOf(all)
}
