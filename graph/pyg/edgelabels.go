package pyg

import (
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
)

// edgeLabelKeys are the names of labels of edges.
var edgeLabelKeys = []string{"edge_label", "edge_y"}

// edgeLabelKey is the field with a label for each edge of edge_index, in their order; "": there is none. With
// edge_label_index labels are of other pairs of vertices, as RandomLinkSplit leaves them, and with edge_type
// the edges are divided into relations.
func (s *store) edgeLabelKey() string {
	at := slices.IndexFunc(edgeLabelKeys, func(key string) bool {
		if !s.Has(key) {
			return false
		}
		rows, err := s.Count(key)
		return err == nil && int64(rows) == s.edges.Count
	})
	if at < 0 || s.key != arrays.EdgeIndexKey || s.Has("edge_label_index") || s.Has(edgeTypeKey) ||
		s.edges.Count > streamed.MaxCode {
		return ""
	}
	return edgeLabelKeys[at]
}

// edgeLabels gives a relation what is learned of its edges, if there is something, with the masks of its
// edges. Those of a graph without types are of its vertices, where these have labels.
func (r *reader) edgeLabels(e *store, to *streamed.Relation) error {
	key := e.edgeLabelKey()
	if key == "" {
		return nil
	}
	edges := int(e.edges.Count)
	labels, err := r.labelsAt(e, key, edges, arrays.EdgeLabels)
	if err != nil || !labels.There() {
		return graph.SaysEdges(err)
	}
	of := graph.EdgeLabels{Column: key, Labels: labels}
	if e.relation != "" || !e.Has("y") {
		if of.Splits, err = e.Splits(arrays.MaskKeys, edges, &labels, arrays.Masks); err != nil {
			return graph.SaysEdges(err)
		}
	}
	to.EdgeLabels = &streamed.EdgeLabels{Of: of, Divide: r.options.DivideEdges}
	to.Edges = to.Numbered()
	return nil
}
