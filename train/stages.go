package train

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"weft/comm"
	"weft/internal/safetensors"
	"weft/nn"
	"weft/parallel/exchange"
)

// What the stages of a mesh put together, each of which holds some of the model's parameters.

// squares are the squared 2-norms of the gradients of all parameters of the model, in its order.
func (w *worker) squares(own []float64) []float64 {
	if w.groups.Mesh.Stages == 1 || w.team.Planning() {
		return own
	}
	all, err := comm.GatherLists(w.groups.Stages, comm.Statistics, own)
	exchange.Must(err)
	return slices.Concat(all...)
}

// allowOthers lets files of weights hold what the other stages have of the model.
func (w *worker) allowOthers() error {
	if w.groups.Mesh.Stages == 1 || w.team.Planning() {
		return nil
	}
	all, err := comm.GatherLists(w.groups.Stages, comm.Setup, []byte(strings.Join(w.params.Names(), "\n")))
	if err != nil {
		return err
	}
	for s, names := range all {
		if s != w.groups.Stage {
			w.params.Allow(strings.Split(string(names), "\n")...)
		}
	}
	return nil
}

// weights are all of the model's, on worker 0; nil on others.
func (w *worker) weights() (nn.State, error) {
	leads := w.groups.Partition == 0 && w.groups.Slice == 0
	if !leads || w.groups.Mesh.Stages == 1 {
		if w.ranks().First() {
			return w.params.State(), nil
		}
		return nil, nil
	}
	c, all := w.groups.Stages, w.params.State()
	if !w.ranks().First() {
		var file bytes.Buffer
		if err := safetensors.Write(&file, all, nil); err != nil {
			return nil, err
		}
		if err := c.Send(comm.Setup, comm.Bytes([]int64{int64(file.Len())}), 0).Wait(); err != nil {
			return nil, err
		}
		return nil, c.Send(comm.Setup, file.Bytes(), 0).Wait()
	}
	for stage := 1; stage < c.Size(); stage++ { // one after the other, so that one stage's file is here at a time
		length := make([]int64, 1)
		if err := c.Receive(comm.Setup, comm.Bytes(length), stage).Wait(); err != nil {
			return nil, err
		}
		file := make([]byte, length[0])
		if err := c.Receive(comm.Setup, file, stage).Wait(); err != nil {
			return nil, err
		}
		theirs, _, err := safetensors.Read(bytes.NewReader(file), length[0])
		if err != nil {
			return nil, err
		}
		maps.Copy(all, theirs)
	}
	return all, nil
}
