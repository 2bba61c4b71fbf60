package predictions

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"

	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/train/worker"
)

// Order is that of a table's rows: by a column that has one number, and among equal numbers by vertex. The
// zero Order is that of the graph, or of the list of vertices.
type Order struct {
	// Probability and Margin ascend, so that the least certain comes first; the others descend. What has no
	// number comes last.
	By  Answer
	Top int // the number of rows, the first ones; 0: all
}

// orders are the answers that have an order, and whether their numbers ascend.
var orders = []struct {
	by      Answer
	ascends bool
}{{Margin, true}, {Probability, true}, {Entropy, false}, {Value, false}, {Change, false}}

// Sorts are the words of --sort.
func Sorts() (words []string) {
	for _, o := range orders {
		words = append(words, string(o.by))
	}
	return words
}

// ParseOrder reads the word of --sort and the number of --top; empty and 0 are not given.
func ParseOrder(by string, top int) (Order, error) {
	switch {
	case top < 0:
		return Order{}, refusal.Errorf("{top} %d: a number of rows from 1 was expected", top)
	case by == "" && top > 0:
		return Order{}, refusal.Errorf("{top} %d: the first rows of which order? give {sort}, too, as "+
			"{sort} margin", top)
	case by != "" && !slices.Contains(Sorts(), by):
		return Order{}, refusal.Errorf("{sort} %s: unknown; %s", by, suggest.OneOf(by, Sorts()))
	}
	return Order{By: Answer(by), Top: top}, nil
}

// inOrder passes the rows to use, each with its place among all, in the order of the table.
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

// came refuses fewer rows than were announced, so that no file lacks some.
func came(count int, rows worker.Rows) error {
	if count < rows.Vertices {
		return fmt.Errorf("%d of %d rows came", count, rows.Vertices)
	}
	return nil
}

// sorted is inOrder where a column orders the rows. In memory are 12 bytes for each row to come, while their
// numbers wait on disk.
func (t *Table) sorted(rows worker.Rows, use func(at int, row []float32) error) (err error) {
	top := rows.Vertices
	if t.Order.Top > 0 {
		top = min(top, t.Order.Top)
	}
	if err := memory.Need(12 * int64(top)); err != nil {
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
		rows = waiting.Watch(rows) // in batches, as row k comes to place k
	}
	firsts := ranking{t: t, entries: make([]entry, 0, top)}
	at, of := int32(0), Outcome{}
	for batch := range rows.Each {
		for row := range slices.Chunk(batch, rows.Columns) {
			if err := t.outcome(&of, int(at), row); err != nil {
				return err
			}
			if slot, among := firsts.admit(of.Number(t.Order.By), at); among && !all {
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

// entry is a row among the first ones so far.
type entry struct {
	number    float32
	row, slot int32 // its place among all rows, and on disk
}

// ranking has the first rows so far of an order, as a heap once it is full: the last of them on top. It
// implements heap.Interface.
type ranking struct {
	t       *Table
	entries []entry // as many as its capacity, at most
}

// admit takes a row, if it is among the first so far, in place of the last of them. slot is its place on
// disk.
func (r *ranking) admit(number float32, row int32) (slot int, among bool) {
	switch n := len(r.entries); {
	case n < cap(r.entries):
		r.entries = append(r.entries, entry{number, row, int32(n)})
		if n+1 == cap(r.entries) {
			heap.Init(r)
		}
		return n, true
	case n == 0 || r.compare(entry{number: number, row: row}, r.entries[0]) > 0:
		return 0, false
	}
	r.entries[0].number, r.entries[0].row = number, row
	slot = int(r.entries[0].slot)
	heap.Fix(r, 0)
	return slot, true
}

// compare is negative where a comes before b.
func (r *ranking) compare(a, b entry) int {
	x, y := a.number, b.number
	for _, o := range orders {
		if o.by == r.t.Order.By && !o.ascends {
			x, y = y, x
		}
	}
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(r.vertex(a.row), r.vertex(b.row)))
}

// vertex is that of a row.
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
