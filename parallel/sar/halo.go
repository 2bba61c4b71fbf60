package sar

import (
	"iter"

	"weft/autograd"
	"weft/gnn"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// Halo is one call of an aggregation, which needs rows of other workers. The rows of the remote blocks'
// sources come to this worker, and the local rows that others need go to them. Gradients take the reverse
// direction.
type Halo struct {
	Path  string // module path of the layer
	Along gnn.Along
	// Number counts the calls of the layer on one tape, from 0.
	Number int
	Edges  *edges.Edges

	part *Partition
	kept []*tensor.Matrix // with Options.KeepHalo: a buffer for each remote block's rows
}

// Mover exchanges the halo rows of a partition's aggregations.
type Mover interface {
	// Exchange visits every remote block of a call's edges. If t asks for rows, local rows are sent to the
	// workers that need them, and each visit gets the rows of its block's sources. If t asks for gradients,
	// those that other workers send for local rows are added to t.Grads; a visit must not touch these
	// matrices. A failure ends the pass as exchange.Must does.
	Exchange(h *Halo, t Transfer, yield func(Visit) bool)
}

// Transfer says what a halo exchange moves. Rows of several matrices travel in one message, matrix by matrix.
type Transfer struct {
	Rows    []*tensor.Matrix // rows of these are fetched; nil: none
	Buffers []*tensor.Matrix // one for each block's rows; nil: the exchange takes turns with a few of its own
	There   bool             // the rows are in the buffers already
	Grads   []*tensor.Matrix // local rows' gradients are added to these; nil: no gradients are sent
}

// Visit is one remote block in a halo exchange.
type Visit struct {
	*edges.Block
	Rows []*tensor.Matrix // of the block's sources, for each matrix, valid until the next visit; nil: not asked for
	// Grads receive the gradients of the rows, which are sent after the visit. Their elements are undefined
	// before. They are nil if no gradients were asked for.
	Grads []*tensor.Matrix
}

// halo begins the forward pass of one call of the layer on a tape.
func (p *propagator) halo(t *autograd.Tape) *Halo {
	if p.tape != t {
		p.tape, p.calls = t, 0
	}
	h := &Halo{Path: p.layer.Path, Along: p.along, Number: p.calls, part: p.part}
	p.calls++
	h.resume()
	var err error
	h.Edges, err = p.part.Edges(p.along)
	exchange.Must(err)
	return h
}

// resume tells comm that the layer's work goes on, so that errors name the layer. Each backward pass begins
// with it.
func (h *Halo) resume() { h.part.comm.At(h.part.epoch, h.Path) }

func (h *Halo) count(columns int) { h.part.Count(h.Path, h.Edges, columns) }

func (h *Halo) operator(r gnn.Reduce) edges.Operator {
	o, err := h.Edges.Operator(r)
	exchange.Must(err)
	return o
}

// fetch visits every remote block with its sources' rows of the matrices xs, which travel together. With
// Options.KeepHalo the rows stay in h.kept, and the caller releases them.
func (h *Halo) fetch(xs ...*tensor.Matrix) iter.Seq[Visit] {
	if h.part.options.KeepHalo {
		for _, b := range h.Edges.Remote() {
			h.kept = append(h.kept, h.part.team.Memory.New(tensor.Buffers, b.In.Cols, Columns(xs)))
		}
	}
	return h.exchange(Transfer{Rows: xs, Buffers: h.kept})
}

// sendGradients visits every remote block, which fills in the gradient of its sources' rows. The gradients
// that other workers send for local rows are added to dx.
func (h *Halo) sendGradients(dx *tensor.Matrix) iter.Seq[Visit] {
	return h.exchange(Transfer{Grads: []*tensor.Matrix{dx}})
}

// rematerialize visits every remote block again, with its sources' rows of xs, which were kept or are fetched
// once more. Each visit fills in a matrix of gradients for each of dxs. The gradients that other workers send
// for local rows are added to dxs.
func (h *Halo) rematerialize(xs, dxs []*tensor.Matrix) iter.Seq[Visit] {
	return h.exchange(Transfer{Rows: xs, Buffers: h.kept, There: h.part.options.KeepHalo, Grads: dxs})
}

func (h *Halo) exchange(t Transfer) iter.Seq[Visit] {
	return func(yield func(Visit) bool) {
		h.part.from.Mover.Exchange(h, t, func(v Visit) bool {
			if !yield(v) {
				panic("sar: a halo exchange was broken off, and other workers would wait for it")
			}
			return true
		})
	}
}

// Columns returns the width of a message that holds rows of all these matrices.
func Columns(ms []*tensor.Matrix) (sum int) {
	for _, m := range ms {
		sum += m.Cols
	}
	return sum
}

// Parts returns the part of a message, or of its buffer, that holds the rows of each matrix.
func Parts(message *tensor.Matrix, of []*tensor.Matrix) []*tensor.Matrix {
	widths := make([]int, len(of))
	for i, m := range of {
		widths[i] = m.Cols
	}
	return exchange.Parts(message, widths)
}

// separateGradient returns the matrix in which the gradient of target is summed while gradients from other
// workers are added to source's. If both are one value, that is a matrix of its own, because each row must
// have one writer. addSeparate then adds it to target's gradient.
func separateGradient(target, source *autograd.Var) *tensor.Matrix {
	d := target.GradSum()
	if target == source && source.Wants() {
		return target.Tape().Team.Zeros(tensor.Gradients, target.Rows(), target.Cols())
	}
	return d
}

func addSeparate(target *autograd.Var, d *tensor.Matrix) {
	if d != target.GradSum() {
		target.AddGrad(d)
	}
}
