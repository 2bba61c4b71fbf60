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
	if w.mesh.Stages == 1 || w.team.Planning() {
		return own
	}
	all, err := comm.GatherLists(w.groups.Stages, comm.Statistics, own)
	exchange.Must(err)
	return slices.Concat(all...)
}

// allowOthers lets files of weights hold what the other stages have of the model.
func (w *worker) allowOthers() error {
	if w.mesh.Stages == 1 || w.team.Planning() {
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
	if !leads || w.mesh.Stages == 1 {
		if w.ranks().First() {
			return w.params.State(), nil
		}
		return nil, nil
	}
	mine := w.params.State()
	var file bytes.Buffer
	if err := safetensors.Write(&file, mine, nil); err != nil {
		return nil, err
	}
	all, err := comm.GatherLists(w.groups.Stages, comm.Setup, file.Bytes())
	if err != nil || !w.ranks().First() {
		return nil, err
	}
	for _, stage := range all[1:] {
		theirs, _, err := safetensors.Read(bytes.NewReader(stage), int64(len(stage)))
		if err != nil {
			return nil, err
		}
		maps.Copy(mine, theirs)
	}
	return mine, nil
}
