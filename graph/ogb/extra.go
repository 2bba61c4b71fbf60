package ogb

import (
	"math"

	"weft/graph"
	"weft/internal/refusal"
)

// arrayName is what an array of vertices besides features and labels is called in a store, "" for what is
// none. The species of proteins are published under their name alone.
func arrayName(name string) string {
	switch {
	case name == "species":
		return "node_species"
	case graph.IsArrayName(name):
		return name
	}
	return ""
}

// eachArray calls do with the arrays of vertices besides features and labels.
func (f *folder) eachArray(do func(graph.Array) error) error {
	for _, name := range f.more() {
		if arrayName(name) == "" {
			continue
		}
		a, err := readArray(arrayName(name), f.counts.vertices, func() (matrix, error) { return f.matrix(name) })
		if err != nil {
			return refusal.Errorf("%w (%s may be left out of the folder)", err, name)
		}
		if err := do(a); err != nil {
			return err
		}
	}
	return nil
}

// readArray reads an array of so many vertices, which it opens twice: of integers, if all values are.
func readArray(name string, vertices int, open func() (matrix, error)) (a graph.Array, err error) {
	a.Name = name
	integers := true
	pass := func(do func(m *whole) error) error {
		m, err := open()
		if err != nil {
			return err
		}
		defer m.close()
		a.Columns = m.width()
		return do(&whole{matrix: m, want: int64(vertices)})
	}
	err = pass(func(m *whole) error {
		return m.each(func(rows []float32) error {
			for _, x := range rows {
				const exact = 1 << 24 // float32 holds the integers up to it
				integers = integers && float64(x) == math.Trunc(float64(x)) && x > -exact && x < exact
			}
			return nil
		})
	})
	if err != nil {
		return a, err
	}
	return a, pass(func(m *whole) (err error) {
		if !integers {
			a.Floats, err = m.collect()
			return err
		}
		return m.each(func(rows []float32) error {
			if a.Ints, err = grow(a.Ints, len(rows), m.want*int64(m.width())); err != nil {
				return refusal.Errorf("%s: %w", m.where(m.at), err)
			}
			for _, x := range rows {
				a.Ints = append(a.Ints, int64(x))
			}
			return nil
		})
	})
}
