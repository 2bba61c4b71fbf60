// Package autograd records operations on matrices and runs them backward. The tape keeps only the values that
// a backward step reads, and releases each after its last reader.
//
// Ownership: the code that makes a Var by an operation holds it until the enclosing Scope ends, or until
// Drop. Each recorded operation that keeps a Var holds it until the operation has run backward. When nobody
// holds a Var, its memory is released.
//
// Layers (packages nn, gnn and program) and axes (parallel/*) record operations on it; package engine begins
// a tape and runs it backward.
package autograd

import (
	"slices"

	"weft/kernel"
	"weft/tensor"
)

// Tape records the operations of one forward pass. A tape that does not record only computes values, and
// releases each when its holder lets go.
type Tape struct {
	Team      *kernel.Team
	Recording bool   // gradients are needed
	Training  bool   // dropout is active, batch norm uses the batch's statistics
	Random    Random // keys of dropout masks
	// Edges are the edges of a pass that does not run on the graph's, in the form that its axis knows. nil:
	// the pass runs on the graph's edges.
	Edges any
	// Rows are the rows of each vertex type in a pass over some of a worker's rows, such as a chunk. nil: the
	// pass is over all rows.
	Rows []*RowSet
	// Storage is the element type of the dense values of vertices or edges that operations make, and of their
	// gradients. It is the team's Storage. Parameters and scores are always Float32.
	Storage tensor.Element
	// Announced holds the gradients of the parameters that Parameter accepts: the ledger would miss others.
	// nil: Parameter accepts all.
	Announced map[*tensor.Matrix]bool
	// Ledger counts the operations on parameters, unless it is nil. The tapes of one step share it.
	Ledger *Ledger
	// Recompute releases values that only backward steps still read, and computes them again in the backward
	// pass (recompute.go).
	Recompute bool
	// OnLayer is called with each layer before its operations run, forward and backward, and with NoLayer
	// after them. It may be nil.
	OnLayer func(layer int, backward bool)

	layer    int    // of the operations that run now
	steps    []step // recorded, in order
	scope    []*Var // the Vars made since the innermost Scope began
	backward bool   // the operations are running backward
}

// step is a recorded operation and its result.
type step struct {
	Op
	out   *Var
	layer int
}

// NoLayer is the layer of operations outside all layers.
const NoLayer = -1

// NewTape returns a tape for one evaluation: it records nothing, and no dropout is active.
func NewTape(team *kernel.Team) *Tape {
	return &Tape{Team: team, Storage: team.Storage, layer: NoLayer}
}

// NewTrainingTape returns a tape that records, with dropout masks keyed by r.
func NewTrainingTape(team *kernel.Team, r Random) *Tape {
	t := NewTape(team)
	t.Recording, t.Training, t.Random = true, true, r
	return t
}

// BeginLayer says that the operations from now on belong to a layer, or to NoLayer.
func (t *Tape) BeginLayer(layer int) {
	if t.layer == layer {
		return
	}
	t.layer = layer
	if t.OnLayer != nil {
		t.OnLayer(layer, t.backward)
	}
}

// Memory allocates the tape's values.
func (t *Tape) Memory() *tensor.Meter { return t.Team.Memory }

// New returns a matrix of the tape's element type for an operation's result, with undefined elements.
func (t *Tape) New(rows, cols int) *tensor.Matrix { return t.element(t.Storage, rows, cols) }

// NewLike returns a matrix for a result that has the element type of x, such as a scaled weight or score.
func (t *Tape) NewLike(x *Var, rows, cols int) *tensor.Matrix {
	return t.element(x.element, rows, cols)
}

func (t *Tape) element(e tensor.Element, rows, cols int) *tensor.Matrix {
	return t.Memory().NewElement(tensor.Activations, e, rows, cols)
}

// NewSum returns a matrix with undefined elements, in which an operation adds up its blocks. A sum of several
// blocks is Float32, so that Rounded rounds it once.
func (t *Tape) NewSum(blocks, rows, cols int) *tensor.Matrix {
	if blocks > 1 {
		return t.element(tensor.Float32, rows, cols)
	}
	return t.New(rows, cols)
}

// Rounded rounds a complete sum to the tape's element type, in the same memory.
func (t *Tape) Rounded(z *tensor.Matrix) *tensor.Matrix {
	if z.Element != t.Storage {
		t.Team.Narrow(z)
	}
	return z
}

// Op is one operation: its result, the inputs that the result depends on, and the values that its backward
// step reads.
type Op struct {
	// Value is the result. The tape owns it from now on. It is nil if Forward is set.
	Value *tensor.Matrix
	// Forward computes the result from the values of Inputs, and from nothing else that changes before
	// Backward has run. It is called at once, and perhaps again in the backward pass. Both results must be
	// the same, so nobody may change the first except by Take. The tape owns both. nil: Value is set, and
	// kept for as long as it is read.
	Forward func() *tensor.Matrix
	// Inputs are the Vars that the result depends on.
	Inputs []*Var
	// Rows describes the rows of the result. nil: they are the rows of the inputs, which must then agree.
	Rows *RowSet
	// Keeps are the Vars whose values Backward reads. KeepsResult says that Backward reads the result's
	// value.
	Keeps       []*Var
	KeepsResult bool
	// Buffers are further matrices that Backward reads. They are released after it.
	Buffers []*tensor.Matrix
	// Backward adds to the inputs' gradients. It owns g = dLoss/dValue: it may overwrite g, and pass it on.
	// It is called only if an input needs a gradient.
	Backward func(g *tensor.Matrix)
	// Reads says that Backward does not change g, so that g may be shared.
	Reads bool
}

// Record makes an operation's result a Var. It records nothing if no input needs a gradient.
func (t *Tape) Record(op Op) *Var {
	if op.Forward != nil {
		op.Value = op.Forward()
	}
	v := t.dense(op.Value, op.Rows)
	v.liveness = held
	t.scope = append(t.scope, v)
	for _, in := range op.Inputs {
		v.requiresGrad, v.depends = v.requiresGrad || in.requiresGrad, v.depends || in.depends
		if op.Rows == nil {
			v.inherit(in)
		}
	}
	if recorded := t.Recording && v.requiresGrad; op.Forward != nil && t.Recompute &&
		(recorded || len(op.Buffers) == 0) {
		v.op = &op
	}
	if !t.Recording || !v.requiresGrad {
		v.requiresGrad = false
		for _, b := range op.Buffers {
			b.Release()
		}
		return v
	}
	for _, k := range op.Keeps {
		k.kept++
		k.value.SetReadOnly()
	}
	if op.KeepsResult {
		v.kept++
		v.value.SetReadOnly()
	}
	if t.Ledger != nil {
		t.Ledger.expect(op.Inputs)
	}
	t.steps = append(t.steps, step{op, v, t.layer})
	return v
}

// inherit takes over the RowSet of an input.
func (v *Var) inherit(in *Var) {
	switch {
	case in.set == nil:
	case v.set == nil:
		v.set = in.set
	case v.set != in.set:
		panic("autograd: an operation on values of different rows does not say what the rows of " +
			"its result are")
	}
}

// Scope runs a part of the forward pass. At its end it drops all Vars that this part made, except the one
// returned.
func (t *Tape) Scope(f func() *Var) (v *Var) {
	t.ScopeOf(func() []*Var {
		v = f()
		return []*Var{v}
	})
	return v
}

// ScopeOf is Scope for a part that returns several Vars, some of which may be nil.
func (t *Tape) ScopeOf(f func() []*Var) {
	outer := t.scope
	t.scope = nil
	kept := f()
	for _, made := range t.scope {
		if !slices.Contains(kept, made) {
			made.Drop()
		}
	}
	t.scope = outer
	for _, v := range kept {
		if v != nil && !v.leaf() {
			t.scope = append(t.scope, v)
		}
	}
}

// Root is a value from which Backward starts, and its gradient dLoss/dvalue, which Backward owns.
type Root struct {
	*Var
	Grad *tensor.Matrix
}

// Backward runs the recorded operations in reverse, from all roots. Afterwards the tape is empty, except for
// the gradients of its inputs.
func (t *Tape) Backward(roots ...Root) {
	t.backward = true
	defer func() { t.backward = false }()
	for _, r := range roots {
		r.AddGrad(r.Grad)
		r.Drop()
	}
	for len(t.steps) > 0 {
		last := len(t.steps) - 1
		op, out := t.steps[last].Op, t.steps[last].out
		out.addDeferred()
		t.BeginLayer(t.steps[last].layer)
		t.steps = t.steps[:last]
		if out.grad != nil {
			if !op.Reads {
				out.unshare()
			}
			g := out.grad
			out.grad = nil
			op.restore(out)
			t.readAhead()
			op.Backward(g)
			for _, in := range op.Inputs {
				if !in.requiresGrad { // a kernel may compute gradients that are not needed
					in.grad.Release()
					in.grad = nil
				}
			}
		}
		if t.Ledger != nil {
			t.Ledger.settle(op.Inputs)
		}
		op.end(out)
	}
	t.BeginLayer(NoLayer)
	t.empty()
}

// Discard releases the values that the tape keeps for a backward pass that will not come. The tape is then
// empty. The caller must have dropped its values of the forward pass.
func (t *Tape) Discard() {
	t.backward = true
	defer func() { t.backward = false }()
	for len(t.steps) > 0 {
		last := len(t.steps) - 1
		op, out := t.steps[last].Op, t.steps[last].out
		t.steps = t.steps[:last]
		op.end(out)
	}
	t.empty()
}

// end releases what the operation keeps for its backward step, which has run or will never run.
func (op *Op) end(out *Var) {
	for _, b := range op.Buffers {
		b.Release()
	}
	for _, k := range op.Keeps {
		k.kept--
		k.releaseUnused()
	}
	if op.KeepsResult {
		out.kept--
	}
	out.letGo()
	out.releaseUnused()
}

// empty drops the Vars that were made outside every Scope.
func (t *Tape) empty() {
	for _, made := range t.scope {
		made.Drop()
	}
	t.scope = nil
}

// readAhead begins to read the values at rest that the next backward step reads.
func (t *Tape) readAhead() {
	if len(t.steps) == 0 {
		return
	}
	before := &t.steps[len(t.steps)-1]
	for _, k := range before.Keeps {
		k.value.Ahead()
	}
	if before.KeepsResult {
		before.out.value.Ahead()
	}
}
