package partition

import (
	"errors"
	"slices"
	"sync"

	"weft/graph"
	"weft/internal/refusal"
)

// Kept makes shares without some edges: those that a rule rejects, of relations from the first vertex type
// to itself. The shares keep all vertices. The first call of Places or Of reads all shares, to count the
// halo of the edges that are left.
type Kept struct {
	k     int
	open  func(p int) (*Share, error)
	rule  func(*Share) rule
	once  func() (*Places, error)
	halos []Halo // by relation, of the edges that the rule accepts
}

// rule reports whether to keep an edge.
type rule = func(relation, source, target int32) bool

// Places maps vertices of the first type to positions: the vertices sorted by partition, then by id.
type Places struct {
	Starts []int   // len K+1: the first position of each partition, and V
	IDs    []int32 // the vertex at each position; nil: its position
	Of     []int32 // the position of each vertex; nil: the vertex
}

// Keep returns a Kept for k partitions. open opens the share of partition p; with one partition it is not
// called. rule makes the rule for a share, and is called once for each pass over it. The rule gets the
// number of the relation in Edges.Relations, and the source and target vertices. Edges between other vertex
// types stay.
func Keep(k int, open func(p int) (*Share, error), rule func(*Share) rule) *Kept {
	kept := &Kept{k: k, open: open, rule: rule}
	kept.once = sync.OnceValues(kept.measure)
	return kept
}

// ID returns the vertex at a position.
func (p *Places) ID(position int32) int32 {
	if p.IDs == nil {
		return position
	}
	return p.IDs[position]
}

// Position returns the position of a vertex.
func (p *Places) Position(vertex int32) int32 {
	if p.Of == nil {
		return vertex
	}
	return p.Of[vertex]
}

// Vertices returns the number of vertices.
func (p *Places) Vertices() int { return p.Starts[len(p.Starts)-1] }

// Places returns the Places of the graph of a share.
func (k *Kept) Places(s *Share) (*Places, error) {
	if k.k == 1 {
		return &Places{Starts: s.Edges.Starts}, nil
	}
	return k.once()
}

// Of returns the share s with the edges that the rule accepts. It uses arrays of s: do not use it after s is
// closed.
func (k *Kept) Of(s *Share) (*Share, error) {
	places, err := k.Places(s)
	if err != nil {
		return nil, err
	}
	kept, keep := *s, k.rule(s)
	kept.Edges.Relations = slices.Clone(s.Edges.Relations)
	for i := range kept.Edges.Relations {
		r := &kept.Edges.Relations[i]
		if !r.Own() {
			continue
		}
		in, out, err := k.edges(places, s, i, keep)
		if err != nil {
			return nil, err
		}
		if r.In, r.Out = in, out; k.k > 1 {
			r.HaloRows, r.HaloRowsOut = k.halos[i].Rows, k.halos[i].RowsOut
		}
	}
	return &kept, nil
}

// Own reports whether the relation goes from the first vertex type to itself.
func (r *Relation) Own() bool { return r.Source == 0 && r.Target == 0 }

// edges returns the edges of a relation that the rule accepts, into and out of the rows of a share.
func (k *Kept) edges(places *Places, s *Share, relation int, keep rule) (in, out graph.Relation, err error) {
	r, which := &s.Edges.Relations[relation], int32(relation)
	in, err = r.In.Where(func(_ int64, source, row int32) bool {
		return keep(which, places.ID(source), s.Values.ID(int(row)))
	})
	if err == nil && k.k > 1 {
		out, err = r.Out.Where(func(_ int64, target, row int32) bool {
			return keep(which, s.Values.ID(int(row)), places.ID(target))
		})
	}
	return in, out, err
}

// measure reads all shares twice: for the Places, and then to count the halos.
func (k *Kept) measure() (*Places, error) {
	places := &Places{}
	err := k.each(func(s *Share) error {
		if places.Starts == nil {
			places.Starts = s.Edges.Starts
			places.IDs, places.Of = make([]int32, places.Vertices()), slices.Repeat([]int32{-1}, places.Vertices())
			for range s.Edges.Relations {
				k.halos = append(k.halos, Halo{square[int](k.k), square[int](k.k)})
			}
		}
		first := places.Starts[s.Edges.P]
		copy(places.IDs[first:], s.Edges.IDs)
		for row, v := range s.Edges.IDs {
			if places.Of[v] >= 0 {
				return refusal.Graph.Errorf("vertex %d belongs to two partitions; %s", v, partitionAgain)
			}
			places.Of[v] = int32(first + row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	seen := make([]bool, places.Vertices())
	return places, k.each(func(s *Share) error {
		keep := k.rule(s)
		for i := range s.Edges.Relations {
			if !s.Edges.Relations[i].Own() {
				continue
			}
			in, out, err := k.edges(places, s, i, keep)
			if err != nil {
				return err
			}
			haloOf(&in, s, seen, k.halos[i].Rows[s.Edges.P])
			haloOf(&out, s, seen, k.halos[i].RowsOut[s.Edges.P])
		}
		return nil
	})
}

// haloOf counts the distinct sources of a relation by partition, without those in s's own partition. seen is
// all false before and after. The time depends on the number of edges, not on the number of vertices.
func haloOf(r *graph.Relation, s *Share, seen []bool, counts []int) {
	for _, u := range r.Sources {
		if seen[u] {
			continue
		}
		seen[u] = true
		q, _ := slices.BinarySearch(s.Edges.Starts, int(u)+1)
		if q--; q != s.Edges.P {
			counts[q]++
		}
	}
	for _, u := range r.Sources {
		seen[u] = false
	}
}

// each opens one share after the other, calls use, and closes it.
func (k *Kept) each(use func(*Share) error) error {
	for p := range k.k {
		s, err := k.open(p)
		if err != nil {
			return err
		}
		err = s.Guard(func() error {
			defer s.Unload()
			return use(s)
		})
		if err := errors.Join(err, s.Close()); err != nil {
			return err
		}
	}
	return nil
}
