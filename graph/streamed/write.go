package streamed

import (
	"math"
	"os"
	"slices"

	"weft/graph"
	"weft/graph/internal/edgesort"
	"weft/graph/internal/pump"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// Written is what Write wrote.
type Written struct {
	*graph.Graph // without rows of labels and features, and edges; its relations have the edge splits
	Edges        int64
	Weighted     bool
	OneClass     bool   // all labels are the same
	Doubt        string // of the labels
	Unlabelled   int    // vertices of the first type
	// Labelled are those of the first relation that has some, without rows.
	// LabelledEdges have some, of all relations.
	Labelled      graph.Frame
	LabelledEdges int
	labelled      int // the number of that relation
}

// WrittenOf is what a store has of a graph in memory.
func WrittenOf(g *graph.Graph) *Written {
	weighted := slices.ContainsFunc(g.Relations, func(r graph.Relation) bool { return r.Weights != nil })
	w := &Written{
		Graph: g, Edges: g.Edges(), Weighted: weighted, OneClass: g.Types[0].Labels.OneClass(),
		Doubt: g.Types[0].Labels.Doubt(), Unlabelled: unlabelled(g),
	}
	for i := range g.Relations {
		w.Label(i, &g.Relations[i].Frame)
	}
	return w
}

// Label counts the labels, if there are any, of a relation of which some edges are written.
func (w *Written) Label(relation int, l *graph.Frame) {
	if !l.HasLabels() {
		return
	}
	if !w.Labelled.HasLabels() {
		w.Labelled = graph.Frame{Labels: announced(l.Labels), Splits: l.Splits}
		w.labelled = relation
	}
	w.LabelledEdges += l.CountLabelled()
}

// Divide sets the splits of the labels of a relation's edges, some of which Label has counted.
func (w *Written) Divide(relation int, splits []graph.Split) {
	if w.Labelled.HasLabels() && w.labelled == relation {
		w.Labelled.Splits = splits
	}
}

// unlabelled counts the vertices without a label.
func unlabelled(g *graph.Graph) (count int) {
	for v := range g.Types[0].Count {
		if !g.Types[0].Labels.Labelled(int64(v)) {
			count++
		}
	}
	return count
}

// Write writes a new store, dir. It needs memory for what InMemory has, and less than two gigabytes besides.
// It sorts the edges in memory and in a temporary file beside the store, with 8 bytes for each, 4 for its
// weight, its label and each feature, and 8 for the value that divides it. The store
// appears when it is complete, and is that of the graph that Read returns. If Write fails, it leaves nothing
// behind. A graph can be written once.
func (g *Graph) Write(dir string) (*Written, error) {
	if g.whole {
		return g.writeWhole(dir)
	}
	relations := make([]sorted, len(g.Relations))
	defer func() {
		for i := range relations {
			relations[i].close()
		}
	}()
	if g.Complete != nil { // the edges tell how many vertices there are
		for i := range relations {
			if err := relations[i].sort(g, &g.Relations[i], dir, math.MaxInt32, math.MaxInt32); err != nil {
				return nil, err
			}
		}
		if err := g.complete(); err != nil {
			return nil, err
		}
	}
	mem := g.InMemory
	mem.Relations = g.announced()
	if err := g.prepare(); err != nil {
		return nil, err
	}
	memory.Free() // the rest may need what was read
	written := &Written{
		Graph: mem, OneClass: mem.Types[0].Labels.OneClass(), Doubt: mem.Types[0].Labels.Doubt(),
		Unlabelled: unlabelled(mem),
	}
	w, err := graph.Create(dir, mem)
	if err != nil {
		return nil, err
	}
	defer w.Abort() // nothing to do after Close
	g.drop()
	for t := range g.Types {
		if err := g.writeType(w, t); err != nil {
			return nil, err
		}
	}
	for i := range relations {
		if err := g.writeRelation(w, i, &relations[i], dir, written); err != nil {
			return nil, err
		}
	}
	return written, w.CloseWith(g.add)
}

// writeWhole writes a graph that is in memory as a whole.
func (g *Graph) writeWhole(dir string) (*Written, error) {
	if g.Prepare != nil {
		if err := g.Prepare(); err != nil {
			return nil, err
		}
	}
	whole, err := g.Read()
	if err != nil {
		return nil, err
	}
	return WrittenOf(whole), whole.WriteWith(dir, g.Progress, g.add)
}

// add calls Add, if it is there.
func (g *Graph) add(store string) error {
	if g.Add == nil {
		return nil
	}
	return g.Add(store)
}

// prepare checks all but edges and Rows, calls Prepare and announces the features that will be written.
func (g *Graph) prepare() error {
	mem := g.InMemory
	if err := mem.CheckAnnounced(); err != nil {
		return g.refuse(err)
	}
	if g.Symmetrize {
		if err := checkSymmetrize(mem); err != nil {
			return err
		}
	}
	if g.Prepare != nil {
		if err := g.Prepare(); err != nil {
			return err
		}
	}
	for t := range g.Types {
		if rows := g.Types[t].Rows; rows != nil {
			mem.Types[t].Features.Columns = rows.Columns
		}
	}
	if g.FromEdges != nil {
		mem.Types[0].Features.Columns = g.Relations[0].Columns
	}
	return nil
}

// drop gives the memory of labels and features that are written back: the edges may need it.
func (g *Graph) drop() {
	mem := g.InMemory
	for t := range mem.Types {
		f := &mem.Types[t].Features
		f.Dense = nil
		if f.Sparse() {
			*f = graph.Features{Columns: f.Columns, Indptr: []int64{0}}
		}
	}
	mem.Types[0].Labels = announced(mem.Types[0].Labels)
	memory.Free()
}

// announced are labels without their rows.
func announced(l graph.Labels) graph.Labels {
	switch {
	case l.Continuous():
		l.Values = []float32{}
	case l.MultiLabel():
		l.Multi = []float32{}
	case l.Class != nil:
		l.Class = []int64{}
	}
	return l
}

// pass has write write the batches that each makes. An error of each is returned as it is.
func pass[T any](write func(graph.Batches[T]) error, each graph.Batches[T]) error {
	var made, written error
	err := write(func(write func(T) error) error {
		made = each(func(batch T) error {
			written = write(batch)
			return written
		})
		return made
	})
	if made != nil && (written == nil || refusal.Is(written)) {
		return made
	}
	return err
}

// writeType writes what is not in memory of vertex type t.
func (g *Graph) writeType(w *graph.Writer, t int) error {
	vertexType := &g.Types[t]
	vertices := g.InMemory.Types[t].Count
	for _, a := range vertexType.Arrays {
		write := func(batches graph.Batches[[]float32]) error { return w.Array(t, a.ArrayShape, batches) }
		if err := pass(write, a.Each); err != nil {
			return err
		}
	}
	if vertexType.Rows == nil {
		return nil
	}
	at, columns := int64(0), vertexType.Rows.Columns
	return g.writeDense(w, t, columns, func(do func(rows []float32) error) error {
		return vertexType.Rows.Each(func(rows []float32) error {
			g.Progress.Report("reading features", at, int64(vertices))
			at += int64(len(rows) / columns)
			return do(rows)
		})
	})
}

// writeDense writes dense features of vertex type t.
func (g *Graph) writeDense(w *graph.Writer, t, columns int,
	each func(do func(rows []float32) error) error,
) error {
	write := func(batches graph.Batches[*graph.Features]) error {
		return w.Features(t, columns, -1, batches)
	}
	return pass(write, func(do func(*graph.Features) error) error {
		return each(func(rows []float32) error {
			return g.refuse(do(&graph.Features{Columns: columns, Dense: rows}))
		})
	})
}

// writeRelation sorts the edges of a relation, if they are not sorted yet, and writes them.
func (g *Graph) writeRelation(w *graph.Writer, i int, s *sorted, dir string, written *Written) error {
	r, mem := &g.Relations[i], g.InMemory
	source, target, err := mem.Joins(&mem.Relations[i])
	if err != nil {
		return g.refuse(err)
	}
	types := mem.Types
	if s.sorter == nil {
		if err := s.sort(g, r, dir, types[source].Count, types[target].Count); err != nil {
			return err
		}
	}
	s.sorter.Limit(types[target].Count)
	edges, like, stored, vertices := s.listed, &graph.Relation{
		Frame: graph.Frame{Features: graph.Features{Columns: r.Columns}},
	}, int64(0), int64(0)
	if g.Symmetrize {
		edges = graph.Counted
	}
	if r.Weighted {
		like.Weights = []float32{}
	}
	write := func(batches graph.Batches[*graph.Relation]) error { return w.In(i, edges, like, batches) }
	each := func(ofVertices func(*graph.Relation) error) error {
		return pass(write, func(do func(*graph.Relation) error) error {
			return s.sorter.Each(func(rows *graph.Relation) error {
				g.Progress.Report("sorting edges", vertices, int64(types[target].Count))
				vertices += int64(len(rows.Indptr) - 1)
				stored += int64(len(rows.Sources))
				edges := *rows // the sorter keeps its own
				r.Frame.take(&edges.Frame)
				rows = &edges
				written.Label(i, &rows.Frame)
				if err := do(rows); err != nil {
					return g.refuse(err)
				}
				return ofVertices(rows)
			})
		})
	}
	if g.FromEdges == nil {
		err = each(func(*graph.Relation) error { return nil })
	} else {
		err = g.writeDense(w, target, r.Columns, func(do func(rows []float32) error) error {
			return each(func(rows *graph.Relation) error {
				made, err := g.FromEdges(rows)
				if err != nil {
					return g.refuse(err)
				}
				return do(made)
			})
		})
	}
	if l := r.Frame; err == nil && l.divides() {
		err = g.refuse(w.EdgeSplits(i, func(frame *graph.Frame) error {
			err := l.divide(frame)
			written.Divide(i, frame.Splits)
			return err
		}))
	}
	if g.Symmetrize {
		mem.NoteSymmetrized(s.listed, stored, s.sorter.Duplicates, r.Weighted)
	}
	written.Edges, written.Weighted = written.Edges+stored, written.Weighted || r.Weighted
	return err
}

// sorted are the edges of a relation that have been read. Most of them are in a file.
type sorted struct {
	scratch *os.File // nil: they have not been read
	sorter  *edgesort.Sorter
	listed  int64 // how many were read
}

func (s *sorted) close() {
	if s.sorter != nil {
		s.sorter.Close()
	}
	if s.scratch != nil {
		_ = s.scratch.Close()
	}
}

// sort reads the edges of a relation, from so many sources to so many targets. They are added to the sorter
// on a goroutine of its own.
func (s *sorted) sort(g *Graph, r *Relation, dir string, sources, targets int) (err error) {
	if s.scratch, err = graph.Scratch(dir); err != nil {
		return err
	}
	adding := pump.NewSink(func(e *graph.Edges) error { return s.sorter.Add(e, g.Symmetrize) })
	s.listed, err = r.each(g.Progress, func(e graph.Edges, before int64) error {
		if s.sorter == nil { // whether they are weighted is known by now
			if err := s.begin(g, r, targets); err != nil {
				return err
			}
		}
		if err := e.CheckEnds(before, sources, targets); err != nil {
			return r.Refuse(err)
		}
		if err := g.checkGraphs(&e); err != nil {
			return err
		}
		return addTo(adding, &e)
	})
	added := adding.Close()
	if err == nil {
		err = added
	}
	if err == nil && s.sorter == nil {
		err = s.begin(g, r, targets)
	}
	return err
}

// addTo puts copies of edges into a sink, a few at a time.
func addTo(sink *pump.Sink[*graph.Edges], e *graph.Edges) error {
	const most = 1 << 13 // edges
	columns := e.FeatureColumns
	for from := 0; from < e.Len(); from += most {
		to, err := sink.Take()
		if err != nil {
			return err
		}
		if to == nil {
			to = &graph.Edges{}
		}
		end := min(e.Len(), from+most)
		*to = graph.Edges{
			Source: append(to.Source[:0], e.Source[from:end]...),
			Target: append(to.Target[:0], e.Target[from:end]...), Weights: to.Weights[:0],
			Features:       append(to.Features[:0], e.Features[from*columns:end*columns]...),
			FeatureColumns: columns, Labels: to.Labels[:0], SplitBy: to.SplitBy[:0],
		}
		if e.Weights != nil {
			to.Weights = append(to.Weights, e.Weights[from:end]...)
		}
		if e.Labels != nil {
			to.Labels = append(to.Labels, e.Labels[from:end]...)
		}
		if e.SplitBy != nil {
			to.SplitBy = append(to.SplitBy, e.SplitBy[from:end]...)
		}
		sink.Put(to)
	}
	return nil
}

// begin makes the sorter of a relation into so many targets.
func (s *sorted) begin(g *Graph, r *Relation, targets int) error {
	about := r.Count
	if about == Unknown {
		about = r.About
	}
	if g.Symmetrize {
		about *= 2
	}
	o := edgesort.Options{
		Scratch: s.scratch, Kept: edgesort.Kept(len(g.Relations)), Weighted: r.Weighted, Columns: r.Columns,
		Labelled: r.Labelled, Divided: r.Divided, Single: g.Symmetrize,
	}
	s.sorter = edgesort.New(o, targets, about)
	if err := memory.Need(s.sorter.Memory(about)); err != nil {
		return r.Refuse(err)
	}
	return nil
}
