package ogb

import (
	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// openOne opens a graph of one type. Its layout must stay open until it has been read or written.
func openOne(l layout, o Options) (*streamed.Graph, error) {
	f, err := readFolder(l, o)
	if err != nil {
		return nil, err
	}
	g := &streamed.Graph{
		Source: f.Folder, Symmetrize: f.Symmetrize, Progress: f.Progress,
		Relations: []streamed.Relation{{EdgeSplit: f.edgeSplit}}, Types: make([]streamed.Type, 1),
	}
	own, edges := &g.Types[0], &g.Relations[0]
	if own.Rows, err = f.rows(); err != nil {
		return nil, err
	}
	if edges.Edges, err = f.edgesOf(); err != nil {
		return nil, err
	}
	if err := f.chooseFeatures(g); err != nil {
		return nil, err
	}
	if own.Arrays, err = f.arrays(); err != nil {
		return nil, err
	}
	g.InMemory = &graph.Graph{
		Count: f.counts.vertices, Labels: f.labels, Splits: f.splits, Metric: f.metric, Provenance: f.provenance(), Notes: f.notes, Warnings: f.warnings,
	}
	return g, nil
}

// rows are the features of vertices, nil where there are none.
func (f *folder) rows() (*streamed.Rows, error) {
	m, err := f.matrix(nodeFeatures)
	if err != nil || m == nil {
		return nil, err
	}
	defer m.close()
	each := func(do func(rows []float32) error) error {
		m, err := f.matrix(nodeFeatures)
		if err != nil {
			return err
		}
		defer m.close()
		return (&whole{matrix: m, want: int64(f.counts.vertices), finite: true}).each(do)
	}
	where := m.where(0)
	return &streamed.Rows{Columns: m.width(), Each: each, Refuse: func(err error) error { return refusal.Errorf("%s: %w", where, err) }}, nil
}

// edgesOf are the edges as they are stored, but for Symmetrize.
func (f *folder) edgesOf() (streamed.Edges, error) {
	open := func() (*edgeList, error) {
		list, err := openEdges(f.layout, f.counts)
		if err == nil {
			list.inverse = f.inverse
		}
		return list, err
	}
	list, err := open()
	if err != nil {
		return streamed.Edges{}, err
	}
	defer list.close()
	return streamed.Edges{
		Count: list.stored(), Columns: list.columns(), Symmetric: f.inverse,
		Each: func(do func(graph.Edges) error) error {
			list, err := open()
			if err != nil {
				return err
			}
			defer list.close()
			return list.eachStored(do)
		},
		Refuse: list.refuse, // by the name alone
	}, nil
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
