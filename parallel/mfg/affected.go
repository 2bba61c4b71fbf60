package mfg

import (
	"slices"

	"weft/gnn"
	"weft/graph/appended"
)

// Affected returns the vertices of the first type, ascending, whose results an addition to a graph can
// change: the new vertices, and the ones that read what is new.
//
// It goes from the first block to the last, where Extract goes from the last to the first. Let S be the rows
// whose values can differ, which are at first the new vertices. Let T be the targets of new edges. After an
// aggregation these can differ:
//
//	S ∪ T ∪ {i : an edge j→i of the graph leads out of a row j of S}
//
// for the relations and directions along which a block aggregates, once for each of its rounds. If an
// aggregation divides by the degrees of the rows j, T also counts as such rows. An aggregation along edges
// passes over all of them, and reads no features.
func Affected(g *appended.Graph, m *Model) []int32 {
	x := newExtractor(g, &Scratch{})
	for i, t := range g.Types {
		for row := t.Count; row < g.Counts[i]; row++ {
			x.sets[i].add(int32(row))
		}
	}
	for _, b := range m.Blocks {
		for range b.Rounds {
			x.spread(b.Along, m.SourceDegrees)
		}
	}
	return x.sets[0].list(0, g.Counts[0])
}

// spread marks the rows that change in an aggregation because of the marked rows.
func (x *extractor) spread(along []gnn.Along, degrees bool) {
	next := make([]*marks, len(x.sets))
	for i, set := range x.sets {
		next[i] = set.clone()
	}
	for k, d := range x.directions {
		if !slices.Contains(along, d.along) {
			continue
		}
		own, added := &x.g.Relations[k/2], &x.g.Added.Edges[k/2]
		targets := added.Target
		if d.along.Reversed {
			targets = added.Source
		}
		from, to := x.sets[d.source], next[d.target]
		to.add(targets...)
		if degrees && d.source == d.target {
			from = from.clone()
			from.add(targets...)
		}
		for row := range len(own.Indptr) - 1 { // new edges lead to marked rows
			neighbours := own.Sources[own.Indptr[row]:own.Indptr[row+1]]
			switch {
			case d.along.Reversed && from.has(int32(row)):
				to.add(neighbours...)
			case !d.along.Reversed && !to.has(int32(row)) && slices.ContainsFunc(neighbours, from.has):
				to.add(int32(row))
			}
		}
	}
	x.sets = next
}
