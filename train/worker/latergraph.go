package worker

import (
	"weft/autograd"
	"weft/comm"
	"weft/graph"
	"weft/nn"
	"weft/partition"
	"weft/train/task"
)

// later are the outputs of a model of edges that are computed over another graph than the rest, Config.Later.
type later struct {
	*Worker
	rows []bool // by row of the output: it is computed over this graph
}

// infersLater makes the model over the graph of Config.Later, if there is one. share has all edges.
func (w *Worker) infersLater(world *comm.Comm, share *partition.Share) error {
	if w.Later == nil {
		return nil
	}
	c := w.Config
	c.Passing, c.Later, c.Standard = w.Later, nil, w.Standard
	inference, err := NewInference(c, w.Team, world, share)
	if err != nil {
		return err
	}
	w.later = &later{Worker: inference}
	relation, err := task.RelationOf(w.Kind, &share.Whole)
	if err != nil {
		return err
	}
	return share.ReadRelations(func(all []graph.Relation) (err error) {
		// The rows of both are the same.
		w.later.rows, err = task.Later(&all[relation], w.edgeNumbers(&all[relation]))
		return err
	})
}

// replace computes, with the parameters, the rows of an output that are over this graph, and replaces them.
func (l *later) replace(output *autograd.Var, params *nn.Params) {
	l.Params.Copy(params)
	own := l.Inference.Infer(0)
	defer own.Drop()
	from, to, columns := own.Value().ReadFloats(), output.Value().WriteFloats(), own.Cols()
	for row, replaces := range l.rows {
		if replaces && len(from) > 0 { // a plan has no values
			copy(to[row*columns:(row+1)*columns], from[row*columns:])
		}
	}
}
