package worker

import (
	"slices"

	"weft/autograd"
	"weft/kernel"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
)

// noRow is the place of a row that a block does not have.
const noRow = -1

// placesOf are those of this worker's rows of an output among listed vertices, which ascend; nil: those of
// all vertices.
func placesOf(listed []int32, output *autograd.Var) []int32 {
	ids := output.RowSet().List()
	if listed == nil {
		return ids
	}
	places := make([]int32, output.Rows())
	for row := range places {
		vertex := int32(row)
		if ids != nil {
			vertex = ids[row]
		}
		place, found := slices.BinarySearch(listed, vertex)
		if places[row] = int32(place); !found {
			places[row] = noRow
		}
	}
	return places
}

// places are those of the output's rows in a block: one that is whole has the row of the first vertex.
func (b *Block) places(places []int32, output *autograd.Var) []int32 {
	if b.Whole {
		return output.RowSet().List()
	}
	return places
}

// isMFG reports whether a pass is an inference over the message-flow graph of its rows: along the graph axis,
// of the graph's features and edges.
func (p *Passes) isMFG(f *Forward) bool {
	return f.Rows != nil && !f.Training && !f.Recording && f.Features == nil && f.Edges == nil &&
		!slices.ContainsFunc(f.Outputs[0], func(b Block) bool { return b.Whole }) &&
		p.CheckSome() == nil && !p.TakesTurns() && !p.OnCard()
}

// inferRows computes the rows of an output over their message-flow graph.
func (p *Passes) inferRows(f *Forward) error {
	c := p.config
	c.Team = kernel.NewTeam(p.Team.Threads(), tensor.NewMeter())
	defer c.Team.Memory.Close()
	c.Team.Storage, c.Team.Uncut = p.Team.Storage, p.Team.Uncut
	c.Team.Watch, c.Team.Waits = p.Team.Watch, p.Team.Waits
	reaches := engine.Reaches(p.Blocks, sar.SchemaOf(p.Share))
	mfg, err := engine.NewMFG(c, f.Rows, &engine.Loaded{Params: p.Params, Reaches: reaches})
	if err != nil {
		return err
	}
	output, from := mfg.Infer(0), 0
	for _, b := range f.Outputs[0] {
		p.spread(b, output.Value(), from, mfg.Vertices())
		from += b.Columns
	}
	output.Drop()
	return nil
}
