package npz

import (
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// The names of the labels of edges, of the names of their classes and of the masks of their splits.
const (
	edgeLabelsKey     = "edge_y"
	edgeClassNamesKey = "edge_class_names"
)

var (
	edgeMaskKeys  = [3]string{"edge_train_mask", "edge_val_mask", "edge_test_mask"}
	edgeLabelKeys = slices.Concat([]string{edgeLabelsKey, edgeClassNamesKey}, edgeMaskKeys[:])
)

// giveEdgeLabels gives a relation what is learned of its edges, if there is something.
func (a *archive) giveEdgeLabels(r *relation, to *streamed.Relation) error {
	if !r.Has(edgeLabelsKey) {
		for _, key := range edgeLabelKeys {
			if r.Has(key) {
				return r.Refuse(key, refusal.Errorf("there are no labels of edges %q: leave it out",
					r.Key(edgeLabelsKey)))
			}
		}
		return nil
	}
	if to.Count > streamed.MaxCode {
		return r.Refuse(edgeLabelsKey, refusal.Errorf("labels of more than %d edges are not read",
			streamed.MaxCode))
	}
	edges := int(to.Count)
	labels, err := namedLabels(r.Archive, edgeLabelsKey, edgeClassNamesKey, edges)
	if err != nil {
		return graph.SaysEdges(err)
	}
	if !labels.There() {
		return r.Refuse(edgeLabelsKey, refusal.Errorf("no edge has a label: leave it out"))
	}
	splits, err := r.Splits(edgeMaskKeys, edges, &labels, arrays.Masks)
	if err != nil {
		return graph.SaysEdges(err)
	}
	to.EdgeLabels = &streamed.EdgeLabels{
		Of:     graph.EdgeLabels{Column: edgeLabelsKey, Labels: labels, Splits: splits},
		Divide: a.options.DivideEdges,
	}
	to.Edges = to.Numbered()
	return nil
}
