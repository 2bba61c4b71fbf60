package sar

import (
	"iter"

	"weft/autograd"
	"weft/gnn"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// Halo is a call of an aggregation: its rows come here from where the remote blocks' sources are, own rows go
// to where they are needed, and gradients go the other ways.
type Halo struct {
	Site  string
	Along gnn.Along
	// Number is which of the calls at the site on one tape it is, from 0.
	Number int
	Edges  *edges.Edges

	part *Partition
	kept []*tensor.Matrix // the buffers of every remote block's rows, where Options.KeepHalo keeps them
}

// Mover is what moves rows for the calls of a partition.
type Mover interface {
	// Exchange visits every remote block of a call's edges. Rows that are asked for go to where others need
	// them, and those of each block's sources come. Where gradients go back, those that come for own rows are
	// added; the visits do not touch what they are added to. A pass that cannot go on ends as by
	// exchange.Must.
	Exchange(h *Halo, s Transfer, yield func(Visit) bool)
}

// Transfer is what moves when the remote blocks are visited. Rows of several matrices travel in one message,
// one matrix's after the other's.
type Transfer struct {
	Rows    []*tensor.Matrix // whose rows are fetched; nil: none
	Buffers []*tensor.Matrix // one for each block's rows; nil: a few of the exchange's own
	There   bool             // the rows are in their buffers already
	Grads   []*tensor.Matrix // what the gradients of own rows are added to; nil: none go back
}

// Visit is a remote block in a halo exchange.
type Visit struct {
	*edges.Block
	Rows []*tensor.Matrix // of the block's sources in each matrix, there until the next visit; nil: not asked for
	// Grads are for the gradients of the rows, and go back after the visit. Their elements are undefined
	// before. They are nil where none were asked for.
	Grads []*tensor.Matrix
}

// halo begins the forward pass of one call at the site, on a tape.
func (p *propagator) halo(t *autograd.Tape) *Halo {
	if p.tape != t {
		p.tape, p.calls = t, 0
	}
	h := &Halo{Site: p.site.Path, Along: p.along, Number: p.calls, part: p.part}
	p.calls++
	h.resume()
	var err error
	h.Edges, err = p.part.Edges(p.along)
	exchange.Must(err)
	return h
}

// resume says that the work of the site goes on; errors name it. Each backward pass begins with it.
func (h *Halo) resume() { h.part.comm.At(h.part.epoch, h.Site) }

func (h *Halo) count(columns int) { h.part.Count(h.Site, h.Edges, columns) }

func (h *Halo) operator(r gnn.Reduce) edges.Operator {
	o, err := h.Edges.Operator(r)
	exchange.Must(err)
	return o
}

// fetch visits every remote block with its rows of the matrices xs, which travel together. With
// Options.KeepHalo they stay in kept, for the caller to release.
func (h *Halo) fetch(xs ...*tensor.Matrix) iter.Seq[Visit] {
	if h.part.options.KeepHalo {
		for _, b := range h.Edges.Remote() {
			h.kept = append(h.kept, h.part.team.Memory.New(tensor.Buffers, b.In.Cols, Columns(xs)))
		}
	}
	return h.exchange(Transfer{Rows: xs, Buffers: h.kept})
}

// giveBack visits every remote block for the gradient of its rows. What others give back is added to dx.
func (h *Halo) giveBack(dx *tensor.Matrix) iter.Seq[Visit] {
	return h.exchange(Transfer{Grads: []*tensor.Matrix{dx}})
}

// rematerialize visits every remote block again, with its rows of xs (kept or fetched once more) and, for
// each of dxs, a matrix for their gradient, which goes back. What others give back is added to dxs.
func (h *Halo) rematerialize(xs, dxs []*tensor.Matrix) iter.Seq[Visit] {
	return h.exchange(Transfer{Rows: xs, Buffers: h.kept, There: h.part.options.KeepHalo, Grads: dxs})
}

func (h *Halo) exchange(s Transfer) iter.Seq[Visit] {
	return func(yield func(Visit) bool) {
		h.part.from.Mover.Exchange(h, s, func(v Visit) bool {
			if !yield(v) {
				panic("sar: a halo exchange that is broken off, for which others would wait")
			}
			return true
		})
	}
}

// Columns is the width of a message with rows of all of them.
func Columns(ms []*tensor.Matrix) (sum int) {
	for _, m := range ms {
		sum += m.Cols
	}
	return sum
}

// Parts are the rows of a message, or the buffer for it, matrix by matrix.
func Parts(message *tensor.Matrix, of []*tensor.Matrix) []*tensor.Matrix {
	widths := make([]int, len(of))
	for i, m := range of {
		widths[i] = m.Cols
	}
	return exchange.Parts(message, widths)
}

// gradientApart is where the gradient of target is added up while that of source takes in what other workers
// send: a matrix of its own where both are one, as a row has one writer. addApart then adds it to target's.
func gradientApart(target, source *autograd.Var) *tensor.Matrix {
	d := target.GradSum()
	if target == source && source.Wants() {
		return target.Tape().Team.Zeros(tensor.Gradients, target.Rows(), target.Cols())
	}
	return d
}

func addApart(target *autograd.Var, d *tensor.Matrix) {
	if d != target.GradSum() {
		target.AddGrad(d)
	}
}
