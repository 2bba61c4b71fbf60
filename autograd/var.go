package autograd

import (
	"fmt"

	"weft/kernel"
	"weft/tensor"
)

// Var is a value on a tape: a dense matrix, or a constant sparse matrix.
type Var struct {
	tape         *Tape
	rows         int
	cols         int
	element      tensor.Element
	set          *RowSet // describes the rows; nil for a parameter
	value        *tensor.Matrix
	sparse       *Sparse
	grad         *tensor.Matrix
	requiresGrad bool // it needs a gradient
	depends      bool // on parameters, whether the tape records or not
	origin       origin
	liveness     liveness
	kept         int // how many recorded operations keep the value
	deferred     []deferred
	op           *Op // computes the value again; nil: nothing can
}

// origin says where a value comes from.
type origin uint8

const (
	result    origin = iota // of an operation, or received: the tape owns it
	constant                // someone else owns it
	fixed                   // a constant that is the same in every epoch
	parameter               // someone else owns it, and the matrix that its gradient is added to
)

// liveness says who still needs the value of a result.
type liveness uint8

const (
	dropped liveness = iota // the forward code does not need it any more
	held                    // by the forward code
	donated                 // held, and donated to an operation that may have reused its memory
	spent                   // donated, and dropped
	evicted                 // released until a backward step reads it
)

// leaf reports whether someone else owns the value.
func (v *Var) leaf() bool { return v.origin != result }

// Sparse is a constant matrix in compressed rows, and its transpose.
type Sparse struct {
	Rows, Columns *kernel.CSR
}

// Tape returns the tape that the value is on.
func (v *Var) Tape() *Tape { return v.tape }

// Value returns the dense matrix. It panics if the value is sparse, was released, or was given to an
// operation that reused its memory.
func (v *Var) Value() *tensor.Matrix {
	if v.value == nil || (v.liveness == donated || v.liveness == spent) && !v.tape.backward {
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

// RequiresGrad reports whether the Var needs a gradient; Backward steps skip the others.
func (v *Var) RequiresGrad() bool { return v.requiresGrad }

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

// BlockGrad is Grad for a gradient that is the sum over so many blocks. For several blocks of a value that is
// not Float32 it returns a separate sum in Float32. To make room for it, it releases the value if nobody
// reads that any more. AddBlockGrad ends the sum.
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

// BlockGradSum is BlockGrad for a caller that always adds: a new sum is zero.
func (v *Var) BlockGradSum(blocks int) *tensor.Matrix {
	sum, accumulate := v.BlockGrad(blocks)
	if !accumulate {
		v.tape.Team.Zero(sum)
	}
	return sum
}

// AddBlockGrad adds a sum that BlockGrad returned to the gradient, unless it is the gradient itself. It owns
// the sum.
func (v *Var) AddBlockGrad(sum *tensor.Matrix) {
	if sum == v.grad {
		return
	}
	if v.requiresGrad && v.element != tensor.Float32 {
		if v.grad != nil {
			v.tape.Team.Columns(sum, 0, v.grad, 0, v.cols, kernel.Accumulate)
			v.grad.Release()
			v.grad = nil
		}
		v.tape.Team.Narrow(sum)
	}
	v.AddGrad(sum)
}

// GradSum returns the matrix for the Var's gradient. The caller adds to it; a new one is zero.
func (v *Var) GradSum() *tensor.Matrix { return v.BlockGradSum(1) }

// AddGrad adds g to the gradient. It owns g.
func (v *Var) AddGrad(g *tensor.Matrix) {
	switch {
	case !v.requiresGrad:
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
		v.liveness = donated
	} else {
		v.liveness = spent // an operation that is computed again takes a value that was dropped
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

// letGo ends the forward code's hold of the value.
func (v *Var) letGo() {
	switch v.liveness {
	case held:
		v.liveness = dropped
	case donated:
		v.liveness = spent
	}
}

func (v *Var) held() bool { return v.liveness == held || v.liveness == donated }

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
