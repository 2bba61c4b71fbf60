package autograd

import (
	"weft/kernel"
	"weft/tensor"
)

// owed is a term g·wᵀ of a value's gradient that is not computed yet. Products put it off until nobody reads
// the value any more; the gradient then takes the value's memory. So a layer's input and its gradient never
// exist side by side.
type owed struct {
	g *tensor.Matrix
	w *Var
}

// owe adds g·wᵀ to the gradient, at once for a leaf. It owns g, and does not change it.
func (v *Var) owe(g *tensor.Matrix, w *Var) {
	switch {
	case !v.wants:
		g.Release()
	case v.leaf:
		v.addProduct(g, w)
	default:
		w.kept++
		v.owed = append(v.owed, owed{g, w})
	}
}

// pay computes what is owed. All operations that read the value, but the one that made it, have run backward.
func (v *Var) pay() {
	for len(v.owed) > 0 {
		o := v.owed[0]
		v.addProduct(o.g, o.w)
		o.w.kept--
		o.w.releaseUnused()
		v.owed = v.owed[1:]
	}
}

// addProduct adds g·wᵀ to the gradient. It owns g.
func (v *Var) addProduct(g *tensor.Matrix, w *Var) {
	dv, add := v.Grad()
	v.tape.Team.MatMul(dv, g, w.Value(), kernel.Transposed, kernel.Output(add))
	g.Release()
}

// memory is a matrix for the gradient: the value's own where nothing but what is owed keeps that and no alias
// has it, else a new one. The value's own stays charged to the activations.
func (v *Var) memory() *tensor.Matrix {
	if v.leaf || v.held || v.kept > 0 || v.value == nil || v.value.Shared() {
		return v.tape.Memory().New(tensor.Gradients, v.rows, v.cols)
	}
	m := v.value
	v.value = nil
	return m
}
