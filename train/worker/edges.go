package worker

import (
	"weft/comm"
	"weft/graph"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/partition"
)

// Edges are what a pass has in place of a relation's edges, each in the order of the graph's store: by
// target, then by source, and parallel edges as they were given.
type Edges struct {
	Number   int             // of the relation
	Relation *graph.Relation // of the whole graph
	Kept     []float32       // which edges the pass has, not 0; nil: all
	Weights  Given
	Features Given // rows of the relation's columns
}

// givenEdges are those that a pass is given; nil: all are the graph's.
func (p *Passes) givenEdges(of []Edges) *edges.Given {
	if len(of) == 0 {
		return nil
	}
	given := &edges.Given{Relations: map[string]*edges.Input{}}
	for _, e := range of {
		given.Relations[p.relationOf(e).Name] = &edges.Input{
			Relation: e.Relation, Kept: e.Kept, Weights: e.Weights.Values, Features: e.Features.Values,
			Columns: p.relationOf(e).In.EdgeColumns, WeightGradients: e.Weights.Differentiable,
			FeatureGradients: e.Features.Differentiable,
		}
	}
	return given
}

// relationOf is the relation in the share.
func (p *Passes) relationOf(e Edges) *partition.Relation { return &p.Share.Edges.Relations[e.Number] }

// takeEdgeGradients adds the gradients of edges up over the workers, one after the other, so that their order
// is always the same.
func (p *Passes) takeEdgeGradients(from *edges.Given, to []Edges) {
	world := p.Groups.World
	for rank := range world.Size() {
		if rank == world.Rank() {
			for _, e := range to {
				if rank == 0 {
					clear(e.Weights.Values)
					clear(e.Features.Values)
				}
				from.AddGradients(p.relationOf(e).Name, e.Weights.Values, e.Features.Values)
			}
		}
		exchange.Must(world.Barrier(comm.Setup))
	}
}
