package partition

import (
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/columns"
)

// Whole is what each worker knows of the whole graph.
type Whole struct {
	Vertices   int              `json:"-"` // of all types
	Edges      int64            `json:"-"` // of all relations
	Types      []WholeType      `json:"-"`
	Graphs     int              `json:"-"` // that are stored as one; 0: it is one
	WholeFrame                  // of the first vertex type
	Provenance string           `json:"provenance"`
	EdgeSplits []WholeEdgeSplit `json:"edge_splits,omitempty"`
	Frames     []RelationFrame  `json:"edge_labels,omitempty"`
	Statistics Statistics       `json:"-"` // stored in the Description by which the share was opened
}

// WholeFrame is what each worker knows of the labels of a frame of the whole graph.
type WholeFrame struct {
	Classes       int                `json:"classes"`
	ValueColumns  int                `json:"value_columns,omitempty"`  // of labels that are values
	SeveralLabels bool               `json:"several_labels,omitempty"` // a row may have any number of classes
	Splits        []graph.SplitSizes `json:"splits"`
	Metric        string             `json:"metric"` // that the graph names; "": none
}

// WholeEdgeSplit is what each worker knows of the edge split of a relation.
type WholeEdgeSplit struct {
	Relation  int                `json:"relation"` // its number
	Negatives graph.NegativeForm `json:"negatives,omitempty"`
}

// RelationFrame is what each worker knows of the labels of a relation's edges.
type RelationFrame struct {
	Relation      int                `json:"relation"`       // its number
	FullName      string             `json:"name,omitempty"` // the relation's; "": of a version without
	Column        string             `json:"column"`
	Classes       int                `json:"classes,omitempty"`
	ValueColumns  int                `json:"value_columns,omitempty"`
	SeveralLabels bool               `json:"several_labels,omitempty"`
	Splits        []graph.SplitSizes `json:"splits,omitempty"`
	Rule          string             `json:"rule,omitempty"` // graph.SplitBy.Rule
}

// Named is graph.Relation.HasLabel of their relation.
func (l *RelationFrame) Named(asked string) bool {
	return graph.NamesLabel(asked, l.Column, l.FullName)
}

// framesOf are the labels of edges of a graph.
func framesOf(g *graph.Graph) (all []RelationFrame) {
	for i := range g.Relations {
		if l := &g.Relations[i].Frame; l.HasLabels() {
			frame := RelationFrame{
				i, g.Relations[i].FullName(), l.Labels.Column, l.Labels.Classes, l.Labels.Columns,
				l.Labels.MultiLabel(),
				graph.SizesOf(l.Splits), "",
			}
			if l.SplitBy != nil {
				frame.Rule = l.SplitBy.Rule
			}
			all = append(all, frame)
		}
	}
	return all
}

// Frame is what the labels are.
func (l *RelationFrame) Frame() *WholeFrame {
	return &WholeFrame{
		Classes: l.Classes, ValueColumns: l.ValueColumns, SeveralLabels: l.SeveralLabels, Splits: l.Splits,
	}
}

// WholeType is what each worker knows of a vertex type.
type WholeType struct {
	Type           string `json:"type"`
	Vertices       int    `json:"vertices"`
	FeatureColumns int    `json:"features"`
	FeatureValues  int64  `json:"feature_values,omitempty"` // stored by sparse features; 0: they are dense
	// what the features are made of; nil: of no table
	Columns columns.List `json:"columns,omitempty"`
}

// TypeLike returns the number of the vertex type that corresponds to one of another graph: the type of the
// same name, or the only one, if each graph has one. −1: there is none.
func (w *Whole) TypeLike(other *Whole, kind int) int {
	if len(w.Types) == 1 && len(other.Types) == 1 {
		return 0
	}
	return slices.IndexFunc(w.Types, func(t WholeType) bool { return t.Type == other.Types[kind].Type })
}

// WholeOf describes a graph, without the statistics of partitions.
func WholeOf(g *graph.Graph) Whole {
	w := Whole{
		Vertices: g.Vertices(), Edges: g.Edges(), Graphs: g.Graphs,
		WholeFrame: WholeFrame{
			Classes: g.Types[0].Labels.Classes, ValueColumns: g.Types[0].Labels.Columns,
			SeveralLabels: g.Types[0].Labels.MultiLabel(),
			Splits:        []graph.SplitSizes{}, Metric: g.Metric,
		},
		Provenance: g.Provenance,
	}
	for _, t := range g.Types {
		w.Types = append(w.Types, WholeType{
			t.Name(), t.Count, t.Features.Columns, int64(len(t.Features.Indices)),
			columnsOf(t.Table, &t.Features),
		})
	}
	w.Splits = append(w.Splits, graph.SizesOf(g.Types[0].Splits)...)
	for i := range g.Relations {
		if s := g.Relations[i].EdgeSplit; s != nil {
			w.EdgeSplits = append(w.EdgeSplits, WholeEdgeSplit{i, s.Negatives})
		}
	}
	w.Frames = framesOf(g)
	return w
}

// columnsOf are the columns of the table that dense features are made of, nil of none.
func columnsOf(t *columns.Table, f *graph.Features) columns.List {
	if t == nil || f.Sparse() {
		return nil
	}
	return t.Columns
}

// ColumnsByType has the columns of each vertex type whose features are made of a table, by the type's name;
// nil: of none.
func (w *Whole) ColumnsByType() (all columns.ByType) {
	for _, t := range w.Types {
		if t.Columns != nil {
			if all == nil {
				all = columns.ByType{}
			}
			all[t.Type] = t.Columns
		}
	}
	return all
}

// ArrangedBy describes the graph with the features of each vertex type in the form of an arrangement.
func (w Whole) ArrangedBy(types []*columns.Arrangement) Whole {
	if types != nil && len(types) != len(w.Types) {
		panic(fmt.Sprintf("partition: %d arrangements of %d vertex types", len(types), len(w.Types)))
	}
	w.Types = slices.Clone(w.Types)
	for i, a := range types {
		t := &w.Types[i]
		t.FeatureColumns, t.Columns = a.Width(t.FeatureColumns), a.Columns(t.Columns)
	}
	return w
}

// Given describes the graph with features that a caller gives, as those of Share.Given.
func (w Whole) Given(columns map[int]int) Whole {
	w.Types = slices.Clone(w.Types)
	for kind, n := range columns {
		w.Types[kind].FeatureColumns = n
	}
	return w
}

// Grown describes the graph with so many vertices of each type, and edges.
func (w Whole) Grown(counts []int, edges int64) Whole {
	w.Vertices, w.Edges, w.Types = 0, edges, slices.Clone(w.Types)
	for i, n := range counts {
		w.Types[i].Vertices = n
		w.Vertices += n
	}
	return w
}
