package nn

import (
	"math"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// Labels are the targets of a caller's own loss: a row for each row of the model's output.
type Labels struct {
	// Targets are the classes. Smoothing, Weights and Loss are zero, and a caller may set them.
	Targets
	// Values (Float32, rows × columns) are the targets of a regression: standard scores by the statistics of
	// the training vertices, and NaN for a missing one. nil: the labels are classes.
	Values *tensor.Matrix
	// Vertices are the rows' vertices, by their ids in the graph: the key of whatever a caller knows about
	// them, such as weights or the output of another model. They are nil in a plan, where matrices hold
	// nothing.
	Vertices []int32
}

// AsRows returns the labels as a value on the output's tape, with its rows: the number of the class, or a
// number for each column.
func (l Labels) AsRows(output *autograd.Var) *autograd.Var {
	switch {
	case l.Values != nil:
		return output.Tape().Constant(l.Values, output.RowSet())
	case l.Multi != nil:
		return output.Tape().Constant(l.Multi, output.RowSet())
	}
	return autograd.Filled(output, 1, func(values []float32) {
		for row, c := range l.Class.ReadInt32s() {
			values[row] = float32(c)
		}
	})
}

// Listed are the rows of a model's output that a loss is computed of.
type Listed struct {
	Rows  *tensor.Matrix // Int32, 1 × n: the rows of this worker
	All   int            // how many all workers have
	Total float64        // the number of all workers' labels, by which a sum is divided
}

// OwnLoss is a loss that the settings do not name, as a worker computes it. All workers call its methods
// together.
type OwnLoss interface {
	// Loss returns this worker's part of the loss of listed rows, whose labels are given.
	Loss(output *autograd.Var, labels Labels, listed Listed) (part float64)
	// LossGradient returns Loss and dLoss/doutput.
	LossGradient(output *autograd.Var, labels Labels, listed Listed) (part float64, grad *tensor.Matrix)
}

// LossFunc is a loss of the caller's own. It is given the model's output for some vertices, rows × columns in
// Float32, and their labels, and computes on the output's tape. It may return a matrix of any shape, such as
// rows × 1: the sum of all elements is the loss of these vertices. Each worker calls it with the labelled
// vertices that it holds, so the loss must be a sum over rows. The tape records in training, and does not in
// validation. The function has no parameters. It brings in what it knows about vertices by autograd.Filled.
// Other Go code reads matrices by their Read accessors, which return nothing in a plan.
type LossFunc func(output *autograd.Var, labels Labels) *autograd.Var

// Loss implements OwnLoss. The sum over this worker's rows is divided by the number of all labels.
func (f LossFunc) Loss(output *autograd.Var, labels Labels, listed Listed) (part float64) {
	return f.share(listed).loss(output, labels)
}

// LossGradient implements OwnLoss.
func (f LossFunc) LossGradient(output *autograd.Var, labels Labels,
	listed Listed,
) (part float64, grad *tensor.Matrix) {
	return f.share(listed).gradient(output, labels)
}

// share returns the worker's share of the loss. No worker may sum over its rows.
func (f LossFunc) share(listed Listed) share {
	if listed.Rows.Cols == 0 || listed.Total == 0 {
		return share{}
	}
	set := &autograd.RowSet{Here: listed.Rows.Cols, Total: autograd.NotVertices}
	return share{f, listed.Rows, set, 1 / listed.Total}
}

// WholeLoss is a loss of the rows of all workers. Its function may sum over the rows of all workers, and
// returns one number, the same on each worker.
type WholeLoss struct {
	Function LossFunc
	Peers    autograd.Peers
	First    bool // this worker's part is the loss; the others' parts are 0
}

// Loss implements OwnLoss.
func (l WholeLoss) Loss(output *autograd.Var, labels Labels, listed Listed) (part float64) {
	return l.share(listed).loss(output, labels)
}

// LossGradient implements OwnLoss.
func (l WholeLoss) LossGradient(output *autograd.Var, labels Labels,
	listed Listed,
) (part float64, grad *tensor.Matrix) {
	return l.share(listed).gradient(output, labels)
}

func (l WholeLoss) share(listed Listed) share {
	if listed.All == 0 {
		return share{}
	}
	set := &autograd.RowSet{Here: listed.Rows.Cols, Total: listed.All, Peers: l.Peers}
	if l.First {
		return share{l.Function, listed.Rows, set, 1}
	}
	return share{l.Function, listed.Rows, set, 0}
}

// share is scale times the loss of listed rows (Int32, 1 × n), which set describes. The zero value is the
// loss of no rows, 0.
type share struct {
	function LossFunc
	rows     *tensor.Matrix
	set      *autograd.RowSet
	scale    float64
}

func (s share) loss(output *autograd.Var, labels Labels) (part float64) {
	if s.set == nil {
		return 0
	}
	t := autograd.NewTape(output.Tape().Team)
	t.Storage = tensor.Float32
	loss := t.Scope(func() *autograd.Var { return s.function.call(s.listed(t, output), labels) })
	defer loss.Drop()
	return s.scale * sumOf(loss)
}

// gradient returns the loss and its gradient.
func (s share) gradient(output *autograd.Var, labels Labels) (part float64, grad *tensor.Matrix) {
	team := output.Tape().Team
	grad = team.Zeros(tensor.Gradients, output.Rows(), output.Cols())
	if s.set == nil {
		return 0, grad
	}
	t := autograd.NewTrainingTape(team, autograd.Random{})
	t.Storage = tensor.Float32
	var selected *autograd.Var
	loss := t.Scope(func() *autograd.Var {
		selected = s.listed(t, output)
		return s.function.call(selected, labels)
	})
	part = s.scale * sumOf(loss)
	root := team.Memory.NewElement(tensor.Gradients, loss.Element(), loss.Rows(), loss.Cols())
	if root.Element == tensor.Float64 {
		each := root.WriteDoubles()
		for i := range each {
			each[i] = s.scale
		}
	} else {
		team.Fill(root, float32(s.scale))
	}
	t.Backward(autograd.Root{Var: loss, Grad: root})
	g := selected.TakeGrad()
	team.Scatter(grad, g, s.rows)
	g.Release()
	return part, grad
}

// call calls the function. A Mismatch in it names the job's own loss.
func (f LossFunc) call(output *autograd.Var, labels Labels) (loss *autograd.Var) {
	tensor.Within("the job's own loss", func() { loss = f(output, labels) })
	return loss
}

// listed puts the listed rows of a model's output on a tape.
func (s share) listed(t *autograd.Tape, output *autograd.Var) *autograd.Var {
	x := t.Memory().New(tensor.Activations, s.rows.Cols, output.Cols())
	t.Team.Gather(x, output.Value(), s.rows)
	return t.Received(x, s.set)
}

// sumOf returns the sum of all elements. Tiles of rows are added up in their order.
func sumOf(v *autograd.Var) (sum float64) {
	m := v.Value()
	team := v.Tape().Team
	if m.Element == tensor.Float64 {
		for _, x := range m.ReadDoubles() {
			sum += x
		}
		return sum
	}
	values := m.ReadFloats()
	sums := make([]float64, (m.Rows+tileRows-1)/tileRows)
	team.Parallel(len(sums), func(tile int) {
		for _, x := range values[tile*tileRows*m.Cols : min((tile+1)*tileRows, m.Rows)*m.Cols] {
			sums[tile] += float64(x)
		}
	})
	for _, s := range sums {
		sum += s
	}
	return sum
}

// CrossEntropy is an operation that returns the sum of the loss of each row, 1 × 1 in Float64: the
// cross-entropy of the softmax or, with several labels, of σ. The targets have a row for each of the logits'.
// It is for a LossFunc, whose caller divides by the number of terms.
func CrossEntropy(logits *autograd.Var, y Targets) *autograd.Var {
	t := logits.Tape()
	rows := t.Memory().NewElement(tensor.Buffers, tensor.Int32, 1, logits.Rows())
	all := rows.WriteInt32s()
	for i := range all {
		all[i] = int32(i)
	}
	z := t.Memory().NewElement(tensor.Activations, tensor.Float64, 1, 1)
	copy(z.WriteDoubles(), []float64{y.sum(t.Team, nil, logits.Value(), rows, 1)()})
	return t.Record(autograd.Op{
		Value: z, Inputs: []*autograd.Var{logits},
		Rows:  &autograd.RowSet{Here: 1, Total: autograd.NotVertices},
		Keeps: []*autograd.Var{logits}, Buffers: []*tensor.Matrix{rows},
		Backward: func(g *tensor.Matrix) {
			var scale [1]float64
			copy(scale[:], g.ReadDoubles())
			dz := t.Team.Zeros(tensor.Gradients, logits.Rows(), logits.Cols())
			y.sum(t.Team, dz, logits.Value(), rows, scale[0])()
			logits.AddGrad(dz)
			g.Release()
		},
	})
}

// OneHot returns the classes or labels of the rows of the logits as numbers, rows × Classes: 1 where the row
// has the class, else 0, and NaN for a label that is missing.
func OneHot(logits *autograd.Var, y Targets) *autograd.Var {
	return autograd.Filled(logits, y.Classes, func(values []float32) {
		if y.Multi != nil {
			copy(values, y.Multi.ReadFloats())
			return
		}
		clear(values)
		for row, c := range y.Class.ReadInt32s() {
			values[row*y.Classes+int(c)] = 1
		}
	})
}

// LogSoftmax returns ln softmax(x) of each row of x (Float32), z_ic = x_ic − ln Σ_k exp(x_ik).
func LogSoftmax(x *autograd.Var) *autograd.Var {
	t := x.Tape()
	z := t.Memory().New(tensor.Activations, x.Rows(), x.Cols())
	eachRow(t.Team, func(row [][]float32) {
		nll := make([]float64, x.Cols())
		negativeLogs(nll, row[0])
		for c, n := range nll {
			row[1][c] = float32(-n)
		}
	}, x.Value(), z)
	return t.Record(autograd.Op{
		Value: z, Inputs: []*autograd.Var{x}, KeepsResult: true,
		Backward: func(g *tensor.Matrix) {
			eachRow(t.Team, func(row [][]float32) { // dx = g − exp(z)·Σg
				sum := 0.
				for _, d := range row[0] {
					sum += float64(d)
				}
				for c, d := range row[0] {
					row[0][c] = float32(float64(d) - math.Exp(float64(row[1][c]))*sum)
				}
			}, g, z)
			x.AddGrad(g)
		},
	})
}

// eachRow calls f with the same row of each of the matrices, all rows × columns in Float32.
func eachRow(team *kernel.Team, f func(row [][]float32), all ...*tensor.Matrix) {
	first := all[0]
	values := make([][]float32, len(all))
	for k, m := range all {
		values[k] = m.WriteFloats()
	}
	team.Parallel((first.Rows+tileRows-1)/tileRows, func(tile int) {
		row := make([][]float32, len(all))
		for i := tile * tileRows; i < min((tile+1)*tileRows, first.Rows); i++ {
			for k := range row {
				row[k] = values[k][i*first.Cols : (i+1)*first.Cols]
			}
			f(row)
		}
	})
}
