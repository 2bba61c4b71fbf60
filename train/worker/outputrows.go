package worker

import (
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/parallel/exchange"
	"weft/parallel/mfg"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// noRow is the place of a row that a block lacks, such as that of no edge.
const noRow = sar.NoEdge

// placesOf are the places of this worker's rows of an output among listed vertices, which ascend; nil: among
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

// placesIn are the places of this worker's rows of an output in blocks that are neither Whole nor Everywhere.
// If routed is not nil, the blocks are of the held edges, whose route leads to the callers' blocks.
func (p *Passes) placesIn(f *Forward, pass engine.Pass, output int) (places []int32, routed *heldEdges) {
	if !f.ofEdges(output) {
		return p.placesAmong(placesOf(f.rows(p.typeOf(output)), pass.Outputs()[output])), nil
	}
	states := p.config.Blocks[len(p.config.Blocks)-1].EdgeOutputs
	s := states[output-len(pass.Outputs())+len(states)]
	number := slices.IndexFunc(p.Share.Edges.Relations, func(r partition.Relation) bool {
		return r.Name == s.Along.Relation
	})
	h := p.heldOf(number, f.Relations[output])
	if p.Processes && s.Along.Reversed { // edges into rows of other processes
		routed = h
	}
	return h.places(pass.EdgeNumbers(output, &h.Numbering), routed == nil), routed
}

// ofEdges reports whether an output has rows of edges.
func (f *Forward) ofEdges(output int) bool { return f.Relations != nil && f.Relations[output] != nil }

// places are the places of the output's rows in a block. A block that is Whole has only the first vertex's
// row, and one that is Everywhere those of all vertices.
func (b *ColumnBlock) places(places []int32, output *autograd.Var) []int32 {
	if b.Whole || b.Everywhere {
		return output.RowSet().List()
	}
	return places
}

// rows are the vertices of a type whose rows an output has; nil: all.
func (f *Forward) rows(kind int) []int32 {
	if f.Rows == nil {
		return nil
	}
	return f.Rows[kind]
}

// typeOf is the vertex type of an output.
func (p *Passes) typeOf(output int) int {
	if p.config.Outputs == nil {
		return 0
	}
	return p.config.Outputs[output]
}

// apart is the model in blocks each of which ends with its aggregations.
type apart struct {
	blocks  []gnn.BlockSpec
	reaches []mfg.Reach
	several bool // a block has several aggregations in a row
}

// modelApart is the model in such blocks.
func (p *Passes) modelApart() (*apart, error) {
	if p.apart != nil {
		return p.apart, nil
	}
	blocks, err := p.BlocksApart(p.Share, p.Outputs)
	if err != nil {
		return nil, err
	}
	p.apart = &apart{
		blocks: blocks, reaches: engine.Reaches(blocks, sar.SchemaOf(p.Share)),
		several: slices.ContainsFunc(blocks, func(b gnn.BlockSpec) bool { return b.Rounds > 1 }),
	}
	return p.apart, nil
}

// engineOf is the engine of a pass. If a pass of some rows depends on half of all vertices at most, it
// computes only their message-flow graph, in memory of its own. A block with several aggregations computes
// rows between them that nothing reads, so it has no backward pass there.
func (p *Passes) engineOf(f *Forward) (e engine.Engine, memory *tensor.Meter, err error) {
	whole := func(blocks []ColumnBlock) bool {
		return slices.ContainsFunc(blocks, func(b ColumnBlock) bool { return b.Whole })
	}
	if f.Rows == nil || f.Edges != nil || f.Relations != nil || !p.PassesSome(f.Training) ||
		slices.ContainsFunc(f.Outputs, whole) {
		return p.engine, nil, nil
	}
	model, err := p.modelApart()
	if err != nil || model.several && f.Recording {
		return p.engine, nil, err
	}
	memory = p.Team.Memory.Another()
	c := p.config
	c.Team, c.Blocks, c.Explain, c.Training = p.Team.In(memory), model.blocks, nil, f.Recording
	m, err := engine.FindMFG(c, p.listed(f), model.reaches)
	if err != nil {
		return nil, nil, err
	}
	vertices := int64(0)
	for _, t := range p.Share.Whole.Types {
		vertices += int64(t.Vertices)
	}
	if 2*m.Needs()[0].Vertices > vertices {
		memory.Retire()
		return p.engine, nil, nil
	}
	m.Build(p.Params.Again())
	return m, memory, nil
}

// listed are, by type, the vertices whose rows are computed.
func (p *Passes) listed(f *Forward) (all [][]int32) {
	all = make([][]int32, len(p.Share.Whole.Types))
	for k := range f.Outputs {
		kind := p.typeOf(k)
		all[kind] = idsOf(f.Rows[kind], p.Share.Whole.Types[kind].Vertices)
	}
	return all
}

// clearFeatures sets the gradients of features to zero, because a pass of some rows computes a part of them.
func (p *Passes) clearFeatures(live *livePass, to []InputValues) {
	if live.memory == nil || to == nil {
		return
	}
	world := p.Groups.World
	if world.Rank() == 0 {
		for _, grad := range to {
			clear(grad.Values)
		}
	}
	exchange.Must(world.Barrier(comm.Setup))
}
