package nn

import (
	"weft/checkpoint"
	"weft/tensor"
)

// The part of a checkpoint that is a model's: parameters and buffers, of now and of the best epoch.

// Arrays lists all parameters and buffers. Matrices are in × out here, unlike in State.
func (ps *Params) Arrays() []checkpoint.Array {
	var counts []*int64
	for _, b := range ps.Buffers {
		if b.Count != nil {
			counts = append(counts, b.Count)
		}
	}
	var values []checkpoint.Array
	for _, p := range ps.List {
		values = append(values, checkpoint.Array{Matrix: p.Value})
	}
	for _, b := range ps.Buffers {
		values = append(values, checkpoint.Array{Matrix: b.Matrix, Floats: b.Values})
	}
	return ps.arrays("parameters/", values, counts)
}

// ArraysOf lists the values of a snapshot of this set, as Arrays does.
func (ps *Params) ArraysOf(s *Snapshot) []checkpoint.Array {
	ps.Keep()
	var values []checkpoint.Array
	place, floats := s.places(), s.floats
	for _, p := range ps.List {
		values = append(values, checkpoint.Array{Matrix: place(p.Value.Len())})
	}
	for _, b := range ps.Buffers {
		a := checkpoint.Array{}
		switch {
		case b.Matrix != nil:
			a.Matrix = place(b.Len())
		case b.Count == nil:
			a.Floats, floats = floats[0], floats[1:]
		}
		values = append(values, a)
	}
	var counts []*int64
	for i := range s.counts {
		counts = append(counts, &s.counts[i])
	}
	return ps.arrays("best/", values, counts)
}

// arrays names the values, which are in the order of List and then Buffers, and the counts.
func (ps *Params) arrays(
	prefix string, values []checkpoint.Array, counts []*int64,
) (arrays []checkpoint.Array) {
	for i, p := range ps.List {
		arrays = append(arrays, p.Array(prefix+p.Name, values[i].Matrix))
	}
	for i, b := range ps.Buffers {
		a := values[len(ps.List)+i]
		a.Name, a.Shape = prefix+b.Name, []int{b.Len()}
		if b.Count != nil {
			a = checkpoint.Array{Name: a.Name, Count: counts[0]}
			counts = counts[1:]
		}
		arrays = append(arrays, a)
	}
	return arrays
}

// Array returns an array of values that has one for each of the parameter's, such as an optimizer's moments.
func (p *Param) Array(name string, values *tensor.Matrix) checkpoint.Array {
	a := checkpoint.Array{Name: name, Shape: []int{p.Value.Rows, p.Value.Cols}, Matrix: values, Rows: p.Rows}
	if p.Rows != nil {
		a.Shape = []int{p.Tables, p.Rows.Here, p.Value.Cols}
	}
	return a
}
