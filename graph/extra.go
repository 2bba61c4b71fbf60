package graph

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"weft/internal/refusal"
)

// Array is a matrix of a vertex type that no model reads, such as the years of papers: it is kept for whoever
// evaluates results. It has a row for each vertex, row-major, of integers or of floats, never both.
type Array struct {
	Name    string // node_ and letters, digits and underscores
	Columns int
	Ints    []int64
	Floats  []float32
}

// arrayDescription is an array of a vertex type, which lies in a file of its name.
type arrayDescription struct {
	Name    string `json:"name"`
	Dtype   string `json:"dtype"` // int64 or float32
	Columns int    `json:"columns"`
}

// arrayName is what an array may be called: the name is that of a file, and of none that a store has besides.
var arrayName = regexp.MustCompile(`^node_[A-Za-z0-9_]{1,60}$`)

// IsArrayName reports whether an array may be called so.
func IsArrayName(name string) bool { return arrayName.MatchString(name) }

func arrayFileName(name string) string { return name + ".npy" }

func describeArrays(all []Array) (d []arrayDescription) {
	for _, a := range all {
		dtype := "float32"
		if a.Ints != nil {
			dtype = "int64"
		}
		d = append(d, arrayDescription{a.Name, dtype, a.Columns})
	}
	return d
}

func checkArrayDescriptions(all []arrayDescription) error {
	for k, a := range all {
		if !IsArrayName(a.Name) || a.Columns < 1 || a.Dtype != "int64" && a.Dtype != "float32" {
			return refusal.Errorf("array %.70q of %.20q with %d columns is not possible", a.Name, a.Dtype, a.Columns)
		}
		if slices.ContainsFunc(all[:k], func(b arrayDescription) bool { return a.Name == b.Name }) {
			return refusal.Errorf("two arrays are called %q", a.Name)
		}
	}
	return nil
}

// checkArrays checks the arrays of so many vertices.
func checkArrays(all []Array, vertices int) error {
	if err := checkArrayDescriptions(describeArrays(all)); err != nil {
		return err
	}
	for _, a := range all {
		if a.Ints != nil && a.Floats != nil || !fills(len(a.Ints)+len(a.Floats), vertices, a.Columns) {
			return flawf(arrayFileName(a.Name), "%d integers and %d floats for %d vertices × %d columns", len(a.Ints), len(a.Floats), vertices, a.Columns)
		}
	}
	return nil
}

// readArrays maps the arrays of so many vertices, which lie in dir.
func readArrays(m *mappings, dir string, d []arrayDescription, vertices int) (all []Array, err error) {
	for _, each := range d {
		a := Array{Name: each.Name, Columns: each.Columns}
		if each.Dtype == "int64" {
			a.Ints, err = m.int64s(dir, arrayFileName(a.Name), vertices, a.Columns)
		} else {
			a.Floats, err = m.float32s(dir, arrayFileName(a.Name), vertices, a.Columns)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// arrays writes the arrays of a vertex type.
func (s *staging) arrays(all []Array, vertices int) {
	for _, a := range all {
		if a.Ints != nil {
			s.int64s(arrayFileName(a.Name), a.Ints, vertices, a.Columns)
		} else {
			s.float32s(arrayFileName(a.Name), a.Floats, vertices, a.Columns)
		}
	}
}

// gatherArrays picks the rows ids.
func gatherArrays(all []Array, ids []int32) (picked []Array) {
	for _, a := range all {
		picked = append(picked, Array{a.Name, a.Columns, gather(a.Ints, a.Columns, ids), gather(a.Floats, a.Columns, ids)})
	}
	return picked
}

// arrayBytes is what arrays take.
func arrayBytes(all []Array) (bytes int) {
	for _, a := range all {
		bytes += 8*len(a.Ints) + 4*len(a.Floats)
	}
	return bytes
}

// AddArray writes an array of the vertices, at once.
func (w *Writer) AddArray(a Array) error {
	described := append(slices.Clip(w.arrays), describeArrays([]Array{a})...)
	if err := cmp.Or(checkArrayDescriptions(described), checkArrays([]Array{a}, w.shape.Vertices)); err != nil {
		return fmt.Errorf("%s: %w", w.s.name, err)
	}
	w.s.arrays([]Array{a}, w.shape.Vertices)
	w.arrays = described
	return w.s.failure()
}

// arrayFiles are the files of arrays in the directory of their type.
func arrayFiles(dir string, d []arrayDescription) (files []string) {
	for _, a := range d {
		files = append(files, filepath.Join(dir, arrayFileName(a.Name)))
	}
	return files
}
