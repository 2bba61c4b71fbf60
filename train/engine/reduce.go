package engine

import (
	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/tensor"
)

// reducer sums the replicas' gradients beside the backward pass, but for those of rows that one worker holds.
// Gradients that are complete are listed in next; a list of bucketFloats elements is summed while the pass
// goes on. Gradients are complete in the same order on all replicas. Where there is one replica, and in a
// plan, nothing is summed.
type reducer struct {
	team     *kernel.Team
	replicas *comm.Comm
	bucket   *tensor.Matrix          // 1 × bucketFloats, where the gradients of a list stand side by side; nil: nothing is summed
	all      int                     // parameters
	apart    map[*tensor.Matrix]bool // gradients that are not summed
	next     []*tensor.Matrix
	size     int                   // elements of next
	lists    chan []*tensor.Matrix // to be summed
}

// bucketFloats is how many elements travel together.
const bucketFloats = 1 << 18

// newReducer is that of the parameters of an engine, which Training makes sum.
func newReducer(c Config, params []*nn.Param) *reducer {
	r := &reducer{team: c.Team, replicas: c.Groups.Replicas, all: len(params), apart: map[*tensor.Matrix]bool{}}
	if !c.Training || r.replicas.Size() == 1 {
		return r
	}
	elements := 0
	for _, p := range params {
		if p.Rows != nil {
			r.apart[p.Grad] = true
			continue
		}
		elements += p.Grad.Len()
	}
	r.bucket = r.team.Memory.New(tensor.Buffers, 1, min(elements, bucketFloats))
	return r
}

// Beside runs a training pass, whose tapes share the ledger (nil where nothing is summed), and the sums
// beside it. It returns when all is summed, and fails as exchange.Beside does.
func (r *reducer) Beside(pass func(*autograd.Ledger)) error {
	if r.bucket == nil || r.team.Planning() {
		pass(nil)
		return nil
	}
	lists := make(chan []*tensor.Matrix, r.all) // so that the pass never waits for a sum
	r.lists = lists
	sums := func(aside *comm.Comm) error {
		for list := range lists {
			if err := r.sum(aside, list); err != nil {
				return err
			}
		}
		return nil
	}
	return exchange.Beside(r.replicas, []exchange.Side{sums}, func() error {
		defer close(lists) // where the pass panics, too
		pass(autograd.NewLedger(r.add))
		r.flush()
		return nil
	})
}

// add takes a gradient that is complete.
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

// sum sums gradients that fit the bucket together, or a single one that does not.
func (r *reducer) sum(c *comm.Comm, list []*tensor.Matrix) error {
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
