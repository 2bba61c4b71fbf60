package appended

import (
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// Write writes a new store of the graph with its Addition, in dir, and says what it holds. It copies features
// and edges some rows at a time. In addition to the Addition it needs memory for names and labels, as an
// import does. New vertices and edges are in no split, and unlabelled if the Addition has no labels. Splits
// of edges stay. Partitions are not copied. The store appears when it is complete. If Write fails, it leaves
// nothing behind.
func (g *Graph) Write(dir, provenance string, progress graph.Progress) (*streamed.Written, error) {
	whole, err := g.announced(provenance)
	if err != nil {
		return nil, err
	}
	w, err := graph.Create(dir, whole)
	if err != nil {
		return nil, err
	}
	defer w.Abort() // nothing to do after Close
	written := &streamed.Written{Graph: whole, Edges: g.Edges(), OneClass: whole.Types[0].Labels.OneClass()}
	for i := range g.Counts {
		if err := g.features(w, i, progress); err != nil {
			return nil, err
		}
	}
	for i := range g.Relations {
		written.Weighted = written.Weighted || g.Relations[i].Weights != nil
		if err := g.edges(w, i, written, progress); err != nil {
			return nil, err
		}
	}
	return written, w.Close()
}

// announced is the graph with its addition, without rows of features and edges.
func (g *Graph) announced(provenance string) (*graph.Graph, error) {
	whole := &graph.Graph{
		Graphs: g.Graphs, Metric: g.Metric, Provenance: provenance, Earlier: g.Earlier,
	}
	for i, t := range g.Types {
		rows := &g.Added.Types[i]
		t.Features, t.Count = graph.Features{Columns: t.Features.Columns}, g.Counts[i]
		if rows.Table != nil {
			t.Table = rows.Table
		}
		switch {
		case rows.Count == 0:
		case t.GraphOf != nil, t.Arrays != nil:
			return nil, refusal.Errorf("new vertices of %s: nothing says which graph they are of, or what "+
				"the store's arrays have for them; import all again", t.Name())
		case t.Names != nil && len(rows.Names) != rows.Count:
			return nil, fmt.Errorf("%d names of %d new vertices of %s", len(rows.Names), rows.Count, t.Name())
		case t.Names != nil:
			t.Names = slices.Concat(t.Names, rows.Names)
		}
		if l := &t.Labels; i == 0 && rows.Count > 0 && l.There() {
			l.Class, l.Multi, l.Values = slices.Clip(l.Class), slices.Clip(l.Multi), slices.Clip(l.Values)
			l.Append(&g.Added.Labels, &g.Types[0].Labels, rows.Count)
		}
		whole.Types = append(whole.Types, t)
	}
	for i := range g.Relations {
		r := &g.Relations[i]
		whole.Relations = append(whole.Relations, graph.Relation{
			Source: r.Source, Name: r.Name, Target: r.Target, EndColumns: r.EndColumns,
			NumberColumns: r.NumberColumns, EdgeSplit: r.EdgeSplit, Frame: r.Announced(),
			Indptr: []int64{0}, Symmetric: r.Symmetric && g.Added.Edges[i].Len() == 0,
		})
	}
	return whole, nil
}

// features writes the features of a type: those of the graph, and those of new vertices.
func (g *Graph) features(w *graph.Writer, kind int, progress graph.Progress) error {
	own, added := &g.Types[kind].Features, &g.Added.Types[kind].Features
	if own.Columns == 0 {
		return nil
	}
	const most = 1 << 20 // about how many features a batch has
	stored, step, done := -1, max(1, most/own.Columns)*own.Columns, int64(0)
	if own.Sparse() {
		stored = len(own.Data) + len(added.Data)
	}
	return w.Features(kind, own.Columns, stored, func(write func(*graph.Features) error) error {
		if own.Sparse() { // a sparse index cannot be cut
			if err := write(own); err != nil {
				return err
			}
		}
		for rows := range slices.Chunk(own.Dense, step) {
			progress.Report("copying features", done, int64(len(own.Dense)))
			done += int64(len(rows))
			if err := write(&graph.Features{Columns: own.Columns, Dense: rows}); err != nil {
				return err
			}
			g.Unload()
		}
		if g.Added.Types[kind].Count == 0 {
			return nil
		}
		return write(added)
	})
}

// edges writes the edges of a relation: those of the graph, and new ones.
func (g *Graph) edges(w *graph.Writer, relation int, written *streamed.Written,
	progress graph.Progress,
) error {
	r, n := &g.Relations[relation], g.In(relation)
	var labels graph.Frame
	if g.Added.Frames != nil {
		labels = g.Added.Frames[relation]
	}
	if err := n.label(&labels); err != nil {
		return err
	}
	all, done := int64(len(r.Sources)+g.Added.Edges[relation].Len()), int64(0)
	err := w.In(relation, all, r, func(write func(*graph.Relation) error) error {
		return n.rows(g.Counts[g.Ends[relation].Target], func(rows *graph.Relation) error {
			progress.Report("copying edges", done, all)
			done += int64(len(rows.Sources))
			g.Unload() // the written rows are a copy
			written.Label(relation, &rows.Frame)
			return write(rows)
		})
	})
	if l := &r.Frame; err == nil && l.HasLabels() && len(l.Splits) > 0 {
		err = w.EdgeSplits(relation, func(frame *graph.Frame) error {
			frame.Splits = n.renumbered(l.Splits)
			written.Divide(relation, frame.Splits)
			return nil
		})
	}
	return err
}
