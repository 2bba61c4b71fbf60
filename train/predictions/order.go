package predictions

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/train/calibrate"
	"weft/train/worker"
)

// Order is the order of a table's rows: by a column of numbers, and by vertex among equal numbers. Steps give
// many rows the same calibrated probability of a class: these are in the order of the model's own
// probabilities. The zero Order is the order of the graph, or of the list of vertices.
type Order struct {
	// By names a column of numbers, or a class or label, which stands for the column of its probability.
	// Probability and Margin ascend, so that the least certain row comes first; others descend. A "-" before
	// the name reverses the order. Rows without a number come last.
	By  string
	Top int // how many of the first rows to keep; 0: all
}

// Check refuses a number of rows without an order.
func (o Order) Check() error {
	switch {
	case o.Top < 0:
		return refusal.Errorf("--top %d: a number of rows from 1 was expected", o.Top)
	case o.By == "" && o.Top > 0:
		return refusal.Errorf("--top %d: keeps the first rows of an order; give --sort, too, as --sort "+
			"margin",
			o.Top)
	}
	return nil
}

// Key is the column or class by which a table is sorted.
type Key struct {
	Column  string // the column's name, if the table has it
	Ascends bool
	Other   string // a column that a class has the name of Column, and is not meant; empty: none

	word   string // the word that names it
	answer Answer
	number int // the number of the class, label or value
}

// keys are the columns that may sort a table whose rows have so many numbers. classes are its classes or
// labels, each of which stands for the column of its probability.
func (t *Table) keys(numbers int) (columns, classes []Key) {
	if t.Edges != nil {
		number := t.Edges.Number()
		key := Key{Column: string(number), word: string(number), answer: number, Ascends: true}
		columns = append(columns, key)
	}
	for _, a := range t.offered() {
		if !slices.Contains([]Answer{Probability, Margin, Entropy, AllProbabilities, Value, Change}, a) {
			continue
		}
		for k, name := range t.numbers(a, numbers) {
			key := Key{Column: name, word: name, answer: a, number: k}
			key.Ascends = a == Probability || a == Margin
			columns = append(columns, key)
			if a == AllProbabilities {
				key.word = strconv.Itoa(k)
				if t.Classes != nil {
					key.word = t.Classes[k]
				}
				classes = append(classes, key)
			}
		}
	}
	return columns, classes
}

// rank is the place of an outcome. The smallest comes first, and an outcome without a number last.
//
// Probabilities are in float64, which tells some apart that are equal to 1 in float32.
func (k Key) rank(outcome *Outcome) float64 {
	var number float64
	switch k.answer {
	case AllProbabilities:
		number = outcome.Probabilities[k.number]
	case Value:
		number = float64(outcome.row[k.number])
	case edgeNumber, edgeRow:
		number = float64(outcome.number)
	default:
		number = float64(outcome.Number(k.answer))
	}
	switch {
	case number != number:
		return math.Inf(1)
	case k.Ascends:
		return number
	}
	return -number
}

// within is the place of an outcome among outcomes of the same calibrated probability, by the model's own
// probability. For any other column it is 0.
func (k Key) within(t *Table, outcome *Outcome) float64 {
	if t.Calibration == nil || k.answer != AllProbabilities {
		return 0
	}
	outcome.own = slices.Grow(outcome.own[:0], len(outcome.row))[:len(outcome.row)]
	var none *calibrate.Calibration
	none.Apply(outcome.own, outcome.row, t.Columns == LabelLogits)
	if k.Ascends {
		return outcome.own[k.number]
	}
	return -outcome.own[k.number]
}

// key is the key by which the table is sorted. A word that names both a column and a class names the column.
func (t *Table) key(numbers int) (Key, error) {
	by := t.Order.By
	columns, classes := t.keys(numbers)
	all := slices.Concat(columns, classes)
	for _, reverse := range []string{"", "-"} {
		word, reversed := strings.CutPrefix(by, reverse)
		means := func(k Key) bool { return reversed && k.word == word }
		if at := slices.IndexFunc(all, means); at >= 0 {
			key := all[at]
			key.Ascends = key.Ascends != (reverse != "")
			if class := slices.IndexFunc(classes, means); class >= 0 && classes[class].Column != key.Column {
				key.Other = classes[class].Column
			}
			return key, nil
		}
	}
	var words []string
	for _, k := range slices.Concat(slices.DeleteFunc(columns, func(k Key) bool {
		return k.answer == AllProbabilities
	}), classes) {
		words = append(words, k.word)
	}
	word := strings.TrimPrefix(by, "-")
	near := suggest.Nearest(word, words)
	switch {
	case by == "":
		return Key{}, nil
	case word == string(Change):
		return Key{}, noChange()
	case words == nil:
		return Key{}, refusal.Errorf("--sort %s: the model %s, by which no table is sorted; leave it out", by,
			t.what())
	case near != "":
		return Key{}, refusal.Errorf("--sort %s: unknown; did you mean %s?", by, near)
	}
	const several = 12
	if len(words) > several {
		words = append(words[:several], "…")
	}
	return Key{}, refusal.Errorf("--sort %s: the model %s; give %s", by, t.what(), strings.Join(words, ", "))
}

// inOrder passes the rows to use in the order of the table, each with its place among all rows.
func (t *Table) inOrder(rows worker.Rows, use func(at int, row []float32) error) error {
	if t.Order.By != "" {
		return t.sorted(rows, use)
	}
	at := 0
	for batch := range rows.Each {
		for row := range slices.Chunk(batch, rows.Columns) {
			if err := use(at, row); err != nil {
				return err
			}
			at++
		}
	}
	return came(at, rows)
}

// came fails if fewer rows came than were announced, so that no file lacks some.
func came(count int, rows worker.Rows) error {
	if count < rows.Vertices {
		return fmt.Errorf("%d of %d rows came", count, rows.Vertices)
	}
	return nil
}

// sorted is inOrder for rows that a column orders. It holds 24 bytes in memory for each row to come, while
// the rows' numbers wait on disk.
func (t *Table) sorted(rows worker.Rows, use func(at int, row []float32) error) (err error) {
	top := rows.Vertices
	if t.Order.Top > 0 {
		top = min(top, t.Order.Top)
	}
	if err := memory.Need(24 * int64(top)); err != nil {
		return err
	}
	waiting, err := Keep(t.scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, waiting.Close()) }()
	waiting.columns = rows.Columns
	all := top == rows.Vertices
	if all {
		rows = waiting.Watch(rows) // in batches; row k comes to place k
	}
	by, err := t.key(rows.Columns)
	if err != nil {
		return err
	}
	firsts := ranking{t: t, entries: make([]entry, 0, top)}
	at, outcome := int32(0), Outcome{}
	for batch := range rows.Each {
		for row := range slices.Chunk(batch, rows.Columns) {
			if err := t.outcome(&outcome, int(at), row); err != nil {
				return err
			}
			if slot, among := firsts.admit(by.rank(&outcome), by.within(t, &outcome), at); among && !all {
				waiting.write(slot, row)
			}
			at++
		}
		if waiting.err != nil {
			return waiting.err
		}
	}
	if err := cmp.Or(waiting.err, came(int(at), rows)); err != nil {
		return err
	}
	slices.SortFunc(firsts.entries, firsts.compare)
	row := make([]float32, rows.Columns)
	for _, e := range firsts.entries {
		if err := waiting.read(int(e.slot), row); err != nil {
			return err
		}
		if err := use(int(e.row), row); err != nil {
			return err
		}
	}
	return nil
}

// entry is a row that is among the first ones so far.
type entry struct {
	rank, within float64 // the smallest rank comes first, then the smallest within
	row, slot    int32   // the row's place among all rows, and on disk
}

// ranking has the first rows of an order so far. Once it is full it is a heap, with the last of them on top.
// It implements heap.Interface.
type ranking struct {
	t       *Table
	entries []entry // at most as many as the capacity
}

// admit takes a row if it is among the first so far, and drops the last of them if the ranking is full. slot
// is the row's place on disk.
func (r *ranking) admit(rank, within float64, row int32) (slot int, among bool) {
	switch n := len(r.entries); {
	case n < cap(r.entries):
		r.entries = append(r.entries, entry{rank, within, row, int32(n)})
		if n+1 == cap(r.entries) {
			heap.Init(r)
		}
		return n, true
	case n == 0 || r.compare(entry{rank: rank, within: within, row: row}, r.entries[0]) > 0:
		return 0, false
	}
	r.entries[0].rank, r.entries[0].within, r.entries[0].row = rank, within, row
	slot = int(r.entries[0].slot)
	heap.Fix(r, 0)
	return slot, true
}

// compare is negative where a comes before b.
func (r *ranking) compare(a, b entry) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.within, b.within),
		cmp.Compare(r.vertex(a.row), r.vertex(b.row)))
}

// vertex is the vertex of a row.
func (r *ranking) vertex(row int32) int32 {
	if r.t.Vertices != nil {
		return r.t.Vertices[row]
	}
	return row
}

// Len implements heap.Interface.
func (r *ranking) Len() int { return len(r.entries) }

// Less implements heap.Interface: the last row is on top.
func (r *ranking) Less(i, j int) bool { return r.compare(r.entries[i], r.entries[j]) > 0 }

// Swap implements heap.Interface.
func (r *ranking) Swap(i, j int) { r.entries[i], r.entries[j] = r.entries[j], r.entries[i] }

// Push implements heap.Interface, which admit does not call.
func (r *ranking) Push(x any) { r.entries = append(r.entries, x.(entry)) }

// Pop implements heap.Interface, which admit does not call.
func (r *ranking) Pop() any {
	last := r.entries[len(r.entries)-1]
	r.entries = r.entries[:len(r.entries)-1]
	return last
}
