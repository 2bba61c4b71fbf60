package graph

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// left lists what is in a directory.
func left(t *testing.T, dir string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*")
	require.NoError(t, err)
	return names
}

func TestWriteTakesOnlyAFreePlace(t *testing.T) {
	parent := t.TempDir()
	full, empty, file := filepath.Join(parent, "full"), filepath.Join(parent, "empty"),
		filepath.Join(parent, "file")
	require.NoError(t, os.MkdirAll(filepath.Join(full, "something"), 0o755))
	require.NoError(t, os.Mkdir(empty, 0o755))
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for path, want := range map[string]string{
		full:                              "not empty; remove it",
		file:                              "not an empty directory; remove it",
		filepath.Join(file, "no", "such"): "choose another place",
	} {
		err := dense().Write(path)
		assert.Refused(t, err, path)
		assert.Refused(t, err, want)
		_, err = Create(path, &Graph{Types: []VertexType{{}}, Relations: []Relation{{}}})
		assert.Refused(t, err, "", "%s: Create", path)
	}
	assert.NoError(t, dense().Write(empty))
	assert.Equal(t, []string{"empty", "file", "full"}, left(t, parent))
}

// What is added to a store comes with it, or neither is there.
func TestWriteWith(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	full := errors.New("no room")
	err := dense().WriteWith(dir, nil, func(store string) error {
		g, err := Open(store)
		if err != nil {
			return err
		}
		return errors.Join(full, g.Close())
	})
	assert.ErrorIs(t, err, full)
	assert.Empty(t, left(t, parent))
	add := func(store string) error { return os.WriteFile(filepath.Join(store, "more"), nil, 0o600) }
	if err := dense().WriteWith(dir, nil, add); err != nil || !slices.Contains(left(t, dir), "more") {
		t.Errorf("error %v, left %v", err, left(t, dir))
	}
}

func TestWriteThroughALink(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(parent, "real"), 0o755))
	link := filepath.Join(parent, "link")
	require.NoError(t, os.Symlink("real", link))
	require.NoError(t, dense().Write(link))
	g, err := Open(link)
	require.NoError(t, err)
	assert.NoError(t, g.Close())
}

func TestInconsistentGraphIsNotWritten(t *testing.T) {
	for name, spoil := range map[string]func(g *Graph){
		"no indptr": func(g *Graph) { g.Relations[0].Indptr = nil },
		"indptr":    func(g *Graph) { g.Relations[0].Indptr[1] = 99 },
		"source":    func(g *Graph) { g.Relations[0].Sources[0] = 99 },
		"source in a bad row": func(g *Graph) {
			g.Relations[0].Sources[0], g.Relations[0].Sources[1] = 99, 0
		},
		"weights":          func(g *Graph) { g.Relations[0].Weights = g.Relations[0].Weights[1:] },
		"edge features":    func(g *Graph) { g.Relations[0].Features.Columns = 3 },
		"negative columns": func(g *Graph) { g.Relations[0].Features.Columns = -1 },
		"features":         func(g *Graph) { g.Types[0].Features.Columns = 4 },
		"both features":    func(g *Graph) { g.Types[0].Features.Indptr = make([]int64, 5) },
		"feature NaN":      func(g *Graph) { g.Types[0].Features.Dense[0] = nan },
		"labels":           func(g *Graph) { g.Types[0].Labels.Class = g.Types[0].Labels.Class[1:] },
		"both labels":      func(g *Graph) { g.Types[0].Labels.Multi = make([]float32, 8) },
		"classes only":     func(g *Graph) { g.Types[0].Labels.Class = nil },
		"negative classes": func(g *Graph) { g.Types[0].Labels.Classes = -1 },
		"class names":      func(g *Graph) { g.Types[0].Labels.Names = g.Types[0].Labels.Names[1:] },
		"names":            func(g *Graph) { g.Types[0].Names = g.Types[0].Names[1:] },
		"split":            func(g *Graph) { g.Types[0].Splits[0].Train = []int64{9} },
		"metric":           func(g *Graph) { g.Metric = "luck" },
		"count of edges":   func(g *Graph) { g.Relations[0].Count = len(g.Relations[0].Sources) },
		"names of edges":   func(g *Graph) { g.Relations[0].Names = []string{} },
		"table of edges":   func(g *Graph) { g.Relations[0].Table = &columns.Table{} },
		"arrays of edges":  func(g *Graph) { g.Relations[0].Arrays = []Array{{Name: "age"}} },
	} {
		parent := t.TempDir()
		g := dense()
		spoil(g)
		err := g.Write(filepath.Join(parent, "store"))
		assert.Refused(t, err, parent, name)
		if g.Relations[0].Indptr != nil && g.Check() == nil {
			t.Errorf("%s: passes Check", name)
		}
		assert.Empty(t, left(t, parent), "%s: left", name)
	}
}

// parts are the calls that write dense() in batches.
type parts struct {
	rows     []*Relation
	features [][]float32
	classes  [][]int64
	splits   []Split
}

// batches are those of dense(), without weights and names.
func batches() (*Graph, parts) {
	g := dense()
	r := &g.Relations[0]
	r.Weights, r.Features, g.Types[0].Names, g.Types[0].Labels.Names = nil, Features{}, nil, nil
	g.Types[0].Splits = append(g.Types[0].Splits, Split{Train: []int64{0, 1, 3}})
	return g, parts{
		[]*Relation{
			{Indptr: []int64{0, 2}, Sources: []int32{0, 1}},
			{Indptr: []int64{0}},
			{Indptr: []int64{0, 3, 3, 4}, Sources: []int32{0, 0, 3, 1}},
		},
		[][]float32{g.Types[0].Features.Dense[:9], g.Types[0].Features.Dense[9:]},
		[][]int64{g.Types[0].Labels.Class[:3], g.Types[0].Labels.Class[3:]},
		g.Types[0].Splits,
	}
}

// each are batches that come from a list.
func each[T any](list []T) Batches[T] {
	return func(write func(T) error) error {
		for _, batch := range list {
			if err := write(batch); err != nil {
				return err
			}
		}
		return nil
	}
}

// create begins the store of g without rows, dense features, classes and splits.
func create(t testing.TB, dir string, g *Graph) *Writer {
	t.Helper()
	bare := *g.Copy()
	bare.Types[0].Splits, bare.Types[0].Labels.Class, bare.Types[0].Features.Dense = nil, nil, nil
	bare.Relations = []Relation{{Indptr: []int64{0}, EdgeSplit: g.Relations[0].EdgeSplit}}
	w, err := Create(dir, &bare)
	require.NoError(t, err)
	return w
}

func TestStreamEqualsWrite(t *testing.T) {
	g, p := batches()
	parent := t.TempDir()
	streamed, written := filepath.Join(parent, "streamed"), filepath.Join(parent, "written")
	require.NoError(t, g.Write(written))
	w := create(t, streamed, g)
	err := w.Features(0, 3, -1, func(write func(*Features) error) error { // while edges are written
		rest := p.features
		return w.In(0, 6, &Relation{}, func(rows func(*Relation) error) error {
			for _, batch := range p.rows {
				if err := rows(batch); err != nil {
					return err
				}
				if len(rest) > 0 {
					if err := write(&Features{Columns: 3, Dense: rest[0]}); err != nil {
						return err
					}
					rest = rest[1:]
				}
			}
			return nil
		})
	})
	for _, err := range []error{err, w.Classes(each(p.classes)), w.Splits(p.splits)} {
		require.NoError(t, err)
	}
	_, err = os.Stat(streamed)
	assert.Error(t, err, "the store is there before it is complete")
	require.NoError(t, errors.Join(w.Close(), w.Abort()))
	require.Equal(t, []string{"streamed", "written"}, left(t, parent))
	sameFiles(t, written, streamed)
}

// Names, the graphs of vertices, sparse rows and labels that Create is given are written by it.
func TestStreamOfSeveralGraphs(t *testing.T) {
	g := sparse()
	g.Relations[0].Sources, g.Types[0].Names, g.Types[0].GraphOf, g.Graphs = []int32{0, 2, 1, 2},
		[]string{"a", "", "ä"},
		[]int32{0, 1, 1}, 2
	g.Relations[0].Weights = []float32{.5, 1, 2, -3}
	parent := t.TempDir()
	streamed, written := filepath.Join(parent, "streamed"), filepath.Join(parent, "written")
	require.NoError(t, g.Write(written))
	w := create(t, streamed, g)
	defer w.Abort()
	require.NoError(t, errors.Join(w.In(0, 4, &g.Relations[0], each([]*Relation{&g.Relations[0]})),
		w.Splits(g.Types[0].Splits), w.Close()))
	sameFiles(t, written, streamed)

	for want, change := range map[string]func(*Graph){
		"names.json: 2 names for 3 vertices": func(g *Graph) {
			g.Types[0].Names = g.Types[0].Names[1:]
		},
		"graph_ids: 2 ids of 2 graphs for 3 vertices": func(g *Graph) {
			g.Types[0].GraphOf = g.Types[0].GraphOf[1:]
		},
		"graph_ids: vertex 1 is of graph 1, where graphs are 0 to 0": func(g *Graph) { g.Graphs = 1 },
		"features_data: 2 values for 3 columns stored": func(g *Graph) {
			g.Types[0].Features.Data = g.Types[0].Features.Data[1:]
		},
	} {
		spoilt := *g.Copy()
		change(&spoilt)
		_, err := Create(filepath.Join(parent, "spoilt"), &spoilt)
		assert.Refused(t, err, want)
	}
	for want, rows := range map[string]Relation{
		"graph_ids: the edge from vertex 0 of graph 0 leads to vertex 1 of graph 1": {
			Indptr: []int64{0, 1}, Sources: []int32{0}, Weights: []float32{1},
		},
		"edge_weight: the weight of edge 2 is NaN": {
			Indptr: []int64{0, 1}, Sources: []int32{1}, Weights: []float32{nan},
		},
	} {
		w := create(t, filepath.Join(parent, "refused"), g)
		two := Relation{Indptr: []int64{0, 2}, Sources: []int32{0, 0}, Weights: []float32{1, 1}}
		err := w.In(0, 4, &g.Relations[0], func(write func(*Relation) error) error {
			if err := write(&two); err != nil {
				return err
			}
			err := write(&rows)
			assert.RefusedFor(t, err, want, "")
			return err
		})
		assert.ErrorContains(t, err, want)
		assert.NoError(t, w.Abort())
	}
}

// sameFiles fails where two stores have not the same files, to the byte.
func sameFiles(t *testing.T, written, streamed string) {
	t.Helper()
	require.Equal(t, left(t, written), left(t, streamed))
	for _, name := range left(t, written) {
		a, err := os.ReadFile(filepath.Join(written, name))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(streamed, name))
		require.NoError(t, err)
		assert.Equal(t, string(a), string(b), name)
	}
}

// Edges that are counted as they come, and their features, give the bytes of Write.
func TestCountedStreamEqualsWrite(t *testing.T) {
	g := dense()
	g.Relations[0].Weights, g.Relations[0].Features.Columns, g.Types[0].Names, g.Types[0].Features = nil, 2,
		nil,
		Features{}
	g.Relations[0].Features.Dense = iota32(2 * len(g.Relations[0].Sources))
	g.Types[0].Labels = Labels{Classes: 3, Multi: []float32{0, 1, 1, 0, 0, 0, nan, nan, nan, 1, 1, 1}}
	parent := t.TempDir()
	streamed, written := filepath.Join(parent, "streamed"), filepath.Join(parent, "written")
	require.NoError(t, g.Write(written))
	r := g.Relations[0]
	first := &Relation{
		Indptr: []int64{0, 2}, Sources: []int32{0, 1},
		Frame: Frame{Features: Features{Columns: 2, Dense: r.Features.Dense[:4]}},
	}
	rest := &Relation{
		Indptr: []int64{0, 3, 3, 4}, Sources: []int32{0, 0, 3, 1},
		Frame: Frame{Features: Features{Columns: 2, Dense: r.Features.Dense[4:]}},
	}
	w := create(t, streamed, g)
	require.NoError(t, errors.Join(w.In(0, Counted, &r, each([]*Relation{first, rest})),
		w.Splits(g.Types[0].Splits), w.Close()))
	sameFiles(t, written, streamed)
	// Features of fewer edges than there are
	w = create(t, filepath.Join(parent, "store"), g)
	rest.Features.Dense = rest.Features.Dense[2:]
	assert.Error(t, w.In(0, Counted, &r, each([]*Relation{first, rest})), "written")
	assert.NoError(t, w.Abort())
}

func TestFailedStreamLeavesNothing(t *testing.T) {
	rows := func(edges int64, batches ...*Relation) func(w *Writer) error {
		return func(w *Writer) error { return w.In(0, edges, &Relation{}, each(batches)) }
	}
	features := func(dense ...float32) func(w *Writer) error {
		return func(w *Writer) error {
			return w.Features(0, 3, -1, each([]*Features{{Columns: 3, Dense: dense}}))
		}
	}
	labels := func(class ...int64) func(w *Writer) error {
		return func(w *Writer) error { return w.Classes(each([][]int64{class})) }
	}
	split := func(train int64) func(w *Writer) error {
		return func(w *Writer) error { return w.Splits([]Split{{Train: []int64{train}}}) }
	}
	all := &Relation{Indptr: []int64{0, 2, 5, 5, 6}, Sources: []int32{0, 1, 0, 0, 3, 1}}
	goodRows, goodFeatures, goodLabels, close := rows(6, all), features(make([]float32, 12)...),
		labels(0, 1, -1, 1), (*Writer).Close
	type steps []func(w *Writer) error
	for name, do := range map[string]steps{ // the last step must fail, the others must not
		"nothing":         {close},
		"no features":     {goodRows, goodLabels, close},
		"no labels":       {goodRows, goodFeatures, close},
		"no rows":         {goodFeatures, goodLabels, close},
		"half the rows":   {rows(2, &Relation{Indptr: []int64{0, 2}, Sources: []int32{0, 1}})},
		"edges missing":   {rows(6, &Relation{Indptr: []int64{0, 1, 1, 1, 1}, Sources: []int32{0}})},
		"too many rows":   {rows(6, all, &Relation{Indptr: []int64{0, 0}})},
		"too many values": {features(make([]float32, 15)...)},
		"too few values":  {features(make([]float32, 9)...)},
		"too many labels": {labels(0, 1, -1, 1, 0)},
		"source":          {rows(1, &Relation{Indptr: []int64{0, 1, 1, 1, 1}, Sources: []int32{4}})},
		"descending":      {rows(2, &Relation{Indptr: []int64{0, 2, 2, 2, 2}, Sources: []int32{1, 0}})},
		"bounds descend":  {rows(1, &Relation{Indptr: []int64{0, 1, 0, 1, 1}, Sources: []int32{0}})},
		"bounds short":    {rows(2, &Relation{Indptr: []int64{0, 1, 1, 1, 1}, Sources: []int32{0, 1}})},
		"bounds long":     {rows(2, &Relation{Indptr: []int64{0, 3, 3, 3, 3}, Sources: []int32{0, 1}})},
		"weights": {
			rows(6, &Relation{Indptr: all.Indptr, Sources: all.Sources, Weights: make([]float32, 5)}),
		},
		"part of a row": {features(make([]float32, 4)...)},
		"NaN":           {features(append([]float32{1, 2, nan}, make([]float32, 9)...)...)},
		"class":         {labels(2, 0, 0, 0)},
		"split":         {goodRows, goodFeatures, goodLabels, split(4)},
		"unlabelled":    {goodRows, goodFeatures, goodLabels, split(2)},
	} {
		parent := t.TempDir()
		store := filepath.Join(parent, "store")
		g, _ := batches()
		w := create(t, store, g)
		for k, step := range do {
			if err := step(w); (err != nil) != (k == len(do)-1) ||
				err != nil && !strings.Contains(err.Error(), store) {
				t.Errorf("%s: step %d: %v", name, k, err)
			}
		}
		assert.NoError(t, w.Abort())
		assert.Empty(t, left(t, parent), "%s: left", name)
	}
}

// oneVertex begins a store and appends the rows of its one vertex.
func oneVertex(t *testing.T, store string) *Writer {
	t.Helper()
	w := create(t, store, Of(Relation{Indptr: []int64{0, 0}}))
	require.NoError(t, w.In(0, 0, &Relation{}, each([]*Relation{{Indptr: []int64{0, 0}}})))
	return w
}

// An error of the operating system, here a directory that goes away, must surface and leave nothing.
func TestFailureOfTheDiskLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	store := filepath.Join(parent, "store")
	w := oneVertex(t, store)
	require.NoError(t, os.RemoveAll(filepath.Join(parent, left(t, parent)[0])))
	if err := w.Close(); err == nil || refusal.Is(err) || !strings.Contains(err.Error(), store) {
		t.Errorf("got %v, want a failure that names the store", err)
	}
	assert.Empty(t, left(t, parent), "left")
}

func TestImpossibleGraphsAreRefused(t *testing.T) {
	parent := t.TempDir()
	for name, g := range map[string]Graph{
		"vertices":          {Types: []VertexType{{Frame: Frame{Count: 1 << 31}}}},
		"negative vertices": {Types: []VertexType{{Frame: Frame{Count: -1}}}},
		"columns":           {Types: []VertexType{{Frame: Frame{Features: Features{Columns: -1}}}}},
		"classes":           {Types: []VertexType{{Frame: Frame{Labels: Labels{Classes: -1}}}}},
		"many classes":      {Types: []VertexType{{Frame: Frame{Labels: Labels{Classes: 1 << 40}}}}},
		"metric":            {Metric: "luck"},
	} {
		g.Relations = []Relation{{Indptr: []int64{0}}}
		if g.Types == nil {
			g.Types = []VertexType{{}}
		}
		_, err := Create(filepath.Join(parent, "store"), &g)
		assert.Refused(t, err, "", name)
	}
	assert.Empty(t, left(t, parent), "left")
}

// Edges may be written while the features that are made of them are: both get to their own directories.
func TestOneMethodWithinAnother(t *testing.T) {
	g := &Graph{
		Types: []VertexType{
			{Type: "a", Frame: Frame{Count: 2, Features: Features{Columns: 1}}},
			{Type: "b", Frame: Frame{Count: 1}},
		},
		Relations: []Relation{{Source: "b", Name: "to", Target: "a", Indptr: []int64{0}}},
	}
	dir := filepath.Join(t.TempDir(), "store")
	w, err := Create(dir, g)
	require.NoError(t, err)
	defer w.Abort()
	require.NoError(t, w.Features(0, 1, -1, func(features func(*Features) error) error {
		return w.In(0, 1, &Relation{}, func(rows func(*Relation) error) error {
			return errors.Join(rows(&Relation{Indptr: []int64{0, 1, 1}, Sources: []int32{0}}),
				features(&Features{Columns: 1, Dense: []float32{1, 2}}))
		})
	}))
	require.NoError(t, w.Close())
	stored, err := Open(dir)
	require.NoError(t, err)
	defer stored.Close()
	assert.Equal(t, []float32{1, 2}, stored.Types[0].Features.Dense)
	assert.Equal(t, []int32{0}, stored.Relations[0].Sources)
}
