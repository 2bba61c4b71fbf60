package graph

import (
	"regexp"

	"weft/internal/refusal"
)

// Array is further data of the vertices of a type, such as the years of papers. No model reads it. It is
// stored for the evaluation of results. It has a row for each vertex, row-major, of either integers or
// floats.
type Array struct {
	Name    string // node_ and letters, digits and underscores
	Columns int
	Ints    []int64
	Floats  []float32
}

// ArrayShape describes an Array. The store has it in the file NAME.npy.
type ArrayShape struct {
	Name    string `json:"name"`
	Dtype   string `json:"dtype"` // Int64 or Float32
	Columns int    `json:"columns"`
}

// The types of an array's elements.
const (
	Int64   = "int64"
	Float32 = "float32"
)

// arrayName matches the names of arrays. They are file names, and no other file of a store has such a name.
var arrayName = regexp.MustCompile(`^node_[A-Za-z0-9_]{1,60}$`)

// IsArrayName reports whether an Array may have this name.
func IsArrayName(name string) bool { return arrayName.MatchString(name) }

func describeArrays(all []Array) (d []ArrayShape) {
	for _, a := range all {
		dtype := Float32
		if a.Ints != nil {
			dtype = Int64
		}
		d = append(d, ArrayShape{a.Name, dtype, a.Columns})
	}
	return d
}

func checkArrayShapes(all []ArrayShape) error {
	seen := make(map[string]bool, len(all))
	for _, a := range all {
		if !IsArrayName(a.Name) || a.Columns < 1 || a.Dtype != Int64 && a.Dtype != Float32 {
			return refusal.Errorf("array %.70q of %.20q with %d columns is not possible", a.Name, a.Dtype,
				a.Columns)
		}
		if seen[a.Name] {
			return refusal.Errorf("two arrays are called %q", a.Name)
		}
		seen[a.Name] = true
	}
	return nil
}

// checkArrays checks the arrays of so many vertices.
func checkArrays(all []Array, vertices int) error {
	if err := checkArrayShapes(describeArrays(all)); err != nil {
		return err
	}
	for _, a := range all {
		if a.Ints != nil && a.Floats != nil || !fills(len(a.Ints)+len(a.Floats), vertices, a.Columns) {
			return flawf(a.Name+".npy", "%d integers and %d floats for %d vertices × %d columns", len(a.Ints),
				len(a.Floats), vertices, a.Columns)
		}
	}
	return nil
}

// described are Arrays whose rows have not been read.
func described(d []ArrayShape) (all []Array) {
	for _, a := range d {
		all = append(all, Array{Name: a.Name, Columns: a.Columns})
	}
	return all
}

// gatherArrays returns the rows ids of each array.
func gatherArrays(all []Array, ids []int32) (picked []Array) {
	for _, a := range all {
		picked = append(picked, Array{
			a.Name, a.Columns, gather(a.Ints, a.Columns, ids),
			gather(a.Floats, a.Columns, ids),
		})
	}
	return picked
}
