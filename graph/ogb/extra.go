package ogb

import (
	"weft/graph"
	"weft/graph/internal/arrays"
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

// nodeArray is an array of vertices besides features and labels.
type nodeArray struct {
	graph.ArrayShape
	vertices int
	open     func() (matrix, error)
}

// newArray reads what an array of so many vertices is: of integers, if all values are.
func newArray(name string, vertices int, open func() (matrix, error)) (*nodeArray, error) {
	a := &nodeArray{graph.ArrayShape{Name: name, Dtype: graph.Int64}, vertices, open}
	err := a.pass(func(m *whole) error {
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
	return a, err
}

// pass reads the array once.
func (a *nodeArray) pass(do func(m *whole) error) error {
	m, err := a.open()
	if err != nil {
		return err
	}
	defer m.close()
	return do(&whole{matrix: m, want: int64(a.vertices)})
}

// write writes the array into a store.
func (a *nodeArray) write(w *graph.Writer) error {
	to, err := w.AddArray(a.ArrayShape)
	if err != nil {
		return err
	}
	if err := a.pass(func(m *whole) error { return m.each(to.Append) }); err != nil {
		return err
	}
	return to.Close()
}

// read reads the array into memory.
func (a *nodeArray) read() (made graph.Array, err error) {
	made.Name, made.Columns = a.Name, a.Columns
	err = a.pass(func(m *whole) (err error) {
		if a.Dtype == graph.Float32 {
			made.Floats, err = m.collect()
			return err
		}
		return m.each(func(rows []float32) error {
			if made.Ints, err = grow(made.Ints, len(rows), m.want*int64(m.width())); err != nil {
				return refusal.Errorf("%s: %w", m.where(m.at), err)
			}
			for _, x := range rows {
				made.Ints = append(made.Ints, int64(x))
			}
			return nil
		})
	})
	return made, err
}

// eachArray calls do with the arrays of vertices besides features and labels.
func (f *folder) eachArray(do func(*nodeArray) error) error {
	for _, name := range f.more() {
		if arrayName(name) == "" {
			continue
		}
		a, err := newArray(arrayName(name), f.counts.vertices, func() (matrix, error) { return f.matrix(name) })
		if err != nil {
			return refusal.Errorf("%w (%s may be left out of the folder)", err, name)
		}
		if err := do(a); err != nil {
			return err
		}
	}
	return nil
}
