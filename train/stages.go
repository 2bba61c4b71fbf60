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
	if w.team.Planning() {
		return own
	}
	for i, p := range w.params.List {
		if p.Rows != nil {
			p.Rows.Sum(own[i : i+1])
		}
	}
	if w.groups.Mesh.Stages == 1 {
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
	all := w.params.State()
	if err := w.gatherTables(all); err != nil {
		return nil, err
	}
	if w.groups.Partition > 0 || w.groups.Slice > 0 { // another worker has the same, and speaks for the stage
		return nil, nil
	}
	c := w.groups.Stages
	var own bytes.Buffer
	if c.Rank() > 0 {
		if err := safetensors.Write(&own, all, nil); err != nil {
			return nil, err
		}
	}
	lengths, err := comm.Gather(c, comm.Setup, int64(own.Len()))
	if err != nil {
		return nil, err
	}
	files, err := toFirst(c, own.Bytes(), lengths, 1)
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
	return all, nil
}

// gatherTables gives worker 0's state the rows of all workers, of the parameters that have a row for each
// vertex.
func (w *worker) gatherTables(all nn.State) error {
	for _, p := range w.params.List {
		if p.Rows == nil || p.Rows.Here == p.Rows.Total && p.Rows.Peers == nil {
			continue
		}
		whole := nn.Tensor{Shape: p.Shape()}
		for table := range p.Tables {
			rows := p.Value.RowRange(table*p.Rows.Here, (table+1)*p.Rows.Here)
			err := w.ofVertices(rows, p.Rows.List(), p.Rows.Total, orKeep(nil, &whole.Float32, nil))
			if err != nil {
				return err
			}
		}
		all[p.Name] = whole
	}
	return nil
}
