// Package arrays turns the arrays that foreign files hold into the parts of a graph: features, labels and
// splits. It checks them on the way, so that every reader refuses the same things in the same words. An error
// says what is wrong with the array; the caller puts the name of the file, or of the array in it, in front.
package arrays

import (
	"fmt"
	"math"
	"slices"

	"weft/graph"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Counted is a number of things, as "1 edge" and "2 edges", for notes.
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// MaxVertices bounds the number of vertices that a file may claim, by its number of edges. An isolated vertex
// costs a file nothing and the graph eight bytes or more, so a short file must not name billions of them.
func MaxVertices(edges int) int64 { return min(math.MaxInt32, MaxClaims(edges)) }

// MaxClaims is MaxVertices for a file with types, where a vertex counts once for each relation that joins its
// type, as each has a row for it. stored is the number of edges, and of rows of features or labels, that
// the file has.
func MaxClaims(stored int) int64 { return 1<<20 + 64*int64(stored) }

// WholeLabels is Labels for a file whose class ids may be floats: whole numbers, or NaN where unlabelled.
// Floats that are no class ids are values to predict. There are fewer classes than vertices, which counts the
// vertices of all graphs with the same classes.
func WholeLabels(a *npy.Array, vertices int) (graph.Labels, error) {
	return wholeLabels(a, vertices, graph.VertexNoun)
}

func wholeLabels(a *npy.Array, most int, row graph.Noun) (graph.Labels, error) {
	if width(a.Shape) != 1 {
		return Labels(a, row)
	}
	if !a.Floats() {
		ids, err := a.Int64s()
		if err != nil {
			return graph.Labels{}, err
		}
		return Classes(ids, most, row)
	}
	all, err := a.Float64s()
	if err != nil {
		return graph.Labels{}, err
	}
	noClass := func(x float64) bool {
		return x != math.Trunc(x) && x == x || x < -1 || x >= float64(most)
	}
	if slices.ContainsFunc(all, noClass) {
		return continuous(a, row)
	}
	ids, err := WholeNumbers(a, row)
	if err != nil {
		return graph.Labels{}, err
	}
	return Classes(ids, most, row)
}

// ValuesOrClasses is WholeLabels for edges, whose floats are values to predict, such as ratings, unless all
// are 0 or 1.
func ValuesOrClasses(a *npy.Array, edges int) (graph.Labels, error) {
	if width(a.Shape) == 1 && a.Floats() {
		all, err := a.Float64s()
		if err != nil {
			return graph.Labels{}, err
		}
		if slices.ContainsFunc(all, func(x float64) bool { return x == x && x != 0 && x != 1 }) {
			return continuous(a, graph.EdgeNoun)
		}
	}
	return wholeLabels(a, edges, graph.EdgeNoun)
}

// width returns the number of columns of a matrix with a row for each vertex, 1 for a vector, and 0 for
// another shape.
func width(shape []int) int {
	switch len(shape) {
	case 1:
		return 1
	case 2:
		return shape[1]
	}
	return 0
}

// WholeNumbers are class ids from integers or from whole floats; NaN becomes −1.
func WholeNumbers(a *npy.Array, row graph.Noun) ([]int64, error) {
	if !a.Floats() {
		return a.Int64s()
	}
	values, err := a.Float64s()
	if err != nil {
		return nil, err
	}
	if err := memory.Need(8 * int64(len(values))); err != nil {
		return nil, err
	}
	ids := make([]int64, len(values))
	for v, x := range values {
		id, whole := Whole(float32(x))
		switch {
		case math.IsNaN(x):
			id = -1
		case !whole || float64(id) != x:
			return nil, refusal.Errorf("label %v of %s %d: classes are whole numbers (-1 or NaN: none)", x, row.One, v)
		}
		ids[v] = id
	}
	return ids, nil
}

// Whole returns the integer that a value is. ok is false for any other value, and where float32 no longer has
// every integer.
func Whole(x float32) (n int64, ok bool) {
	const exact = 1 << 24
	if !(-exact < x && x < exact) { // NaN fails both comparisons
		return 0, false
	}
	n = int64(x)
	return n, float32(n) == x
}

// Labels makes labels from one class id per row (a vector or one column of integers, −1 where unlabelled),
// from a 0/1 matrix V × C (integers, booleans or floats, NaN for a missing label), or from values to predict:
// a vector of floats, or a matrix of floats that are not all 0 and 1, NaN for a missing value.
func Labels(a *npy.Array, row graph.Noun) (graph.Labels, error) {
	switch n := width(a.Shape); {
	case n == 0 && len(a.Shape) != 2:
		return graph.Labels{}, refusal.Errorf("labels of shape %v: give a vector of class ids, a 0/1 "+
			"matrix or values, one row per %s", a.Shape, row.One)
	case n == 1 && a.Floats(): // also a column, as of the Open Graph Benchmark
		return continuous(a, row)
	case n == 1:
		ids, err := a.Int64s()
		if err != nil {
			return graph.Labels{}, err
		}
		return Classes(ids, len(ids), row)
	}
	return multi(a, row)
}

// continuous makes labels of values to predict.
func continuous(a *npy.Array, row graph.Noun) (graph.Labels, error) {
	if width(a.Shape) == 0 {
		return graph.Labels{},
			refusal.Errorf("labels of shape %v: give values to predict, one row per %s", a.Shape, row.One)
	}
	rows, err := a.Float32s()
	if err != nil {
		return graph.Labels{}, err
	}
	columns := width(a.Shape)
	there := false
	for k, x := range rows {
		if math.IsInf(float64(x), 0) {
			return graph.Labels{}, refusal.Errorf("label %v of %s %d: values to predict are finite "+
				"float32, or NaN where missing", x, row.One, k/columns)
		}
		there = there || x == x
	}
	if !there {
		return graph.Labels{}, nil
	}
	return graph.Labels{Columns: columns, Values: rows}, nil
}

// Classes makes labels from one class id per row. The number of classes is the largest id plus one. Ids that
// exceed the number of rows are not taken for classes.
func Classes(ids []int64, rows int, row graph.Noun) (graph.Labels, error) {
	classes := 0
	for v, c := range ids {
		if c < -1 || c >= int64(rows) {
			return graph.Labels{}, refusal.Errorf("label %d of %s %d: classes run from 0 (-1: none), fewer than the "+
				"%d %s; save values to predict as floats, by numpy.save", c, row.One, v, rows, row.Many)
		}
		classes = max(classes, int(c)+1)
	}
	if classes == 0 {
		return graph.Labels{}, nil
	}
	return graph.Labels{Classes: classes, Class: ids}, nil
}

// multi makes labels from a 0/1 matrix, or from any other matrix of floats.
func multi(a *npy.Array, row graph.Noun) (graph.Labels, error) {
	labels, err := a.Float32s()
	if err != nil {
		return graph.Labels{}, err
	}
	classes := a.Shape[1]
	if classes == 0 {
		return graph.Labels{}, refusal.Errorf("labels of shape %v have no class", a.Shape)
	}
	switch k := NoLabel(labels); {
	case k >= 0 && a.Floats():
		return continuous(a, row)
	case k >= 0:
		return graph.Labels{}, refusal.Errorf("label %v of %s %d, class %d: labels of several classes "+
			"are 0 and 1; save values to predict as floats", labels[k], row.One, k/classes, k%classes)
	}
	return graph.Labels{Classes: classes, Multi: labels}, nil
}

// NoLabel returns the position of the first value that rows of several labels cannot have: they have 0 and 1,
// and NaN for a missing label. It returns −1 if there is none.
func NoLabel(values []float32) int {
	return slices.IndexFunc(values, func(x float32) bool { return x == x && x != 0 && x != 1 })
}

// Parts reads one part of every split from an array: a vector has one split, a matrix several (see Masks).
// Each list ascends.
func Parts(a *npy.Array, vertices int) ([][]int64, error) { return PartsFrom(a, 0, vertices) }

// PartsFrom is Parts where ids count from first.
func PartsFrom(a *npy.Array, first, vertices int) ([][]int64, error) {
	if len(a.Shape) == 2 {
		return Masks(a, vertices, graph.VertexNoun)
	}
	ids, err := List(a, first, vertices)
	slices.Sort(ids)
	return [][]int64{ids}, err
}

// List reads a list of vertices from a vector. The vector has ids, which count from first, each once, in an
// order that stays. Or it is a mask: booleans, or one byte 0 or 1 for each vertex. Errors count entries from
// 1.
func List(a *npy.Array, first, vertices int) ([]int64, error) {
	if len(a.Shape) != 1 {
		return nil, refusal.Errorf("vertices of shape %v: give a vector of ids, or of one truth value per "+
			"vertex", a.Shape)
	}
	if a.Descr == "|b1" || mask(a, vertices) {
		marks, err := a.Bools()
		if err != nil {
			return nil, err
		}
		if len(marks) != vertices {
			return nil, refusal.Errorf("%d truth values for %d vertices: give one for each", len(marks),
				vertices)
		}
		return marked(marks, vertices, 1)
	}
	ids, err := a.Int64s()
	if err != nil {
		return nil, err
	}
	for k, v := range ids {
		if v < int64(first) || v-int64(first) >= int64(vertices) {
			way := "give ids below, or a mask of booleans"
			if first > 0 {
				way = fmt.Sprintf("give ids from %d to %d, or a mask of booleans", first, first+vertices-1)
			}
			if v == -1 { // text without a number reads as −1
				way = "leave empty lines out, and " + way
			}
			return nil, refusal.Errorf("entry %d: vertex %d is out of the range of %d vertices: %s", k+1, v,
				vertices, way)
		}
	}
	if err := memory.Need(16 * int64(len(ids))); err != nil {
		return nil, err
	}
	sorted := slices.Sorted(slices.Values(ids))
	for k, v := range sorted {
		if k > 0 && sorted[k-1] == v {
			before := slices.Index(ids, v)
			again := before + 1 + slices.Index(ids[before+1:], v)
			return nil, refusal.Errorf("entry %d: vertex %d is given twice, first by entry %d: give each "+
				"id once; save a mask with .astype(bool)", again+1, v, before+1)
		}
	}
	list := slices.Clone(ids)
	for k := range list {
		list[k] -= int64(first)
	}
	return list, nil
}

// mask reports whether bytes are one truth value per vertex, and not ids.
func mask(a *npy.Array, vertices int) bool {
	if (a.Descr != "|u1" && a.Descr != "|i1") || a.Shape[0] != vertices {
		return false
	}
	_, err := a.Bools()
	return err == nil
}

// CheckSplit checks that the parts of a split, which ascend within the rows, are disjoint and, if there are
// labels, labelled. names are the names of the arrays of training, validation and test rows.
func CheckSplit(s *graph.Split, l *graph.Labels, names [3]string) error {
	parts, largest := [][]int64{s.Train, s.Val, s.Test}, int64(-1)
	for _, ids := range parts {
		if len(ids) > 0 {
			largest = max(largest, ids[len(ids)-1]) // they ascend
		}
	}
	if err := memory.Need(largest + 1); err != nil {
		return err
	}
	in := make([]byte, largest+1) // by row: 1 plus the number of its part, or 0
	for part, ids := range parts {
		for _, v := range ids {
			if in[v] != 0 {
				return partError{names[part], refusal.Errorf("%s %d is also in %s: leave it in one of them",
					l.Noun().One, v, names[in[v]-1])}
			}
			in[v] = 1 + byte(part)
			if l.There() && !l.Labelled(v) {
				return partError{names[part], refusal.Errorf("%s %d has no label: leave it out of the split, or "+
					"give it a label", l.Noun().One, v)}
			}
		}
	}
	return nil
}

// Masks reads one part of every split from a mask: a truth value for each row, or rows × splits. Each list
// ascends.
func Masks(a *npy.Array, rows int, row graph.Noun) ([][]int64, error) {
	if n := len(a.Shape); n < 1 || n > 2 || a.Shape[0] != rows || rows == 0 {
		return nil, refusal.Errorf("has shape %v: a mask has %d values, true for the %s of its part, or "+
			"a row of one per split for each %s", a.Shape, rows, row.Many, row.One)
	}
	splits := width(a.Shape)
	return masks(a, rows, splits, 1, splits)
}

// MaskRows is Masks for a mask of V truth values, or of splits × V.
func MaskRows(a *npy.Array, rows int, row graph.Noun) ([][]int64, error) {
	n := len(a.Shape)
	if n < 1 || n > 2 || a.Shape[n-1] != rows {
		return nil, refusal.Errorf("has shape %v: a mask has a row per split, with %d values, true for the %s of "+
			"its part", a.Shape, rows, row.Many)
	}
	splits := 1
	if n == 2 {
		splits = a.Shape[0]
	}
	return masks(a, rows, splits, rows, 1)
}

// masks separates the truth values of splits splits. Those of two splits are apart from each other, and
// within a split those of two vertices are step from each other.
func masks(a *npy.Array, vertices, splits, apart, step int) ([][]int64, error) {
	marks, err := a.Bools()
	if err != nil {
		return nil, err
	}
	if splits > graph.MaxSplits {
		return nil, refusal.Errorf("masks of %d splits: at most %d are read", splits, graph.MaxSplits)
	}
	lists := make([][]int64, splits)
	for k := range lists {
		if lists[k], err = marked(marks[k*apart:], vertices, step); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// marked lists which of n marks are true, each a step behind the one before.
func marked(marks []bool, n, step int) ([]int64, error) {
	count := 0
	for k := range n {
		if marks[k*step] {
			count++
		}
	}
	if err := memory.Need(8 * int64(count)); err != nil {
		return nil, err
	}
	ids := make([]int64, 0, count)
	for k := range n {
		if marks[k*step] {
			ids = append(ids, int64(k))
		}
	}
	return ids, nil
}
