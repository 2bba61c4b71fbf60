// Package arrays turns the arrays that foreign files hold into the parts of a graph: features, labels and splits. It checks
// them on the way, so that every reader refuses the same things in the same words. An error says what is wrong with the array;
// the caller puts the name of the file, or of the array in it, in front.
package arrays

import (
	"math"
	"slices"

	"weft/graph"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// MaxVertices bounds the number of vertices that a file may claim, for its number of edges: an isolated vertex costs a file
// nothing and the graph eight bytes or more, so that a short file must not name billions of them.
func MaxVertices(edges int) int64 { return min(math.MaxInt32, 1<<20+64*int64(edges)) }

// Dense makes features of a V × F matrix.
func Dense(a *npy.Array) (graph.Features, error) {
	if len(a.Shape) != 2 {
		return graph.Features{}, refusal.Errorf("features of shape %v: give a matrix, one row per vertex", a.Shape)
	}
	values, err := a.Float32s()
	if err != nil {
		return graph.Features{}, err
	}
	if k := notFinite(values); k >= 0 {
		return graph.Features{}, refusal.Errorf("feature %d of vertex %d is %v: replace values that are not finite",
			k%a.Shape[1], k/a.Shape[1], values[k])
	}
	if a.Shape[1] == 0 {
		return graph.Features{}, nil
	}
	return graph.Features{Columns: a.Shape[1], Dense: values}, nil
}

// notFinite is the position of the first value that is NaN or infinite, −1 if there is none.
func notFinite(values []float32) int {
	return slices.IndexFunc(values, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) })
}

// Labels makes labels of one class id per vertex (integers, −1 where unlabelled), or of a 0/1 matrix V × C (integers,
// booleans or floats, a row of NaN where unlabelled).
func Labels(a *npy.Array) (graph.Labels, error) {
	switch len(a.Shape) {
	case 1:
		ids, err := a.Int64s()
		if err != nil {
			return graph.Labels{}, err
		}
		return Classes(ids)
	case 2:
		return multi(a)
	}
	return graph.Labels{}, refusal.Errorf("labels of shape %v: give a vector of class ids or a 0/1 matrix, one row per vertex", a.Shape)
}

// Classes makes labels of one class id per vertex. The number of classes is the largest id plus one; ids that exceed the
// number of vertices are taken for something else than classes.
func Classes(ids []int64) (graph.Labels, error) {
	classes := 0
	for v, c := range ids {
		if c < -1 || c >= int64(len(ids)) {
			return graph.Labels{}, refusal.Errorf("label %d of vertex %d: classes run from 0 (-1: none), fewer than the %d vertices",
				c, v, len(ids))
		}
		classes = max(classes, int(c)+1)
	}
	if classes == 0 {
		return graph.Labels{}, nil
	}
	return graph.Labels{Classes: classes, Class: ids}, nil
}

// multi makes labels of a 0/1 matrix.
func multi(a *npy.Array) (graph.Labels, error) {
	values, err := a.Float32s()
	if err != nil {
		return graph.Labels{}, err
	}
	classes := a.Shape[1]
	if classes == 0 {
		return graph.Labels{}, refusal.Errorf("labels of shape %v have no class", a.Shape)
	}
	for v := range a.Shape[0] {
		row := values[v*classes : (v+1)*classes]
		unlabelled := math.IsNaN(float64(row[0]))
		for c, x := range row {
			if math.IsNaN(float64(x)) != unlabelled || !unlabelled && x != 0 && x != 1 {
				return graph.Labels{}, refusal.Errorf("label %v of vertex %d, class %d: labels are 0 and 1, or a row of NaN", x, v, c)
			}
		}
	}
	return graph.Labels{Classes: classes, Multi: values}, nil
}

// Vertices takes one part of a split out of a vector: the ids of its vertices, ascending afterwards, or one truth value per
// vertex where the vector holds booleans.
func Vertices(a *npy.Array, vertices int) ([]int64, error) {
	if len(a.Shape) != 1 {
		return nil, refusal.Errorf("vertices of shape %v: give a vector of ids, or of one truth value per vertex", a.Shape)
	}
	if a.Descr == "|b1" {
		marks, err := a.Bools()
		if err != nil {
			return nil, err
		}
		if len(marks) != vertices {
			return nil, refusal.Errorf("%d truth values for %d vertices", len(marks), vertices)
		}
		return Marked(marks), nil
	}
	ids, err := a.Int64s()
	if err != nil {
		return nil, err
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for k, v := range ids {
		if v < 0 || v >= int64(vertices) {
			return nil, refusal.Errorf("vertex %d is out of the range of %d vertices", v, vertices)
		}
		if k > 0 && ids[k-1] == v {
			return nil, refusal.Errorf("vertex %d is given twice", v)
		}
	}
	return ids, nil
}

// Marked lists the positions that are true.
func Marked(marks []bool) []int64 {
	ids := []int64{}
	for v, marked := range marks {
		if marked {
			ids = append(ids, int64(v))
		}
	}
	return ids
}
