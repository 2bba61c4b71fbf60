package partition

import (
	"slices"
	"strings"

	"weft/graph"
)

// Subgraph is a graph with some of its edges (DGL's edge_subgraph), share by share. The vertices stay.
type Subgraph struct {
	rule func(s *Share, use func(Rule) error) error
	// Silent is the number of a relation of which all edges stay, too, as a relation of its own behind the
	// others: that of SilentName, along which no messages pass. nil: there is none.
	Silent func(*Share) (int, error)
}

const silent = " (passes no messages)"

// SilentName is the name of the Silent relation of one.
func SilentName(relation string) string { return relation + silent }

// IsSilent reports whether a name is that of a Silent relation, and returns the name of the relation that it
// was made from.
func IsSilent(name string) (relation string, is bool) { return strings.CutSuffix(name, silent) }

// Rule returns what reports whether to keep an edge of a relation, by the ids of its ends within their types,
// and by how many edges between them come before it. nil: all edges of the relation stay. Relations count as
// in Edges.Relations.
type Rule = func(relation int) func(source, target int32, before int) bool

// EdgeSubgraph returns the graph with the edges that a rule accepts. Each pass over a share calls rule once,
// which passes it to use.
func EdgeSubgraph(rule func(s *Share, use func(Rule) error) error) *Subgraph {
	return &Subgraph{rule: rule}
}

// parallel counts the edges of a relation with the same ends as the last one, which follow each other.
type parallel struct {
	source, row int32
	count       int
}

func (p *parallel) before(source, row int32) int {
	if p.count > 0 && p.source == source && p.row == row {
		p.count++
	} else {
		*p = parallel{source, row, 1}
	}
	return p.count - 1
}

// Restrict returns the share of the subgraph that has the edges of s. It holds the arrays of s: do not use it
// after s is closed. It reads no other share: what others need of its rows follows from the edges in the
// opposite direction. So its HaloRows and HaloRowsOut are complete in the row and in the column of s's own
// partition only.
func (g *Subgraph) Restrict(s *Share) (kept *Share, err error) {
	err = g.rule(s, func(keep Rule) (err error) {
		kept, err = keptOf(s, keep)
		return err
	})
	if err != nil || g.Silent == nil {
		return kept, err
	}
	i, err := g.Silent(s)
	if err != nil {
		return nil, err
	}
	silent := s.Edges.Relations[i]
	silent.Name, silent.Silent = SilentName(silent.Name), true
	kept.Edges.Relations, kept.Edges.All = append(kept.Edges.Relations, silent), s.Edges.Relations
	return kept, nil
}

// keptOf is the share with the edges that a rule keeps.
func keptOf(s *Share, keep Rule) (*Share, error) {
	kept := *s
	types := s.Edges.Types
	kept.Edges.Relations = slices.Clone(s.Edges.Relations)
	for i := range kept.Edges.Relations {
		r := &kept.Edges.Relations[i]
		keep := keep(i)
		if keep == nil {
			continue
		}
		sources, err := s.Places(r.Source)
		if err != nil {
			return nil, err
		}
		targets, err := s.Places(r.Target)
		if err != nil {
			return nil, err
		}
		here := func(kind int, row int32) int32 { return types[kind].ID(row) }
		var in, out parallel
		r.In, err = r.In.Where(func(_ int64, source, row int32) bool {
			return keep(sources.ID(source), here(r.Target, row), in.before(source, row))
		})
		if err == nil && s.Edges.Partitions() > 1 {
			r.Out, err = r.Out.Where(func(_ int64, target, row int32) bool {
				return keep(here(r.Source, row), targets.ID(target), out.before(target, row))
			})
			r.HaloRows, r.HaloRowsOut = halos(s.Edges.P, types[r.Source].Starts, types[r.Target].Starts, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return &kept, nil
}

// halos are HaloRows and HaloRowsOut of a relation of partition me. sources and targets are the starts of the
// types that it joins.
func halos(me int, sources, targets []int, r *Relation) (rows, rowsOut [][]int) {
	needs, reached := countFar(me, sources, &r.In)
	needsOut, reachedOut := countFar(me, targets, &r.Out)
	return pairs(me, needs, reachedOut), pairs(me, needsOut, reached)
}

// countFar counts by partition the vertices at the other ends of a partition's edges, and the own rows that
// have an edge to or from one. The partition itself has none.
func countFar(me int, starts []int, r *graph.Relation) (needs, rows []int) {
	f := newFarEnds(starts)
	f.begin(me)
	t := newTally(len(starts) - 1)
	for row := range len(r.Indptr) - 1 {
		f.count(t, r.Sources[r.Indptr[row]:r.Indptr[row+1]])
	}
	t.rows[me] = 0
	return f.needs(), t.rows
}

// pairs is a matrix (K × K) with that row and that column of partition me. Other rows without a count are
// one slice.
func pairs(me int, needs, needed []int) [][]int {
	all := slices.Repeat([][]int{make([]int, len(needs))}, len(needs))
	for q, n := range needed {
		if n > 0 {
			all[q] = make([]int, len(needs))
			all[q][me] = n
		}
	}
	all[me] = needs
	return all
}
