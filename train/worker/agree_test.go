package worker

import (
	"sync"
	"testing"

	"weft/comm"
	"weft/internal/assert"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/tensor"
)

// TestParametersThatDrift: if a worker's parameters differ from the others', the epoch ends with an error
// that names the worker.
func TestParametersThatDrift(t *testing.T) {
	for cause, processes := range map[string]bool{
		"a fault of the program, or of this machine":                                   false,
		"the machines do not compute alike: set WEFT_SIMD to one level on all of them": true,
	} {
		drift(t, processes, "after epoch 4 the parameters of worker 1 differ from those of worker 0: "+cause)
	}
}

func drift(t *testing.T, processes bool, want string) {
	ends := comm.InProcess(2)
	var all sync.WaitGroup
	for rank := range 2 {
		all.Go(func() {
			mem := tensor.NewMeter()
			defer mem.Close()
			value := mem.New(tensor.Parameters, 1, 3)
			copy(value.Floats(), []float32{1, 2, 3 + float32(rank)})
			w := &Worker{
				Team: kernel.NewTeam(1, mem),
				Groups: mesh.Groups{
					Mesh: mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}, World: comm.New(ends[rank], 0),
				}, Config: Config{Processes: processes},
				Params: &nn.Params{List: []*nn.Param{{Value: value}}},
			}
			_, _, err := w.agree(4, 1, 0)
			assert.EqualError(t, err, want)
		})
	}
	all.Wait()
}
