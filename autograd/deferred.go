package autograd

import (
	"weft/kernel"
	"weft/tensor"
)

// deferred is a term g·wᵀ of a value's gradient that is not computed yet. Matrix products defer it until no
// operation reads the value any more. The gradient then reuses the value's memory. So a layer's input and its
// gradient never exist side by side.
type deferred struct {
	g     *tensor.Matrix
	w     *Var
	layer int // of the product
}

// addLater adds g·wᵀ to the gradient: at once for a leaf, otherwise in addDeferred. It owns g, and does not
// change it.
func (v *Var) addLater(g *tensor.Matrix, w *Var) {
	switch {
	case !v.requiresGrad:
		g.Release()
	case v.leaf():
		v.addProduct(g, w)
	default:
		w.kept++
		v.deferred = append(v.deferred, deferred{g, w, v.tape.layer})
	}
}

// addDeferred computes the deferred terms. By then all operations that read the value have run backward, and
// only the one that made it has not.
func (v *Var) addDeferred() {
	for len(v.deferred) > 0 {
		o := v.deferred[0]
		v.tape.BeginLayer(o.layer)
		v.addProduct(o.g, o.w)
		o.w.kept--
		o.w.releaseUnused()
		v.deferred = v.deferred[1:]
	}
}

// addProduct adds g·wᵀ to the gradient. It owns g.
func (v *Var) addProduct(g *tensor.Matrix, w *Var) {
	dv, add := v.Grad()
	v.tape.Team.MatMul(dv, g, w.Value(), kernel.Transposed, kernel.Output(add))
	g.Release()
}

// memory returns a matrix for the gradient. It is the value's own matrix if only deferred terms still keep
// the value and no alias shares it. Otherwise it is a new one. The value's own matrix stays charged to the
// activations.
func (v *Var) memory() *tensor.Matrix {
	if !v.reusable() || v.value.Rests() { // a value at rest would be read for nothing
		return v.newGrad()
	}
	m := v.value
	v.value = nil
	m.SetWritable()
	return m
}

func (v *Var) reusable() bool {
	return !v.leaf() && !v.held() && v.kept == 0 && v.value != nil && !v.value.Shared()
}
