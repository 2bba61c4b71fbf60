package nn

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"weft/internal/refusal"
	"weft/internal/safetensors"
	"weft/tensor"
)

// Tensor is a tensor in the form of weight files.
type Tensor = safetensors.Tensor

// State holds a model's values by name, as PyTorch's state_dict does.
type State = map[string]Tensor

// ReadState reads a safetensors file of weights, such as the one in a run directory. Params.Load checks which
// weights a model needs.
func ReadState(path string) (State, error) {
	state, _, err := safetensors.ReadFile(path)
	return state, err
}

// DecodeState reads weights in the format of safetensors files, which EncodeState or PyTorch has written, up
// to the end of r.
func DecodeState(r io.Reader) (State, error) {
	state, _, err := safetensors.ReadStream(r)
	return state, err
}

// EncodeState writes weights in the format of safetensors files.
func EncodeState(w io.Writer, state State) error {
	return safetensors.Write(w, state, map[string]string{"format": "pt"})
}

// State returns a copy of all values by name, in the shapes that files hold. For an embedding it returns the
// rows of this worker's vertices; the shape has their number in place of the number of all vertices.
func (ps *Params) State() State {
	state := State{}
	for _, p := range ps.List {
		values := slices.Clone(p.Value.ReadFloats())
		if p.transposed {
			values = transpose(values, p.Value.Rows, p.Value.Cols)
		}
		state[p.Name] = Tensor{Shape: p.here(), Float32: values}
	}
	for _, b := range ps.Buffers {
		if b.Count != nil {
			state[b.Name] = Tensor{Shape: []int{}, Int64: []int64{*b.Count}}
		} else {
			state[b.Name] = Tensor{Shape: b.InFiles(), Float32: slices.Clone(b.Read())}
		}
	}
	for _, c := range ps.cancelled {
		state[c.name] = Tensor{Shape: []int{c.width}, Float32: make([]float32, c.width)}
	}
	return state
}

// aliases are older names of the same tensors.
var aliases = map[string]string{"lin.weight": "lin_src.weight"}

// Allow lets a state hold tensors of these names, which this set does not have. A name that ends in a dot
// stands for all names that begin with it.
func (ps *Params) Allow(names ...string) { ps.unused = append(ps.unused, names...) }

// allowed reports whether a state may hold this tensor, which the set does not have.
func (ps *Params) allowed(name string) bool {
	return slices.ContainsFunc(ps.unused, func(unused string) bool {
		return name == unused || strings.HasSuffix(unused, ".") && strings.HasPrefix(name, unused)
	})
}

// Names returns the names that a state for this set may hold.
func (ps *Params) Names() []string {
	names := slices.Clone(ps.unused)
	for _, p := range ps.List {
		names = append(names, p.Name)
	}
	for _, b := range ps.Buffers {
		names = append(names, b.Name)
	}
	for _, c := range ps.cancelled {
		names = append(names, c.name)
	}
	return names
}

// namesIn returns the names of this set's tensors in a state. An older name is translated if this set knows
// the newer one and the state does not hold both.
func (ps *Params) namesIn(state State) map[string]string {
	known := map[string]bool{}
	for _, name := range ps.Names() {
		known[name] = true
	}
	names := map[string]string{}
	for name := range state {
		here := name
		for newer, older := range aliases {
			if path, found := strings.CutSuffix(name, older); found {
				here = path + newer
			}
		}
		if _, both := state[here]; both || !known[here] {
			here = name
		}
		names[here] = name
	}
	return names
}

// otherRows reports whether two shapes of a table differ in the number of vertices alone.
func otherRows(was, is []int) bool {
	at := len(is) - 2
	return len(was) == len(is) && was[at] != is[at] && was[at+1] == is[at+1] &&
		slices.Equal(was[:at], is[:at])
}

// Load sets all values from a state. Its error names a missing, unknown or wrongly shaped tensor. A missing
// integer becomes 0, as in PyTorch: older files lack the counters of batch norm.
func (ps *Params) Load(state State) error {
	names := ps.namesIn(state)
	used := map[string]bool{}
	take := func(name string, shape []int) (Tensor, error) {
		found, ok := names[name]
		v := state[found]
		if !ok {
			return v, refusal.Weights.Errorf("the weights lack %s %v%s", name, shape, ps.otherwise(names))
		}
		used[name] = true
		if !slices.Equal(v.Shape, shape) {
			return v, refusal.Weights.Errorf("the weights hold %s as %v, this model needs %v; was the "+
				"model built with the same settings?", found, v.Shape, shape)
		}
		return v, nil
	}
	floats := func(name string, shape []int) ([]float32, error) {
		v, err := take(name, shape)
		if err == nil && v.Float32 == nil && v.Int64 != nil {
			err = refusal.Weights.Errorf("the weights hold %s as integers, this model needs floats", name)
		}
		if err == nil && !tensor.Finite(v.Float32) {
			err = refusal.Weights.Errorf("the weights hold a value in %s that is not finite", name)
		}
		return v.Float32, err
	}
	for _, p := range ps.List {
		if was := state[names[p.Name]].Shape; p.Rows != nil && otherRows(was, p.shape) {
			at := len(was) - 2
			return refusal.Weights.Errorf("the weights hold %s as %v: they have learned a row for each of "+
				"%d vertices, and this graph has %d; train a new run on it, without --init", names[p.Name], was,
				was[at], p.shape[at])
		}
		values, err := floats(p.Name, p.shape)
		if err != nil {
			return err
		}
		p.take(values)
	}
	for _, b := range ps.Buffers {
		_, there := names[b.Name]
		if b.Count != nil && !there {
			*b.Count = 0
			continue
		}
		if b.Keeps && !there {
			continue
		}
		if b.Count != nil {
			v, err := take(b.Name, []int{})
			if err != nil {
				return err
			}
			if len(v.Int64) != 1 {
				return refusal.Weights.Errorf("the weights hold %s as something other than one integer",
					b.Name)
			}
			*b.Count = v.Int64[0]
			continue
		}
		values, err := floats(b.Name, b.InFiles())
		if err != nil {
			return err
		}
		copy(b.Write(), values)
	}
	for _, c := range ps.cancelled {
		if _, ok := names[c.name]; !ok {
			continue
		}
		if _, err := floats(c.name, []int{c.width}); err != nil {
			return err
		}
	}
	for _, s := range ps.shifts {
		if _, ok := names[s.Bias]; !ok {
			continue
		}
		bias, err := floats(s.Bias, []int{s.mean.Len()})
		if err != nil {
			return err
		}
		s.apply(bias, ps)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !used[name] && !ps.allowed(name) {
			return refusal.Weights.Errorf("the weights hold %s, which this model does not have%s",
				names[name], ps.otherwise(names))
		}
	}
	return nil
}

// otherwise says why a state with these names may have other tensors than the model: it belongs to other
// relations, or to other settings. Names without relations belong to a graph with one relation, or to a model
// whose relations share tensors.
func (ps *Params) otherwise(names map[string]string) string {
	var own []string
	for _, p := range ps.List {
		own = append(own, p.Name)
	}
	there, layers := relationsIn(slices.Values(own))
	here, before := relationsIn(maps.Keys(names))
	const asks = "; was the model built with the same settings, for the same relations? %s alone name%s some: %s"
	// each layer reads relations of its own
	depths := there != nil && here != nil && !slices.Equal(layers, before)
	switch {
	case depths || slices.Equal(there, here):
		return "; was the model built with the same settings?"
	case len(there) == 0:
		return fmt.Sprintf(asks, "The weights", "", refusal.List(here, 6))
	case len(here) == 0:
		return fmt.Sprintf(asks, "This model", "s", refusal.List(there, 6))
	}
	return fmt.Sprintf(": they are of the relations %s, and this graph has the relations %s: give its relations "+
		"the names of then, and leave others out", refusal.List(here, 6), refusal.List(there, 6))
}

// relationsIn returns the relations in names of parameters, such as convs.0.SOURCE__NAME__TARGET.bias, and
// the parts before them, such as convs.0. Both are sorted.
func relationsIn(names iter.Seq[string]) (relations, layers []string) {
	for name := range names {
		parts := strings.Split(name, ".")
		for i, part := range parts {
			if ends := strings.Split(part, "__"); len(ends) == 3 && !slices.Contains(ends, "") {
				relations = append(relations, part)
				layers = append(layers, strings.Join(parts[:i], "."))
			}
		}
	}
	slices.Sort(relations)
	slices.Sort(layers)
	return slices.Compact(relations), slices.Compact(layers)
}

// take sets the values to those of a file. For an embedding it takes the rows of this worker's vertices.
func (p *Param) take(values []float32) {
	if p.transposed {
		values = transpose(values, p.Value.Cols, p.Value.Rows)
	}
	if p.Rows == nil || p.Rows.Here == p.Rows.Total {
		copy(p.Value.WriteFloats(), values)
		return
	}
	to := p.Value.WriteFloats()
	columns := p.Value.Cols
	for table := range p.Tables {
		for row := range p.Rows.Here {
			from := values[(table*p.Rows.Total+p.vertex(row))*columns:]
			to = to[copy(to, from[:columns]):]
		}
	}
}

func transpose(values []float32, rows, cols int) []float32 {
	out := make([]float32, len(values))
	for r := range rows {
		for c := range cols {
			out[c*rows+r] = values[r*cols+c]
		}
	}
	return out
}
