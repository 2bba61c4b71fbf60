package ogb

import (
	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// arrayName returns what an array of vertices besides features and labels is called in a store, "" for what
// is none. The species of proteins are published under their name alone.
func arrayName(name string) string {
	switch {
	case name == "species":
		return "node_species"
	case graph.IsArrayName(name):
		return name
	}
	return ""
}

// newArray finds out what an array of so many vertices is: of integers, if all values are.
func newArray(name string, vertices int, open func() (matrix, error)) (streamed.Array, error) {
	a := streamed.Array{ArrayShape: graph.ArrayShape{Name: name, Dtype: graph.Int64}}
	pass := func(do func(m *whole) error) error {
		m, err := open()
		if err != nil {
			return err
		}
		defer m.close()
		return do(&whole{matrix: m, want: int64(vertices)})
	}
	a.Each = func(do func(rows []float32) error) error {
		return pass(func(m *whole) error { return m.each(do) })
	}
	return a, pass(func(m *whole) error {
		a.Columns = m.width()
		return m.each(func(rows []float32) error {
			for _, x := range rows {
				if _, whole := arrays.Whole(x); !whole {
					a.Dtype = graph.Float32
				}
			}
			return nil
		})
	})
}

// arrays are those of vertices besides features and labels.
func (f *folder) arrays() (all []streamed.Array, err error) {
	for _, name := range f.more() {
		if arrayName(name) == "" {
			continue
		}
		a, err := newArray(arrayName(name), f.counts.vertices, func() (matrix, error) { return f.matrix(name) })
		if err != nil {
			return nil, refusal.Errorf("%w (%s may be left out of the folder)", err, name)
		}
		all = append(all, a)
	}
	return all, nil
}
