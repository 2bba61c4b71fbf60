package worker

import (
	"fmt"
	"iter"
	"slices"

	"weft/comm"
	"weft/internal/launch"
	"weft/nn"
	"weft/tensor"
)

// Rows is a result for each vertex, in the order of the graph or of a list of vertices. A worker holds at
// most its own rows and one batch.
type Rows struct {
	Vertices, Columns int
	// Each yields batches of rows in order. The next batch overwrites the last.
	Each iter.Seq[[]float32]
}

// RowsOf are values in rows of so many columns, such as Result.Logits of package train.
func RowsOf(values []float32, columns int) Rows {
	return Rows{
		Vertices: len(values) / columns, Columns: columns,
		Each: func(yield func([]float32) bool) { yield(values) },
	}
}

// Results passes a result for each vertex to use, in the order of the graph or of Config.Vertices. The result
// is that of the model without its last blocks, whose number is without. Worker 0 alone calls use. check gets
// this worker's rows, and may change them; if it fails on any worker, use is not called.
func (w *Worker) Results(without int, check func(*tensor.Matrix) error, use func(Rows) error) error {
	v := w.Infer(without)
	defer v.Drop()
	if err := check(v.Value()); err != nil {
		return err
	}
	return w.inOrder(v.Value(), w.Inference.Vertices(), w.Inference.All(), use)
}

// Embeddings is Results of the input of the last layer. That of a program is computed apart, as it may lie
// within a block.
func (w *Worker) Embeddings(weights nn.State, check func(*tensor.Matrix) error, use func(Rows) error) error {
	if w.Program.Program == nil {
		return w.Results(1, check, use)
	}
	p, err := w.Program.Hidden()
	if err != nil {
		return &launch.Common{Err: err}
	}
	c, r := w.Config, *w.Resolved
	r.Program.Program, c.Resolved, c.Outputs = p, &r, p.Outputs()
	c.Loaded, c.Passing = nil, nil // the share is of the edges that pass messages
	apart, err := NewInference(c, w.Team, w.Groups.World, w.Share)
	if err != nil {
		return err
	}
	if err := apart.Load(weights, nil); err != nil {
		return err
	}
	return apart.Results(0, check, use)
}

// OrKeep returns take, or if that is nil a function that keeps the rows and their width.
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
func (w *Worker) inOrder(m *tensor.Matrix, ids []int32, vertices int, use func(Rows) error) (err error) {
	step := max(1, batchBytes/4/max(1, m.Cols))
	rows := Rows{Vertices: vertices, Columns: m.Cols}
	if w.Groups.World.Size() == 1 {
		rows.Each = func(yield func([]float32) bool) { yield(m.ReadFloats()) }
		return use(rows)
	}
	if ids == nil { // row v is vertex v
		ids = make([]int32, vertices)
		for v := range ids {
			ids[v] = int32(v)
		}
	}
	var buffer []float32
	if w.Ranks().First() {
		buffer = make([]float32, min(step, vertices)*m.Cols)
	}
	next := 0 // rows before it have been passed to use
	pass := func() ([]float32, error) {
		lo := next
		next = min(lo+step, vertices)
		return w.collect(m, ids, lo, next, buffer)
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

// collect sends the rows of vertices lo … hi−1 to worker 0, which copies them into its buffer in order. ids
// are the vertices of this worker's rows.
func (w *Worker) collect(m *tensor.Matrix, ids []int32, lo, hi int, buffer []float32) ([]float32, error) {
	from, _ := slices.BinarySearch(ids, int32(lo))
	to, _ := slices.BinarySearch(ids, int32(hi))
	c := w.Groups.World
	if _, err := comm.FromFirst[byte](c, nil); err != nil { // it has the batch before: no more than one waits
		return nil, err
	}
	theirIDs, err := comm.ToFirst(c, ids[from:to])
	if err != nil {
		return nil, err
	}
	mine, release := w.rows(m, from, to)
	theirRows, err := comm.ToFirst(c, mine)
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
			copy(buffer[(int(id)-lo)*m.Cols:], theirRows[r][i*m.Cols:(i+1)*m.Cols])
		}
	}
	return buffer[:(hi-lo)*m.Cols], nil
}

// rows are rows lo … hi−1 of a matrix until they are released. A matrix at rest stays there.
func (w *Worker) rows(m *tensor.Matrix, lo, hi int) (some []float32, release func()) {
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
