// Package autograd records operations on matrices and runs them backward. The tape keeps only the values that
// a backward step reads, and gives each up as soon as it was used.
//
// Who owns a value: a Var made by an operation is held by the code that made it until the enclosing Scope
// ends (or Drop), and by each recorded operation that keeps it until that operation has run backward. When
// nobody holds it, its memory is released.
package autograd

import (
	"fmt"
	"slices"

	"weft/kernel"
	"weft/tensor"
)

// Tape records the operations of one forward pass. A tape that is not recording computes values only, and
// releases them as it goes.
type Tape struct {
	Team      *kernel.Team
	Recording bool   // gradients are wanted
	Training  bool   // dropout is active, batch norm uses the batch's statistics
	Random    Random // keys of dropout masks
	// Announced, unless nil, are the gradients of the only parameters that Parameter accepts: others would be
	// missed by the ledger.
	Announced map[*tensor.Matrix]bool
	// Ledger, unless nil, is told of the operations on parameters. The tapes of one step share it.
	Ledger *Ledger

	steps    []step // recorded, in order
	scope    []*Var // the Vars made since the innermost Scope began
	backward bool   // the operations are running backward
}

// step is a recorded operation and its result.
type step struct {
	Op
	out *Var
}

// NewTape returns a tape for one evaluation: nothing is recorded and nothing is random.
func NewTape(team *kernel.Team) *Tape { return &Tape{Team: team} }

// NewTrainingTape returns a tape that records, with dropout masks keyed by r.
func NewTrainingTape(team *kernel.Team, r Random) *Tape {
	return &Tape{Team: team, Recording: true, Training: true, Random: r}
}

// Memory is where the tape's values come from.
func (t *Tape) Memory() *tensor.Meter { return t.Team.Memory }

// New returns a Float32 matrix for an operation's result, with undefined elements.
func (t *Tape) New(rows, cols int) *tensor.Matrix {
	return t.Memory().New(tensor.Activations, rows, cols)
}

// Var is a value on a tape: a dense matrix, or constant sparse rows.
type Var struct {
	tape      *Tape
	rows      int
	cols      int
	set       *RowSet // what the rows are; nil: a parameter's
	value     *tensor.Matrix
	sparse    *Sparse
	grad      *tensor.Matrix
	wants     bool // its gradient is asked for
	learned   bool // it depends on parameters, recording or not
	leaf      bool // the value belongs to someone else
	parameter bool // its gradient is added to a matrix of someone else's
	fixed     bool // the value is the same at every epoch
	held      bool // by the forward code
	given     bool // away, to an operation in place
	kept      int  // by recorded operations
	owed      []owed
}

// Sparse is a constant matrix in compressed rows, and its transpose.
type Sparse struct {
	Rows, Columns *kernel.CSR
}

// Op is one operation: what it computed, what it depends on and what its backward step reads.
type Op struct {
	// Value is the result. It belongs to the tape from now on.
	Value *tensor.Matrix
	// Inputs are the Vars that the result depends on.
	Inputs []*Var
	// Rows says what the result's rows are; nil: the same as those of the inputs, which must then agree.
	Rows *RowSet
	// Keeps are the Vars whose values Backward reads; KeepsResult keeps the result's.
	Keeps       []*Var
	KeepsResult bool
	// Buffers are matrices that Backward reads besides; they are released after it.
	Buffers []*tensor.Matrix
	// Backward adds to the inputs' gradients. It owns g = dLoss/dValue, and may overwrite it and pass it on.
	// It is called only when an input wants a gradient.
	Backward func(g *tensor.Matrix)
	// Reads says that Backward does not change g, which may then be shared.
	Reads bool
}

// Record makes an operation's result a Var. Nothing is recorded where no input wants a gradient.
func (t *Tape) Record(op Op) *Var {
	v := t.dense(op.Value, op.Rows)
	v.held = true
	t.scope = append(t.scope, v)
	for _, in := range op.Inputs {
		v.wants, v.learned = v.wants || in.wants, v.learned || in.learned
		if op.Rows == nil {
			v.inherit(in)
		}
	}
	if !t.Recording || !v.wants {
		v.wants = false
		for _, b := range op.Buffers {
			b.Release()
		}
		return v
	}
	for _, k := range op.Keeps {
		k.kept++
	}
	if op.KeepsResult {
		v.kept++
	}
	if t.Ledger != nil {
		t.Ledger.expect(op.Inputs)
	}
	t.steps = append(t.steps, step{op, v})
	return v
}

// inherit takes over what the rows of an input are.
func (v *Var) inherit(in *Var) {
	switch {
	case in.set == nil:
	case v.set == nil:
		v.set = in.set
	case v.set != in.set:
		panic("autograd: an operation on values of different rows does not say what the rows of its result are")
	}
}

// Parameter is a parameter on this tape: its gradient is added to grad, which belongs to someone else as its
// value does. Where grad is nil none is asked for.
func (t *Tape) Parameter(value, grad *tensor.Matrix) *Var {
	if t.Announced != nil && grad != nil && !t.Announced[grad] {
		panic(fmt.Sprintf("autograd: a parameter of %d×%d is used where it was not announced", value.Rows, value.Cols))
	}
	v := t.dense(value, nil)
	v.grad, v.leaf, v.parameter, v.learned, v.wants = grad, true, true, true, t.Recording && grad != nil
	return v
}

// ParameterRows is a Parameter that has a row for each of these.
func (t *Tape) ParameterRows(value, grad *tensor.Matrix, rows *RowSet) *Var {
	v := t.Parameter(value, grad)
	v.set = rows
	return v
}

// Input is a Constant whose gradient is asked for: after Backward, TakeGrad hands it to whoever computed the
// value.
func (t *Tape) Input(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.Constant(value, rows)
	v.wants, v.learned = t.Recording, true
	return v
}

// Received is an Input that the tape owns, as what came from another worker: it is released when nobody reads
// it any more.
func (t *Tape) Received(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.dense(value, rows)
	v.held, v.wants, v.learned = true, t.Recording, true
	t.scope = append(t.scope, v)
	return v
}

// Constant is a value without a gradient that belongs to someone else.
func (t *Tape) Constant(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.dense(value, rows)
	v.leaf = true
	return v
}

// Fixed is a Constant that is the same at every epoch, so that what follows from it alone may be computed
// once.
func (t *Tape) Fixed(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.Constant(value, rows)
	v.fixed = true
	return v
}

// SparseConstant is a constant sparse matrix.
func (t *Tape) SparseConstant(s *Sparse, rows *RowSet) *Var {
	v := t.sparse(s, rows)
	v.leaf = true
	return v
}

func (t *Tape) dense(m *tensor.Matrix, rows *RowSet) *Var {
	return &Var{tape: t, rows: m.Rows, cols: m.Cols, set: rows, value: m}
}

func (t *Tape) sparse(s *Sparse, rows *RowSet) *Var {
	return &Var{tape: t, rows: s.Rows.Rows, cols: s.Rows.Cols, set: rows, sparse: s}
}

// Scope runs a piece of the forward pass. When it ends, all Vars that it made are dropped, but the one it
// returns.
func (t *Tape) Scope(f func() *Var) (v *Var) {
	t.ScopeOf(func() []*Var {
		v = f()
		return []*Var{v}
	})
	return v
}

// ScopeOf is Scope for a piece that returns several Vars, of which some may be nil.
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
		if v != nil && !v.leaf {
			t.scope = append(t.scope, v)
		}
	}
}

// Root is a value from which Backward starts, and dLoss/dvalue, which Backward owns.
type Root struct {
	*Var
	Grad *tensor.Matrix
}

// Backward runs the recorded operations in reverse, from all roots. The tape is empty afterwards, but for the
// gradients of its inputs.
func (t *Tape) Backward(roots ...Root) {
	for _, r := range roots {
		r.AddGrad(r.Grad)
		r.Drop()
	}
	t.backward = true
	defer func() { t.backward = false }()
	for len(t.steps) > 0 {
		last := len(t.steps) - 1
		op, out := t.steps[last].Op, t.steps[last].out
		t.steps = t.steps[:last]
		out.pay()
		if out.grad != nil {
			if !op.Reads {
				out.unshare()
			}
			g := out.grad
			out.grad = nil
			op.Backward(g)
			for _, in := range op.Inputs {
				if !in.wants { // a kernel may give gradients that nobody asked for
					in.grad.Release()
					in.grad = nil
				}
			}
		}
		if t.Ledger != nil {
			t.Ledger.settle(op.Inputs)
		}
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
		out.held = false
		out.releaseUnused()
	}
	for _, made := range t.scope { // what was made outside every Scope
		made.Drop()
	}
	t.scope = nil
}

// Tape is the tape that the value is on.
func (v *Var) Tape() *Tape { return v.tape }

// Value is the dense matrix. It panics when the value was given away to an operation that works in place, or
// released.
func (v *Var) Value() *tensor.Matrix {
	if v.value == nil || v.given && !v.tape.backward {
		panic("autograd: use of a value that is sparse, or was given away, or dropped")
	}
	return v.value
}

// Sparse is the sparse matrix, nil when the value is dense.
func (v *Var) Sparse() *Sparse { return v.sparse }

// Rows is the number of rows, also of a value that was given up.
func (v *Var) Rows() int { return v.rows }

// Cols is the number of columns, also of a value that was given up.
func (v *Var) Cols() int { return v.cols }

// Wants reports whether the Var's gradient is asked for; Backward steps skip the others.
func (v *Var) Wants() bool { return v.wants }

// Learned reports whether the value depends on parameters, those of another worker included: it is not a
// feature, nor what follows from features alone. On a tape that does not record it is the same as on one that
// does.
func (v *Var) Learned() bool { return v.learned }

// RowSet says what the rows are; nil for a parameter.
func (v *Var) RowSet() *RowSet { return v.set }

// TakeGrad is the gradient of an Input after Backward, which the caller owns from now on; zeros where nothing
// depended on it.
func (v *Var) TakeGrad() *tensor.Matrix {
	v.pay()
	g := v.GradSum()
	v.grad = nil
	v.releaseUnused()
	return g
}

// Fixed reports whether the value is the same at every epoch.
func (v *Var) Fixed() bool { return v.fixed }

// Grad returns the matrix that the Var's gradient belongs in: when accumulate is set it must be added to,
// else overwritten.
func (v *Var) Grad() (g *tensor.Matrix, accumulate bool) {
	if v.grad != nil {
		v.unshare()
		return v.grad, true
	}
	v.grad = v.memory()
	return v.grad, false
}

// GradSum returns the matrix that the Var's gradient must be added to.
func (v *Var) GradSum() *tensor.Matrix {
	g, accumulate := v.Grad()
	if !accumulate {
		v.tape.Team.Zero(g)
	}
	return g
}

// AddGrad adds g, which it owns, to the gradient.
func (v *Var) AddGrad(g *tensor.Matrix) {
	switch {
	case !v.wants:
		g.Release()
	case v.grad == nil:
		v.grad = g
	default:
		v.unshare()
		v.tape.Team.Axpy(v.grad, 1, g)
		g.Release()
	}
}

// unshare makes the gradient one that may be overwritten.
func (v *Var) unshare() {
	if !v.grad.Shared() {
		return
	}
	shared := v.grad
	v.grad = v.tape.Memory().New(tensor.Gradients, shared.Rows, shared.Cols)
	v.tape.Team.Copy(v.grad, shared)
	shared.Release()
}

// Take gives the value away for an operation in place: the caller owns the matrix and the Var must not be
// used any more in the forward pass, unless it is a leaf. Where an operation keeps the value, inPlace is
// false and the matrix is a new one with undefined elements.
func (v *Var) Take() (m *tensor.Matrix, inPlace bool) {
	if v.leaf {
		return v.tape.New(v.Rows(), v.Cols()), false
	}
	v.given = true
	if v.kept > 0 || v.value.Shared() {
		return v.tape.New(v.Rows(), v.Cols()), false
	}
	m, v.value, v.held = v.value, nil, false
	return m, true
}

// Drop says that the forward code does not need the Var any more.
func (v *Var) Drop() {
	v.held = false
	v.releaseUnused()
}

func (v *Var) releaseUnused() {
	if v.leaf || v.held || v.kept > 0 || len(v.owed) > 0 {
		return
	}
	if v.kept < 0 {
		panic(fmt.Sprintf("autograd: a value released %d times too often", -v.kept))
	}
	v.value.Release()
	v.value = nil
	if v.sparse != nil {
		v.sparse.Rows.Values.Release()
		v.sparse.Columns.Values.Release()
		v.sparse = nil
	}
}
