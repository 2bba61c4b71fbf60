package ogb

import (
	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/refusal"
)

// labelsOf reads the labels of so many vertices: one column of classes, or a 0/1 matrix with a column for
// each task.
func labelsOf(m matrix, vertices int) (graph.Labels, error) {
	all := &whole{matrix: m, want: int64(vertices)}
	if m.width() > 1 {
		return tasks(all)
	}
	return classes(all)
}

// classes reads one class per vertex.
func classes(m *whole) (graph.Labels, error) {
	const exact = 1 << 24 // float32 holds the integers up to it
	var ids []int64
	err := m.each(func(rows []float32) (err error) {
		if ids, err = grow(ids, len(rows), m.want); err != nil {
			return refusal.Errorf("%s: %w", m.where(m.at), err)
		}
		for k, x := range rows {
			id := int64(-1)
			if x == x {
				id = int64(x)
				if x < 0 || x >= exact || float32(id) != x {
					return refusal.Errorf("%s: the label %v is no class, which are 0, 1, 2, … (none: empty or NaN); %s",
						m.where(m.at-int64(len(rows)-k)), x, fetchAgain)
				}
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return graph.Labels{}, err
	}
	labels, err := arrays.Classes(ids)
	if err != nil {
		return labels, refusal.Errorf("%s: %w", m.where(0), err)
	}
	return labels, nil
}

// tasks reads several labels per vertex, each of which is there or not.
func tasks(m *whole) (graph.Labels, error) {
	values, err := m.collect()
	if err != nil {
		return graph.Labels{}, err
	}
	columns := m.width()
	for k, x := range values {
		row := k / columns
		unlabelled := values[row*columns] != values[row*columns] // NaN
		if (x != x) != unlabelled || x == x && x != 0 && x != 1 {
			return graph.Labels{}, refusal.Errorf("%s: the label of task %d is %v: labels of several tasks are 0 and 1, or all are missing",
				m.where(int64(row)), k%columns, x)
		}
	}
	return graph.Labels{Classes: columns, Multi: values}, nil
}
