package autograd

// A tape that recomputes does not keep all values that backward steps read. When the forward code drops such
// a value, the tape evicts it: it releases the value, and computes it again from its inputs when the first
// backward step reads it. From then on the value lives until its last reader, as any other.
//
// A value can be evicted if its operation has a Forward and the operation's inputs are there: kept by someone,
// leaves, or results that nobody reads and that can be computed from such. So nothing is computed from a value
// that was evicted before, and a chain of operations stays short: of two consecutive layers without
// aggregation one keeps its output. The inputs of an evicted value are kept for it. They may be evicted
// themselves, later, as the input of a layer is after the values in the layer.
//
// Results of a gnn.Propagator have no Forward. They are kept, and neither an aggregation nor a message between
// workers is repeated. What follows an aggregation, such as norm, activation, dropout and the next layer's
// product, is computed again from its result.

// evict releases the value, if only backward steps read it and it can be computed again.
func (v *Var) evict() {
	if v.leaf || v.kept == 0 || v.value == nil || v.tape.backward || !v.computable() {
		return
	}
	v.value.Release()
	v.value = nil
	v.await()
}

// computable reports whether the value can be computed from values that are there.
func (v *Var) computable() bool {
	if v.op == nil {
		return false
	}
	for _, in := range v.op.Inputs {
		kept := in.leaf || in.kept > 0 && in.there()
		if !kept && (in.evicted || !in.computable()) {
			return false
		}
	}
	return true
}

// there reports whether the Var has its value.
func (v *Var) there() bool { return v.value != nil || v.sparse != nil }

// await keeps the inputs of a value that is not there until it is computed again.
func (v *Var) await() {
	v.evicted = true
	for _, in := range v.op.Inputs {
		in.kept++
		if !in.leaf && !in.there() && !in.evicted {
			in.await()
		}
	}
}

// restore computes the values that the backward step of an operation reads, if they were evicted.
func (op *Op) restore(out *Var) {
	for _, k := range op.Keeps {
		k.restore()
	}
	if op.KeepsResult {
		out.restore()
	}
}

// restore computes the value again if it was evicted.
func (v *Var) restore() {
	if !v.evicted {
		return
	}
	v.evicted = false
	for _, in := range v.op.Inputs {
		in.restore()
	}
	for _, in := range v.op.Inputs { // before, so that Forward may reuse an input's memory
		in.kept--
	}
	v.value = v.op.Forward()
	for _, in := range v.op.Inputs {
		in.releaseUnused()
	}
}

// forget lets go of the inputs of an evicted value that no backward step has read.
func (v *Var) forget() {
	if !v.evicted {
		return
	}
	v.evicted = false
	for _, in := range v.op.Inputs {
		in.kept--
		in.releaseUnused()
	}
}
