package worker

import (
	"fmt"
	"iter"
	"slices"

	"weft/comm"
	"weft/tensor"
)

// Rows are a result for each vertex, in the graph's order or that of a list of them, of which no worker holds
// more than its own and a piece.
type Rows struct {
	Vertices, Columns int
	// Each gives some rows after the other, in memory that the next ones overwrite.
	Each iter.Seq[[]float32]
}

// Results passes on a result for each vertex, in the graph's order or that of Config.Vertices: of the model
// without its last blocks, so many. use gets them on worker 0, and is not called on others. They are not
// passed on where check, which is given this worker's rows, fails.
func (w *Worker) Results(without int, check func(*tensor.Matrix) error, use func(Rows) error) error {
	v := w.Infer(without)
	defer v.Drop()
	if err := check(v.Value()); err != nil {
		return err
	}
	return w.inOrder(v.Value(), w.Inference.Vertices(), w.Inference.All(), use)
}

// OrKeep is take, or where that is nil a function that keeps the rows and their width.
func OrKeep(take func(Rows) error, kept *[]float32, columns *int) func(Rows) error {
	if take != nil {
		return take
	}
	return func(rows Rows) error {
		for piece := range rows.Each {
			*kept = append(*kept, piece...)
		}
		if columns != nil {
			*columns = rows.Columns
		}
		return nil
	}
}

// orderedBytes is the size of a piece.
const orderedBytes = 4 << 20

// inOrder passes all workers' rows of a value to use on worker 0 (use is not called on others), in the order
// of their vertices, of which there are so many. The rows are those of ids, ascending; nil: of all. All
// workers must call it.
func (w *Worker) inOrder(m *tensor.Matrix, ids []int32, vertices int, use func(Rows) error) (err error) {
	step := max(1, orderedBytes/4/max(1, m.Cols))
	rows := Rows{Vertices: vertices, Columns: m.Cols}
	if w.Groups.World.Size() == 1 {
		rows.Each = func(yield func([]float32) bool) { yield(m.Floats()) }
		return use(rows)
	}
	if ids == nil { // their places are their ids
		ids = make([]int32, vertices)
		for v := range ids {
			ids[v] = int32(v)
		}
	}
	var room []float32
	if w.Ranks().First() {
		room = make([]float32, min(step, vertices)*m.Cols)
	}
	next := 0 // the rows before it have been passed on
	pass := func() ([]float32, error) {
		lo := next
		next = min(lo+step, vertices)
		return w.piece(m, ids, lo, next, room)
	}
	var failed error
	if w.Ranks().First() {
		rows.Each = func(yield func([]float32) bool) {
			for next < vertices && failed == nil {
				var piece []float32
				if piece, failed = pass(); failed != nil || !yield(piece) {
					return
				}
			}
		}
		if err = use(rows); err == nil && next < vertices {
			err = fmt.Errorf("the rows of %d vertices were not taken", vertices-next)
		}
	}
	for next < vertices && failed == nil { // worker 0 takes what is left without using it
		_, failed = pass()
	}
	if failed != nil {
		return failed
	}
	return w.Ranks().Together(err)
}

// piece sends this worker's rows, which are of the vertices ids, of the vertices lo … hi−1 to worker 0, which
// puts all workers' into room, in order.
func (w *Worker) piece(m *tensor.Matrix, ids []int32, lo, hi int, room []float32) ([]float32, error) {
	from, _ := slices.BinarySearch(ids, int32(lo))
	to, _ := slices.BinarySearch(ids, int32(hi))
	c := w.Groups.World
	counts, err := comm.Gather(c, comm.Setup, int64(to-from))
	if err != nil {
		return nil, err
	}
	came := int64(0)
	for _, n := range counts {
		came += n
	}
	if came != int64(hi-lo) {
		return nil, fmt.Errorf("the workers hold %d of the vertices %d to %d: partition the graph again", came, lo, hi-1)
	}
	theirIDs, err := toFirst(c, ids[from:to], counts, 1)
	if err != nil {
		return nil, err
	}
	theirRows, err := toFirst(c, m.Floats()[from*m.Cols:to*m.Cols], counts, m.Cols)
	if err != nil || !w.Ranks().First() {
		return nil, err
	}
	seen := make([]bool, hi-lo)
	for r, list := range theirIDs {
		for i, id := range list {
			if seen[int(id)-lo] {
				return nil, fmt.Errorf("vertex %d belongs to two partitions: partition the graph again", id)
			}
			seen[int(id)-lo] = true
			copy(room[(int(id)-lo)*m.Cols:], theirRows[r][i*m.Cols:(i+1)*m.Cols])
		}
	}
	return room[:(hi-lo)*m.Cols], nil
}

// toFirst is, on rank 0, what each rank gives: of rank r counts[r] rows of that width. Others get nothing.
func toFirst[T byte | int32 | float32](c *comm.Comm, mine []T, counts []int64, width int) ([][]T, error) {
	all, send, receive := make([][]T, c.Size()), make([][]byte, c.Size()), make([][]byte, c.Size())
	send[0] = comm.Bytes(mine)
	for r, n := range counts {
		if c.Rank() == 0 {
			all[r] = make([]T, int(n)*width)
			receive[r] = comm.Bytes(all[r])
		}
	}
	return all, c.AllToAll(comm.Setup, send, receive)
}

// bytesToFirst is, on rank 0, what each rank gives. Others get nothing.
func bytesToFirst(c *comm.Comm, mine []byte) ([][]byte, error) {
	lengths, err := comm.Gather(c, comm.Setup, int64(len(mine)))
	if err != nil {
		return nil, err
	}
	return toFirst(c, mine, lengths, 1)
}
