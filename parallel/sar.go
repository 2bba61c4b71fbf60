package parallel

import (
	"weft/autograd"
	"weft/gnn"
	"weft/tensor"
)

// Sequential aggregation and rematerialization (Mostafa, MLSys 2022). Worker p owns the rows of partition p and the edges into them.
// Forward it aggregates its own rows, and then those of the other workers, a piece at a time:
//
//	z ← Â_pp·x_p;  for each remote block b: receive x_b;  z ← z ⊕ Â_b·x_b;  free x_b
//
// ⊕ is a sum, a maximum, or the extension of a running softmax. Backward, for g = ∂L/∂z, either nothing has to be fetched (case 1:
// a linear aggregation with constant weights, and a maximum, whose winners are kept):
//
//	for each remote block b: send Â_bᵀ·g to b's worker;  add what comes to ∂L/∂x_p
//
// or the rows are fetched again and what was not kept is computed anew (case 2: attention, message functions):
//
//	for each remote block b: receive x_b;  send ∂L/∂x_b to b's worker;  add what comes to ∂L/∂x_p;  free x_b
//
// With one worker there are no remote blocks.

// aggregate is the linear aggregation Â·x (case 1).
func (p *propagator) aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	t, o := x.Tape(), p.operator(r)
	z := t.New(x.Rows(), x.Cols())
	kept := p.sum(o, z, x.Value(), t.Recording)
	return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Buffers: kept, Reads: true, Backward: func(g *tensor.Matrix) {
		e := p.enter()
		dx, add := x.Grad()
		o.applyTransposed(t.Team, dx, e.local(), g, add)
		p.giveBack(e, dx, func(b *block, d *tensor.Matrix) {
			gb, release := b.pick(t.Team, g)
			o.applyTransposed(t.Team, d, b, gb, false)
			release()
		})
		g.Release()
	}})
}

// sum is z = Â·x.
func (p *propagator) sum(o operator, z, x *tensor.Matrix, recording bool) (kept []*tensor.Matrix) {
	g, e := p.graph, p.enter()
	o.apply(g.team, z, e.local(), x, false)
	return p.fetch(e, x, recording, func(b *block, rows *tensor.Matrix) {
		b.onto(g.team, z, func(z *tensor.Matrix, accumulate bool) { o.apply(g.team, z, b, rows, accumulate) })
	})
}

// max is the largest of each column over the in-neighbours. The vertex that won is kept for each element, so that the backward pass
// needs no rows.
func (p *propagator) max(x *autograd.Var) *autograd.Var {
	t, e := x.Tape(), p.enter()
	z := t.New(x.Rows(), x.Cols())
	arg := t.Memory().NewElement(tensor.Activations, tensor.Int32, x.Rows(), x.Cols())
	t.Team.Max(z, arg, e.local().in, x.Value(), e.local().ids, e.loops, true)
	kept := p.fetch(e, x.Value(), t.Recording, func(b *block, rows *tensor.Matrix) {
		if b.targets == nil {
			t.Team.Max(z, arg, b.in, rows, b.ids, nil, false)
			return
		}
		zb, ab := t.Team.Picked(z, b.targets), t.Team.Picked(arg, b.targets)
		t.Team.Max(zb, ab, b.in, rows, b.ids, nil, false)
		t.Team.Scatter(z, zb, b.targets)
		t.Team.Scatter(arg, ab, b.targets)
		release([]*tensor.Matrix{zb, ab})
	})
	return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Buffers: append(kept, arg), Reads: true, Backward: func(g *tensor.Matrix) {
		e := p.enter()
		dx := x.GradSum()
		t.Team.MaxBackward(dx, e.local().out, g, arg, e.local().ids, e.loops)
		p.giveBack(e, dx, func(b *block, d *tensor.Matrix) {
			t.Team.Zero(d)
			gb, releaseG := b.pick(t.Team, g)
			ab, releaseArg := b.pick(t.Team, arg)
			t.Team.MaxBackward(d, b.out, gb, ab, b.ids, nil)
			releaseG()
			releaseArg()
		})
		g.Release()
	}})
}

// fetch is Graph.fetch for a use that cannot fail, in a pass that a failure ends. What --keep-halo keeps is for the backward pass.
func (p *propagator) fetch(t *topology, x *tensor.Matrix, recording bool, use func(b *block, rows *tensor.Matrix)) []*tensor.Matrix {
	kept, err := p.graph.fetch(t, x, p.graph.sar.KeepHalo, func(b *block, rows *tensor.Matrix) error {
		use(b, rows)
		return nil
	})
	p.graph.must(err)
	if !recording {
		release(kept)
		return nil
	}
	return kept
}

// giveBack sends the gradient of every remote block's rows, which compute fills, and adds what comes to dx (case 1).
func (p *propagator) giveBack(t *topology, dx *tensor.Matrix, compute func(b *block, d *tensor.Matrix)) {
	p.graph.must(p.graph.giveBack(t, dx, func(back *sender) error {
		for _, b := range t.remote() {
			if err := back.send(b.peer, b.in.Cols, p.graph.timed, func(d *tensor.Matrix) { compute(b, d) }); err != nil {
				return err
			}
		}
		return nil
	}))
}

// rematerialize fetches the rows of every remote block again, unless they were kept, sends their gradient, which compute fills, and adds
// what comes to dx (case 2). Where dx is nil no gradient is asked for, and compute gets none to fill.
func (p *propagator) rematerialize(t *topology, x *tensor.Matrix, kept []*tensor.Matrix, dx *tensor.Matrix,
	compute func(b *block, rows, d *tensor.Matrix),
) {
	again := func(use func(b *block, rows *tensor.Matrix) error) error {
		if !p.graph.sar.KeepHalo {
			_, err := p.graph.fetch(t, x, false, use)
			return err
		}
		for i, b := range t.remote() {
			if err := use(b, kept[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if dx == nil {
		p.graph.must(again(func(b *block, rows *tensor.Matrix) error {
			compute(b, rows, nil)
			return nil
		}))
		return
	}
	p.graph.must(p.graph.giveBack(t, dx, func(back *sender) error {
		return again(func(b *block, rows *tensor.Matrix) error {
			return back.send(b.peer, b.in.Cols, p.graph.timed, func(d *tensor.Matrix) { compute(b, rows, d) })
		})
	}))
}

// gradientApart is where the gradient of target is added up while that of source takes in what other workers send: a matrix of its own
// where both are one, as a row has one writer. addApart then adds it to target's.
func gradientApart(target, source *autograd.Var) *tensor.Matrix {
	d := target.GradSum()
	if source.Wants() && d == source.GradSum() {
		return target.Tape().Team.Zeros(tensor.Gradients, target.Rows(), target.Cols())
	}
	return d
}

func addApart(target *autograd.Var, d *tensor.Matrix) {
	if d != target.GradSum() {
		target.AddGrad(d)
	}
}
