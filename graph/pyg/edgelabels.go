package pyg

import (
	"math"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
)

// edgeLabelKeys are the names of labels of edges.
var edgeLabelKeys = []string{"edge_label", "edge_y"}

// edgeLabelKey returns the field with a label for each edge of edge_index, in their order; "": there is none.
// If there is an edge_label_index, labels are of other pairs of vertices, as RandomLinkSplit leaves them. If
// there is an edge_type, the edges are divided into relations.
func (s *store) edgeLabelKey() string {
	at := slices.IndexFunc(edgeLabelKeys, func(key string) bool {
		if !s.Has(key) {
			return false
		}
		rows, err := s.Count(key)
		return err == nil && int64(rows) == s.edges.Count
	})
	if at < 0 || s.key != arrays.EdgeIndexKey || s.Has("edge_label_index") || s.Has(edgeTypeKey) ||
		s.edges.Count > math.MaxInt32 {
		return ""
	}
	return edgeLabelKeys[at]
}

// labelEdges gives a relation the labels and masks of its edges, if any. In a graph without types whose
// vertices have labels, the masks are of the vertices.
func (r *reader) labelEdges(e *store, to *streamed.Relation) error {
	key := e.edgeLabelKey()
	if key == "" {
		return nil
	}
	edges := int(e.edges.Count)
	labels, err := r.labelsAt(e, key, edges, arrays.ValuesOrClasses)
	if err != nil || !labels.There() {
		return err
	}
	frame := graph.Frame{Labels: labels.Named(key)}
	if e.relation != "" || !e.Has("y") {
		if frame.Splits, err = e.Splits(arrays.MaskKeys, edges, &frame.Labels, arrays.Masks); err != nil {
			return err
		}
	}
	to.Label(frame, r.options.DivideEdges)
	return nil
}
