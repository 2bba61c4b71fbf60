package worker

import (
	"fmt"

	"weft/comm"
	"weft/nn"
	"weft/parallel/exchange"
)

// If each worker has a process of its own, the caller in each process has only its worker's rows: values of
// vertices are those of Rows, in that order. The loss is the sum of the callers' losses, and each caller gets
// the gradients of the sum.
//
// Groups of workers that hold the same graph each take a sample, in processes of their own or in the same
// one. The groups compute what one group would compute in as many passes, one after the other. The gradients
// are those of the sum of all losses. Each group has the dropout masks of one of these passes. The running
// statistics become what the passes make of them, in the order of the groups. All passes read the buffers as
// they were before the first.

// Rows are the vertices of a type whose rows of inputs and outputs this worker has, ascending; nil: all.
func (c *callerRows) Rows(kind int) []int32 { return c.engine.Inputs()[kind].List() }

// Sample is the number of this worker's sample among the samples of its process.
func (c *callerRows) Sample() int {
	if c.Processes {
		return 0
	}
	return c.Groups.Group
}

// RowCount is the length of Rows.
func (c *callerRows) RowCount(kind int) int { return c.engine.Inputs()[kind].Here }

// RowCounts is RowCount by vertex type. There are none if a later stage of a pipeline has no inputs.
func (c *callerRows) RowCounts() (counts []int) {
	for _, rows := range c.engine.Inputs() {
		counts = append(counts, rows.Here)
	}
	return counts
}

// Says names the call in errors.
func (f *Forward) Says() string {
	text := "forward"
	for kind, input := range f.Features {
		if input.Values != nil {
			text += fmt.Sprintf(" of features of type %d", kind)
		}
		if input.Differentiable {
			text += " that are differentiable"
		}
	}
	for _, e := range f.Edges {
		text += e.description()
	}
	if f.Training {
		text += " in training"
	}
	if f.Recording {
		text += " with gradients"
	}
	return text
}

// placesAmong are the places of a worker's rows among the rows of the caller.
func (p *Passes) placesAmong(ids []int32) []int32 {
	if p.Processes {
		return nil
	}
	return ids
}

// seed is the seed of the worker's group, as the first process gives it. A plan draws nothing.
func (p *Passes) seed(f *Forward) uint64 {
	if f.Values == nil {
		return 0
	}
	seeds := f.Seeds
	if p.Processes {
		var err error
		seeds, err = FromFirst(p.Groups.All, f.Seeds)
		exchange.Must(err)
	}
	if seeds == nil {
		return 0
	}
	return seeds[p.Groups.Group]
}

// commit changes buffers as the passes of all groups do, one after the other.
func (p *Passes) commit() {
	alike := p.Groups.Alike
	if alike.Size() == 1 {
		p.Params.Commit()
		return
	}
	pending := p.Params.Pending()
	var local []float64
	for _, buffer := range pending {
		local = append(local, buffer.Doubles()...) // a plan has zeros
	}
	all, err := comm.Gather(alike, comm.Statistics, local...)
	exchange.Must(err)
	for range alike.Size() {
		for _, buffer := range pending {
			copy(buffer.WriteDoubles(), all)
			all = all[buffer.Len():]
		}
		p.Params.Commit()
	}
}

// clearShared sets blocks that all processes have to zero before sumShared, as only one worker has each row.
func (p *Passes) clearShared(blocks []ColumnBlock) {
	for _, b := range blocks {
		if p.shared(&b) {
			clear(b.Values)
		}
	}
}

// sumShared adds up, over the processes, the blocks that all have. All then have the sum.
func (p *Passes) sumShared(blocks []ColumnBlock) {
	for _, b := range blocks {
		if p.shared(&b) {
			exchange.Must(p.Groups.World.SumFloats(comm.Statistics, b.Values))
		}
	}
}

// shared reports whether all of several processes have a block.
func (p *Passes) shared(b *ColumnBlock) bool { return (b.Whole || b.Everywhere) && p.Processes }

// takeGradients copies the gradients of the parameters to the caller's. Of an embedding, each worker has the
// rows of its own vertices.
func (p *Passes) takeGradients(to nn.State) {
	switch {
	case !p.Processes && p.Groups.Group > 0: // the first group has the same gradients
		p.Params.ZeroGrad()
		return
	case !p.Processes:
		p.Params.TakeGradients(to, p.isPrimary())
		return
	}
	for _, param := range p.Params.List {
		if param.Rows != nil {
			clear(to[param.Name].Float32)
		}
	}
	p.Params.TakeGradients(to, true)
	for _, param := range p.Params.List {
		if param.Rows != nil {
			exchange.Must(p.Groups.World.SumFloats(comm.Gradient, to[param.Name].Float32))
		}
	}
}

// Sum adds up values over the processes, or with ofGroup over the processes of each group. All of them then
// have the sums.
func (c *callerRows) Sum(ofGroup bool, values []float64) error {
	if ofGroup {
		return c.Groups.World.SumDoubles(comm.Statistics, values)
	}
	return c.Groups.All.SumDoubles(comm.Statistics, values)
}

// FromFirst copies the values of the first process to all.
func (c *callerRows) FromFirst(values []float32) error {
	return c.Groups.All.Broadcast(comm.Setup, comm.Bytes(values), 0)
}
