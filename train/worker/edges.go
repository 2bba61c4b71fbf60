package worker

import (
	"fmt"
	"slices"

	"weft/comm"
	"weft/graph"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/tp"
	"weft/partition"
)

// EdgeValues are what a pass has in place of a relation's edges. They are in the order of the graph's store:
// by target, then by source, and parallel edges as they were given. They are all edges of the relation, or
// those of EdgesInto.
type EdgeValues struct {
	Number   int             // the number of the relation
	Relation *graph.Relation // of the whole graph
	Kept     []float32       // the pass has the edges whose entry is not 0; nil: all edges
	Weights  InputValues
	Features InputValues // rows of the relation's columns
}

// givenEdges are the edges that a pass is given; nil: all are the graph's.
func (c *callerRows) givenEdges(relations []EdgeValues) *edges.Inputs {
	if len(relations) == 0 {
		return nil
	}
	inputs := &edges.Inputs{Relations: map[string]*edges.Input{}}
	for _, e := range relations {
		columns := c.relationOf(e).In.Features.Columns
		h := c.heldOf(e.Number, e.Relation)
		inputs.Relations[c.relationOf(e).Name] = &edges.Input{
			Numbering: h.Numbering, Kept: h.fetched(1, e.Kept), Weights: h.fetched(1, e.Weights.Values),
			Features: h.fetched(columns, e.Features.Values), Columns: columns,
			WeightGradients: e.Weights.Differentiable, FeatureGradients: e.Features.Differentiable,
		}
	}
	return inputs
}

// description names, in errors, what the caller gives.
func (e *EdgeValues) description() (text string) {
	if e.Kept != nil {
		text = fmt.Sprintf(" of some edges of relation %d", e.Number)
	}
	for what, input := range []InputValues{e.Weights, e.Features} {
		if input.Values != nil {
			text += fmt.Sprintf(" of %s of edges of relation %d", []string{"weights", "features"}[what], e.Number)
		}
		if input.Differentiable {
			text += " that are differentiable"
		}
	}
	return text
}

// relationOf is the relation in the worker's share.
func (c *callerRows) relationOf(e EdgeValues) *partition.Relation {
	return &c.Share.Edges.Relations[e.Number]
}

// takeEdgeGradients adds up the gradients of edges over the workers. It takes one worker after the other, so
// that their order is always the same.
func (c *callerRows) takeEdgeGradients(from *edges.Inputs, to []EdgeValues) {
	if c.Processes {
		c.bringEdgeGradients(from, to)
		return
	}
	world := c.Groups.World
	for rank := range world.Size() {
		if rank == world.Rank() {
			for _, e := range to {
				if rank == 0 {
					clear(e.Weights.Values)
					clear(e.Features.Values)
				}
				from.AddGradients(c.relationOf(e).Name, e.Weights.Values, e.Features.Values)
			}
		}
		exchange.Must(world.Barrier(comm.Setup))
	}
}

// bringEdgeGradients adds up the gradients of edges over processes. Each caller gets the sums for the edges
// that it gave.
func (c *callerRows) bringEdgeGradients(from *edges.Inputs, to []EdgeValues) {
	for _, e := range to {
		h, columns := c.heldOf(e.Number, e.Relation), c.relationOf(e).In.Features.Columns
		weights, features := h.buffer(1, e.Weights.Values), h.buffer(columns, e.Features.Values)
		clear(weights)
		clear(features)
		from.AddGradients(c.relationOf(e).Name, weights, features)
		h.reduce(1, weights, e.Weights.Values)
		h.reduce(columns, features, e.Features.Values)
	}
}

// heldEdges are the edges of a relation on which a worker computes: those into the rows of its partition
// and, if a layer aggregates at the sources of edges, the edges out of them. If workers are processes, the
// caller gives and gets values of the edges into the rows of its worker, which are fewer on the tensor axis.
type heldEdges struct {
	edges.Numbering
	world *comm.Comm
	// route is how values come to the process that computes with them; nil: its own caller has them.
	route *route
	// callerPlaces are, by place in Held, the edges' places among the caller's; noRow: another caller has the
	// edge; nil: both places are the same.
	callerPlaces []int32
}

// heldOf are the held edges of a relation, which has this number in the worker's share, and is relation in
// the whole graph. The workers of all processes ask for the same relations in the same order.
func (c *callerRows) heldOf(number int, relation *graph.Relation) *heldEdges {
	if !c.Processes {
		return &heldEdges{Numbering: edges.Numbering{Relation: relation}}
	}
	if h := c.heldEdges[number]; h != nil {
		return h
	}
	local := c.EdgesInto(number, relation)
	h := &heldEdges{Numbering: edges.Numbering{Relation: relation, Held: local}, world: c.Groups.World}
	if atSources := c.Program.AtSources(); atSources || c.Groups.Mesh.Slices > 1 {
		owners, err := c.ownersOf(c.Share.Edges.Relations[number].Target)
		exchange.Must(err)
		var targets []int32
		h.Held, targets = c.edgesOfShare(number, relation, atSources)
		h.route, err = routeTo(h.world, h.Held, local, func(k int) int32 { return owners[targets[k]] })
		exchange.Must(err)
		h.callerPlaces = slices.Repeat([]int32{noRow}, len(h.Held))
		for k, place := range h.route.asks[h.world.Rank()] {
			h.callerPlaces[place] = h.route.gives[h.world.Rank()][k]
		}
	}
	c.heldEdges[number] = h
	return h
}

// edgesOfShare are the numbers of a relation's edges into the rows of the share, ascending, with their
// targets. With outgoing they include the edges out of the rows.
func (c *callerRows) edgesOfShare(number int, rel *graph.Relation, outgoing bool,
) (all []int64, targets []int32) {
	all = []int64{} // nil would mean all edges
	here := func(kind int) []bool {
		has := make([]bool, c.Share.Whole.Types[kind].Vertices)
		t := &c.Share.Edges.Types[kind]
		for _, v := range idsOf(t.IDs, t.Rows) {
			has[v] = true
		}
		return has
	}
	r := &c.Share.Edges.Relations[number]
	into, from := here(r.Target), here(r.Source)
	for v := range into {
		if !into[v] && !outgoing {
			continue
		}
		for k := rel.Indptr[v]; k < rel.Indptr[v+1]; k++ {
			if into[v] || from[rel.Sources[k]] {
				all, targets = append(all, k), append(targets, int32(v))
			}
		}
	}
	return all, targets
}

// idsOf are the vertices of so many rows. listed nil: row v is vertex v.
func idsOf(listed []int32, rows int) []int32 {
	if listed != nil {
		return listed
	}
	all := make([]int32, rows)
	for v := range all {
		all[v] = int32(v)
	}
	return all
}

// places are the places of edges, by their numbers: among the caller's edges, or among those held.
func (h *heldEdges) places(numbers []int64, callers bool) []int32 {
	places := make([]int32, len(numbers))
	for k, number := range numbers {
		places[k] = int32(number)
		if callers && h.callerPlaces != nil && number != noRow {
			places[k] = h.callerPlaces[number]
		}
	}
	return places
}

// buffer is where a worker adds up values of edges, of so many columns, that belong to the callers.
func (h *heldEdges) buffer(columns int, callers []float32) []float32 {
	if h == nil || h.route == nil || callers == nil {
		return callers
	}
	return make([]float32, len(h.Held)*columns)
}

// fetched are the values of the worker's edges, from its own caller and the callers of other processes.
func (h *heldEdges) fetched(columns int, callers []float32) []float32 {
	here := h.buffer(columns, callers)
	if h != nil && h.route != nil && callers != nil {
		exchange.Must(h.route.fetch(h.world, columns, callers, here))
	}
	return here
}

// blockOf is the block of the held edges that belongs to the block b of a caller.
func (h *heldEdges) blockOf(b ColumnBlock) ColumnBlock {
	b.Values = h.buffer(b.Columns, b.Values)
	return b
}

// reduce sets the callers' values to the sums of what the workers have added up in their buffers.
func (h *heldEdges) reduce(columns int, here, callers []float32) {
	if h != nil && h.route != nil && callers != nil {
		clear(callers)
		exchange.Must(h.route.scatterAdd(h.world, columns, here, callers))
	}
}

// EdgesInto are the numbers, in the graph's store, of a relation's edges into the rows of this worker,
// ascending. The caller of a process gives and gets the values of these edges. relation is that of the
// whole graph.
func (c *callerRows) EdgesInto(number int, relation *graph.Relation) []int64 {
	all := []int64{}
	kind := c.Share.Edges.Relations[number].Target
	for _, v := range idsOf(c.Rows(kind), c.RowCount(kind)) {
		for k := relation.Indptr[v]; k < relation.Indptr[v+1]; k++ {
			all = append(all, k)
		}
	}
	return all
}

// EdgeCounts is the length of EdgesInto for each relation. There are none if a later stage of a pipeline has
// no inputs.
func (c *callerRows) EdgeCounts() (counts []int) {
	if len(c.engine.Inputs()) == 0 {
		return nil
	}
	for k := range c.Share.Edges.Relations {
		r := &c.Share.Edges.Relations[k]
		rows := c.Share.Edges.Types[r.Target].Rows
		count := r.In.Indptr[rows]
		if slices := c.Groups.Mesh.Slices; slices > 1 {
			count = 0
			for _, row := range tp.Places(c.Share, r.Target, slices, c.Groups.Slice) {
				count += r.In.Indptr[row+1] - r.In.Indptr[row]
			}
		}
		counts = append(counts, int(count))
	}
	return counts
}
