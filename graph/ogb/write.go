package ogb

import (
	"fmt"
	"runtime/debug"

	"weft/graph"
	"weft/graph/internal/edgesort"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// parts are the open files of features and edges.
type parts struct {
	features *whole // nil: there are none
	list     *edgeList
	columns  int // of the vertices' features, wherever they come from
}

// openParts opens features and edges.
func (f *folder) openParts() (*parts, error) {
	p := &parts{}
	features, err := f.matrix(nodeFeatures)
	if err != nil {
		return nil, err
	}
	if features != nil {
		p.features = &whole{matrix: features, want: int64(f.counts.vertices), finite: true}
	}
	if p.list, err = openEdges(f.layout, f.counts); err == nil {
		p.list.inverse = f.inverse
		err = f.chooseFeatures(p)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *parts) close() {
	if p.features != nil {
		p.features.close()
	}
	if p.list != nil {
		p.list.close()
	}
}

// chooseFeatures decides whether vertices have features of their own, of the edges into them, or none.
func (f *folder) chooseFeatures(p *parts) error {
	flag, ofEdges := refusal.Setting("features-from-edges"), p.list.columns()
	switch {
	case f.FromEdges == "" && p.features != nil:
		p.columns = p.features.width()
	case f.FromEdges == "":
		if ofEdges > 0 {
			f.note("no features of vertices; %s %s makes them of the %d that edges have", flag, Mean, ofEdges)
		}
	case p.features != nil:
		return refusal.Errorf("%s %s: %s has features of its vertices; leave %s out", flag, f.FromEdges, f.Folder, flag)
	case ofEdges == 0:
		return refusal.Errorf("%s %s: %s has no features of edges; leave %s out", flag, f.FromEdges, f.Folder, flag)
	default:
		p.columns = ofEdges
		f.note("the features of a vertex are the %s of those of the edges into it", f.FromEdges)
	}
	return nil
}

// fromEdges makes features of consecutive vertices from those of the edges into them. A vertex without edges
// has zeros.
func fromEdges(kind string, indegree func(v int) int, vertices int, features []float32, columns int) ([]float32, error) {
	made, err := memory.Grow([]float32{}, vertices*columns)
	if err != nil {
		return nil, err
	}
	made = made[:vertices*columns]
	sums := make([]float64, columns)
	for v := range vertices {
		clear(sums)
		degree := indegree(v)
		for range degree {
			for c, x := range features[:columns] {
				sums[c] += float64(x)
			}
			features = features[columns:]
		}
		if kind == Mean {
			for c := range sums {
				sums[c] /= float64(max(degree, 1))
			}
		}
		for c, sum := range sums {
			made[v*columns+c] = float32(sum)
		}
	}
	return made, nil
}

// readOne reads a graph of one type into memory.
func readOne(l layout, o Options) (*graph.Graph, error) {
	f, err := readFolder(l, o)
	if err != nil {
		return nil, err
	}
	p, err := f.openParts()
	if err != nil {
		return nil, err
	}
	defer p.close()
	g := &graph.Graph{Labels: f.labels, Splits: f.splits, Metric: f.metric, Provenance: f.provenance(), Notes: f.notes, Warnings: f.warnings}
	if p.features != nil {
		g.Features.Columns = p.columns
		if g.Features.Dense, err = p.features.collect(); err != nil {
			return nil, err
		}
	}
	err = f.eachArray(func(a *nodeArray) error {
		read, err := a.read()
		g.Arrays = append(g.Arrays, read)
		return err
	})
	if err != nil {
		return nil, err
	}
	relation, err := f.readEdges(p.list)
	if err != nil {
		return nil, err
	}
	relation.EdgeSplit = f.edgeSplit
	g.Relations = []graph.Relation{relation}
	if f.Symmetrize {
		if g, err = g.Symmetrize(); err != nil {
			return nil, fmt.Errorf("%s: %w", refusal.Setting("symmetrize"), err)
		}
	}
	if f.FromEdges != "" {
		r := &g.Relations[0]
		g.Features.Columns = p.columns
		indegree := func(v int) int { return int(r.Indptr[v+1] - r.Indptr[v]) }
		if g.Features.Dense, err = fromEdges(f.FromEdges, indegree, g.Vertices(), r.EdgeFeatures, p.columns); err != nil {
			return nil, err
		}
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Folder, err)
	}
	return g, nil
}

// readEdges reads the edges into memory.
func (f *folder) readEdges(list *edgeList) (graph.Relation, error) {
	e, err := list.gather(f.Progress)
	if err != nil {
		return graph.Relation{}, err
	}
	r, err := graph.NewRelation(f.counts.vertices, e)
	if err != nil {
		return r, refusal.Errorf("%s: %w", list.name(), err)
	}
	return r, nil
}

// writeOne writes a graph of one type in a stream.
func writeOne(dir string, l layout, o Options) (*Summary, error) {
	f, err := readFolder(l, o)
	if err != nil {
		return nil, err
	}
	p, err := f.openParts()
	if err != nil {
		return nil, err
	}
	defer p.close()
	shape := graph.Shape{
		Vertices: f.counts.vertices, Edges: graph.Counted, EdgeColumns: p.list.columns(), FeatureColumns: p.columns,
		Symmetric: f.Symmetrize || p.list.inverse, Classes: f.labels.Classes, MultiLabel: f.labels.MultiLabel(), Metric: f.metric, Provenance: f.provenance(),
	}
	w, err := graph.Create(dir, shape)
	if err != nil {
		return nil, err
	}
	defer w.Abort() // nothing to do after Close
	summary := &Summary{OneClass: f.labels.OneClass()}
	if err := f.writeVertices(w, p.features); err != nil {
		return nil, err
	}
	if summary.Edges, err = f.writeEdges(w, p.list); err != nil {
		return nil, err
	}
	summary.Graph = &graph.Graph{
		Count: shape.Vertices, Features: graph.Features{Columns: shape.FeatureColumns}, Labels: f.labels, Splits: f.splits,
		Metric: f.metric, Provenance: f.provenance(), Notes: f.notes, Warnings: f.warnings,
	}
	if f.edgeSplit != nil {
		summary.Graph.Relations = []graph.Relation{{Indptr: []int64{0}, EdgeSplit: f.edgeSplit}}
	}
	return summary, w.Close()
}

// outline returns labels of the same kind without values.
func outline(l graph.Labels) graph.Labels {
	of := graph.Labels{Classes: l.Classes}
	if l.MultiLabel() {
		of.Multi = []float32{}
	}
	return of
}

// writeVertices writes labels, splits, arrays and features.
func (f *folder) writeVertices(w *graph.Writer, features *whole) (err error) {
	w.SetSplits(f.splits)
	w.SetEdgeSplit(f.edgeSplit)
	switch {
	case f.labels.MultiLabel():
		err = w.AppendMultiLabels(f.labels.Multi)
	case f.labels.Classes > 0:
		err = w.AppendLabels(f.labels.Class)
	}
	if err != nil {
		return err
	}
	f.labels = outline(f.labels)
	debug.FreeOSMemory() // the rest may need what the labels took
	if err := f.eachArray(func(a *nodeArray) error { return a.write(w) }); err != nil || features == nil {
		return err
	}
	return features.each(func(rows []float32) error {
		f.Progress.Of("reading features", features.at, features.want)
		return w.AppendFeatures(rows)
	})
}

// writeEdges sorts and writes the edges, and returns their number.
func (f *folder) writeEdges(w *graph.Writer, list *edgeList) (stored int64, err error) {
	scratch, err := w.Scratch()
	if err != nil {
		return 0, err
	}
	defer scratch.Close()
	about := list.stored()
	if f.Symmetrize && !list.inverse {
		about *= 2
	}
	s := edgesort.New(edgesort.Options{Scratch: scratch, Columns: list.columns(), Single: f.Symmetrize}, f.counts.vertices, about)
	if err := memory.Need(s.Memory(about)); err != nil {
		return 0, refusal.Errorf("%s: %w", f.Folder, err)
	}
	err = list.eachStored(f.Progress, func(source, target int32, features []float32) error {
		if err := s.Add(source, target, edgesort.Given, features); err != nil || !f.Symmetrize {
			return err
		}
		return s.Add(target, source, edgesort.Added, features)
	})
	if err != nil {
		return 0, err
	}
	vertices := 0
	err = s.Each(func(r edgesort.Rows) error {
		f.Progress.Of("sorting edges", int64(vertices), int64(f.counts.vertices))
		vertices += len(r.Indegree)
		stored += int64(len(r.Sources))
		return f.writeRows(w, r, list.columns())
	})
	if f.Symmetrize {
		f.notes = append(f.notes, graph.SymmetrizedNote(list.stored(), stored, s.Duplicates))
	}
	return stored, err
}

// writeRows writes the rows of the next vertices, and the features that are made from them.
func (f *folder) writeRows(w *graph.Writer, r edgesort.Rows, columns int) error {
	if err := w.AppendRows(r.Indegree, r.Sources); err != nil {
		return err
	}
	if columns > 0 {
		if err := w.AppendEdgeFeatures(r.Features); err != nil {
			return err
		}
	}
	if f.FromEdges == "" {
		return nil
	}
	made, err := fromEdges(f.FromEdges, func(v int) int { return int(r.Indegree[v]) }, len(r.Indegree), r.Features, columns)
	if err != nil {
		return err
	}
	return w.AppendFeatures(made)
}
