package graph

import (
	"fmt"
	"math"
	"slices"
)

// Renumber numbers the classes of the labels by their names in names, the classes that a model has learned.
// Rows of other classes count as unlabelled, and leave all splits. A label that is not learned is left out. A
// learned label that the frame lacks is missing (NaN) for each row. Renumber returns the names that were not
// learned. The old arrays stay as they are: the labels and splits are new. If either side has no names, it
// changes nothing.
func (f *Frame) Renumber(names []string) (unknown []string) {
	l := &f.Labels
	if l.Names == nil || names == nil || slices.Equal(l.Names, names) {
		return nil
	}
	number := make(map[string]int64, len(names))
	for k, name := range names {
		number[name] = int64(k)
	}
	to := make([]int64, len(l.Names)) // −1: not learned
	for k, name := range l.Names {
		var known bool
		to[k], known = number[name]
		if !known {
			to[k] = -1
			unknown = append(unknown, name)
		}
	}
	if l.MultiLabel() {
		l.Multi = moved(l.Multi, to, len(names))
	} else {
		l.Class = renumbered(l.Class, to)
	}
	l.Classes, l.Names = len(names), names
	if unknown != nil {
		f.Splits = labelled(f.Splits, l)
	}
	return unknown
}

func renumbered(class, to []int64) []int64 {
	made := slices.Clone(class)
	for v, k := range made {
		if k >= 0 {
			made[v] = to[k]
		}
	}
	return made
}

// moved puts column k of a matrix into column to[k] of a matrix with columns columns. The others are NaN.
func moved(matrix []float32, to []int64, columns int) []float32 {
	made := slices.Repeat([]float32{float32(math.NaN())}, len(matrix)/len(to)*columns)
	for i, x := range matrix {
		if column := to[i%len(to)]; column >= 0 {
			made[i/len(to)*columns+int(column)] = x
		}
	}
	return made
}

// labelled returns the splits without the rows that have no label.
func labelled(splits []Split, l *Labels) []Split {
	made := slices.Clone(splits)
	for s := range made {
		for _, part := range made[s].Parts() {
			*part = slices.DeleteFunc(slices.Clone(*part), func(v int64) bool { return !l.Labelled(v) })
		}
	}
	return made
}

// Doubt says what about the labels is probably a mistake; "": nothing is.
func (l *Labels) Doubt() string {
	switch {
	case l.oneHot():
		return fmt.Sprintf("each vertex has just one of the %d labels, and each label is learned for itself; "+
			"if they are classes, give the class of each vertex, as labels.argmax(1)", l.Classes)
	case l.Names != nil || l.Class == nil:
		return ""
	}
	there := make([]bool, l.Classes)
	n := 0
	for _, class := range l.Class {
		if class >= 0 && !there[class] {
			there[class] = true
			n++
		}
	}
	if n == 0 || there[0] && 2*n >= l.Classes {
		return ""
	}
	return fmt.Sprintf("the largest class id is %d, so that the model learns the %d classes from 0 on, and only %d "+
		"of them have a vertex; number these from 0 to %d, as numpy.unique(labels, return_inverse=True)[1] does",
		l.Classes-1, l.Classes, n, n-1)
}

// oneHot reports whether there are at least two labels, and each vertex with labels has exactly one.
func (l *Labels) oneHot() bool {
	found := false
	for row := range slices.Chunk(l.Multi, max(1, l.Classes)) {
		sum := float32(0)
		for _, x := range row {
			sum += x
		}
		if sum != 1 && sum == sum { // NaN: a label is missing
			return false
		}
		found = found || sum == 1
	}
	return found && l.Classes > 1
}
