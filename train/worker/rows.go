package worker

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/nn"
	"weft/tensor"
	"weft/train/task"
)

// Rows is a result for each vertex, in the order of the graph or of a list of vertices, or for each edge of a
// relation, in the order of the store. A worker holds at most its own rows and one batch.
type Rows struct {
	Vertices, Columns int // rows and columns
	// Each yields batches of rows in order. The next batch overwrites the last.
	Each iter.Seq[[]float32]
}

// RowsOf makes Rows of values in rows of so many columns, such as Result.Logits of package train.
func RowsOf(values []float32, columns int) Rows {
	return Rows{
		Vertices: len(values) / columns, Columns: columns,
		Each: func(yield func([]float32) bool) { yield(values) },
	}
}

// Results passes a result for each vertex to use, in the order of the graph or of Config.Vertices. If the
// task learns edges, the whole model has a result for each edge of their relation. The result is that of the
// model without its last blocks, whose number is without. Only worker 0 calls use. check gets this worker's
// rows, and may change them; if it fails on any worker, use is not called.
func (w *Worker) Results(without int, check func(*tensor.Matrix) error, use func(Rows) error) error {
	v := w.Infer(without)
	defer v.Drop()
	if err := check(v.Value()); err != nil {
		return err
	}
	m := v.Value()
	relation, err := task.RelationOf(w.Kind, &w.Share.Whole)
	if err != nil {
		return &launch.Common{Err: err}
	}
	if relation >= 0 && without == 0 && !w.Undecoded {
		return w.edgesInOrder(m, relation, use)
	}
	return w.inOrder(m, w.Inference.Vertices(), w.Inference.All(), use)
}

// edgesInOrder passes all workers' rows of edges to use on worker 0, in the order of the store.
func (w *model) edgesInOrder(m *tensor.Matrix, relation int, use func(Rows) error) error {
	var numbers []int64
	edges := 0
	if err := w.Share.ReadRelations(func(all []graph.Relation) error {
		numbers, edges = w.edgeNumbers(&all[relation]), len(all[relation].Sources)
		return nil
	}); err != nil {
		return err
	}
	order := make([]int, len(numbers))
	for row := range order {
		order[row] = row
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	values := m.ReadFloats()
	slices.Sort(numbers)
	room := []float32{}
	return ascending(&w.member, m.Cols, numbers, edges, func(lo, hi int) ([]float32, func()) {
		room = room[:0]
		for _, row := range order[lo:hi] {
			room = append(room, values[row*m.Cols:(row+1)*m.Cols]...)
		}
		return room, func() {}
	}, use)
}

// Embeddings is Results for the input of the last layer, with which an Undecoded model ends. For a program it
// is computed apart, as it may lie within a block.
func (w *Worker) Embeddings(weights nn.State, check func(*tensor.Matrix) error, use func(Rows) error) error {
	switch {
	case w.Undecoded:
		return w.Results(0, check, use)
	case w.Program.Program == nil:
		return w.Results(1, check, use)
	}
	p, err := w.Program.Hidden()
	if err != nil {
		return &launch.Common{Err: err}
	}
	c, r := w.Config, *w.Resolved
	r.Program.Program, c.Resolved, c.Outputs = p, &r, p.Outputs()
	c.Loaded, c.Passing = nil, nil // the share has only the edges that pass messages
	apart, err := NewInference(c, w.Team, w.Groups.World, w.Share)
	if err != nil {
		return err
	}
	if err := apart.Load(weights, nil); err != nil {
		return err
	}
	return apart.Results(0, check, use)
}

// OrKeep returns take. If take is nil, it returns a function that keeps the rows and their width.
func OrKeep(take func(Rows) error, kept *[]float32, columns *int) func(Rows) error {
	if take != nil {
		return take
	}
	return func(rows Rows) error {
		for batch := range rows.Each {
			*kept = append(*kept, batch...)
		}
		if columns != nil {
			*columns = rows.Columns
		}
		return nil
	}
}

// batchBytes is the size of a batch.
const batchBytes = 4 << 20

// inOrder passes all workers' rows of a value to use on worker 0, in the order of their vertices. ids are the
// vertices of this worker's rows, ascending; nil is all. vertices is the number of all rows. All workers must
// call inOrder.
func (w *member) inOrder(m *tensor.Matrix, ids []int32, vertices int, use func(Rows) error) error {
	part := func(lo, hi int) ([]float32, func()) { return w.rows(m, lo, hi) }
	if w.Groups.World.Size() == 1 {
		part = func(int, int) ([]float32, func()) { return m.ReadFloats(), func() {} }
	} else {
		ids = idsOf(ids, vertices)
	}
	return ascending(w, m.Cols, ids, vertices, part, use)
}

// ascending passes all workers' rows of so many columns to use on worker 0, in the order of their ids. ids
// are the ids of this worker's rows, ascending. part returns some of these rows until they are released.
// vertices is the number of all rows. All workers must call ascending.
func ascending[ID int32 | int64](w *member, columns int, ids []ID, vertices int,
	part func(lo, hi int) (some []float32, release func()), use func(Rows) error,
) (err error) {
	step := max(1, batchBytes/4/max(1, columns))
	rows := Rows{Vertices: vertices, Columns: columns}
	if w.Groups.World.Size() == 1 {
		rows.Each = func(yield func([]float32) bool) {
			some, release := part(0, vertices)
			defer release()
			yield(some)
		}
		return use(rows)
	}
	var buffer []float32
	if w.Ranks().First() {
		buffer = make([]float32, min(step, vertices)*columns)
	}
	next := 0 // rows before it have been passed to use
	pass := func() ([]float32, error) {
		lo := next
		next = min(lo+step, vertices)
		return collect(w, columns, ids, part, lo, next, buffer)
	}
	var failed error
	if w.Ranks().First() {
		rows.Each = func(yield func([]float32) bool) {
			for next < vertices && failed == nil {
				var batch []float32
				batch, failed = pass()
				if failed != nil || !yield(batch) {
					return
				}
			}
		}
		if err = use(rows); err == nil && next < vertices {
			err = fmt.Errorf("the rows of %d vertices were not taken", vertices-next)
		}
	}
	for next < vertices && failed == nil { // worker 0 receives the rest, and does not use it
		_, failed = pass()
	}
	if failed != nil {
		return failed
	}
	return w.Ranks().Together(err)
}

// collect sends the rows lo … hi−1 to worker 0, which copies them into its buffer in order. ids and part are
// as in ascending.
func collect[ID int32 | int64](w *member, columns int, ids []ID, part func(lo, hi int) ([]float32, func()),
	lo, hi int, buffer []float32,
) ([]float32, error) {
	from, _ := slices.BinarySearch(ids, ID(lo))
	to, _ := slices.BinarySearch(ids, ID(hi))
	c := w.Groups.World
	if _, err := comm.FromFirst[byte](c, nil); err != nil { // worker 0 has the last batch: one waits at most
		return nil, err
	}
	theirIDs, err := comm.ToFirst(c, ids[from:to])
	if err != nil {
		return nil, err
	}
	ownRows, release := part(from, to)
	theirRows, err := comm.ToFirst(c, ownRows)
	release()
	if err != nil || !w.Ranks().First() {
		return nil, err
	}
	came := 0
	for _, list := range theirIDs {
		came += len(list)
	}
	if came != hi-lo {
		return nil, fmt.Errorf("the workers hold %d of the vertices %d to %d: partition the graph again",
			came, lo, hi-1)
	}
	seen := make([]bool, hi-lo)
	for r, list := range theirIDs {
		for i, id := range list {
			if seen[int(id)-lo] {
				return nil, fmt.Errorf("vertex %d belongs to two partitions: partition the graph again", id)
			}
			seen[int(id)-lo] = true
			copy(buffer[(int(id)-lo)*columns:], theirRows[r][i*columns:(i+1)*columns])
		}
	}
	return buffer[:(hi-lo)*columns], nil
}

// rows are the rows lo … hi−1 of a matrix until they are released. A matrix at rest stays at rest.
func (w *member) rows(m *tensor.Matrix, lo, hi int) (some []float32, release func()) {
	if lo == hi || !m.AtRest() {
		return m.ReadFloats()[lo*m.Cols : hi*m.Cols], func() {}
	}
	list := make([]int32, hi-lo)
	for i := range list {
		list[i] = int32(lo + i)
	}
	copied := w.Team.Memory.New(tensor.Buffers, len(list), m.Cols)
	if !m.GatherAtRest(copied, list) {
		copy(copied.Floats(), m.ReadFloats()[lo*m.Cols:hi*m.Cols])
	}
	return copied.Floats(), copied.Release
}
