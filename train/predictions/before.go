package predictions

import (
	"math"
	"slices"

	"weft/train/worker"
)

// beforePrefix begins the names of columns with the earlier prediction.
const beforePrefix = "old_"

// compared are the answers that the table also gives for the earlier prediction.
func (t *Table) compared() []Answer {
	if t.Before == nil {
		return nil
	}
	same := []Answer{Vertex, vertexType, Name, Hidden, Change}
	return slices.DeleteFunc(slices.Clone(t.answers()),
		func(a Answer) bool { return slices.Contains(same, a) })
}

// outcome reads the row at a place, and the row of the same vertex in the earlier prediction.
func (t *Table) outcome(outcome *Outcome, at int, row []float32) error {
	t.Read(outcome, row)
	outcome.number = at
	if t.Vertices != nil {
		outcome.number = int(t.Vertices[at])
	}
	if t.Before == nil || at >= t.Before.rows {
		outcome.before = nil
		return nil
	}
	if outcome.before == nil {
		outcome.before = &Outcome{row: make([]float32, len(row))}
	}
	was := outcome.before.row
	if err := t.Before.read(at, was); err != nil {
		return err
	}
	t.Read(outcome.before, was)
	return nil
}

// change is the largest difference of a probability, or value, from the earlier prediction; NaN: there was
// none.
func (o *Outcome) change() float64 {
	if o.before == nil {
		return math.NaN()
	}
	most := 0.
	for k, p := range o.Probabilities {
		most = max(most, math.Abs(p-o.before.Probabilities[k]))
	}
	for k, x := range o.row {
		if len(o.Probabilities) == 0 {
			most = max(most, math.Abs(float64(x)-float64(o.before.row[k])))
		}
	}
	return most
}

// Turned returns the rows. As they pass by, it counts those whose likeliest class differs from the earlier
// prediction's.
func (t *Table) Turned(rows worker.Rows, count *int) worker.Rows {
	each, at, o := rows.Each, 0, Outcome{}
	rows.Each = func(yield func([]float32) bool) {
		for batch := range each {
			for row := range slices.Chunk(batch, rows.Columns) {
				// What cannot be read fails again when the table is written.
				if t.outcome(&o, at, row) == nil && o.before != nil && o.before.Top != o.Top {
					*count++
				}
				at++
			}
			if !yield(batch) {
				return
			}
		}
	}
	return rows
}
