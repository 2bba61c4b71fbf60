package graph

import (
	"math"
	"slices"
)

// What labels and splits of rows must be.

// maxClasses bounds the number of classes of so many rows. No array of a store confirms the number, and
// memory is allocated by it.
func maxClasses(rows int) int { return max(rows, 1024) }

func (l *Labels) check(rows, most int, d depth) error {
	file := l.files().labels
	switch {
	case l.Classes < 0 || l.Classes > most:
		return flawf(file, "%d classes, where 0 to %d are possible", l.Classes, most)
	case l.Names != nil && len(l.Names) != l.Classes:
		return flawf(l.files().classNames, "%d names for %d classes", len(l.Names), l.Classes)
	case l.Class != nil && l.Multi != nil:
		return flawf(file, "the labels are both one class and several per %s", l.Noun().One)
	case l.Values != nil || l.Columns != 0:
		return l.checkValues(rows, most, d)
	case l.MultiLabel():
		return l.checkMulti(rows, d)
	case l.Class == nil && d == announced:
		return nil
	case l.Class == nil && l.Classes > 0:
		return flawf(file, "%d classes but no labels", l.Classes)
	case l.Class != nil && len(l.Class) != rows:
		return flawf(file, "%d labels for %d %s", len(l.Class), rows, l.Noun().Many)
	}
	return l.checkClasses(0, l.Class)
}

// checkClasses checks classes. The first one belongs to row first.
func (l *Labels) checkClasses(first int, class []int64) error {
	for k, c := range class {
		if c < -1 || c >= int64(l.Classes) {
			return flawf(l.files().labels, "%s %d has class %d; classes are 0 to %d, and −1 means none",
				l.Noun().One, first+k, c, l.Classes-1)
		}
	}
	return nil
}

// checkMulti checks labels of rows that may have several.
func (l *Labels) checkMulti(rows int, d depth) error {
	file, noun := l.files().labels, l.Noun()
	if l.Classes == 0 || !fills(len(l.Multi), rows, l.Classes) {
		return flawf(file, "%d values for %d %s × %d classes", len(l.Multi), rows, noun.Many, l.Classes)
	}
	if d == indices {
		return nil
	}
	for k, x := range l.Multi {
		if x == x && x != 0 && x != 1 {
			return flawf(file, "%s %d has the value %v for class %d; a row is 0 and 1, and NaN where a label is "+
				"missing", noun.One, k/l.Classes, x, k%l.Classes)
		}
	}
	return nil
}

// checkValues checks values to predict.
func (l *Labels) checkValues(rows, most int, d depth) error {
	file, noun := l.files().labels, l.Noun()
	switch {
	case l.Classes != 0 || l.Class != nil || l.Multi != nil:
		return flawf(file, "the labels are both values and classes")
	case l.Columns < 1 || l.Columns > most:
		return flawf(file, "%d columns of values, where 1 to %d are possible", l.Columns, most)
	case !fills(len(l.Values), rows, l.Columns):
		return flawf(file, "%d values for %d %s × %d columns", len(l.Values), rows, noun.Many, l.Columns)
	case d == indices:
		return nil
	}
	for k, x := range l.Values {
		if math.IsInf(float64(x), 0) {
			return flawf(file, "%s %d has the value %v in column %d; values are finite, and NaN where one is "+
				"missing", noun.One, k/l.Columns, x, k%l.Columns)
		}
	}
	return nil
}

// Labelled reports whether row v has a label, or at least one of several labels or values.
func (l *Labels) Labelled(v int64) bool {
	if l.Class != nil {
		return l.Class[v] >= 0
	}
	rows, columns := l.rows()
	there := func(x float32) bool { return x == x } // not NaN
	return rows != nil && slices.ContainsFunc(rows[v*int64(columns):(v+1)*int64(columns)], there)
}

// checkSplits checks that the parts of each split are disjoint and, where there are labels, labelled.
func (f *Frame) checkSplits(rows int) error {
	noun, files := f.Labels.Noun().One, f.Labels.files().parts
	for s := range f.Splits {
		parts := f.Splits[s].Parts()
		for p := range parts {
			ids := *parts[p]
			if k := firstMisplaced(ids, int64(rows), 1); k >= 0 {
				return flawf(files[p], "split %d: %s", s, misplaced(ids, k, int64(rows)))
			}
			for _, v := range ids {
				if f.Labels.There() && !f.Labels.Labelled(v) {
					return flawf(files[p], "split %d: %s %d has no label", s, noun, v)
				}
			}
		}
		for p := range parts {
			q := (p + 1) % 3
			if v, both := common(*parts[p], *parts[q]); both {
				return flawf(files[q], "split %d: %s %d is also in %s", s, noun, v, files[p])
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

// checkMetric knows the metrics that published graphs name. Package metric has more, which are asked for.
func checkMetric(metric string) error {
	switch metric {
	case "", "accuracy", "roc-auc", "micro-f1", "macro-f1":
		return nil
	}
	return flawf(descriptionFile, "unknown metric %q; it is accuracy, roc-auc, micro-f1 or macro-f1", metric)
}
