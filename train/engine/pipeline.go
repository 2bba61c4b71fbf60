package engine

import (
	"math/rand/v2"
	"slices"

	"weft/autograd"
	"weft/checkpoint"
	"weft/gnn"
	"weft/internal/trace"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/chunked"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// Pipeline is the engine of a worker of the pipeline axis (GNNPipe). It holds consecutive blocks of the
// model. The chunks of the graph pass through the stages one after the other. Forward, a stage sends a
// chunk's state to the next stage as soon as it is computed (fill–drain). Backward, gradients come in the
// reverse order of the chunks, so all later chunks have added to the gradients of a chunk's rows before its
// own turn. Weights change once an epoch.
type Pipeline struct {
	Config
	from    int // the stage's first block
	graph   *chunked.Graph
	params  *nn.Params
	model   gnn.Model
	reducer *reducer
	chunks  []*stageChunk
	warm    bool // the first snapshot has been taken
	bound   *orderBound
}

// newPipeline makes the engine of a stage.
func newPipeline(c Config) (*Pipeline, error) {
	if err := c.agree(); err != nil {
		return nil, err
	}
	g, err := chunked.New(c.env(), c.Options.Options, c.Stage.Division)
	if err != nil {
		return nil, err
	}
	from, to := c.Stage.Cuts[c.Groups.Stage], c.Stage.Cuts[c.Groups.Stage+1]
	p := &Pipeline{Config: c, from: from, graph: g, params: nn.NewParams(c.Team, c.Seed)}
	p.params.InitScheme = c.InitScheme
	for _, chunk := range g.Chunks {
		c.Team.Memory.NextTurn(true)
		c := &stageChunk{Chunk: chunk}
		if p.first() {
			c.features = loadFeatures(p.Config, chunk)
		}
		p.chunks = append(p.chunks, c)
	}
	p.model = gnn.Build(c.Blocks, from, to, gnn.Env{
		Params: p.params, Schema: g.Schema(), Rows: g.Types(),
		Propagators: g.Propagator, Degrees: c.Degrees, Explain: c.Explain,
	})
	p.reducer, p.bound = newReducer(c, p.params.List), newOrderBound(p)
	return p, nil
}

func (p *Pipeline) first() bool { return p.Groups.Stage == 0 }
func (p *Pipeline) last() bool  { return p.Groups.Stage == p.Groups.Mesh.Stages-1 }

// Params implements Inference.
func (p *Pipeline) Params() *nn.Params { return p.params }

// Vertices implements Inference: the last stage has the logits.
func (p *Pipeline) Vertices() []int32 {
	switch {
	case !p.last():
		return []int32{}
	case p.Outputs == nil:
		return p.graph.Vertices()
	}
	n := p.numbering()
	return n.List(p.Share, p.graph.Places)
}

// order is the order of the chunks in an epoch, the same on all workers.
func (p *Pipeline) order(epoch int) []int {
	order := p.inOrder()
	if p.ChunkOrder == axis.Shuffle {
		r := rand.New(rand.NewPCG(p.Seed, uint64(epoch)))
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return order
}

// chunkedPass is a Pipeline's Pass.
type chunkedPass struct {
	*Pipeline
	call     *Call
	pass     *chunked.ChunkPass
	passes   []*chunkPass // by chunk
	reversed []int        // the chunks in the order of the backward pass
	peers    *peers
	results  *results
	spent    *spending
}

// Inputs implements Engine.
func (p *Pipeline) Inputs() []*autograd.RowSet {
	if p.first() {
		return p.graph.Types()
	}
	return nil
}

// Forward implements Engine.
func (p *Pipeline) Forward(request Call) Pass {
	if !request.Training && !request.Recording { // such a pass is exact, however many chunks there are
		return inferred{p.infer(0, p.graph.Lockstep, &request)}
	}
	p.warmUp()
	call := &request
	spent := p.spend()
	order, chunks := p.order(request.Epoch), p.begun()
	pass := p.graph.Forward(request.Epoch, order)
	encoded := coding{p.Wire.Format(p.Team.Storage), autograd.Random{Seed: p.Seed, Epoch: request.Epoch}}
	peers := &peers{p, call, encoded, p.bound}
	states, next := peers.receiveStates(order), peers.outbox(+1)
	// The first chunk's backward pass is the last one. Gradients of weights are complete only in it.
	chunks[order[0]].ledger = p.reducer.ledger()
	results := p.results(0, call)
	for _, k := range order {
		c := chunks[k]
		span := p.span("forward", k)
		c.came = spent.take(states, k == order[0])
		p.bound.beginForward()
		out := p.forward(c, call)
		p.bound.endForward()
		if p.last() {
			results.join(k, out)
		} else {
			next.send(retained(out.Vars()), c)
		}
		if p.Recompute || !call.Recording {
			drop(out.Vars())
		}
		span.End()
	}
	p.Trace.Chunk(0)
	p.bound.endForwards()
	next.finish()
	slices.Reverse(order)
	results.put()
	return &chunkedPass{p, call, pass, chunks, order, peers, results, spent}
}

// begun are the chunks of a pass that begins.
func (p *Pipeline) begun() (chunks []*chunkPass) {
	for _, c := range p.chunks {
		chunks = append(chunks, &chunkPass{stageChunk: c})
	}
	return chunks
}

// Outputs implements Pass.
func (p *chunkedPass) Outputs() []*autograd.Var { return p.results.outputs }

// EdgeNumbers implements Pass.
func (p *chunkedPass) EdgeNumbers(output int, numbering *edges.Numbering) []int64 {
	return p.results.edgeNumbers(output, numbering)
}

// Backward implements Pass. It sums gradients over the replicas beside the backward pass.
func (p *chunkedPass) Backward(roots ...autograd.Root) []*tensor.Matrix {
	features := make([]*tensor.Matrix,
		len(p.call.Features)) // gradients of the given features, by vertex type
	exchange.Must(p.reducer.Beside(func() {
		p.pass.Backward()
		p.results.backward(roots)
		grads, back := p.peers.receiveGradients(p.reversed), p.peers.outbox(-1)
		for _, k := range p.reversed {
			p.bound.beginBackward()
			c := p.passes[k]
			span := p.span("backward", k)
			roots := p.spent.take(grads, k == p.reversed[0])
			if p.last() {
				roots = p.results.gradients(k)
			}
			p.backward(c, p.call, roots)
			if !p.first() {
				back.send(taken(c.in.Vars()), c)
			}
			p.joinGradients(features, c)
			span.End()
		}
		p.Trace.Chunk(0)
		back.finish()
		p.bound.end()
		p.results.release()
	}))
	p.end()
	return features
}

// Discard implements Pass.
func (p *chunkedPass) Discard() {
	drop(p.results.outputs)
	for _, k := range p.reversed {
		p.discard(p.passes[k], p.call)
	}
	p.end()
}

// end ends the pass.
func (p *chunkedPass) end() {
	p.pass.End()
	p.spent.report()
}

// Arrays implements Engine: the history.
func (p *Pipeline) Arrays() []checkpoint.Array { return p.graph.Arrays() }

// Restore implements Engine.
func (p *Pipeline) Restore(from *checkpoint.Checkpoint) error {
	p.warm = true
	return p.graph.Restore(from)
}

// inOrder lists the chunks in ascending order.
func (p *Pipeline) inOrder() []int {
	order := make([]int, len(p.chunks))
	for k := range order {
		order[k] = k
	}
	return order
}

// span begins a chunk's part of a pass. What is recorded from then on has the chunk's number. If matrices
// rest, the part is a turn and a round of its own: the backward pass takes the chunks in the reverse order,
// so that what was used first is needed last.
func (p *Pipeline) span(direction string, k int) trace.Span {
	p.Team.Memory.NextTurn(true)
	p.Trace.Chunk(trace.At(k))
	return p.Trace.Begin(trace.Phase, direction, trace.Args{})
}

// warmUp takes the first snapshot from one exact forward pass, if the options ask for it.
func (p *Pipeline) warmUp() {
	if p.HistoryStart == axis.Warm && !p.warm {
		p.warm = true
		drop(p.infer(0, p.graph.Warm, &Call{}).outputs)
	}
}

// Infer implements Inference. It is exact: all chunks compute a layer before any chunk computes the next.
func (p *Pipeline) Infer(without int) *autograd.Var {
	return gnn.Below(p.infer(without, p.graph.Lockstep, &Call{}).outputs)
}

// infer runs the model without its last blocks on the chunks. run calls pass for each chunk.
func (p *Pipeline) infer(without int, run func(pass func(k int)), call *Call) *results {
	blocks, results := min(len(p.model), len(p.Blocks)-without-p.from), p.results(without, call)
	peers, chunks := &peers{Pipeline: p, call: call}, p.begun()
	states, next := peers.receiveStates(p.inOrder()), peers.outbox(+1)
	run(func(k int) {
		c := chunks[k]
		c.came = states.take()
		p.give(c, call)
		t := autograd.NewTape(p.Team)
		t.Rows = c.Types()
		call.giveEdges(t)
		out := p.result(p.model[:blocks].Forward(p.begin(c, call, t)))
		if p.last() {
			results.join(k, out)
		} else {
			next.send(retained(out.Vars()), c)
		}
		drop(out.Vars())
		c.takeBack()
	})
	next.finish()
	results.put()
	return results
}

// inferred is the Pass of an inference, which has no backward pass.
type inferred struct{ *results }

// Outputs implements Pass.
func (p inferred) Outputs() []*autograd.Var { return p.outputs }

// EdgeNumbers implements Pass.
func (p inferred) EdgeNumbers(output int, numbering *edges.Numbering) []int64 {
	return p.edgeNumbers(output, numbering)
}

// Backward implements Pass: there is none.
func (p inferred) Backward(...autograd.Root) []*tensor.Matrix {
	panic("engine: an inference has no backward pass")
}

// Discard implements Pass.
func (p inferred) Discard() { drop(p.outputs) }
