package graph

import (
	"math"
	"slices"
)

// What a graph's labels and splits must be.

// maxClasses bounds the number of classes of a graph with so many vertices. No array of a store confirms the
// number, and memory is allocated by it.
func maxClasses(vertices int) int { return max(vertices, 1024) }

func (l *Labels) check(vertices, most int, d depth) error {
	switch {
	case l.Classes < 0 || l.Classes > most:
		return flawf(labelsFile, "%d classes, where 0 to %d are possible", l.Classes, most)
	case l.Names != nil && len(l.Names) != l.Classes:
		return flawf(classNamesFile, "%d names for %d classes", len(l.Names), l.Classes)
	case l.Class != nil && l.Multi != nil:
		return flawf(labelsFile, "the labels are both one class and several per vertex")
	case l.Values != nil || l.Columns != 0:
		return l.checkValues(vertices, most, d)
	case l.MultiLabel():
		return l.checkMulti(vertices, d)
	case l.Class == nil && d == announced:
		return nil
	case l.Class == nil && l.Classes > 0:
		return flawf(labelsFile, "%d classes but no labels", l.Classes)
	case l.Class != nil && len(l.Class) != vertices:
		return flawf(labelsFile, "%d labels for %d vertices", len(l.Class), vertices)
	}
	return checkClasses(0, l.Class, l.Classes)
}

// checkClasses checks labels. The first label belongs to vertex first.
func checkClasses(first int, class []int64, classes int) error {
	for k, c := range class {
		if c < -1 || c >= int64(classes) {
			return flawf(labelsFile, "vertex %d has class %d; classes are 0 to %d, and −1 means none",
				first+k, c, classes-1)
		}
	}
	return nil
}

// checkMulti checks labels of vertices that may have several.
func (l *Labels) checkMulti(vertices int, d depth) error {
	if l.Classes == 0 || !fills(len(l.Multi), vertices, l.Classes) {
		return flawf(labelsFile, "%d values for %d vertices × %d classes", len(l.Multi), vertices, l.Classes)
	}
	if d == indices {
		return nil
	}
	for k, x := range l.Multi {
		if x == x && x != 0 && x != 1 {
			return flawf(labelsFile, "vertex %d has the value %v for class %d; a row is 0 and 1, and NaN "+
				"where a label is missing",
				k/l.Classes, x, k%l.Classes)
		}
	}
	return nil
}

// checkValues checks values to predict.
func (l *Labels) checkValues(vertices, most int, d depth) error {
	switch {
	case l.Classes != 0 || l.Class != nil || l.Multi != nil:
		return flawf(labelsFile, "the labels are both values and classes")
	case l.Columns < 1 || l.Columns > most:
		return flawf(labelsFile, "%d columns of values, where 1 to %d are possible", l.Columns, most)
	case !fills(len(l.Values), vertices, l.Columns):
		return flawf(labelsFile, "%d values for %d vertices × %d columns", len(l.Values), vertices, l.Columns)
	case d == indices:
		return nil
	}
	for k, x := range l.Values {
		if math.IsInf(float64(x), 0) {
			return flawf(labelsFile, "vertex %d has the value %v in column %d; values are finite, and NaN "+
				"where one is missing",
				k/l.Columns, x, k%l.Columns)
		}
	}
	return nil
}

// Labelled reports whether vertex v has a label, or at least one of several labels or values.
func (l *Labels) Labelled(v int64) bool {
	if l.Class != nil {
		return l.Class[v] >= 0
	}
	rows, columns := l.rows()
	there := func(x float32) bool { return x == x } // not NaN
	return rows != nil && slices.ContainsFunc(rows[v*int64(columns):(v+1)*int64(columns)], there)
}

// checkSplits checks that the parts of each split are disjoint and, in a graph with labels, labelled.
func checkSplits(splits []Split, vertices int, labels *Labels) error {
	for s := range splits {
		parts := splits[s].Parts()
		for p := range parts {
			ids := *parts[p]
			if k := firstMisplaced(ids, int64(vertices), 1); k >= 0 {
				return flawf(splitFiles[p], "split %d: %s", s, misplaced(ids, k, int64(vertices)))
			}
			for _, v := range ids {
				if labels.There() && !labels.Labelled(v) {
					return flawf(splitFiles[p], "split %d: vertex %d has no label", s, v)
				}
			}
		}
		for p := range parts {
			q := (p + 1) % 3
			if v, both := common(*parts[p], *parts[q]); both {
				return flawf(splitFiles[q], "split %d: vertex %d is also in %s", s, v, splitFiles[p])
			}
		}
	}
	return nil
}

// common returns an id that is in both ascending lists.
func common(a, b []int64) (id int64, found bool) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			return a[0], true
		}
	}
	return 0, false
}

func checkMetric(metric string) error {
	switch metric {
	case "", "accuracy", "roc-auc", "micro-f1", "macro-f1":
		return nil
	}
	return flawf(descriptionFile, "unknown metric %q; it is accuracy, roc-auc, micro-f1 or macro-f1", metric)
}
