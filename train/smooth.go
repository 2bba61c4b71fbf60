package train

import (
	"context"
	"slices"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
)

// Known says which parts of a split have labels that smoothing may use.
type Known struct {
	Split int
	Val   bool // use the labels of validation vertices, too, and not only of training vertices
}

// Smooth improves class probabilities of all vertices by known labels and the edges (gnn.Smoothing).
// probabilities are rows × classes in the vertex order of the graph. The options count that are about the
// mesh and the machine. All else is as in Predict; its Logits are the improved probabilities.
func (j *Job) Smooth(ctx context.Context, s gnn.Smoothing, probabilities []float32,
	known Known,
) (*Prediction, error) {
	smooth := *j
	smooth.Model = func(_, classes int) []gnn.BlockSpec { return s.Blocks(classes) }
	if j.Graph != nil {
		all := partition.All(j.Graph)
		if err := known.check(&all.Whole, len(probabilities)); err != nil {
			return nil, err
		}
		if err := oneRelation(len(j.Graph.Relations)); err != nil {
			return nil, err
		}
		g := j.Graph.Copy()
		err := j.Graph.Guard(func() (err error) {
			g.Types[0].Features, err = known.inputs(probabilities, &all.Types[0], s)
			return err
		})
		if err != nil {
			return nil, err
		}
		smooth.Graph = g
		return smooth.Predict(ctx, nn.State{}, Logits)
	}
	if err := known.check(&j.Parts.Whole, len(probabilities)); err != nil {
		return nil, err
	}
	parts := *j.Parts
	input := func(w *partition.Whole) {
		w.Types = []partition.WholeType{{
			Type: w.Types[0].Type, Vertices: w.Vertices, FeatureColumns: s.Columns(w.Classes),
		}}
	}
	input(&parts.Whole)
	parts.Open = func(p int) (*partition.Share, error) {
		share, err := j.Parts.Open(p)
		if err != nil {
			return nil, err
		}
		if err := oneRelation(len(share.Edges.Relations)); err != nil {
			return nil, err
		}
		share = share.Copy() // others may read it
		input(&share.Whole)
		return share, share.Guard(func() (err error) {
			share.Types[0].Features, err = known.inputs(probabilities, &share.Types[0], s)
			return err
		})
	}
	smooth.Parts = &parts
	return smooth.Predict(ctx, nn.State{}, Logits)
}

// oneRelation refuses a graph of several relations.
func oneRelation(relations int) error {
	if relations > 1 {
		return refusal.Errorf("smooth is for graphs of one relation, and this one has %d", relations)
	}
	return nil
}

// check refuses graphs and predictions that have no class for each vertex.
func (l Known) check(w *partition.Whole, numbers int) error {
	switch {
	case w.ValueColumns > 0:
		return refusal.Errorf("smooth is for classes, and the labels of this graph are values")
	case len(w.Types) > 1:
		return refusal.Errorf("smooth is for graphs of one vertex type, and this one has %d", len(w.Types))
	case w.Classes == 0 || len(w.Splits) == 0:
		return refusal.Errorf("smooth needs known labels, and this graph has no labels with a split")
	case l.Split >= len(w.Splits):
		return refusal.Errorf("--split %d: the number of splits that the graph has is %d, and they count "+
			"from 0", l.Split, len(w.Splits))
	case numbers != w.Vertices*w.Classes:
		return refusal.Errorf("%d probabilities for %d vertices of %d classes: give those of a run on this "+
			"graph", numbers, w.Vertices, w.Classes)
	}
	return nil
}

// inputs returns the input of smoothing for some vertices: their probabilities, followed by the known labels.
func (l Known) inputs(probabilities []float32, v *partition.Values,
	s gnn.Smoothing,
) (f graph.Features, err error) {
	if v.Labels.MultiLabel() {
		return f, refusal.Errorf("smooth is for one class of each vertex, and vertices of this graph have " +
			"several labels")
	}
	classes := v.Labels.Classes
	columns := s.Columns(classes)
	f = graph.Features{Columns: columns, Dense: make([]float32, v.Count*columns)}
	for row := range v.Count {
		id := row
		if v.IDs != nil {
			id = int(v.IDs[row])
		}
		copy(f.Dense[row*columns:], probabilities[id*classes:(id+1)*classes])
	}
	split := v.Splits[l.Split]
	lists := [][]int64{split.Train}
	if l.Val {
		lists = append(lists, split.Val)
	}
	for _, row := range slices.Concat(lists...) {
		f.Dense[int(row)*columns+classes+int(v.Labels.Class[row])] = 1
		f.Dense[(int(row)+1)*columns-1] = 1
	}
	return f, nil
}
