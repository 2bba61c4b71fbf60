package worker

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

// Each stage of a mesh holds some of the model's parameters. The functions here combine those of all stages.

// squares returns the squared 2-norms of the gradients of all parameters of the model, in the model's order.
// own are those of this stage.
func (w *model) squares(own []float64) []float64 {
	for i, p := range w.Params.List {
		if p.Rows != nil {
			p.Rows.Sum(own[i : i+1])
		}
	}
	if w.Groups.Mesh.Stages == 1 {
		return own
	}
	all, err := comm.GatherLists(w.Groups.Stages, comm.Statistics, own)
	exchange.Must(err)
	return slices.Concat(all...)
}

// allowOthers lets a file of weights hold the parameters of other stages.
func (w *model) allowOthers() error {
	if w.Groups.Mesh.Stages == 1 {
		return nil
	}
	all, err := comm.GatherLists(w.Groups.Stages, comm.Setup, []byte(strings.Join(w.Params.Names(), "\n")))
	if err != nil {
		return err
	}
	for s, names := range all {
		if s != w.Groups.Stage {
			w.Params.Allow(strings.Split(string(names), "\n")...)
		}
	}
	return nil
}

// Weights returns all weights of the model on worker 0, and nil on others.
func (w *model) Weights() (nn.State, error) {
	all := w.Params.State()
	if err := w.gatherTables(all); err != nil {
		return nil, err
	}
	// the stage's first worker has the same weights, and sends them
	if w.Groups.Partition > 0 || w.Groups.Slice > 0 {
		return nil, nil
	}
	c := w.Groups.Stages
	var own bytes.Buffer
	if c.Rank() > 0 {
		if err := safetensors.Write(&own, all, nil); err != nil {
			return nil, err
		}
	}
	files, err := comm.ToFirst(c, own.Bytes())
	if err != nil || c.Rank() > 0 {
		return nil, err
	}
	for _, file := range files[1:] {
		theirs, _, err := safetensors.Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, theirs)
	}
	w.eachStandard(func(name string, values []float32) {
		all[name] = nn.Tensor{Shape: []int{len(values)}, Float32: values}
	})
	return all, nil
}

// gatherTables adds parameters with a row for each vertex to the state of a stage's first worker: the rows of
// all the stage's workers.
func (w *model) gatherTables(all nn.State) error {
	stage := member{Config: w.Config, Team: w.Team, Groups: w.Groups}
	if g := &stage.Groups; g.Mesh.Stages > 1 {
		g.World, g.All = g.Replicas, g.Replicas
	}
	for _, p := range w.Params.List {
		if p.Rows == nil || p.Rows.Here == p.Rows.Total && p.Rows.Peers == nil {
			continue
		}
		whole := nn.Tensor{Shape: p.Shape()}
		for table := range p.Tables {
			rows := p.Value.RowRange(table*p.Rows.Here, (table+1)*p.Rows.Here)
			err := stage.inOrder(rows, p.Rows.List(), p.Rows.Total, OrKeep(nil, &whole.Float32, nil))
			if err != nil {
				return err
			}
		}
		all[p.Name] = whole
	}
	return nil
}
