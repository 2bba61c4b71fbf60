package engine

import (
	"weft/autograd"
	"weft/gnn"
	"weft/internal/trace"
	"weft/parallel/chunked"
	"weft/parallel/exchange"
	"weft/tensor"
)

// stageChunk is a chunk of a stage.
type stageChunk struct {
	*chunked.Chunk
	features []*features // by vertex type, on the first stage
}

// chunkPass is a chunk's forward and backward pass through a stage.
type chunkPass struct {
	*stageChunk
	supplied []InputMatrix    // rows that the call gives in place of the features, by vertex type; nil: none
	came     []*tensor.Matrix // on other stages: the state from the previous stage, until a tape owns it
	ledger   *autograd.Ledger // records when gradients are complete; may be nil
	in, out  gnn.State        // on the tape of the last forward pass
}

// forward runs the stage's blocks on a chunk. With recomputation it records nothing.
func (p *Pipeline) forward(c *chunkPass, call *Call) gnn.State {
	p.give(c, call)
	t := call.tape(p.Team)
	t.Rows = c.Types()
	t.Recording = call.Recording && !p.Recompute
	p.observe(t, trace.Forward)
	return p.record(c, call, t)
}

// give gives a chunk its rows of the features that come with the call, if they do.
func (p *Pipeline) give(c *chunkPass, call *Call) {
	if !p.first() {
		return
	}
	for kind, supplied := range call.Features {
		if supplied.Values == nil {
			supplied = InputMatrix{}
		} else {
			supplied.Values = p.chunkRows(tensor.Activations, supplied.Values, c.Places[kind])
		}
		c.supplied = append(c.supplied, supplied)
	}
}

// takeBack releases the rows that give has supplied.
func (c *chunkPass) takeBack() {
	for _, supplied := range c.supplied {
		supplied.Values.Release()
	}
	c.supplied = nil
}

func (p *Pipeline) record(c *chunkPass, call *Call, t *autograd.Tape) gnn.State {
	if t.Recording {
		t.Ledger = c.ledger
	}
	c.in = p.begin(c, call, t)
	c.out = p.result(p.model.Forward(c.in))
	return c.out
}

// inFloat32 returns an output of a model, dense and in Float32.
func inFloat32(output *autograd.Var) *autograd.Var {
	stored := autograd.Dense(output)
	z := autograd.Float32(stored)
	if z != stored {
		stored.Drop()
	}
	return z
}

// result returns the state after the stage, as it is sent. The last stage has the outputs alone, in Float32.
func (p *Pipeline) result(out gnn.State) gnn.State {
	if p.last() {
		outputs := out.Outputs(p.Outputs...)
		for k, v := range outputs {
			outputs[k] = inFloat32(v)
		}
		vertices := len(outputs) - len(out.Edges)
		return gnn.State{Rows: outputs[:vertices], Edges: outputs[vertices:]}
	}
	for k, v := range out.Rows {
		out.Rows[k] = stored(v)
	}
	out.H0 = stored(out.H0)
	for k, v := range out.Beside {
		out.Beside[k] = stored(v)
	}
	return out
}

// stored converts a value to the element type in which states are sent: sums of edge features are Float32.
func stored(v *autograd.Var) *autograd.Var {
	if v == nil {
		return nil
	}
	z := autograd.Stored(v)
	if z != v {
		v.Drop()
	}
	return z
}

// begin returns the input of the stage's first block. A tape owns the matrices that came, unless the pass is
// repeated.
func (p *Pipeline) begin(c *chunkPass, call *Call, t *autograd.Tape) (in gnn.State) {
	if p.first() {
		return input(c.features, t, &Call{Features: c.supplied})
	}
	on := t.Received
	if call.Recording && !t.Recording {
		on = t.Input
	}
	came, types := c.came, c.Types()
	next := func(rows *autograd.RowSet) *autograd.Var {
		v := on(came[0], rows)
		came = came[1:]
		return v
	}
	before, block := &p.Blocks[p.from-1], &p.Blocks[p.from]
	in.Rows = make([]*autograd.Var, len(types))
	for kind, columns := range before.Widths() {
		if columns > 0 {
			in.Rows[kind] = next(types[kind])
		}
	}
	if block.H0 > 0 {
		in.H0 = next(c.Rows())
	}
	for _, s := range block.Edges {
		in.Edges = append(in.Edges, next(c.edgeRows(t, s)))
	}
	for _, s := range before.Beside {
		in.Beside = append(in.Beside, next(types[s.Type]))
	}
	return in
}

// edgeRows describes the rows of a state of edges.
func (c *stageChunk) edgeRows(t *autograd.Tape, s gnn.EdgeState) *autograd.RowSet {
	set, err := c.EdgeRows(t, s)
	exchange.Must(err)
	return set
}

// backward runs the chunk's backward pass, which adds to the gradients of the stage's weights. It takes
// ownership of grads, the gradients of the stage's output.
func (p *Pipeline) backward(c *chunkPass, call *Call, grads []*tensor.Matrix) {
	if p.Recompute {
		c.BeginEpoch(call.Epoch) // the repeated pass draws the same random numbers for its messages
		t := call.tape(p.Team)
		t.Rows = c.Types()
		p.observe(t, trace.Backward)
		p.record(c, call, t)
	}
	var roots []autograd.Root
	for i, v := range c.out.Vars() {
		roots = append(roots, autograd.Root{Var: v, Grad: grads[i]})
	}
	roots[0].Tape().Backward(roots...)
}

// discard releases what a chunk keeps for a backward pass that will not come.
func (p *Pipeline) discard(c *chunkPass, call *Call) {
	switch {
	case !call.Recording:
	case p.Recompute:
		exchange.Release(c.came...)
	default:
		out := c.out.Vars()
		drop(out)
		out[0].Tape().Discard()
	}
	c.takeBack()
}

// joinGradients copies the gradients of a chunk's rows of the features that a call gives to their places, by
// vertex type.
func (p *Pipeline) joinGradients(all []*tensor.Matrix, c *chunkPass) {
	for kind, supplied := range c.supplied {
		if !supplied.Differentiable {
			continue
		}
		if like := supplied.Values; all[kind] == nil {
			rows := p.graph.Types()[kind].Here
			all[kind] = p.Team.Memory.NewElement(tensor.Gradients, like.Element, rows, like.Cols)
		}
		part := c.in.Rows[kind].TakeGrad()
		p.Team.Scatter(all[kind], part, c.Places[kind])
		part.Release()
	}
	c.takeBack()
}

// chunkRows copies the rows at a chunk's places from a matrix with one row for each row of the worker.
func (p *Pipeline) chunkRows(kind tensor.Kind, all, places *tensor.Matrix) *tensor.Matrix {
	part := p.Team.Memory.NewElement(kind, all.Element, places.Cols, all.Cols)
	p.Team.Gather(part, all, places)
	return part
}

// edgeStates are states of rows of edges, which a call may give.
func (p *Pipeline) edgeStates(states []gnn.EdgeState, call *Call) (all []state) {
	t := autograd.NewTape(p.Team)
	call.giveEdges(t)
	for _, e := range states {
		e.Counted = false
		s := state{columns: e.Columns}
		for _, c := range p.chunks {
			s.rows = append(s.rows, c.edgeRows(t, e).Here)
		}
		all = append(all, s)
	}
	return all
}

// retained returns the values of Vars, and retains them for another owner.
func retained(vars []*autograd.Var) (values []*tensor.Matrix) {
	for _, v := range vars {
		values = append(values, v.Value().Retain())
	}
	return values
}

// drop drops Vars.
func drop(vars []*autograd.Var) {
	for _, v := range vars {
		v.Drop()
	}
}

// taken takes the gradients of inputs.
func taken(vars []*autograd.Var) (grads []*tensor.Matrix) {
	for _, v := range vars {
		grads = append(grads, v.TakeGrad())
	}
	return grads
}
