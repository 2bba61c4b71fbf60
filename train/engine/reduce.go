package engine

import (
	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/tensor"
)

// reducer sums gradients over the replicas during the backward pass. It leaves out the gradients of rows that
// one worker holds. It lists complete gradients in next, and sums a list of bucketFloats elements while the
// pass goes on. Gradients are complete in the same order on all replicas. With one replica nothing is summed.
// A plan sends the messages of the sums, but for workers whose partitions take turns.
type reducer struct {
	team     *kernel.Team
	replicas *comm.Comm
	// 1 × bucketFloats: a list's gradients side by side; nil: nothing is summed
	bucket *tensor.Matrix
	all    int                     // the number of parameters
	apart  map[*tensor.Matrix]bool // gradients that are not summed
	next   []*tensor.Matrix
	size   int            // elements of next
	lists  chan gradients // lists to sum
}

type gradients = []*tensor.Matrix

// bucketFloats is how many elements one all-reduce sums.
const bucketFloats = 1 << 18

// newReducer is the reducer of an engine's parameters. It sums only if the engine trains.
func newReducer(c Config, params []*nn.Param) *reducer {
	r := &reducer{
		team: c.Team, replicas: c.Groups.Replicas, all: len(params),
		apart: map[*tensor.Matrix]bool{},
	}
	if !c.Training || r.replicas.Size() == 1 {
		return r
	}
	elements, largest := 0, 0
	for _, p := range params {
		if p.Rows != nil {
			r.apart[p.Grad] = true
			continue
		}
		elements, largest = elements+p.Grad.Len(), max(largest, p.Grad.Len())
	}
	r.bucket = r.team.Memory.New(tensor.Buffers, 1, min(elements, bucketFloats))
	if r.replicas.TakesTurns() { // as much waits on Go's heap while others have their turns: terms, and sums
		r.team.Memory.New(tensor.Buffers, 2, min(max(r.bucket.Cols, largest), comm.SumBlock/4))
	}
	return r
}

// Beside runs a training pass, and the sums beside it. The pass's tapes share the ledger, which is nil if
// nothing is summed. Beside returns when all is summed. If the pass or a sum fails, it aborts the connection
// of the workers.
func (r *reducer) Beside(pass func(*autograd.Ledger)) error {
	// Ranks that take turns sum in the memory of their matrices, where a plan has none
	if r.bucket == nil || r.replicas.TakesTurns() && len(r.bucket.ReadFloats()) == 0 {
		pass(nil)
		r.replicas.LocalBarrier() // as the end of the sums does
		r.replicas.LocalBarrier()
		return nil
	}
	// The pass never waits for a sum
	r.lists = make(chan gradients, r.all)
	lists := r.lists
	sums := func(aside *comm.Comm) error {
		for {
			var list gradients
			aside.Await(func() { list = <-lists })
			if list == nil {
				return nil
			}
			if err := r.sum(aside, list); err != nil {
				return err
			}
		}
	}
	defer r.replicas.LocalBarrier() // whose sums end first is chance
	return exchange.Beside(r.replicas, []exchange.Side{sums}, func() error {
		defer close(lists) // even if the pass panics
		pass(autograd.NewLedger(r.add))
		r.flush()
		return nil
	})
}

// add takes a complete gradient.
func (r *reducer) add(grad *tensor.Matrix) {
	if r.apart[grad] {
		return
	}
	if r.size+grad.Len() > r.bucket.Cols {
		r.flush()
	}
	r.next, r.size = append(r.next, grad), r.size+grad.Len()
}

func (r *reducer) flush() {
	if len(r.next) > 0 {
		r.lists <- r.next
		r.next, r.size = nil, 0
	}
}

// sum sums gradients that fit the bucket together, or one that does not fit.
func (r *reducer) sum(c *comm.Comm, list []*tensor.Matrix) error {
	if len(list) == 1 {
		return c.SumFloats(comm.Gradient, list[0].Floats())
	}
	bucket := r.bucket.Floats()
	at := 0
	for _, grad := range list {
		copy(bucket[at:], grad.ReadFloats())
		at += grad.Len()
	}
	if err := c.SumFloats(comm.Gradient, bucket[:at]); err != nil {
		return err
	}
	at = 0
	for _, grad := range list {
		copy(grad.WriteFloats(), bucket[at:])
		at += grad.Len()
	}
	return nil
}
