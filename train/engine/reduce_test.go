package engine

import (
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/tensor"
)

// TestReducer sums gradients of all sizes: many to a bucket, one that fills it, and one larger than it.
func TestReducer(t *testing.T) {
	const workers = 3
	sizes := []int{1, 7, bucketFloats - 3, 2, bucketFloats + 5, 1000, 1, bucketFloats, 4}
	ends := comm.InProcess(workers)
	var all sync.WaitGroup
	for rank := range workers {
		all.Go(func() {
			mem := tensor.NewMeter()
			defer mem.Close()
			team := kernel.NewTeam(1, mem)
			var params []*nn.Param
			for _, n := range sizes {
				params = append(params, &nn.Param{Grad: mem.New(tensor.Gradients, 1, n)})
			}
			c := comm.New(ends[rank], 0)
			r := newReducer(Config{Team: team, Groups: mesh.Groups{Replicas: c}, Training: true}, params)
			for pass := range 2 {
				for i, p := range params {
					team.Fill(p.Grad, float32(rank+1)*float32(i+1+pass))
				}
				err := r.Beside(func(*autograd.Ledger) {
					for _, p := range params {
						r.add(p.Grad)
					}
				})
				if err != nil {
					t.Error(err)
				}
				for i, p := range params {
					for _, k := range []int{0, p.Grad.Len() / 2, p.Grad.Len() - 1} {
						if got, want := p.Grad.Floats()[k], float32(1+2+3)*float32(i+1+pass); got != want {
							t.Errorf("worker %d, gradient %d: %v, want %v", rank, i, got, want)
						}
					}
				}
			}
			// no worker releases its memory while another copies from it
			if err := c.Barrier(comm.Setup); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
