package autograd

// A tape that recomputes does not keep all values that backward steps read (activation checkpointing; Chen et
// al. 2016). When the forward code drops such a value, the tape evicts it: it releases the value, and
// computes it again from its inputs before the first backward step that reads it. From then on the value
// lives until its last reader, like any other.
//
// A value is evicted if its operation has a Forward, and if each input is a leaf, or is kept for backward
// steps anyway, or can itself be computed from such inputs and is read by no backward step. So no eviction
// makes another value stay, and no value is computed from one that was evicted before it: of two consecutive
// layers without aggregation, one keeps its output. An evicted value keeps its inputs. These may be evicted
// later, as a layer's input is after the values within the layer.
//
// The results of a gnn.Propagator have no Forward. They stay, and so no aggregation and no message between
// workers is repeated. Norm, activation, dropout and the next layer's product are computed again from them.

// evict releases the value, if only backward steps read it and it can be computed again.
func (v *Var) evict() {
	if v.leaf() || v.kept == 0 || v.value == nil || v.tape.backward || !v.computable() {
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
		kept := in.leaf() || in.kept > 0 && in.there()
		if !kept && (in.liveness == evicted || !in.computable()) {
			return false
		}
	}
	return true
}

// there reports whether the Var has its value.
func (v *Var) there() bool { return v.value != nil || v.sparse != nil }

// await keeps the inputs of a value that is not there until it is computed again.
func (v *Var) await() {
	v.liveness = evicted
	for _, in := range v.op.Inputs {
		in.kept++
		if !in.leaf() && !in.there() && in.liveness != evicted {
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
	if v.liveness != evicted {
		return
	}
	v.liveness = dropped
	for _, in := range v.op.Inputs {
		in.restore()
	}
	for _, in := range v.op.Inputs { // restored first, so that Forward may reuse an input's memory
		in.kept--
	}
	v.value = v.op.Forward()
	for _, in := range v.op.Inputs {
		in.releaseUnused()
	}
}

// forget lets go of the inputs of an evicted value that no backward step has read.
func (v *Var) forget() {
	if v.liveness != evicted {
		return
	}
	v.liveness = dropped
	for _, in := range v.op.Inputs {
		in.kept--
		in.releaseUnused()
	}
}
