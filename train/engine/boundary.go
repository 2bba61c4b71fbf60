package engine

import (
	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/parallel/chunked"
	"weft/parallel/exchange"
	"weft/tensor"
)

// pass is a chunk's passing through a stage in an epoch.
type pass struct {
	*chunked.Chunk
	features *features        // on the first stage
	came     []*tensor.Matrix // on the others: the state from the stage before, until a tape owns it
	ledger   *autograd.Ledger // that is told of the tape's work on parameters; nil: not
	in, out  gnn.State        // on the tape of the last forward pass
}

// forward runs the stage's blocks on a chunk. With recomputation nothing is recorded.
func (p *Pipeline) forward(c *pass, epoch int) gnn.State {
	t := autograd.NewTrainingTape(p.Team, autograd.Random{Seed: p.Seed, Epoch: epoch})
	t.Recording = !p.Stage.Recompute
	return p.record(c, t)
}

func (p *Pipeline) record(c *pass, t *autograd.Tape) gnn.State {
	if t.Recording {
		t.Ledger = c.ledger
	}
	c.in = p.begin(c, t)
	c.out = p.model.Forward(c.in)
	return c.out
}

// begin is the state that the blocks here begin with. A tape that records owns what came.
func (p *Pipeline) begin(c *pass, t *autograd.Tape) (in gnn.State) {
	if p.first() {
		return gnn.State{H: c.features.On(t)}
	}
	on := t.Input
	if t.Recording || !t.Training {
		on = t.Received
	}
	in.H = on(c.came[0], c.Rows())
	if len(c.came) > 1 {
		in.H0 = on(c.came[1], c.Rows())
	}
	return in
}

// backward adds the gradients of the stage's weights, for those of the state after it, which it owns.
func (p *Pipeline) backward(c *pass, epoch int, grads []*tensor.Matrix) {
	if p.Stage.Recompute {
		p.record(c, autograd.NewTrainingTape(p.Team, autograd.Random{Seed: p.Seed, Epoch: epoch}))
	}
	var roots []autograd.Root
	for i, v := range c.out.Vars() {
		roots = append(roots, autograd.Root{Var: v, Grad: grads[i]})
	}
	c.out.H.Tape().Backward(roots...)
	c.ledger = nil
}

// join puts a chunk's part of the last block's result where its rows stand among all.
func (p *Pipeline) join(all *tensor.Matrix, c *pass, out gnn.State) *tensor.Matrix {
	part := autograd.Dense(out.Output()).Value()
	if all == nil {
		all = p.Team.Memory.New(tensor.Activations, p.graph.Rows().Here, part.Cols)
	}
	p.Team.Scatter(all, part, c.Places)
	return all
}

// lossOf is the part of the loss of this worker's logits, which it releases, and their gradient.
func (p *Pipeline) lossOf(logits *tensor.Matrix) (loss float64, grad *tensor.Matrix) {
	v := autograd.NewTape(p.Team).Received(logits, p.graph.Rows())
	defer v.Drop()
	return p.Loss(v)
}

// rowsOf is the part of the logits' gradient that is a chunk's.
func (p *Pipeline) rowsOf(grad *tensor.Matrix, c *pass) []*tensor.Matrix {
	part := p.Team.Memory.New(tensor.Gradients, c.Rows().Here, grad.Cols)
	p.Team.Gather(part, grad, c.Places)
	return []*tensor.Matrix{part}
}

// inbox takes in states of chunks, or their gradients, from another stage: in the order that is expected, and
// some ahead of the one that is worked on.
type inbox struct {
	link
	kind   tensor.Kind
	widths []int
	rows   []int // of each chunk in the order
	come   []message
	taken  int
}

// outbox sends them to another stage, while the next chunk is worked on. A nil outbox sends nothing.
type outbox struct {
	link
	gone []message
}

type link struct {
	p     *Pipeline
	peer  int
	worst *worst // nil: messages take what they have
}

// message is a chunk's matrices, one or two.
type message struct {
	values  []*tensor.Matrix
	padding []*tensor.Matrix // beside them in a plan
	pending []*comm.Pending
}

func (m message) wait() {
	for _, p := range m.pending {
		exchange.Must(p.Wait())
	}
}

// onTheWay is how many chunks' messages go to another stage, or come ahead of the chunk that is worked on.
const onTheWay = 2

// states are those that come from the stage before, for chunks in that order; nil on the first stage.
func (p *Pipeline) states(order []int) *inbox {
	if p.first() {
		return nil
	}
	return p.inbox(p.Groups.Stage-1, tensor.Activations, p.from, order, nil)
}

// gradients are those of the states after the last block here; nil on the last stage.
func (p *Pipeline) gradients(order []int) *inbox {
	if p.last() {
		return nil
	}
	return p.inbox(p.Groups.Stage+1, tensor.Gradients, p.from+len(p.model), order, p.worst)
}

// inbox expects states, or gradients, of those before a block.
func (p *Pipeline) inbox(peer int, kind tensor.Kind, block int, order []int, w *worst) *inbox {
	b := &inbox{link: link{p, peer, w}, kind: kind, widths: []int{p.Blocks[block].In}}
	if width := p.Blocks[block].H0; width > 0 {
		b.widths = append(b.widths, width)
	}
	for _, k := range order {
		b.rows = append(b.rows, p.passes[k].Rows().Here)
	}
	b.ask()
	return b
}

// ask has messages come, as many as may.
func (b *inbox) ask() {
	for len(b.come) < min(b.taken+onTheWay, len(b.rows)) {
		var m message
		for _, width := range b.widths {
			rows := b.rows[len(b.come)]
			v := b.p.Team.Memory.New(b.kind, rows, width)
			m.values, m.padding = append(m.values, v), append(m.padding, b.worst.padding(rows, width))
			m.pending = append(m.pending, b.p.Groups.Stages.Receive(comm.Stage, v.Bytes(), b.peer))
		}
		b.come = append(b.come, m)
	}
}

// take waits for the next chunk's, which are the caller's; of a nil inbox there are none.
func (b *inbox) take() []*tensor.Matrix {
	if b == nil {
		return nil
	}
	m := b.come[b.taken]
	b.come[b.taken] = message{}
	b.taken++
	b.ask()
	m.wait()
	exchange.Release(m.padding...)
	return m.values
}

// outbox is to the stage so many behind this one; nil where there is none.
func (p *Pipeline) outbox(step int, w *worst) *outbox {
	peer := p.Groups.Stage + step
	if peer < 0 || peer == p.Groups.Mesh.Stages {
		return nil
	}
	return &outbox{link: link{p, peer, w}}
}

// send sends what it then releases.
func (b *outbox) send(values []*tensor.Matrix) {
	if len(b.gone) == onTheWay {
		b.settle(1)
	}
	m := message{values: values}
	for _, v := range values {
		m.pending = append(m.pending, b.p.Groups.Stages.Send(comm.Stage, v.Bytes(), b.peer))
		m.padding = append(m.padding, b.worst.padding(v.Rows, v.Cols))
	}
	b.gone = append(b.gone, m)
}

// finish waits until all was sent.
func (b *outbox) finish() {
	if b != nil {
		b.settle(len(b.gone))
	}
}

// settle waits for the first n messages that are on their way.
func (b *outbox) settle(n int) {
	for _, m := range b.gone[:n] {
		m.wait()
		exchange.Release(m.values...)
		exchange.Release(m.padding...)
	}
	b.gone = b.gone[n:]
}

// held are the values of Vars, which somebody else holds from now on, too.
func held(vars []*autograd.Var) (values []*tensor.Matrix) {
	for _, v := range vars {
		values = append(values, v.Value().Share())
	}
	return values
}

// drop lets go of the values of Vars.
func drop(vars []*autograd.Var) {
	for _, v := range vars {
		v.Drop()
	}
}

// taken are the gradients of inputs.
func taken(vars []*autograd.Var) (grads []*tensor.Matrix) {
	for _, v := range vars {
		grads = append(grads, v.TakeGrad())
	}
	return grads
}
