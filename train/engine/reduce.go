package engine

import (
	"errors"

	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// Reducer sums the replicas' gradients beside the backward pass. Gradients that are complete are listed in
// next; a list of bucketFloats elements is summed while the pass goes on. Gradients are complete in the same
// order on all replicas. Where there is one replica, and in a plan, nothing is summed.
type Reducer struct {
	team     *kernel.Team
	replicas *comm.Comm
	bucket   *tensor.Matrix // 1 × bucketFloats, where the gradients of a list stand side by side; nil: nothing is summed
	next     []*tensor.Matrix
	size     int                   // elements of next
	lists    chan []*tensor.Matrix // to be summed; nil: no pass is under way
	join     func()                // waits for the sums
	err      error                 // of the sums, after join
}

const (
	// bucketFloats is how many elements travel together.
	bucketFloats = 1 << 18
	// waiting is how many lists wait for their sums before the pass waits for them: those of 16 M parameters.
	// A list takes no memory to speak of, as its gradients stay where they are.
	waiting = 64
)

// NewReducer is that of the parameters of an engine, which Training makes sum.
func NewReducer(c Config, params []*nn.Param) *Reducer {
	r := &Reducer{team: c.Team, replicas: c.Groups.Replicas}
	if !c.Training || r.replicas.Size() == 1 {
		return r
	}
	all := 0
	for _, p := range params {
		all += p.Grad.Len()
	}
	r.bucket = r.team.Memory.New(tensor.Buffers, 1, min(all, bucketFloats))
	return r
}

// Begin makes ready for a training pass, whose tapes share the ledger; nil, where nothing is summed.
func (r *Reducer) Begin() *autograd.Ledger {
	if r.bucket == nil || r.team.Planning() {
		return nil
	}
	lists := make(chan []*tensor.Matrix, waiting)
	r.lists, r.err = lists, nil
	r.join = r.replicas.Beside(func(aside *comm.Comm) {
		for list := range lists {
			if r.err == nil {
				r.err = r.sum(aside, list)
			}
		}
	})
	return autograd.NewLedger(r.add)
}

// add takes a gradient that is complete.
func (r *Reducer) add(grad *tensor.Matrix) {
	if r.size+grad.Len() > r.bucket.Cols {
		r.flush()
	}
	r.next, r.size = append(r.next, grad), r.size+grad.Len()
}

func (r *Reducer) flush() {
	if len(r.next) > 0 {
		r.lists <- r.next
		r.next, r.size = nil, 0
	}
}

// Finish sums what is left after the backward pass, and waits until all is summed.
func (r *Reducer) Finish() error {
	if r.lists == nil {
		return nil
	}
	r.flush()
	close(r.lists)
	r.lists = nil
	r.join()
	return r.err
}

// Abandon ends a pass that did not come to its end: nothing reads or writes the gradients any more. It does
// nothing after Finish.
func (r *Reducer) Abandon() {
	if r.lists == nil {
		return
	}
	r.replicas.Abort(errors.New("the backward pass broke off"))
	r.next, r.size = nil, 0
	_ = r.Finish() // follows from the abort
}

// sum sums gradients that fit the bucket together, or a single one that does not.
func (r *Reducer) sum(c *comm.Comm, list []*tensor.Matrix) error {
	if len(list) == 1 {
		return c.SumFloats(comm.Gradient, list[0].Floats())
	}
	bucket, at := r.bucket.Floats(), 0
	for _, grad := range list {
		at += copy(bucket[at:], grad.Floats())
	}
	if err := c.SumFloats(comm.Gradient, bucket[:at]); err != nil {
		return err
	}
	at = 0
	for _, grad := range list {
		at += copy(grad.Floats(), bucket[at:])
	}
	return nil
}
