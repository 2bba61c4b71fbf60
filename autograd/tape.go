// Package autograd records operations on matrices and runs them backward. The tape keeps only the values that
// a backward step reads, and releases each as soon as it was read for the last time.
//
// Ownership: the code that makes a Var by an operation holds it until the enclosing Scope ends, or until
// Drop. Each recorded operation that keeps a Var holds it until the operation has run backward. When nobody
// holds a Var, its memory is released.
package autograd

import (
	"fmt"
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
	// Edges are what a pass has in place of the graph's edges, as its axis knows it; nil: nothing.
	Edges any
	// Rows are the rows of each vertex type in a pass of some of a worker's rows, as of a chunk; nil: of all.
	Rows []*RowSet
	// Storage is the element type of the dense values of vertices or edges that operations make, and of their
	// gradients: the team's. Parameters and scores are Float32 always.
	Storage tensor.Element
	// Announced has the gradients of the only parameters that Parameter accepts, because the ledger would
	// miss others. nil: Parameter accepts all.
	Announced map[*tensor.Matrix]bool
	// Ledger counts the operations on parameters, unless it is nil. The tapes of one step share it.
	Ledger *Ledger
	// Recompute releases values that only backward steps still read, and computes them again there
	// (recompute.go).
	Recompute bool
	// OnLayer is told of each layer before operations of it run, forward and backward, and of NoLayer after
	// them. It may be nil.
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

// BeginLayer says that the operations from now on are those of a layer, or of NoLayer.
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

// NewSum returns a matrix in which an operation adds up so many blocks, with undefined elements. Sums of
// several blocks are Float32, so that Rounded rounds each of them once.
func (t *Tape) NewSum(blocks, rows, cols int) *tensor.Matrix {
	if blocks > 1 {
		return t.element(tensor.Float32, rows, cols)
	}
	return t.New(rows, cols)
}

// Rounded returns a sum that is complete, in the tape's element type and in the same memory.
func (t *Tape) Rounded(z *tensor.Matrix) *tensor.Matrix {
	if z.Element != t.Storage {
		t.Team.Narrow(z)
	}
	return z
}

// Var is a value on a tape: a dense matrix, or a constant sparse matrix.
type Var struct {
	tape     *Tape
	rows     int
	cols     int
	element  tensor.Element
	set      *RowSet // describes the rows; nil: a parameter's
	value    *tensor.Matrix
	sparse   *Sparse
	grad     *tensor.Matrix
	wants    bool // it needs a gradient
	depends  bool // on parameters, whether the tape records or not
	origin   origin
	use      use
	kept     int // by recorded operations
	deferred []deferred
	op       *Op // computes the value again; nil: it cannot be
}

// origin says where a value comes from.
type origin uint8

const (
	result    origin = iota // of an operation, or received: the tape owns it
	constant                // someone else owns it
	fixed                   // a constant that is the same in every epoch
	parameter               // its gradient is added to a matrix that someone else owns, too
)

// use says what becomes of the value of a result.
type use uint8

const (
	dropped use = iota // the forward code does not need it any more
	held               // by the forward code
	given              // held, and given to an operation that may have reused its memory
	spent              // given, and dropped
	evicted            // released until a backward step reads it
)

// leaf reports whether someone else owns the value.
func (v *Var) leaf() bool { return v.origin != result }

// Sparse is a constant matrix in compressed rows, and its transpose.
type Sparse struct {
	Rows, Columns *kernel.CSR
}

// Op is one operation: its result, the inputs that the result depends on, and the values that its backward
// step reads.
type Op struct {
	// Value is the result. The tape owns it from now on. It is nil if Forward is set.
	Value *tensor.Matrix
	// Forward computes the result from the values of Inputs, and from nothing else that changes before
	// Backward has run. It is called at once, and perhaps again in the backward pass. Both results must be
	// the same, so nobody may change the first, other than by Take. The tape owns them. nil: Value is set,
	// and kept for as long as it is read.
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
	v.use = held
	t.scope = append(t.scope, v)
	for _, in := range op.Inputs {
		v.wants, v.depends = v.wants || in.wants, v.depends || in.depends
		if op.Rows == nil {
			v.inherit(in)
		}
	}
	if recorded := t.Recording && v.wants; op.Forward != nil && t.Recompute &&
		(recorded || len(op.Buffers) == 0) {
		v.op = &op
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

// Parameter puts a parameter on this tape. Its gradient is added to grad. The caller owns both value and
// grad. No gradient is computed if grad is nil.
func (t *Tape) Parameter(value, grad *tensor.Matrix) *Var {
	if t.Announced != nil && grad != nil && !t.Announced[grad] {
		panic(fmt.Sprintf("autograd: a parameter of %d×%d is used where it was not announced",
			value.Rows, value.Cols))
	}
	v := t.dense(value, nil)
	v.grad, v.origin, v.depends, v.wants = grad, parameter, true, t.Recording && grad != nil
	return v
}

// ParameterRows is Parameter for a parameter with a row for each of these rows.
func (t *Tape) ParameterRows(value, grad *tensor.Matrix, rows *RowSet) *Var {
	v := t.Parameter(value, grad)
	v.set = rows
	return v
}

// Input is a Constant that needs a gradient: after Backward, TakeGrad hands it to whoever computed the value.
func (t *Tape) Input(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.Constant(value, rows)
	v.wants, v.depends = t.Recording, true
	return v
}

// Received is an Input that the tape owns, such as rows received from another worker. It is released after
// its last reader.
func (t *Tape) Received(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.dense(value, rows)
	v.use, v.wants, v.depends = held, t.Recording, true
	t.scope = append(t.scope, v)
	return v
}

// Constant puts a value on this tape that needs no gradient. The caller owns it.
func (t *Tape) Constant(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.dense(value, rows)
	v.origin = constant
	return v
}

// Fixed is a Constant that is the same in every epoch, so that what depends on it alone may be computed once.
func (t *Tape) Fixed(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.Constant(value, rows)
	v.origin = fixed
	return v
}

// SparseConstant is a constant sparse matrix.
func (t *Tape) SparseConstant(s *Sparse, rows *RowSet) *Var {
	v := t.sparse(s, rows)
	v.origin = constant
	return v
}

// SparseFixed is a SparseConstant that is the same in every epoch.
func (t *Tape) SparseFixed(s *Sparse, rows *RowSet) *Var {
	v := t.sparse(s, rows)
	v.origin = fixed
	return v
}

func (t *Tape) dense(m *tensor.Matrix, rows *RowSet) *Var {
	return &Var{tape: t, rows: m.Rows, cols: m.Cols, element: m.Element, set: rows, value: m}
}

func (t *Tape) sparse(s *Sparse, rows *RowSet) *Var {
	return &Var{tape: t, rows: s.Rows.Rows, cols: s.Rows.Cols, set: rows, sparse: s}
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
				if !in.wants { // a kernel may compute gradients that are not needed
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

// Discard releases what the tape keeps for a backward pass that will not come. The tape is then empty. The
// caller has dropped what it holds of the forward pass.
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

// end releases what the operation keeps for its backward step, which has run or will not.
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

// empty drops what was made outside every Scope.
func (t *Tape) empty() {
	for _, made := range t.scope {
		made.Drop()
	}
	t.scope = nil
}

// readAhead begins to read what the step before reads, if it rests on disk.
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

// Tape returns the tape that the value is on.
func (v *Var) Tape() *Tape { return v.tape }

// Value returns the dense matrix. It panics if the value is sparse, was released, or was given to an
// operation that reused its memory.
func (v *Var) Value() *tensor.Matrix {
	if v.value == nil || (v.use == given || v.use == spent) && !v.tape.backward {
		panic("autograd: use of a value that is sparse, or was given away, or dropped")
	}
	return v.value
}

// Sparse returns the sparse matrix, nil if the value is dense.
func (v *Var) Sparse() *Sparse { return v.sparse }

// Rows returns the number of rows, even after the value was released.
func (v *Var) Rows() int { return v.rows }

// Cols returns the number of columns, even after the value was released.
func (v *Var) Cols() int { return v.cols }

// Wants reports whether the Var needs a gradient; Backward steps skip the others.
func (v *Var) Wants() bool { return v.wants }

// DependsOnParameters reports whether the value depends on parameters, including those of another worker.
// Features do not, nor do values computed from features alone. The answer is the same whether the tape
// records or not.
func (v *Var) DependsOnParameters() bool { return v.depends }

// Element returns the element type of the value and of its gradient.
func (v *Var) Element() tensor.Element { return v.element }

// RowSet describes the rows; nil for a parameter.
func (v *Var) RowSet() *RowSet { return v.set }

// TakeGrad returns the gradient of an Input after Backward; the caller owns it from now on. It is zero if
// nothing depended on the input.
func (v *Var) TakeGrad() *tensor.Matrix {
	if t := v.tape; len(v.deferred) > 0 {
		t.backward = true
		v.addDeferred()
		t.BeginLayer(NoLayer)
		t.backward = false
	}
	g := v.GradSum()
	v.grad = nil
	v.releaseUnused()
	return g
}

// Fixed reports whether the value is the same in every epoch.
func (v *Var) Fixed() bool { return v.origin == fixed }

// Grad returns the matrix for the Var's gradient. The caller must add to it if accumulate is set, and
// overwrite it otherwise.
func (v *Var) Grad() (g *tensor.Matrix, accumulate bool) {
	if v.grad != nil {
		v.unshare()
		return v.grad, true
	}
	v.grad = v.memory()
	return v.grad, false
}

// newGrad returns a matrix for a gradient, which has the value's element type.
func (v *Var) newGrad() *tensor.Matrix {
	return v.tape.Memory().NewElement(tensor.Gradients, v.element, v.rows, v.cols)
}

// BlockGrad is Grad for a gradient that is added up over so many blocks. For several blocks and a value that
// is not Float32 it is a sum apart, which is Float32 and takes the place of a value that nobody reads any
// more. AddBlockGrad ends the sum.
func (v *Var) BlockGrad(blocks int) (sum *tensor.Matrix, accumulate bool) {
	if blocks == 1 || v.element == tensor.Float32 {
		return v.Grad()
	}
	if v.grad == nil && v.reusable() {
		v.value.Release()
		v.value = nil
	}
	return v.tape.Memory().New(tensor.Gradients, v.rows, v.cols), false
}

// BlockGradSum is BlockGrad for a caller that must add.
func (v *Var) BlockGradSum(blocks int) *tensor.Matrix {
	sum, accumulate := v.BlockGrad(blocks)
	if !accumulate {
		v.tape.Team.Zero(sum)
	}
	return sum
}

// AddBlockGrad adds a sum of BlockGrad, which it owns, to the gradient, unless it is the gradient itself.
func (v *Var) AddBlockGrad(sum *tensor.Matrix) {
	if sum == v.grad {
		return
	}
	if v.wants && v.element != tensor.Float32 {
		if v.grad != nil {
			v.tape.Team.Columns(sum, 0, v.grad, 0, v.cols, kernel.Accumulate)
			v.grad.Release()
			v.grad = nil
		}
		v.tape.Team.Narrow(sum)
	}
	v.AddGrad(sum)
}

// GradSum returns the matrix for the Var's gradient, to which the caller must add.
func (v *Var) GradSum() *tensor.Matrix { return v.BlockGradSum(1) }

// AddGrad adds g to the gradient. It owns g.
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

// unshare copies a shared gradient, so that it may be overwritten.
func (v *Var) unshare() {
	if !v.grad.Shared() {
		return
	}
	shared := v.grad
	v.grad = v.newGrad()
	v.tape.Team.Copy(v.grad, shared)
	shared.Release()
}

// Take hands the matrix to an operation that works in place. The caller owns the matrix, and the forward pass
// must not use the Var any more, unless it is a leaf. If an operation keeps the value, inPlace is false and
// the matrix is a new one with undefined elements.
func (v *Var) Take() (m *tensor.Matrix, inPlace bool) {
	if v.leaf() {
		return v.tape.NewLike(v, v.Rows(), v.Cols()), false
	}
	if v.held() {
		v.use = given
	} else {
		v.use = spent // an operation that is computed again takes what was dropped
	}
	if v.kept > 0 || v.value.Shared() {
		return v.tape.NewLike(v, v.Rows(), v.Cols()), false
	}
	m, v.value = v.value, nil
	m.SetWritable()
	return m, true
}

// Drop says that the forward code does not need the Var any more.
func (v *Var) Drop() {
	v.letGo()
	v.evict()
	v.releaseUnused()
}

// letGo ends the forward code's hold.
func (v *Var) letGo() {
	switch v.use {
	case held:
		v.use = dropped
	case given:
		v.use = spent
	}
}

func (v *Var) held() bool { return v.use == held || v.use == given }

func (v *Var) releaseUnused() {
	if v.leaf() || v.held() || v.kept > 0 || len(v.deferred) > 0 {
		return
	}
	if v.kept < 0 {
		panic(fmt.Sprintf("autograd: a value released %d times too often", -v.kept))
	}
	v.forget()
	v.value.Release()
	v.value = nil
	if v.sparse != nil {
		v.sparse.Rows.Values.Release()
		v.sparse.Columns.Values.Release()
		v.sparse = nil
	}
}
