package nn

import (
	"slices"
	"strings"

	"weft/internal/refusal"
	"weft/tensor"
)

// Snapshot is a copy of all values, for Restore. Its zero value is empty.
type Snapshot struct {
	values *tensor.Matrix // of parameters, and of buffers that are matrices
	floats [][]float32    // of other buffers
	counts []int64
}

// Save notes that s is a snapshot of the present values; Keep copies them into s before they change. So an
// epoch that changes nothing brings no values into memory. The memory of s is reused.
func (ps *Params) Save(s *Snapshot) {
	if s.values == nil {
		n := 0
		for _, m := range ps.matrices() {
			n += m.Len()
		}
		s.values = ps.team.Memory.New(tensor.Parameters, 1, n)
	}
	ps.saves = s
}

// Keep makes the copy for the last Save, unless it has been made. It must be called before values change. It
// brings all values into memory, whether or not it copies them.
func (ps *Params) Keep() {
	for _, m := range ps.matrices() {
		m.Pointer()
	}
	s := ps.saves
	ps.saves = nil
	if s == nil {
		return
	}
	s.floats, s.counts = s.floats[:0], s.counts[:0]
	for _, b := range ps.Buffers {
		switch {
		case b.Count != nil:
			s.counts = append(s.counts, *b.Count)
		case b.Matrix == nil:
			s.floats = append(s.floats, slices.Clone(b.Values))
		}
	}
	if !ps.team.Memory.OnDevice() {
		to := s.values.WriteFloats()
		for _, m := range ps.matrices() {
			to = to[copy(to, m.ReadFloats()):]
		}
		return
	}
	place, team := s.places(), ps.team.Unwatched()
	for _, m := range ps.matrices() {
		team.Copy(place(m.Len()).Reshape(m.Rows, m.Cols), m)
	}
}

// places returns a function that returns the memory of a snapshot's next n values, n × 1.
func (s *Snapshot) places() func(n int) *tensor.Matrix {
	all, from := s.values.Reshape(s.values.Len(), 1), 0
	return func(n int) *tensor.Matrix {
		from += n
		return all.RowRange(from-n, from)
	}
}

// Restore sets all values to a snapshot of this set, and releases the snapshot's memory.
func (ps *Params) Restore(s *Snapshot) {
	if ps.saves == s { // the values have not changed since Save
		ps.saves = nil
		s.Release()
		return
	}
	from := s.values.ReadFloats()
	for _, m := range ps.matrices() {
		from = from[copy(m.WriteFloats(), from):]
	}
	floats, counts := s.floats, s.counts
	for _, b := range ps.Buffers {
		switch {
		case b.Count != nil:
			*b.Count, counts = counts[0], counts[1:]
		case b.Matrix == nil:
			copy(b.Values, floats[0])
			floats = floats[1:]
		}
	}
	s.Release()
}

// Release releases the memory of a snapshot, which is then empty.
func (s *Snapshot) Release() {
	s.values.Release()
	s.values = nil
}

// Like refuses a set whose values Copy cannot take. It must have the same tensors, and none with a row for
// each vertex.
func (ps *Params) Like(from *Params) error {
	for _, p := range from.List {
		if p.Rows != nil {
			return refusal.Weights.Errorf("the model learns %s, with a row for each vertex of its graph, "+
				"and other vertices have none; take a model of features", p.Name)
		}
	}
	own, theirs := ps.Arrays(), from.Arrays()
	for k := range max(len(own), len(theirs)) {
		switch {
		case k >= min(len(own), len(theirs)) || own[k].Name != theirs[k].Name:
			return refusal.Weights.Errorf("the model has other parameters there, as the graphs have other " +
				"relations or vertex types; give graphs with the same")
		case !slices.Equal(own[k].Shape, theirs[k].Shape):
			return refusal.Weights.Errorf("the model has %s as %v there, and as %v on the graph that is "+
				"trained on; give graphs with as many features of vertices and edges",
				strings.TrimPrefix(own[k].Name, "parameters/"), own[k].Shape, theirs[k].Shape)
		}
	}
	return nil
}

// Copy sets all values to those of another set of the same tensors.
func (ps *Params) Copy(from *Params) {
	for i, p := range ps.List {
		copy(p.Value.WriteFloats(), from.List[i].Value.ReadFloats())
	}
	for i, b := range ps.Buffers {
		copy(b.Write(), from.Buffers[i].Read())
		if b.Count != nil {
			*b.Count = *from.Buffers[i].Count
		}
	}
}
