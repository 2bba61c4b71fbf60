// Package sar is the graph axis: sequential aggregation and rematerialization (SAR; Mostafa, MLSys 2022). A
// Partition is the part of a graph that one worker holds, or the whole graph. It gives each layer a
// gnn.Propagator.
//
// Worker p owns the rows of partition p and the edges into them. In the forward pass it aggregates its local
// rows first. Then it aggregates the rows of the other workers, one message at a time:
//
//	z ← Â_pp·x_p;  for each remote block b: receive x_b;  z ← z ⊕ Â_b·x_b;  free x_b
//
// ⊕ is a sum, a maximum, or the update of a running softmax. The backward pass gets g = ∂L/∂z. In case 1 it
// fetches no rows: a linear aggregation has constant weights, and a maximum remembers the vertex that has it.
//
//	for each remote block b: send Â_bᵀ·g to b's worker;  add what comes to ∂L/∂x_p
//
// In case 2 (attention, message functions) it fetches the rows again and recomputes what it did not keep:
//
//	for each remote block b: receive x_b;  send ∂L/∂x_b to b's worker;  free x_b;  add what comes to ∂L/∂x_p
//
// ("Add what comes" adds the gradients that other workers send for rows of p.) A single worker has no remote
// blocks.
//
// With edges.HaloCover some rows of x_b are partial sums. The worker that sends them sums its rows along the
// edges into one row of the receiver. To the receiver a partial sum is a row like others, with one edge.
//
// Reading order: sar.go has this algorithm for sums, maxima and attention. partition.go makes a Partition of
// what the worker holds, and propagator.go implements gnn.Propagator. halo.go has the halo exchange:
// Call.fetch receives rows in the forward pass. In the backward pass Call.rematerialize fetches them again,
// or Call.sendGradients sends only gradients. wire.go sends its messages: visitor.each visits one block after
// another, and frees its rows. If partitions take turns, turns.go reads rows of other partitions of the same
// worker, and lockstep.go sends messages to the partitions at work on other workers. attention.go computes
// attention on one block, and scoring.go its four kinds of scores. message.go and batch.go compute message
// functions.
//
// Package engine aggregates by it on a whole worker. Packages tp and chunked aggregate slices and chunks by
// it.
package sar

import (
	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/order"
	"weft/tensor"
)

// Aggregate computes the linear aggregation Â·x (case 1). It computes large sums in tiles of columns.
func (p *propagator) Aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	t := x.Tape()
	if p.masked(t) {
		return p.aggregateMasked(x, r)
	}
	c := p.callLinear(t, r)
	tile := p.tile(x)
	c.count(x.Cols())
	var z *tensor.Matrix
	if tile < x.Cols() {
		z = t.New(c.Edges.Rows, x.Cols())
		c.inTiles(tile, z, x.Value(), kernel.Replace, c.sum)
	} else {
		z = t.Rounded(c.sum(x.Value(), func() *tensor.Matrix {
			return t.NewSum(len(c.Edges.Blocks), c.Edges.Rows, x.Cols())
		}))
	}
	return t.Record(autograd.Op{
		Value: z, Inputs: []*autograd.Var{x}, Rows: p.targets(), Buffers: c.buffers,
		Reads: true, Backward: func(g *tensor.Matrix) {
			c.resume()
			c.count(g.Cols)
			if tile < g.Cols {
				dx, add := x.Grad()
				c.inTiles(tile, dx, g, kernel.Output(add),
					func(g *tensor.Matrix, into func() *tensor.Matrix) *tensor.Matrix {
						return c.sumTransposed(g, x.Element(), func() (*tensor.Matrix, bool) {
							return into(), false
						})
					})
			} else {
				x.AddBlockGrad(c.sumTransposed(g, x.Element(), func() (*tensor.Matrix, bool) {
					return x.BlockGrad(c.sums())
				}))
			}
			g.Release()
		},
	})
}

// sum computes z = Â·x in the matrix that into returns.
func (c *Call) sum(x *tensor.Matrix, into func() *tensor.Matrix) (z *tensor.Matrix) {
	visits := c.fetch(x)
	z = into()
	c.by.Apply(z, c.Edges.Local(), x, kernel.Replace)
	for v := range visits {
		c.by.Apply(z, v.Block, v.Rows[0], kernel.Accumulate)
	}
	return z
}

// sumTransposed computes dx = Âᵀ·g, or adds it, in the matrix that into returns. Gradients travel in the
// element type sent.
func (c *Call) sumTransposed(g *tensor.Matrix, sent tensor.Element,
	into func() (dx *tensor.Matrix, add bool),
) *tensor.Matrix {
	addRemote := c.sendGradients(g.Cols, sent, []*tensor.Matrix{g}, func(v Visit) {
		c.by.On(v.Team).ApplyTransposed(v.Grads[0], v.Block, v.Pick(g), kernel.Replace)
	})
	dx, add := into()
	c.by.ApplyTransposed(dx, c.Edges.Local(), g, kernel.Output(add))
	addRemote(dx)
	return dx
}

// max computes the largest value of each column over the in-neighbours (case 1). It remembers, for each
// element, the vertex that has the maximum, so that the backward pass needs no rows.
func (p *propagator) max(x *autograd.Var, mode gnn.Loops) *autograd.Var {
	t := x.Tape()
	if p.masked(t) {
		return p.maxMasked(x, mode)
	}
	c := p.call(x.Tape())
	loops := c.Edges.LoopCounts(mode)
	visits := c.fetch(x.Value())
	z := t.New(c.Edges.Rows, x.Cols())
	arg := t.Memory().NewElement(tensor.Activations, tensor.Int32, c.Edges.Rows, x.Cols())
	c.count(x.Cols())
	t.Team.Max(z, arg, c.Edges.Local().In, x.Value(), c.Edges.Local().IDs, loops, kernel.Replace)
	for v := range visits {
		v.Within(t.Team, z, arg, func(z, arg *tensor.Matrix) {
			t.Team.Max(z, arg, v.In, v.Rows[0], v.IDs, nil, kernel.Accumulate)
		})
	}
	return t.Record(autograd.Op{
		Value: z, Inputs: []*autograd.Var{x}, Rows: p.targets(),
		Buffers: append(c.buffers, arg), Reads: true, Backward: func(g *tensor.Matrix) {
			c.resume()
			c.count(g.Cols)
			add := c.sendGradients(g.Cols, x.Element(), []*tensor.Matrix{g, arg}, func(v Visit) {
				v.Team.Zero(v.Grads[0])
				v.Team.MaxBackward(v.Grads[0], v.Out, v.Pick(g), v.Pick(arg), v.IDs, nil)
			})
			dx := x.BlockGradSum(c.sums())
			t.Team.MaxBackward(dx, c.Edges.Local().Out, g, arg, c.Edges.Local().IDs, loops)
			add(dx)
			x.AddBlockGrad(dx)
			g.Release()
		},
	})
}

// Attend implements gnn.Propagator. Each block updates the running softmax of each vertex and head. In
// addition to the inputs and the output, only the log-sum-exp is kept: the backward pass recomputes scores
// and coefficients (case 2). The sources' rows are sent, and their scores are computed from them. Given
// scores are sent with the rows.
func (p *propagator) Attend(a gnn.Attention, k gnn.Rounds) *autograd.Var {
	a.CheckScores(p.layer.Path)
	p.layer.Explain(func() string { return order.Attention(a, k) })
	return a.WithScores().EachRound(k, p.attend)
}

// attend computes one round of Attend.
func (p *propagator) attend(a gnn.Attention) *autograd.Var {
	t := a.Source.Tape()
	if p.masked(t) {
		return p.attendMasked(a)
	}
	c := p.call(a.Source.Tape())
	e := c.Edges
	x := a.Source.Value()
	alone := len(e.Blocks) == 1
	width := x.Cols / a.Heads
	c.count(x.Cols)
	at := &attention{Attention: a, tape: t, loops: e.LoopCounts(a.Loops), kernel: kernel.Attention{
		Heads: a.Heads, FirstHead: a.FirstHead, LayerHeads: a.LayerHeads, Width: width, Slope: a.Slope,
		Whole: alone, TargetIDs: e.IDs,
		Mask: nn.Dropout{Path: p.layer.Path + ".attention", P: a.Dropout}.Mask(a.Source),
	}}
	at.by = scoringOf(at)
	c.scored = a.SourceScore != nil
	if a.OfFeatures() != nil {
		at.checkFeatures(p.layer.Path, e)
		for _, b := range e.LoopBlocks(a.Loops) {
			at.looped = b
		}
	}
	storage := tensor.Float32
	if alone {
		storage = t.Storage
	}
	visits := c.fetch(at.rows()...)
	state := t.Team.AttentionStart(e.Rows, a.Heads, width, storage)
	at.by.begin()
	at.extend(state, e.Local(), at.rows(), at.loops, kernel.Ending(alone))
	for v := range visits {
		at.extend(state, v.Block, v.Rows, nil, kernel.More)
	}
	at.by.end()
	if !alone {
		t.Team.AttendEnd(state)
	}

	at.out, at.logSum = t.Rounded(state.Out), state.Maximum
	vars := at.vars()
	return t.Record(autograd.Op{
		Value: at.out, Inputs: vars, Rows: p.targets(), Keeps: vars, KeepsResult: true,
		Buffers:  append(c.buffers, at.logSum),
		Backward: func(g *tensor.Matrix) { at.attendBackward(c, g) },
	})
}

// attendBackward adds all gradients of Attend. g is the gradient of its output; attendBackward owns it.
func (at *attention) attendBackward(c *Call, g *tensor.Matrix) {
	c.resume()
	e, team := c.Edges, at.tape.Team
	c.count(at.Source.Cols())
	blocks := c.sums()
	if at.g = g; at.InverseTemperature == nil {
		at.gOut = at.tape.Memory().New(tensor.Buffers, e.Rows, at.Heads)
		team.RowDots(at.gOut, g, at.out)
	}
	at.by.begin()
	at.alone = blocks == 1
	dTarget := at.by.targetGradient(blocks)
	from := []*autograd.Var{at.Source}
	dRows := []*tensor.Matrix{at.Source.BlockGradSum(blocks)}
	if sent := at.by.sentGradient(blocks); sent != nil {
		from = append(from, at.by.sent())
		dRows = append(dRows, sent)
	}
	at.backward(e.Local(), at.rows(), at.loops, dRows, dTarget)
	for v := range c.rematerialize(at.rows(), from, dRows) {
		for _, d := range v.Grads {
			team.Zero(d)
		}
		at.backward(v.Block, v.Rows, nil, v.Grads, dTarget)
	}
	at.by.finish(dRows, dTarget)
	at.by.end()
	at.gOut.Release()
	g.Release()
}
