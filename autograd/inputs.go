package autograd

import (
	"fmt"

	"weft/tensor"
)

// The values that operations begin with: parameters, inputs, and constants.

// Parameter puts a parameter on this tape. Its gradient is added to grad. The caller owns both value and
// grad. No gradient is computed if grad is nil. It panics for a parameter that Tape.Announced lacks.
func (t *Tape) Parameter(value, grad *tensor.Matrix) *Var {
	if t.Announced != nil && grad != nil && !t.Announced[grad] {
		panic(fmt.Sprintf("autograd: a parameter of %d×%d is used where it was not announced",
			value.Rows, value.Cols))
	}
	v := t.dense(value, nil)
	v.grad, v.origin, v.depends, v.requiresGrad = grad, parameter, true, t.Recording && grad != nil
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
	v.requiresGrad, v.depends = t.Recording, true
	return v
}

// Received is an Input that the tape owns, such as rows received from another worker. It is released after
// its last reader.
func (t *Tape) Received(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.dense(value, rows)
	v.liveness, v.requiresGrad, v.depends = held, t.Recording, true
	t.scope = append(t.scope, v)
	return v
}

// Constant puts a value on this tape that needs no gradient. The caller owns it.
func (t *Tape) Constant(value *tensor.Matrix, rows *RowSet) *Var {
	v := t.dense(value, rows)
	v.origin = constant
	return v
}

// Fixed is a Constant that is the same in every epoch, so that a value that depends on it alone may be
// computed once.
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
