package nn

import (
	"slices"

	"weft/tensor"
)

// A caller may give the values of a model's parameters to each pass, and take their gradients: as a State,
// with tensors in the shapes that files hold.

// Give sets the parameters to those of a state, which must be one that Load takes. Unlike Load, it takes
// values that are not finite.
func (ps *Params) Give(state State) {
	for _, p := range ps.List {
		p.take(state[p.Name].Float32)
	}
}

// GiveBuffers sets the buffers to those of a state.
func (ps *Params) GiveBuffers(state State) {
	for _, b := range ps.Buffers {
		if b.Count != nil {
			*b.Count = state[b.Name].Int64[0]
		} else {
			copy(b.Write(), state[b.Name].Float32)
		}
	}
}

// TakeBuffers copies the buffers into those of a state.
func (ps *Params) TakeBuffers(state State) {
	for _, b := range ps.Buffers {
		if b.Count != nil {
			state[b.Name].Int64[0] = *b.Count
		} else {
			copy(state[b.Name].Float32, b.Read())
		}
	}
}

// BufferValues copies the values of all buffers, for SetBufferValues.
func (ps *Params) BufferValues() (values [][]float32) {
	for _, b := range ps.Buffers {
		values = append(values, slices.Clone(b.Read()))
	}
	return values
}

// SetBufferValues sets all buffers to values that BufferValues returned.
func (ps *Params) SetBufferValues(values [][]float32) {
	for k, b := range ps.Buffers {
		copy(b.Write(), values[k])
	}
}

// TakeGradients copies the gradients into the tensors of a state, and sets them to zero. It copies this
// worker's rows of an embedding. It copies other tensors only if replica is set, because all replicas have
// the same.
func (ps *Params) TakeGradients(state State, replica bool) {
	for _, p := range ps.List {
		to, grad := state[p.Name].Float32, p.Grad.ReadFloats()
		switch columns := p.Grad.Cols; {
		case p.Rows != nil:
			for i := range len(grad) / max(1, columns) {
				table, row := i/p.Rows.Here, i%p.Rows.Here
				copy(to[(table*p.Rows.Total+p.vertex(row))*columns:], grad[i*columns:(i+1)*columns])
			}
		case !replica:
		case p.transposed:
			copy(to, transpose(grad, p.Grad.Rows, columns))
		default:
			copy(to, grad)
		}
	}
	ps.ZeroGrad()
}

// Renew gives the parameters new memory, with undefined values. It returns the old memory, which tapes of
// earlier passes still read. The caller releases it.
func (ps *Params) Renew() (old []*tensor.Matrix) {
	for _, p := range ps.List {
		old = append(old, p.Value)
		p.Value = ps.team.Memory.New(tensor.Parameters, p.Value.Rows, p.Value.Cols)
	}
	return old
}

// Swap gives the parameters memory that Renew has returned, and returns theirs, for another Swap.
func (ps *Params) Swap(values []*tensor.Matrix) (now []*tensor.Matrix) {
	for k, p := range ps.List {
		now = append(now, p.Value)
		p.Value = values[k]
	}
	return now
}
