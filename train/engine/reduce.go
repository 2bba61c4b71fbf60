package engine

import (
	"unsafe"

	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/tensor"
)

// reducer sums gradients over the replicas of all groups beside the backward pass. It lists complete
// gradients in next, and sums a list of bucketFloats elements while the pass goes on. Gradients are complete
// in the same order on all replicas. Gradients of rows that only one worker of a group holds are summed after
// the pass, over the workers that hold the same rows in other groups. With one replica nothing is summed. A
// plan sends the messages of the sums, unless partitions of a worker take turns.
type reducer struct {
	team     *kernel.Team
	replicas *comm.Comm // of all groups
	alike    *comm.Comm // the workers of all groups that hold the same rows
	// 1 × bucketFloats: a list's gradients side by side; nil: nothing is summed
	bucket *tensor.Matrix
	all    int                     // the number of parameters
	apart  map[*tensor.Matrix]bool // gradients of rows that one worker of a group holds
	rows   []*tensor.Matrix        // the keys of apart, in the order of the parameters
	next   []gradient
	size   int             // the number of elements in next
	lists  chan []gradient // lists to sum; nil: nothing is summed
}

// gradient is a complete gradient. When made has returned, the host has its elements; made nil: the host has
// them already.
type gradient struct {
	*tensor.Matrix
	elements []float32
	made     func() error
}

// bucketFloats is how many elements one all-reduce sums.
const bucketFloats = 1 << 18

// newReducer is the reducer of an engine's parameters. It sums only if the engine trains.
func newReducer(c Config, params []*nn.Param) *reducer {
	r := &reducer{
		team: c.Team, replicas: c.Groups.Learners, alike: c.Groups.Alike, all: len(params),
		apart: map[*tensor.Matrix]bool{},
	}
	if !c.Training || r.replicas.Size() == 1 {
		return r
	}
	elements, largest := 0, 0
	for _, p := range params {
		if p.Rows != nil {
			r.apart[p.Grad], r.rows = true, append(r.rows, p.Grad)
			continue
		}
		elements, largest = elements+p.Grad.Len(), max(largest, p.Grad.Len())
	}
	r.bucket = r.team.Memory.New(tensor.Buffers, 1, min(elements, bucketFloats))
	// Terms and sums wait on Go's heap, in as many bytes, while other partitions have their turns.
	if r.replicas.TakesTurns() {
		r.team.Memory.New(tensor.Buffers, 2, min(max(r.bucket.Cols, largest), comm.SumBlock/4))
	}
	return r
}

// ledger is the ledger that the tapes of a training pass share; nil: the reducer sums nothing.
func (r *reducer) ledger() *autograd.Ledger {
	if r.bucket == nil {
		return nil
	}
	return autograd.NewLedger(r.add)
}

// Beside runs a backward pass, and the sums beside it. It returns when all is summed. If the pass or a sum
// fails, it aborts the connection of the workers.
func (r *reducer) Beside(backward func()) error {
	if err := r.overlap(backward); err != nil || r.alike.Size() == 1 {
		return err
	}
	for _, grad := range r.rows {
		if err := r.sum(r.alike, []gradient{begin(grad)}); err != nil {
			return err
		}
	}
	return nil
}

func (r *reducer) overlap(backward func()) error {
	// Ranks that take turns sum in the memory of their matrices, which a plan does not have.
	if r.bucket == nil || r.replicas.TakesTurns() && len(r.bucket.ReadFloats()) == 0 {
		backward()
		r.replicas.LocalBarrier() // ranks wait for each other here as at the end of the sums
		r.replicas.LocalBarrier()
		return nil
	}
	// The channel has room for all lists, so that the pass never waits for a sum.
	r.lists = make(chan []gradient, r.all)
	lists := r.lists
	side := func(aside *comm.Comm) error {
		for {
			var list []gradient
			aside.Await(func() { list = <-lists })
			if list == nil {
				return nil
			}
			if err := r.sum(aside, list); err != nil {
				return err
			}
		}
	}
	defer r.replicas.LocalBarrier() // it is chance which rank's sums end first
	return exchange.Beside(r.replicas, []exchange.Side{side}, func() error {
		defer close(lists) // even if the pass panics
		backward()
		r.flush()
		return nil
	})
}

// add takes a complete gradient.
func (r *reducer) add(grad *tensor.Matrix) {
	if r.apart[grad] {
		return
	}
	if r.lists == nil { // the reducer sums nothing
		begin(grad)
		return
	}
	if r.size+grad.Len() > r.bucket.Cols {
		r.flush()
	}
	r.next, r.size = append(r.next, begin(grad)), r.size+grad.Len()
}

// begin starts the copy of a gradient's elements to the host.
func begin(grad *tensor.Matrix) gradient {
	data, made := grad.SendBuffer(tensor.Host)
	return gradient{grad, tensor.FloatsOf(data), made}
}

func (r *reducer) flush() {
	if len(r.next) > 0 {
		r.lists <- r.next
		r.next, r.size = nil, 0
	}
}

// sum sums gradients that fit the bucket together, or one that does not fit.
func (r *reducer) sum(c *comm.Comm, list []gradient) error {
	for _, grad := range list {
		if grad.made == nil {
			continue
		}
		if err := grad.made(); err != nil {
			return err
		}
	}
	terms := list[0].elements
	if len(list) > 1 {
		terms = r.bucket.Floats()
		at := 0
		for _, grad := range list {
			copy(terms[at:], grad.elements)
			at += grad.Len()
		}
		terms = terms[:at]
	} else if terms == nil {
		terms = list[0].Floats() // a plan's matrix has no elements
	}
	if err := c.SumFloats(comm.Gradient, terms); err != nil {
		return err
	}
	for _, grad := range list {
		grad.become(terms[:grad.Len()])
		terms = terms[grad.Len():]
	}
	return nil
}

// become sets the gradient's elements to the sums.
func (g gradient) become(sums []float32) {
	data, _ := g.ReceiveBuffer(tensor.Host) // its memory is free: made has waited for copies from there
	if to := tensor.FloatsOf(data); unsafe.SliceData(to) != unsafe.SliceData(sums) {
		copy(to, sums)
	}
	g.Arrived(tensor.Host)
}
