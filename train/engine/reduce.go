package engine

import (
	"errors"

	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// reducer sums the workers' gradients beside the backward pass: what is complete is put into buckets, and a bucket that is full is
// summed while the pass goes on. Gradients are complete in the same order on all workers.
type reducer struct {
	team   *kernel.Team
	comm   *comm.Comm
	bucket *tensor.Matrix // 1 × bucketFloats, where small gradients stand side by side
	next   []*tensor.Matrix
	size   int // elements of next
	full   chan []*tensor.Matrix
	join   func() // waits for the sums
	err    error  // of the sums, after join
}

// bucketFloats is how many elements travel together.
const bucketFloats = 1 << 18

func newReducer(team *kernel.Team, c *comm.Comm, params []*nn.Param) *reducer {
	r := &reducer{team: team, comm: c}
	all := 0
	for _, p := range params {
		all += p.Grad.Len()
	}
	r.bucket = team.Memory.New(tensor.Buffers, 1, min(all, bucketFloats))
	return r
}

// begin makes ready for a backward pass.
func (r *reducer) begin() {
	if r.team.Planning() {
		return
	}
	full := make(chan []*tensor.Matrix, 64)
	r.full, r.err = full, nil
	r.join = r.comm.Beside(func(aside *comm.Comm) {
		for list := range full {
			if r.err == nil {
				r.err = r.sum(aside, list)
			}
		}
	})
}

// add takes a gradient that is complete.
func (r *reducer) add(grad *tensor.Matrix) {
	if r.team.Planning() {
		return
	}
	if r.size+grad.Len() > r.bucket.Cols {
		r.flush()
	}
	r.next, r.size = append(r.next, grad), r.size+grad.Len()
}

func (r *reducer) flush() {
	if len(r.next) > 0 {
		r.full <- r.next
		r.next, r.size = nil, 0
	}
}

// finish sums what is left and waits until all is summed.
func (r *reducer) finish() error {
	if r.team.Planning() {
		return nil
	}
	r.flush()
	return r.end()
}

// end waits until the sums are done.
func (r *reducer) end() error {
	close(r.full)
	r.full = nil
	r.join()
	return r.err
}

// abandon ends a backward pass that did not come to its end: nothing reads or writes the gradients any more. It does nothing after finish.
func (r *reducer) abandon() {
	if r.full == nil {
		return
	}
	r.comm.Abort(errors.New("the backward pass broke off"))
	r.next, r.size = nil, 0
	_ = r.end() // follows from the abort
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
