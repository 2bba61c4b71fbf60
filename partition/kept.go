package partition

import (
	"slices"

	"weft/graph"
)

// Kept are the shares of a graph without some edges. The vertices stay.
type Kept struct{ rule func(*Share) (Rule, error) }

// Rule returns what reports whether to keep an edge of a relation, by the ids of its ends within their types.
// nil: all edges of the relation stay. Relations count as in Edges.Relations.
type Rule = func(relation int) func(source, target int32) bool

// Keep returns the shares with the edges that the rule accepts. Each pass over a share calls rule once.
func Keep(rule func(*Share) (Rule, error)) *Kept { return &Kept{rule} }

// Of is a share with the kept edges. It holds the arrays of s: do not use it after s is closed. It reads no
// other share: what others need of its rows follows from the edges in the opposite direction. So HaloRows and
// HaloRowsOut of the kept relations are complete in the row and in the column of s's own partition only.
func (k *Kept) Of(s *Share) (*Share, error) {
	keep, err := k.rule(s)
	if err != nil {
		return nil, err
	}
	kept, types := *s, s.Edges.Types()
	kept.Edges.Relations = slices.Clone(s.Edges.Relations)
	counters := map[int]*haloCounter{} // by vertex type
	for i := range kept.Edges.Relations {
		r, keep := &kept.Edges.Relations[i], keep(i)
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
		r.In, err = r.In.Where(func(_ int64, source, row int32) bool {
			return keep(sources.ID(source), here(r.Target, row))
		})
		if err == nil && len(sources.Starts) > 2 {
			r.Out, err = r.Out.Where(func(_ int64, target, row int32) bool {
				return keep(here(r.Source, row), targets.ID(target))
			})
			for _, kind := range []int{r.Source, r.Target} {
				if counters[kind] == nil {
					counters[kind] = newHaloCounter(s.Edges.P, types[kind].Starts)
				}
			}
			r.HaloRows, r.HaloRowsOut = halos(counters[r.Source], &r.In, counters[r.Target], &r.Out)
		}
		if err != nil {
			return nil, err
		}
	}
	return &kept, nil
}

// haloCounter counts the halos of a share's relations, whose other ends are of one vertex type.
type haloCounter struct {
	me      int
	holder  []int32 // by position: its partition
	seen    []bool  // by position; all false between two counts
	reached []int32 // by partition: the last row with an edge to it, counted from 1
}

// newHaloCounter makes the counter for the share of partition me, of a type with these starts.
func newHaloCounter(me int, starts []int) *haloCounter {
	c := &haloCounter{me: me, reached: make([]int32, len(starts)-1)}
	c.holder, c.seen = make([]int32, starts[c.partitions()]), make([]bool, starts[c.partitions()])
	for q := range c.partitions() {
		for at := starts[q]; at < starts[q+1]; at++ {
			c.holder[at] = int32(q)
		}
	}
	return c
}

func (c *haloCounter) partitions() int { return len(c.reached) }

// halos are HaloRows and HaloRowsOut of a relation with those edges, from the counters of its source type and
// its target type.
func halos(sources *haloCounter, in *graph.Relation, targets *haloCounter, out *graph.Relation) (rows, rowsOut [][]int) {
	ends, reach := sources.count(in)
	endsOut, reachOut := targets.count(out)
	return sources.pairs(ends, reachOut), sources.pairs(endsOut, reach)
}

// count counts by partition the vertices at the other ends of the edges, and the own rows that have an edge
// to or from it. The partition itself has none.
func (c *haloCounter) count(r *graph.Relation) (ends, rows []int) {
	ends, rows = make([]int, c.partitions()), make([]int, c.partitions())
	clear(c.reached)
	row := int32(0)
	for k, end := range r.Sources {
		for r.Indptr[row+1] <= int64(k) {
			row++
		}
		q := c.holder[end]
		if int(q) == c.me {
			continue
		}
		if !c.seen[end] {
			c.seen[end] = true
			ends[q]++
		}
		if c.reached[q] != row+1 {
			c.reached[q] = row + 1
			rows[q]++
		}
	}
	for _, end := range r.Sources {
		c.seen[end] = false
	}
	return ends, rows
}

// pairs is a matrix (K × K) with that row and that column of the own partition. Other rows without a count
// are one slice.
func (c *haloCounter) pairs(needs, needed []int) [][]int {
	all := slices.Repeat([][]int{make([]int, c.partitions())}, c.partitions())
	for q, n := range needed {
		if n > 0 {
			all[q] = make([]int, c.partitions())
			all[q][c.me] = n
		}
	}
	all[c.me] = needs
	return all
}
