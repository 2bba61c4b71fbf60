package graph

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/internal/refusal"
)

// left lists what is in a directory.
func left(t *testing.T, dir string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestWriteTakesOnlyAFreePlace(t *testing.T) {
	parent := t.TempDir()
	full, empty, file := filepath.Join(parent, "full"), filepath.Join(parent, "empty"), filepath.Join(parent, "file")
	if err := os.MkdirAll(filepath.Join(full, "something"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		full:                              "not empty; remove it",
		file:                              "not an empty directory; remove it",
		filepath.Join(file, "no", "such"): "choose another place",
	} {
		err := dense().Write(path)
		if err == nil || !refusal.Is(err) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", path, err)
		}
		if _, err := Create(path, Shape{}); err == nil || !refusal.Is(err) {
			t.Errorf("%s: Create got %v", path, err)
		}
	}
	if err := dense().Write(empty); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"empty", "file", "full"}, left(t, parent)); diff != "" {
		t.Error(diff)
	}
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
	if !errors.Is(err, full) || len(left(t, parent)) > 0 {
		t.Errorf("error %v, left %v", err, left(t, parent))
	}
	add := func(store string) error { return os.WriteFile(filepath.Join(store, "more"), nil, 0o600) }
	if err := dense().WriteWith(dir, nil, add); err != nil || !slices.Contains(left(t, dir), "more") {
		t.Errorf("error %v, left %v", err, left(t, dir))
	}
}

func TestWriteThroughALink(t *testing.T) {
	parent := t.TempDir()
	if err := os.Mkdir(filepath.Join(parent, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(parent, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	if err := dense().Write(link); err != nil {
		t.Fatal(err)
	}
	g, err := Open(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestInconsistentGraphIsNotWritten(t *testing.T) {
	for name, spoil := range map[string]func(g *Graph){
		"no indptr":           func(g *Graph) { g.Relations[0].Indptr = nil },
		"indptr":              func(g *Graph) { g.Relations[0].Indptr[1] = 99 },
		"source":              func(g *Graph) { g.Relations[0].Sources[0] = 99 },
		"source in a bad row": func(g *Graph) { g.Relations[0].Sources[0], g.Relations[0].Sources[1] = 99, 0 },
		"weights":             func(g *Graph) { g.Relations[0].Weights = g.Relations[0].Weights[1:] },
		"edge features":       func(g *Graph) { g.Relations[0].EdgeColumns = 3 },
		"negative columns":    func(g *Graph) { g.Relations[0].EdgeColumns = -1 },
		"features":            func(g *Graph) { g.Features.Columns = 4 },
		"both features":       func(g *Graph) { g.Features.Indptr = make([]int64, 5) },
		"feature NaN":         func(g *Graph) { g.Features.Dense[0] = nan },
		"labels":              func(g *Graph) { g.Labels.Class = g.Labels.Class[1:] },
		"both labels":         func(g *Graph) { g.Labels.Multi = make([]float32, 8) },
		"classes only":        func(g *Graph) { g.Labels.Class = nil },
		"negative classes":    func(g *Graph) { g.Labels.Classes = -1 },
		"class names":         func(g *Graph) { g.Labels.Names = g.Labels.Names[1:] },
		"names":               func(g *Graph) { g.Names = g.Names[1:] },
		"split":               func(g *Graph) { g.Splits[0].Train = []int64{9} },
		"metric":              func(g *Graph) { g.Metric = "luck" },
	} {
		parent := t.TempDir()
		g := dense()
		spoil(g)
		err := g.Write(filepath.Join(parent, "store"))
		if err == nil || !refusal.Is(err) || !strings.Contains(err.Error(), parent) {
			t.Errorf("%s: got %v", name, err)
		}
		if g.Relations[0].Indptr != nil && g.Check() == nil {
			t.Errorf("%s: passes Check", name)
		}
		if names := left(t, parent); len(names) > 0 {
			t.Errorf("%s: left %v", name, names)
		}
	}
}

// announced is the shape of dense() without what a Writer does not take.
func announced() Shape {
	return Shape{Vertices: 4, Edges: 6, FeatureColumns: 3, Classes: 2, Metric: "macro-f1", Provenance: "made by hand"}
}

func TestStreamEqualsWrite(t *testing.T) {
	g := dense()
	g.Relations[0].Weights, g.Relations[0].EdgeFeatures, g.Relations[0].EdgeColumns, g.Names, g.Labels.Names = nil, nil, 0, nil, nil
	g.Splits = append(g.Splits, Split{Train: []int64{0, 1, 3}})
	parent := t.TempDir()
	streamed, written := filepath.Join(parent, "streamed"), filepath.Join(parent, "written")
	if err := g.Write(written); err != nil {
		t.Fatal(err)
	}
	w, err := Create(streamed, announced())
	if err != nil {
		t.Fatal(err)
	}
	w.SetSplits(g.Splits)
	for _, err := range []error{
		w.AppendLabels(g.Labels.Class[:3]),
		w.AppendRows([]int32{2}, []int32{0, 1}),
		w.AppendFeatures(g.Features.Dense[:9]),
		w.AppendRows(nil, nil),
		w.AppendRows([]int32{3, 0, 1}, []int32{0, 0, 3, 1}),
		w.AppendFeatures(g.Features.Dense[9:]),
		w.AppendLabels(g.Labels.Class[3:]),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(streamed); err == nil {
		t.Error("the store is there before it is complete")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"streamed", "written"}, left(t, parent)); diff != "" {
		t.Fatal(diff)
	}
	sameFiles(t, written, streamed)
}

// Names, the graphs of vertices and sparse rows are written by Create.
func TestStreamOfSeveralGraphs(t *testing.T) {
	g := sparse()
	g.Relations[0].Sources, g.Names, g.GraphOf, g.Graphs = []int32{0, 2, 1, 2}, []string{"a", "", "ä"}, []int32{0, 1, 1}, 2
	g.Relations[0].Weights = []float32{.5, 1, 2, -3}
	parent := t.TempDir()
	streamed, written := filepath.Join(parent, "streamed"), filepath.Join(parent, "written")
	if err := g.Write(written); err != nil {
		t.Fatal(err)
	}
	shape := Shape{
		Vertices: 3, Edges: 4, Weighted: true, Classes: 2, MultiLabel: true, Sparse: g.Features, Names: g.Names, GraphOf: g.GraphOf, Graphs: g.Graphs,
	}
	w, err := Create(streamed, shape)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	w.SetSplits(g.Splits)
	for _, err := range []error{
		w.AppendMultiLabels(g.Labels.Multi), w.AppendRows([]int32{1, 1, 2}, g.Relations[0].Sources), w.AppendWeights(g.Relations[0].Weights), w.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sameFiles(t, written, streamed)

	for want, change := range map[string]func(*Shape){
		"names.json: 2 names for 3 vertices":                         func(s *Shape) { s.Names = s.Names[1:] },
		"graph_ids: 2 ids of 2 graphs for 3 vertices":                func(s *Shape) { s.GraphOf = s.GraphOf[1:] },
		"graph_ids: vertex 1 is of graph 1, where graphs are 0 to 0": func(s *Shape) { s.Graphs = 1 },
		"features of 2 dense columns and of 5 that are sparse rows":  func(s *Shape) { s.FeatureColumns = 2 },
		"features_data: 2 values for 3 columns stored":               func(s *Shape) { s.Sparse.Data = s.Sparse.Data[1:] },
	} {
		spoilt := shape
		change(&spoilt)
		if _, err := Create(filepath.Join(parent, "spoilt"), spoilt); !refusal.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a refusal with %q", err, want)
		}
	}
	for want, add := range map[string]func(*Writer) error{
		"graph_ids: the edge from vertex 0 of graph 0 leads to vertex 1 of graph 1": func(w *Writer) error { return w.AppendRows([]int32{0, 1}, []int32{0}) },
		"edge_weight: the weight of edge 1 is NaN":                                  func(w *Writer) error { return w.AppendWeights([]float32{1, nan}) },
	} {
		w, err := Create(filepath.Join(parent, "refused"), shape)
		if err != nil {
			t.Fatal(err)
		}
		if err := add(w); !refusal.Is(err) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want a refusal that begins with %q", err, want)
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
	}
}

// sameFiles fails where two stores have not the same files, to the byte.
func sameFiles(t *testing.T, written, streamed string) {
	t.Helper()
	if diff := cmp.Diff(left(t, written), left(t, streamed)); diff != "" {
		t.Fatal(diff)
	}
	for _, name := range left(t, written) {
		a, err := os.ReadFile(filepath.Join(written, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(streamed, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(a), string(b)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Edges that are counted as they come, their features, and several labels per vertex give the bytes of Write.
func TestCountedStreamEqualsWrite(t *testing.T) {
	g := dense()
	g.Relations[0].Weights, g.Relations[0].EdgeColumns, g.Names, g.Features = nil, 2, nil, Features{}
	g.Relations[0].EdgeFeatures = iota32(2 * len(g.Relations[0].Sources))
	g.Labels = Labels{Classes: 3, Multi: []float32{0, 1, 1, 0, 0, 0, nan, nan, nan, 1, 1, 1}}
	parent := t.TempDir()
	streamed, written := filepath.Join(parent, "streamed"), filepath.Join(parent, "written")
	if err := g.Write(written); err != nil {
		t.Fatal(err)
	}
	shape := Shape{Vertices: 4, Edges: Counted, EdgeColumns: 2, Classes: 3, MultiLabel: true, Metric: g.Metric, Provenance: g.Provenance}
	w, err := Create(streamed, shape)
	if err != nil {
		t.Fatal(err)
	}
	scratch, err := w.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	w.SetSplits(g.Splits)
	for _, err := range []error{
		w.AppendMultiLabels(g.Labels.Multi[:6]),
		w.AppendRows([]int32{2}, []int32{0, 1}),
		w.AppendEdgeFeatures(g.Relations[0].EdgeFeatures[:2]),
		w.AppendRows([]int32{3, 0, 1}, []int32{0, 0, 3, 1}),
		w.AppendMultiLabels(g.Labels.Multi[6:]),
		w.AppendEdgeFeatures(g.Relations[0].EdgeFeatures[2:]),
		w.Close(),
		scratch.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sameFiles(t, written, streamed)
	// Features of fewer edges than there are
	w, err = Create(filepath.Join(parent, "store"), shape)
	if err != nil {
		t.Fatal(err)
	}
	for k, err := range []error{
		w.AppendMultiLabels(g.Labels.Multi), w.AppendRows([]int32{2, 3, 0, 1}, []int32{0, 1, 0, 0, 3, 1}),
		w.AppendEdgeFeatures(g.Relations[0].EdgeFeatures[:2]), w.Close(),
	} {
		if (err != nil) != (k == 3) {
			t.Error(k, err)
		}
	}
}

func TestFailedStreamLeavesNothing(t *testing.T) {
	rows := func(w *Writer) error { return w.AppendRows([]int32{2, 3, 0, 1}, []int32{0, 1, 0, 0, 3, 1}) }
	features := func(w *Writer) error { return w.AppendFeatures(make([]float32, 12)) }
	labels := func(w *Writer) error { return w.AppendLabels([]int64{0, 1, -1, 1}) }
	close := func(w *Writer) error { return w.Close() }
	type steps []func(w *Writer) error
	for name, do := range map[string]steps{ // the last step must fail, the others must not
		"nothing":         {close},
		"no features":     {rows, labels, close},
		"no labels":       {rows, features, close},
		"half the rows":   {func(w *Writer) error { return w.AppendRows([]int32{2}, []int32{0, 1}) }, features, labels, close},
		"edges missing":   {func(w *Writer) error { return w.AppendRows([]int32{1, 0, 0, 0}, []int32{0}) }, features, labels, close},
		"too many rows":   {rows, func(w *Writer) error { return w.AppendRows([]int32{0}, nil) }},
		"too many values": {features, func(w *Writer) error { return w.AppendFeatures(make([]float32, 3)) }},
		"too many labels": {labels, func(w *Writer) error { return w.AppendLabels([]int64{0}) }},
		"source":          {func(w *Writer) error { return w.AppendRows([]int32{1}, []int32{4}) }},
		"descending":      {func(w *Writer) error { return w.AppendRows([]int32{2}, []int32{1, 0}) }},
		"negative degree": {func(w *Writer) error { return w.AppendRows([]int32{-1}, nil) }},
		"degrees short":   {func(w *Writer) error { return w.AppendRows([]int32{1}, []int32{0, 1}) }},
		"degrees long":    {func(w *Writer) error { return w.AppendRows([]int32{3}, []int32{0, 1}) }},
		"part of a row":   {func(w *Writer) error { return w.AppendFeatures(make([]float32, 4)) }},
		"NaN":             {func(w *Writer) error { return w.AppendFeatures([]float32{1, 2, nan}) }},
		"class":           {func(w *Writer) error { return w.AppendLabels([]int64{2}) }},
		"split":           {rows, features, labels, func(w *Writer) error { w.SetSplits([]Split{{Train: []int64{4}}}); return w.Close() }},
		"unlabelled":      {rows, features, labels, func(w *Writer) error { w.SetSplits([]Split{{Train: []int64{2}}}); return w.Close() }},
	} {
		parent := t.TempDir()
		store := filepath.Join(parent, "store")
		w, err := Create(store, announced())
		if err != nil {
			t.Fatal(err)
		}
		for k, step := range do {
			if err := step(w); (err != nil) != (k == len(do)-1) || err != nil && !strings.Contains(err.Error(), store) {
				t.Errorf("%s: step %d: %v", name, k, err)
			}
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
		if names := left(t, parent); len(names) > 0 {
			t.Errorf("%s: left %v", name, names)
		}
	}
}

// oneVertex begins a store and appends the rows of its one vertex.
func oneVertex(t *testing.T, store string) *Writer {
	t.Helper()
	w, err := Create(store, Shape{Vertices: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AppendRows([]int32{0}, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// An error of the operating system, here a directory that goes away, must surface and leave nothing.
func TestFailureOfTheDiskLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	store := filepath.Join(parent, "store")
	w := oneVertex(t, store)
	if err := os.RemoveAll(filepath.Join(parent, left(t, parent)[0])); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err == nil || refusal.Is(err) || !strings.Contains(err.Error(), store) {
		t.Errorf("got %v, want a failure that names the store", err)
	}
	if names := left(t, parent); len(names) > 0 {
		t.Errorf("left %v", names)
	}
}

func TestImpossibleShapesAreRefused(t *testing.T) {
	parent := t.TempDir()
	for name, shape := range map[string]Shape{
		"vertices": {Vertices: 1 << 31}, "negative vertices": {Vertices: -1}, "edges": {Edges: -1}, "columns": {FeatureColumns: -1},
		"classes": {Classes: -1}, "many classes": {Classes: 1 << 40}, "metric": {Metric: "luck"}, "bytes": {Edges: 1 << 62},
	} {
		if _, err := Create(filepath.Join(parent, "store"), shape); err == nil || !refusal.Is(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if names := left(t, parent); len(names) > 0 {
		t.Errorf("left %v", names)
	}
}
