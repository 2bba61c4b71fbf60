package ogb

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// folder is an open folder. It has in memory all but features, edges and arrays.
type folder struct {
	Options
	layout
	counts   map[string]int // of vertices, by type
	inverse  bool           // the inverse of each edge is stored behind it
	notes    []string
	warnings []string // of what is not read
}

func (f *folder) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *folder) typeNames() []string { return slices.Sorted(maps.Keys(f.counts)) }

// noteUnread says what is not read.
func (f *folder) noteUnread(relations []triplet) {
	notes, warnings := sayUnread(f.name(), f.unread(f.typeNames(), relations))
	f.notes, f.warnings = append(f.notes, notes...), append(f.warnings, warnings...)
}

// openOne opens a graph of one type. Its layout must stay open until it has been read or written.
func openOne(l layout, o Options) (*streamed.Graph, error) {
	f := &folder{Options: o, layout: l}
	types, err := l.types()
	if err != nil {
		return nil, err
	}
	own := types[0]
	f.counts = map[string]int{own.Type: own.Count}
	of := &graph.Graph{Count: own.Count, Provenance: f.provenance(), Metric: known[nameOf(f.Folder)].metric}
	g := &streamed.Graph{
		InMemory: of, Source: f.Folder, Symmetrize: f.Symmetrize, Progress: f.Progress,
		Relations: make([]streamed.Relation, 1), Types: make([]streamed.Type, 1),
	}
	relation := &g.Relations[0]
	if relation.EdgeSplit, err = f.readEdgeSplit(own.Count); err != nil {
		return nil, err
	}
	if relation.EdgeSplit == nil {
		if err := f.readLabels(of, own); err != nil {
			return nil, err
		}
	}
	var kept []string
	if g.Types[0].Arrays, kept, err = f.arraysOf(own); err != nil {
		return nil, err
	}
	only := triplet{}
	why := f.direct()
	if g.Types[0].Rows, err = f.rows(own); err != nil {
		return nil, err
	}
	if relation.Edges, err = f.edgesOf(only); err != nil {
		return nil, err
	}
	if listed := relation.Count; f.inverse {
		f.note("%d edges, and the inverse of each, %s", listed/2, why)
	} else {
		f.note("%d edges, without inverse ones, %s", listed, why)
	}
	f.notes = append(f.notes, sayKept(kept)...)
	f.noteUnread([]triplet{only})
	if err := f.chooseFeatures(g); err != nil {
		return nil, err
	}
	of.Notes, of.Warnings = f.notes, f.warnings
	return g, nil
}

// direct decides whether inverse edges are added, and says why.
func (f *folder) direct() (why string) {
	name := nameOf(f.Folder)
	d, isKnown := known[name]
	switch setting := refusal.Setting("inverse-edges"); {
	case f.Inverse != ByName:
		f.inverse = f.Inverse == Add
		return "as " + setting.String() + " asks for"
	case isKnown:
		f.inverse = d.inverse
		return "as OGB's loader does for " + name
	default:
		return fmt.Sprintf("as the folder lists them: %.60q is none of OGB's names (%s adds inverse edges)",
			filepath.Base(f.Folder), setting)
	}
}

// readLabels reads the labels of a type and the split of its vertices.
func (f *folder) readLabels(g *graph.Graph, of graph.VertexType) error {
	m, err := f.labels(of.Type)
	if err != nil {
		return err
	}
	defer m.Close()
	if g.Labels, err = labelsOf(m, of.Count); err != nil {
		return err
	}
	g.Splits, err = f.readSplits(of.Type, of.Count, &g.Labels)
	return err
}

// rows are the features of a type, nil where there are none.
func (f *folder) rows(of graph.VertexType) (*streamed.Rows, error) {
	open := func() (matrix, error) { return f.matrix(nodeFeatures, of.Type) }
	m, err := open()
	if err != nil || m == nil {
		return nil, err
	}
	defer m.Close()
	where := m.where(0)
	return &streamed.Rows{
		Columns: m.width(), Each: eachRow(open, of.Count, true),
		Refuse: func(err error) error { return refusal.Errorf("%s: %w", where, err) },
	}, nil
}

// eachRow opens a matrix, which must have so many rows, and calls do with them.
func eachRow(open func() (matrix, error), want int, finite bool) func(do func(rows []float32) error) error {
	return func(do func(rows []float32) error) error {
		m, err := open()
		if err != nil {
			return err
		}
		defer m.Close()
		return (&whole{matrix: m, want: int64(want), finite: finite}).each(do)
	}
}

// newArray finds out what an array of so many vertices is: of integers, if all values are.
func newArray(name string, vertices int, open func() (matrix, error)) (streamed.Array, error) {
	a := streamed.Array{
		ArrayShape: graph.ArrayShape{Name: name, Dtype: graph.Int64}, Each: eachRow(open, vertices, false),
	}
	m, err := open()
	if err != nil {
		return a, err
	}
	a.Columns = m.width()
	m.Close()
	return a, a.Each(func(rows []float32) error {
		for _, x := range rows {
			if _, whole := arrays.Whole(x); !whole {
				a.Dtype = graph.Float32
			}
		}
		return nil
	})
}

// arraysOf are those of a type besides features and labels, and what a note calls them.
func (f *folder) arraysOf(of graph.VertexType) (all []streamed.Array, kept []string, err error) {
	for _, name := range f.more(of.Type) {
		a, err := newArray(arrayName(name), of.Count, func() (matrix, error) { return f.matrix(name, of.Type) })
		if err != nil && of.Type == "" {
			err = refusal.Errorf("%w (%s may be left out of the folder)", err, name)
		}
		if err != nil {
			return nil, nil, err
		}
		called := fmt.Sprintf("%q", a.Name)
		if of.Type != "" {
			called += fmt.Sprintf(" of %.80q", of.Type)
		}
		all, kept = append(all, a), append(kept, called)
	}
	return all, kept, nil
}

// edgesOf are the edges of a relation as they are stored, but for Symmetrize.
func (f *folder) edgesOf(r triplet) (e streamed.Edges, err error) {
	for _, end := range []string{r[0], r[2]} {
		if _, isType := f.counts[end]; !isType {
			return e, refusal.Errorf("%s: the relation %.100q joins the type %.60q, which there is none of; %s",
				f.name(), r, end, fetchAgain)
		}
	}
	within := ends{f.counts[r[0]], f.counts[r[2]]}
	list, count, err := f.edges(r, within)
	if err != nil {
		return e, err
	}
	defer list.Close()
	e.Count, e.Refuse = count, func(err error) error { return refusal.Errorf("%s: %w", list.name(), err) }
	isSaid := func(err error) error { return err }
	of := arrays.EdgeArrays{Refuse: isSaid, Open: func() (arrays.EndsReader, error) {
		list, count, err := f.edges(r, within)
		return &announced{edges: list, want: count}, err
	}}
	m, err := f.edgeFeatures(r)
	if err != nil {
		return e, err
	}
	if m != nil {
		defer m.Close()
		e.Columns = m.width()
		of.Features = &arrays.Beside{Columns: e.Columns, Refuse: isSaid, Open: func() (arrays.RowReader, error) {
			m, err := f.edgeFeatures(r)
			return &whole{matrix: m, want: count, finite: true}, err
		}}
	}
	if e.Each = of.Each; f.inverse {
		e.Count, e.Symmetric, e.Each = 2*count, true, withInverse(of.Each)
	}
	return e, nil
}

// withInverse puts the inverse of each edge behind it.
func withInverse(each func(do func(graph.Edges) error) error) func(do func(graph.Edges) error) error {
	return func(do func(graph.Edges) error) error {
		var both graph.Edges
		return each(func(e graph.Edges) error {
			columns := e.FeatureColumns
			both.Source, both.Target, both.Features = both.Source[:0], both.Target[:0], both.Features[:0]
			both.FeatureColumns = columns
			for k, u := range e.Source {
				v, of := e.Target[k], e.Features[k*columns:(k+1)*columns]
				both.Source, both.Target = append(both.Source, u, v), append(both.Target, v, u)
				both.Features = append(append(both.Features, of...), of...)
			}
			return do(both)
		})
	}
}

// chooseFeatures decides whether vertices have features of their own, of the edges into them, or none.
func (f *folder) chooseFeatures(g *streamed.Graph) error {
	flag, own, ofEdges := refusal.Setting("features-from-edges"), g.Types[0].Rows != nil, g.Relations[0].Columns
	switch {
	case f.FromEdges == "":
		if !own && ofEdges > 0 {
			f.note("no features of vertices; %s %s makes them of the %d that edges have", flag, Mean, ofEdges)
		}
	case own:
		return refusal.Errorf("%s %s: %s has features of its vertices; leave %s out", flag, f.FromEdges, f.Folder, flag)
	case ofEdges == 0:
		return refusal.Errorf("%s %s: %s has no features of edges; leave %s out", flag, f.FromEdges, f.Folder, flag)
	default:
		g.FromEdges = func(rows *graph.Relation) ([]float32, error) { return fromEdges(f.FromEdges, rows) }
		f.note("the features of a vertex are the %s of those of the edges into it", f.FromEdges)
	}
	return nil
}

// fromEdges makes features of consecutive vertices from those of the edges into them. A vertex without edges
// has zeros.
func fromEdges(kind string, rows *graph.Relation) ([]float32, error) {
	vertices, columns := len(rows.Indptr)-1, rows.EdgeColumns
	made, err := memory.Grow([]float32{}, vertices*columns)
	if err != nil {
		return nil, err
	}
	made = made[:vertices*columns]
	sums := make([]float64, columns)
	for v := range vertices {
		clear(sums)
		degree := rows.Indptr[v+1] - rows.Indptr[v]
		for k := rows.Indptr[v]; k < rows.Indptr[v+1]; k++ {
			for c, x := range rows.EdgeFeatures[int(k)*columns : (int(k)+1)*columns] {
				sums[c] += float64(x)
			}
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
