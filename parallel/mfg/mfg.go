// Package mfg finds what an inference for some vertices has to read and compute: their message-flow graph.
//
// From the last block to the first, with S the rows whose values the later blocks need, a block that
// aggregates needs
//
//	S ∪ {j : an edge j→i leads into a row i of S}
//
// of the block before it, along the relations and directions that it asks for; once for each of its rounds.
// It computes on all of these rows, with the edges into S alone: S's rows are then those of an inference for
// all vertices to the bit, and the others are left behind. (Messages of a function are added in batches of
// edges, of which others are made among other rows: their sums agree to rounding.)
//
// With several partitions a row is its owner's. The workers tell each other after each step which rows of
// theirs they need, and a pass moves just these.
package mfg

import (
	"fmt"
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
)

// Reach says how a block reaches along edges.
type Reach struct {
	Along  []gnn.Along // the ways that it takes; none: its rows follow from the same rows before it
	Rounds int         // how many steps it takes after each other
}

// Layer is what a block computes on. Blocks of the same rows and edges share one.
type Layer struct {
	*sar.Partition
	// Rows are those of this worker, by vertex type and their places in the share, ascending.
	Rows  [][]int32
	reach Reach
	need  Need
	whole bool // no row that it computes follows from others than these
}

// Need is what all workers together read for a block.
type Need struct {
	Vertices int64 `json:"vertices"` // whose rows before it are needed
	Edges    int64 `json:"edges"`    // along which it aggregates, in one round
}

// finder finds the rows.
type finder struct {
	team    *kernel.Team
	groups  mesh.Groups
	share   *partition.Share
	costs   *order.Costs
	options sar.Options
}

// New returns the layer of each block that is described by its reach, for the result of the last of them in
// some of this worker's rows of the first vertex type, by their places in the share, ascending; and what each
// block needs. The workers of all partitions, which g.Halo connects, call it together.
func New(team *kernel.Team, g mesh.Groups, s *partition.Share, blocks []Reach, rows []int32, w order.Options, o sar.Options,
) ([]*Layer, []Need, error) {
	f := &finder{team: team, groups: g, share: s, costs: order.NewCosts(w, nil), options: o}
	f.turnAround(blocks)
	sets := make([][]int32, len(s.Edges.Types()))
	for i := range sets {
		sets[i] = []int32{}
	}
	sets[0] = rows
	after, err := f.layer(Reach{}, sets, sets, Need{Vertices: int64(len(rows))})
	if err != nil {
		return nil, nil, err
	}
	layers, needs := make([]*Layer, len(blocks)), make([]Need, len(blocks))
	for i, b := range slices.Backward(blocks) {
		l, err := f.before(b, after)
		if err != nil {
			return nil, nil, err
		}
		layers[i], needs[i] = l, l.need
		if len(b.Along) == 0 {
			needs[i].Edges = 0
		}
		after = l
	}
	return layers, needs, nil
}

// turnAround has the share list out-edges also where there is one partition, if a block asks for them.
func (f *finder) turnAround(blocks []Reach) {
	if len(f.groups.Holders) > 1 {
		return
	}
	own := *f.share
	own.Edges.Relations = slices.Clone(own.Edges.Relations)
	f.share = &own
	for _, b := range blocks {
		for _, a := range b.Along {
			if r := f.relation(a); a.Reversed && len(r.Out.Indptr) == 0 {
				r.Out = *r.In.Reversed(own.Edges.Types()[r.Source].Rows)
			}
		}
	}
}

// before is the layer of a block whose result is read by the one after it.
func (f *finder) before(b Reach, after *Layer) (*Layer, error) {
	same := slices.Equal(b.Along, after.reach.Along)
	if len(b.Along) == 0 || same && after.whole {
		return after, nil
	}
	rows, into := after.Rows, after.Rows
	var need Need
	for range b.Rounds {
		into = rows
		var err error
		if rows, need, err = f.step(b.Along, into); err != nil {
			return nil, err
		}
	}
	return f.layer(b, rows, into, need)
}

// layer is that of a block which reads some rows for others; mine is what this worker needs for it.
func (f *finder) layer(b Reach, rows, into [][]int32, mine Need) (*Layer, error) {
	p := sar.NewSome(f.team, f.groups, f.share, sar.Some{Rows: rows, Into: into}, f.costs, f.options)
	l := &Layer{Partition: p, Rows: rows, reach: b}
	more := int64(0)
	for i := range rows {
		more += int64(len(rows[i]) - len(into[i]))
	}
	all, err := comm.Gather(f.groups.Halo, comm.Setup, mine.Vertices, mine.Edges, more)
	if err != nil {
		return nil, err
	}
	grown := int64(0)
	for i := 0; i < len(all); i += 3 {
		l.need.Vertices += all[i]
		l.need.Edges += all[i+1]
		grown += all[i+2]
	}
	l.whole = grown == 0
	return l, nil
}

// step is one step from some rows: these and their in-neighbours that this worker holds, of its own edges and
// of those of the others; and what this worker needs.
func (f *finder) step(along []gnn.Along, into [][]int32) (rows [][]int32, need Need, err error) {
	types := f.share.Edges.Types()
	marks := make([][]bool, len(types))
	for i, t := range types {
		marks[i] = make([]bool, t.Rows)
		for _, row := range into[i] {
			marks[i][row] = true
		}
	}
	for _, a := range along {
		r := f.relation(a)
		list, source, target := &r.In, r.Source, r.Target
		if a.Reversed {
			list, source, target = &r.Out, r.Target, r.Source
		}
		edges, err := f.mark(marks[source], list, types[source].Starts, into[target])
		if err != nil {
			return nil, need, err
		}
		need.Edges += edges
	}
	for _, marked := range marks {
		list := []int32{}
		for row, is := range marked {
			if is {
				list = append(list, int32(row))
			}
		}
		rows = append(rows, list)
		need.Vertices += int64(len(list))
	}
	return rows, need, nil
}

// mark marks the own rows that the edges into some rows lead from, here and on the other workers. It returns
// how many edges lead into those here.
func (f *finder) mark(own []bool, list *graph.Relation, starts []int, into []int32) (edges int64, err error) {
	seen := make([]bool, starts[len(starts)-1]) // by position
	for _, row := range into {
		sources := list.Sources[list.Indptr[row]:list.Indptr[row+1]]
		edges += int64(len(sources))
		for _, position := range sources {
			seen[position] = true
		}
	}
	k, me, c := len(starts)-1, f.share.Edges.P, f.groups.Halo
	lists, counts := make([][]int32, c.Size()), make([]int32, c.Size()) // by rank
	for q, rank := range f.groups.Holders {
		for row, is := range seen[starts[q]:starts[q+1]] {
			switch {
			case is && q == me:
				own[row] = true
			case is:
				lists[rank] = append(lists[rank], int32(row))
			}
		}
		counts[rank] = int32(len(lists[rank]))
	}
	if k == 1 {
		return edges, nil
	}
	told, err := comm.Gather(c, comm.Setup, counts...)
	if err != nil {
		return 0, err
	}
	send, receive, asked := make([][]byte, c.Size()), make([][]byte, c.Size()), make([][]int32, c.Size())
	for rank := range c.Size() {
		asked[rank] = make([]int32, told[rank*c.Size()+c.Rank()])
		send[rank], receive[rank] = comm.Bytes(lists[rank]), comm.Bytes(asked[rank])
	}
	if err := c.AllToAll(comm.Setup, send, receive); err != nil {
		return 0, err
	}
	for rank, rows := range asked {
		for _, row := range rows {
			if row < 0 || int(row) >= len(own) {
				return 0, fmt.Errorf("worker %d asks worker %d for row %d of %d", rank, c.Rank(), row, len(own))
			}
			own[row] = true
		}
	}
	return edges, nil
}

// relation is the share's that a way leads along.
func (f *finder) relation(a gnn.Along) *partition.Relation {
	list := f.share.Edges.Relations
	i := slices.IndexFunc(list, func(r partition.Relation) bool { return r.Name == a.Relation })
	if i < 0 {
		panic(fmt.Sprintf("mfg: a block reaches along relation %q, which the graph does not have", a.Relation))
	}
	return &list[i]
}
