package ogb

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// folder is a folder that is being opened.
type folder struct {
	Options
	layout
	typed   bool
	counts  map[string]int // of vertices, by type
	inverse bool           // the inverse of each edge is stored behind the edge
	notes   []string
}

func (f *folder) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// open opens the graph. The layout must stay open until the graph has been read or written.
func (f *folder) open() (*streamed.Graph, error) {
	if err := f.checkTyped(); err != nil {
		return nil, err
	}
	types, err := f.typesInOrder()
	if err != nil {
		return nil, err
	}
	relations, err := f.relationsInOrder()
	if err != nil {
		return nil, err
	}
	own := types[0]
	mem := &graph.Graph{
		Types:      types,
		Provenance: "ogb " + f.Folder, Metric: known[nameOf(f.Folder)].metric,
	}
	g := &streamed.Graph{InMemory: mem, Source: f.Folder, Symmetrize: f.Symmetrize, Progress: f.Progress}
	var split *graph.EdgeSplit
	if !f.typed {
		if split, err = f.readEdgeSplit(own.Count); err != nil {
			return nil, err
		}
	}
	if split == nil {
		if err := f.readLabels(mem, own); err != nil {
			return nil, err
		}
	}
	var kept []string
	for _, t := range types {
		made := streamed.Type{}
		if made.Rows, err = f.rows(t); err != nil {
			return nil, err
		}
		var called []string
		if made.Arrays, called, err = f.arraysOf(t); err != nil {
			return nil, err
		}
		g.Types = append(g.Types, made)
		kept = append(kept, called...)
	}
	why := f.direct()
	listed := int64(0)
	for _, r := range relations {
		made := streamed.Relation{Source: r[0], Name: r[1], Target: r[2], EdgeSplit: split}
		if made.Edges, err = f.edgesOf(r); err != nil {
			return nil, err
		}
		g.Relations = append(g.Relations, made)
		listed += made.Count
	}
	notes, warnings := sayUnread(f.name(), f.unread(f.typeNames(), relations))
	mem.Warnings = warnings
	if f.typed {
		err = f.checkClaims(g, relations, int(listed))
		f.notes = sayKept(kept)
		f.note("%s of %s, without inverse ones (--reverse-relations adds reverse relations)",
			arrays.Counted(int(listed), "edge"),
			arrays.Counted(len(relations), "relation"))
	} else {
		if f.inverse {
			f.note("%d edges, and the inverse of each, %s", listed/2, why)
		} else {
			f.note("%d edges, without inverse ones, %s", listed, why)
		}
		f.notes = append(f.notes, sayKept(kept)...)
	}
	f.notes = append(f.notes, notes...)
	if err == nil && !f.typed {
		err = f.chooseFeatures(g)
	}
	mem.Notes = f.notes
	return g, err
}

// checkTyped refuses options that are for graphs of one type, and a split of triples.
func (f *folder) checkTyped() error {
	if !f.typed {
		return nil
	}
	for flag, asked := range map[string]bool{
		"inverse-edges": f.Inverse == Add, "features-from-edges": f.FromEdges != "",
	} {
		if asked {
			return refusal.Errorf("--%s: %s has several types of vertices, and this is for graphs of one; "+
				"leave it out (--reverse-relations adds reverse relations)", flag, f.Folder)
		}
	}
	if f.Rule == nil {
		if path, err := f.splitFolder(); err == nil && isLinkSplit(path) {
			return refusal.Errorf("%s: %s", path, ofTriples)
		}
	}
	return nil
}

// typesInOrder lists the vertex types: the one with labels first, and the others in the order of OGB's
// loader, which is the same for text and for archives.
func (f *folder) typesInOrder() ([]graph.VertexType, error) {
	types, err := f.types()
	if err != nil {
		return nil, err
	}
	labelled, err := f.labelled()
	if err != nil {
		return nil, err
	}
	if len(labelled) != 1 {
		return nil, refusal.Errorf("%s: the types that have labels are %d (%s), where graphs are read "+
			"that have labels of one", f.name(), len(labelled), arrays.Listed(labelled))
	}
	for _, v := range types {
		if _, twice := f.counts[v.Type]; twice || v.Count < 0 || v.Count > math.MaxInt32 {
			return nil, refusal.Errorf("%s: the vertex type %.60q has %d vertices, or stands twice; %s",
				f.name(), v.Type, v.Count, fetchAgain)
		}
		f.counts[v.Type] = v.Count
	}
	slices.SortFunc(types, func(a, b graph.VertexType) int { return strings.Compare(a.Type, b.Type) })
	first := slices.IndexFunc(types, func(v graph.VertexType) bool { return v.Type == labelled[0] })
	if first < 0 {
		return nil, refusal.Errorf("%s: %.60q has labels and is no vertex type; %s", f.name(),
			labelled[0], fetchAgain)
	}
	own := types[first]
	return append([]graph.VertexType{own}, slices.Delete(types, first, first+1)...), nil
}

func (f *folder) typeNames() []string { return slices.Sorted(maps.Keys(f.counts)) }

// relationsInOrder lists the relations.
func (f *folder) relationsInOrder() ([]triplet, error) {
	all, err := f.relations()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, refusal.Errorf("%s: lists no relation; %s", f.name(), fetchAgain)
	}
	slices.SortFunc(all, func(a, b triplet) int { return slices.Compare(a[:], b[:]) })
	return all, f.checkLists(f.typeNames(), all)
}

// checkClaims refuses vertices that are only claimed: no row of features or labels confirms them, and each of
// the relations takes memory for the vertices of the types that it joins. edges counts the relations' edges.
func (f *folder) checkClaims(g *streamed.Graph, relations []triplet, edges int) error {
	rows, taken := 0, 0
	for t, v := range g.InMemory.Types {
		if t == 0 || g.Types[t].Rows != nil { // the first type has labels
			rows += v.Count
		} else if most := arrays.MaxVertices(edges); int64(v.Count) > most {
			return refusal.Errorf("%s: %d vertices of the type %.60q with only %d edges: at most %d are read",
				f.name(), v.Count, v.Type, edges, most)
		}
	}
	for _, r := range relations {
		taken += max(f.counts[r[0]], f.counts[r[2]])
	}
	if most := arrays.MaxClaims(edges + rows); int64(taken) > most {
		return refusal.Errorf("%s: %d vertices, counted once for each of %d relations, with only %d edges "+
			"and %d rows of features and labels: at most %d are read", f.name(), taken,
			len(relations), edges, rows, most)
	}
	return nil
}

// direct decides whether inverse edges are added, and says why.
func (f *folder) direct() (why string) {
	name := nameOf(f.Folder)
	d, isKnown := known[name]
	switch {
	case f.Inverse != ByName:
		f.inverse = f.Inverse == Add
		return "as --inverse-edges asks for"
	case isKnown:
		f.inverse = d.inverse
		return "as OGB's loader does for " + name
	default:
		return fmt.Sprintf("as the folder lists them: %.60q is none of OGB's names (--inverse-edges adds "+
			"inverse edges)", filepath.Base(f.Folder))
	}
}

// readLabels reads the labels of a type and the split of its vertices.
func (f *folder) readLabels(g *graph.Graph, t graph.VertexType) error {
	m, err := f.labels(t.Type)
	if err != nil {
		return err
	}
	defer m.Close()
	if g.Types[0].Labels, err = labelsOf(m, t.Count); err != nil {
		return err
	}
	g.Types[0].Splits, err = f.readSplits(t.Type, t.Count, &g.Types[0].Labels)
	return err
}

// rows are the features of a type, nil where there are none.
func (f *folder) rows(t graph.VertexType) (*streamed.RowSource, error) {
	open := func() (matrix, error) { return f.matrix(nodeFeatures, t.Type) }
	m, err := open()
	if err != nil || m == nil {
		return nil, err
	}
	defer m.Close()
	where := m.where(0)
	return &streamed.RowSource{
		Columns: m.width(), Each: eachRow(open, t.Count, true),
		Refuse: func(err error) error { return refusal.In(where, err) },
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

// newArray finds out what an array of so many vertices holds: integers, if all values are integers.
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

// arraysOf are the arrays of a type other than features and labels, and their names in a note.
func (f *folder) arraysOf(t graph.VertexType) (all []streamed.Array, kept []string, err error) {
	for _, name := range f.more(t.Type) {
		a, err := newArray(arrayName(name), t.Count,
			func() (matrix, error) { return f.matrix(name, t.Type) })
		if err != nil && t.Type == "" {
			err = refusal.Errorf("%w (%s may be left out of the folder)", err, name)
		}
		if err != nil {
			return nil, nil, err
		}
		called := fmt.Sprintf("%q", a.Name)
		if t.Type != "" {
			called += fmt.Sprintf(" of %.80q", t.Type)
		}
		all = append(all, a)
		kept = append(kept, called)
	}
	return all, kept, nil
}

// edgesOf are the edges of a relation as they are stored, but for Symmetrize.
func (f *folder) edgesOf(r triplet) (e streamed.Edges, err error) {
	for _, end := range []string{r[0], r[2]} {
		if _, isType := f.counts[end]; !isType {
			return e, refusal.Errorf("%s: the relation %.100q joins the type %.60q, which there is "+
				"none of; %s", f.name(), r, end, fetchAgain)
		}
	}
	within := ends{f.counts[r[0]], f.counts[r[2]]}
	list, count, err := f.edges(r, within)
	if err != nil {
		return e, err
	}
	defer list.Close()
	e.Count, e.Refuse = count, func(err error) error { return refusal.In(list.name(), err) }
	isSaid := func(err error) error { return err }
	stored := arrays.EdgeArrays{Refuse: isSaid, Open: func() (arrays.EndsReader, error) {
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
		stored.Features = &arrays.Beside{
			Columns: e.Columns, Refuse: isSaid,
			Open: func() (arrays.RowReader, error) {
				m, err := f.edgeFeatures(r)
				return &whole{matrix: m, want: count, finite: true}, err
			},
		}
	}
	e.Each = stored.Each
	if f.inverse {
		e.Count, e.Symmetric, e.Each = 2*count, true, withInverse(stored.Each)
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
				v, features := e.Target[k], e.Features[k*columns:(k+1)*columns]
				both.Source, both.Target = append(both.Source, u, v), append(both.Target, v, u)
				both.Features = append(append(both.Features, features...), features...)
			}
			return do(both)
		})
	}
}

// chooseFeatures decides whether vertices have features of their own, features made from the edges into them,
// or none.
func (f *folder) chooseFeatures(g *streamed.Graph) error {
	ofEdges := g.Relations[0].Columns
	switch {
	case f.FromEdges == "":
		if g.Types[0].Rows == nil && ofEdges > 0 {
			f.note("no features of vertices; --features-from-edges %s makes them of the %d that edges have",
				Mean,
				ofEdges)
		}
	case g.Types[0].Rows != nil:
		return refusal.Errorf("--features-from-edges %s: %s has features of its vertices; leave "+
			"--features-from-edges out",
			f.FromEdges, f.Folder)
	case ofEdges == 0:
		return refusal.Errorf("--features-from-edges %s: %s has no features of edges; leave "+
			"--features-from-edges out",
			f.FromEdges, f.Folder)
	default:
		g.FromEdges = func(rows *graph.Relation) ([]float32, error) { return fromEdges(f.FromEdges, rows) }
		f.note("the features of a vertex are the %s of those of the edges into it", f.FromEdges)
	}
	return nil
}

// fromEdges makes features of consecutive vertices from the features of the edges into them. A vertex without
// edges has zeros.
func fromEdges(kind string, rows *graph.Relation) ([]float32, error) {
	columns := rows.Features.Columns
	made, err := memory.Grow([]float32{}, (len(rows.Indptr)-1)*columns)
	if err != nil {
		return nil, err
	}
	sums := make([]float64, columns)
	for v, from := range rows.Indptr[:len(rows.Indptr)-1] {
		to := rows.Indptr[v+1]
		clear(sums)
		for k := from; k < to; k++ {
			for c, x := range rows.Features.Dense[int(k)*columns : int(k+1)*columns] {
				sums[c] += float64(x)
			}
		}
		for _, sum := range sums {
			if kind == Mean {
				sum /= float64(max(to-from, 1))
			}
			made = append(made, float32(sum))
		}
	}
	return made, nil
}
