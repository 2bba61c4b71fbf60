package worker

import (
	"fmt"

	"weft/comm"
	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/exchange"
)

// Where each worker is of a process of its own, the caller in each process has the rows of its worker alone:
// values of vertices are those of Rows, in that order. The loss is the sum of the callers' losses: each gets
// the gradients of that.

// Rows are the vertices of a type whose rows of inputs and outputs this worker has, ascending; nil: all.
func (p *Passes) Rows(kind int) []int32 { return p.engine.Inputs()[kind].List() }

// RowCount is the number of these.
func (p *Passes) RowCount(kind int) int { return p.engine.Inputs()[kind].Here }

// RowCounts are these by type; none where a later stage of a pipeline has no inputs.
func (p *Passes) RowCounts() (counts []int) {
	for _, rows := range p.engine.Inputs() {
		counts = append(counts, rows.Here)
	}
	return counts
}

// Says names the call in errors.
func (f *Forward) Says() string {
	says := "forward"
	for kind, given := range f.Features {
		if given.Values != nil {
			says += fmt.Sprintf(" of features of type %d", kind)
		}
		if given.Differentiable {
			says += " that are differentiable"
		}
	}
	for _, e := range f.Edges {
		says += e.says()
	}
	if f.Training {
		says += " in training"
	}
	if f.Recording {
		says += " with gradients"
	}
	return says
}

// Begin begins a call that the callers of all processes make together; call says which. err is what the
// caller here is refused it with. It fails on all if it fails on any.
func (p *Passes) Begin(call string, err error) error {
	if !p.Processes {
		return err
	}
	unlike := func(rank int, theirs, first string) error {
		return refusal.Errorf("rank %d calls %s, and rank 0 %s: the processes make the same calls in the same order",
			rank, theirs, first)
	}
	if err := p.Ranks().Agree(call, unlike); err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	return p.Ranks().Together(err)
}

// placesAmong are the places of a worker's rows among the rows of the caller.
func (p *Passes) placesAmong(ids []int32) []int32 {
	if p.Processes {
		return nil
	}
	return ids
}

// seed is that of the first process. A plan draws nothing.
func (p *Passes) seed(f *Forward) (seed uint64) {
	if !p.Processes || f.Values == nil {
		return f.Seed
	}
	seed, err := FromFirst(p.Groups.World, f.Seed)
	exchange.Must(err)
	return seed
}

// clearWhole sets the blocks that are whole to zero, for sumWhole, as one worker has the row of each.
func (p *Passes) clearWhole(blocks []Block) {
	for _, b := range blocks {
		if b.Whole && p.Processes {
			clear(b.Values)
		}
	}
}

// sumWhole adds up the blocks that are whole over the processes. All then have the sum.
func (p *Passes) sumWhole(blocks []Block) {
	for _, b := range blocks {
		if b.Whole && p.Processes {
			exchange.Must(p.Groups.World.SumFloats(comm.Statistics, b.Values))
		}
	}
}

// takeGradients copies the gradients of the parameters to the caller's. Of an embedding each worker has the
// rows of its vertices.
func (p *Passes) takeGradients(to nn.State) {
	if !p.Processes {
		p.Params.TakeGradients(to, p.speaks())
		return
	}
	for _, of := range p.Params.List {
		if of.Rows != nil {
			clear(to[of.Name].Float32)
		}
	}
	p.Params.TakeGradients(to, true)
	for _, of := range p.Params.List {
		if of.Rows != nil {
			exchange.Must(p.Groups.World.SumFloats(comm.Gradient, to[of.Name].Float32))
		}
	}
}

// Sum adds up values over the processes. Each then has the sums.
func (p *Passes) Sum(values []float64) error {
	return p.Groups.World.SumDoubles(comm.Statistics, values)
}

// FromFirst gives the values of the first process to all.
func (p *Passes) FromFirst(values []float32) error {
	return p.Groups.World.Broadcast(comm.Setup, comm.Bytes(values), 0)
}
