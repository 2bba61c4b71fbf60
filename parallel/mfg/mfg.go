// Package mfg finds the message-flow graph (in DGL: MFG) of a pass for some vertices: the vertices whose rows
// each block of the model must read and compute.
//
// It goes from the last block to the first. Let S be the rows whose values the later blocks need. A block
// that aggregates needs these rows of the block before it:
//
//	S ∪ {j : an edge j→i leads into a row i of S}
//
// for the relations and directions along which it aggregates, once for each of its rounds. The block computes
// on all of these rows, but only with the edges into S. So the rows of S have the same bits as in an
// inference for all vertices, and the other rows are not used. Message functions are an exception: the rows
// decide which edges share a batch, so their sums agree up to rounding.
//
// With several partitions, each worker computes the rows that it owns. After each step the workers tell each
// other which rows they need, and a halo exchange sends only these.
//
// Package engine computes predictions for some vertices by it.
package mfg

import (
	"fmt"
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/axis"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
)

// Reach says along which edges a block aggregates.
type Reach struct {
	Along  []gnn.Along // relations and directions; none: each row is computed from the same row alone
	Rounds int         // how many aggregations follow each other
}

// Layer holds the rows and edges on which a block computes. Blocks of the same rows and edges share one
// Layer.
type Layer struct {
	*sar.Partition
	// Rows are this worker's rows, by vertex type: their places in the share, ascending.
	Rows  [][]int32
	reach Reach
	need  Need
	whole bool // no row that the block computes depends on further rows
}

// Need counts what all workers together read for a block.
type Need struct {
	Vertices int64 `json:"vertices"` // whose rows the block reads
	Edges    int64 `json:"edges"`    // along which it aggregates, in one round
}

// finder finds the rows.
type finder struct {
	axis.Env
	costs     *order.Costs
	options   axis.Options
	gradients bool
}

// Wanted says what a pass computes.
type Wanted struct {
	// Rows are the rows on this worker, by vertex type, for which the last block's result is needed, as
	// places in the share, ascending. Types at the end may be missing: none of their rows is needed.
	Rows      [][]int32
	Gradients bool // there may be a backward pass
}

// New returns the layer of each block and, last, the layer of the result, and what each block needs. blocks
// say along which edges each block aggregates. The workers of all partitions, which Groups.Halo connects,
// call it together.
func New(e axis.Env, o axis.Options, blocks []Reach, w Wanted) ([]*Layer, []Need, error) {
	f := &finder{Env: e, costs: e.Costs(&o, nil), options: o, gradients: w.Gradients}
	f.addReverse(blocks)
	sets := make([][]int32, len(e.Share.Edges.Types))
	ownNeed := Need{}
	for i := range sets {
		sets[i] = []int32{}
		if i < len(w.Rows) {
			sets[i] = append(sets[i], w.Rows[i]...)
		}
		ownNeed.Vertices += int64(len(sets[i]))
	}
	after, err := f.layer(Reach{}, sets, sets, ownNeed)
	if err != nil {
		return nil, nil, err
	}
	layers := make([]*Layer, len(blocks)+1)
	layers[len(blocks)] = after
	needs := make([]Need, len(blocks))
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

// addReverse makes the share list out-edges even with a single partition, if a block asks for the reverse
// direction.
func (f *finder) addReverse(blocks []Reach) {
	if len(f.Groups.Holders) > 1 {
		return
	}
	own := *f.Share
	own.Edges.Relations = slices.Clone(own.Edges.Relations)
	f.Share = &own
	for _, b := range blocks {
		for _, a := range b.Along {
			if r := f.relation(a); a.Reversed && len(r.Out.Indptr) == 0 {
				r.Out = *r.In.Reversed(own.Edges.Types[r.Source].Rows)
			}
		}
	}
}

// before returns the layer of a block. after is the layer of the block that reads its result.
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

// layer makes the layer of a block that reads rows and computes into. ownNeed is what this worker needs
// for it.
func (f *finder) layer(b Reach, rows, into [][]int32, ownNeed Need) (*Layer, error) {
	p := sar.NewSome(f.Env, sar.Some{Rows: rows, Into: into, Gradients: f.gradients}, f.costs, f.options)
	l := &Layer{Partition: p, Rows: rows, reach: b}
	more := int64(0)
	for i := range rows {
		more += int64(len(rows[i]) - len(into[i]))
	}
	all, err := comm.Gather(f.Groups.Halo, comm.Setup, ownNeed.Vertices, ownNeed.Edges, more)
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

// step returns the rows that one aggregation into some rows reads: these rows and their in-neighbours. It
// returns only in-neighbours that this worker owns, for its own edges and for the other workers' edges. need
// counts what this worker reads.
func (f *finder) step(along []gnn.Along, into [][]int32) (rows [][]int32, need Need, err error) {
	types := f.Share.Edges.Types
	sets := make([]*marks, len(types))
	for i, t := range types {
		sets[i] = newMarks(t.Rows)
		sets[i].add(into[i]...)
	}
	for _, a := range along {
		r := f.relation(a)
		list, source, target := &r.In, r.Source, r.Target
		if a.Reversed {
			list, source, target = &r.Out, r.Target, r.Source
		}
		edges, err := f.mark(sets[source], types[source].Rows, list, types[source].Starts, into[target])
		if err != nil {
			return nil, need, err
		}
		need.Edges += edges
	}
	for i, set := range sets {
		rows = append(rows, set.list(0, types[i].Rows))
		need.Vertices += int64(len(rows[i]))
	}
	return rows, need, nil
}

// mark marks the local rows, of rows in all, that are sources of edges into some rows, on this worker and on
// the others. It returns how many edges lead into the rows given here.
func (f *finder) mark(own *marks, rows int, list *graph.Relation, starts []int,
	into []int32,
) (edges int64, err error) {
	seen := newMarks(starts[len(starts)-1]) // by position
	for _, row := range into {
		sources := list.Sources[list.Indptr[row]:list.Indptr[row+1]]
		edges += int64(len(sources))
		seen.add(sources...)
	}
	k, me, c := len(starts)-1, f.Share.Edges.P, f.Groups.Halo
	lists := make([][]int32, c.Size())
	counts := make([]int32, c.Size()) // by rank
	for q, rank := range f.Groups.Holders {
		theirs := seen.list(starts[q], starts[q+1])
		if q == me {
			own.add(theirs...)
			continue
		}
		lists[rank] = theirs
		counts[rank] = int32(len(lists[rank]))
	}
	if k == 1 {
		return edges, nil
	}
	told, err := comm.Exchange(c, comm.Setup, counts...)
	if err != nil {
		return 0, err
	}
	asked := make([][]int32, c.Size())
	for rank, n := range told {
		asked[rank] = make([]int32, n)
	}
	if err := comm.AllToAllOf(c, comm.Setup, lists, asked); err != nil {
		return 0, err
	}
	for rank, theirs := range asked {
		for _, row := range theirs {
			if row < 0 || int(row) >= rows {
				return 0, fmt.Errorf("worker %d asks worker %d for row %d of %d", rank, c.Rank(), row, rows)
			}
			own.add(row)
		}
	}
	return edges, nil
}

// relation returns the share's relation of that name.
func (f *finder) relation(a gnn.Along) *partition.Relation {
	list := f.Share.Edges.Relations
	i := slices.IndexFunc(list, func(r partition.Relation) bool { return r.Name == a.Relation })
	if i < 0 {
		panic(fmt.Sprintf("mfg: a block aggregates along relation %q, which the graph does not have",
			a.Relation))
	}
	return &list[i]
}
