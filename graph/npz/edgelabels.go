package npz

import (
	"math"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// The names of the labels of edges, of the names of their classes, of the dates or numbers by which edges are
// divided, and of the masks of their splits.
const (
	edgeLabelsKey     = "edge_y"
	edgeClassNamesKey = "edge_class_names"
	edgeTimeKey       = "edge_time"
)

var (
	edgeMaskKeys  = [3]string{"edge_train_mask", "edge_val_mask", "edge_test_mask"}
	edgeLabelKeys = slices.Concat([]string{edgeLabelsKey, edgeClassNamesKey, edgeTimeKey}, edgeMaskKeys[:])
)

// label gives a relation what is learned about its edges, if anything is.
func (a *archive) label(r *relation, to *streamed.Relation) error {
	if !r.Has(edgeLabelsKey) {
		for _, key := range edgeLabelKeys {
			if r.Has(key) {
				return r.Refuse(key, refusal.Errorf("there are no labels of edges %q: leave it out",
					r.Key(edgeLabelsKey)))
			}
		}
		return nil
	}
	if to.Count > math.MaxInt32 {
		return r.Refuse(edgeLabelsKey, refusal.Errorf("labels of more than %d edges are not read", math.MaxInt32))
	}
	edges := int(to.Count)
	labels, err := namedLabels(r.Archive, edgeLabelsKey, edgeClassNamesKey, edges, graph.EdgeNoun)
	if err != nil {
		return err
	}
	if !labels.There() {
		return r.Refuse(edgeLabelsKey, refusal.Errorf("no edge has a label: leave it out"))
	}
	labels.Column = edgeLabelsKey
	splits, err := r.Splits(edgeMaskKeys, edges, &labels, arrays.Masks)
	if err != nil {
		return err
	}
	by, err := r.edgeTime(edges)
	if err != nil {
		return err
	}
	to.Label(graph.Frame{Labels: labels, Splits: splits, SplitBy: by}, a.options.DivideEdges)
	return nil
}

// edgeTime are the dates of the edges, as text, or numbers in their place; nil: there are none.
func (r *relation) edgeTime(edges int) (*graph.SplitBy, error) {
	if !r.Has(edgeTimeKey) {
		return nil, nil
	}
	a, err := r.Array(edgeTimeKey)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(a.Shape, []int{edges}) {
		return nil, r.Refuse(edgeTimeKey, refusal.Errorf("has shape %v: it must have a date or a number for each "+
			"of %d edges", a.Shape, edges))
	}
	by := &graph.SplitBy{Column: edgeTimeKey, Kind: graph.ByNumber}
	if kind := a.Descr[1]; kind != 'U' && kind != 'S' {
		by.Values, err = a.Float64s()
		for k, x := range by.Values {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, r.Refuse(edgeTimeKey, refusal.Errorf("edge %d has %v: give each edge a number", k, x))
			}
		}
		return by, r.Refuse(edgeTimeKey, err)
	}
	words, err := a.Strings()
	if err != nil {
		return nil, r.Refuse(edgeTimeKey, err)
	}
	by.Kind = graph.ByDate
	for k, word := range words {
		x, ok := by.Kind.Value([]byte(word), "")
		if !ok {
			return nil, r.Refuse(edgeTimeKey, refusal.Errorf("edge %d has %.40q, which is no date: give each edge one, "+
				"as 2024-01-31 or 2024-01-31T12:00", k, word))
		}
		by.Values = append(by.Values, x)
	}
	return by, nil
}
