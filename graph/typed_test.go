package graph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/internal/assert"
	"weft/internal/require"
)

// typed is a graph of papers, which have labels, and authors and places without features, with four
// relations.
func typed() *Graph {
	return &Graph{
		Types: []VertexType{{
			Type: "paper",
			Frame: Frame{
				Count: 4, Names: []string{"a", "b", "c", "d"},
				Features: Features{Columns: 2, Dense: []float32{1, 2, 3, 4, 5, 6, 7, 8}},
				Labels:   Labels{Classes: 2, Class: []int64{0, 1, -1, 1}},
				Splits:   []Split{{Train: []int64{0}, Val: []int64{1}, Test: []int64{3}}},
			},
		}, {Type: "author", Frame: Frame{Count: 3, Features: Features{
			Columns: 3, Indptr: []int64{0, 1, 1, 2}, Indices: []int32{2, 0}, Data: []float32{1, 2},
		}}}, {Type: "place of work", Frame: Frame{Count: 2}}},
		Relations: []Relation{
			{
				Source: "paper", Name: "cites", Target: "paper", Indptr: []int64{0, 1, 3, 3, 4},
				Sources: []int32{1, 0, 3, 3}, Weights: []float32{1, 2, 3, 4},
			},
			{
				Source: "author", Name: "writes", Target: "paper", Indptr: []int64{0, 2, 2, 2, 3},
				Sources: []int32{0, 2, 2},
			},
			{
				Source: "author", Name: "works", Target: "place of work", Indptr: []int64{0, 1, 3},
				Sources: []int32{1, 0, 2},
				Frame:   Frame{Features: Features{Dense: []float32{1, 2, 3}, Columns: 1}},
			},
			{Source: "place of work", Name: "is of", Target: "author", Indptr: []int64{0, 0, 0, 0}},
		},
		Metric: "accuracy", Provenance: "made by hand",
	}
}

func TestTypedRoundTrip(t *testing.T) {
	want := typed()
	dir := stored(t, want)
	got, err := Open(dir)
	require.NoError(t, err)
	defer got.Close()
	assert.EqualBy(t, want, got, cmpopts.IgnoreUnexported(Graph{}), cmpopts.EquateEmpty())
	assert.NoError(t, got.CheckStored(dir))
	files, err := Files(dir)
	require.NoError(t, err)
	there := 0
	if err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			there++
		}
		return err
	}); err != nil || there != len(files) {
		t.Errorf("%d files, listed are %q; %v", there, files, err)
	}
	for _, file := range []string{
		"vertices/author/features_data.npy", "edges/author__works__place of work/edge_features.npy",
	} {
		_, err := os.Stat(filepath.Join(dir, file))
		assert.NoError(t, err)
	}
	sum := must(got.Checksum())
	assert.Equal(t, must(want.Checksum()), sum, "the checksums of a graph in memory and stored differ")
	for name, change := range map[string]func(g *Graph){
		"feature of another type": func(g *Graph) { g.Types[1].Features.Data[0]++ },
		"edge of a relation":      func(g *Graph) { g.Relations[2].Sources[0]++ },
		"name of a relation":      func(g *Graph) { g.Relations[2].Name = "worked" },
	} {
		other := typed()
		change(other)
		if must(other.Checksum()) == sum {
			t.Errorf("another %s has the same checksum", name)
		}
	}
}

func TestTypedCounts(t *testing.T) {
	g := typed()
	if g.Vertices() != 9 || g.Types[0].Count != 4 || g.Edges() != 10 || !g.Typed() {
		t.Errorf("%d vertices, %d of the first type, %d edges", g.Vertices(), g.Types[0].Count, g.Edges())
	}
	s := summarize(t, g)
	if s.Isolated != 1 || len(s.Types) != 3 || len(s.Relations) != 4 || s.Unlabelled != 1 || s.Symmetric ||
		s.SelfLoops != 1 || s.InDegree.Max != 3 {
		t.Errorf("%+v", s)
	}
	if r := s.Relations[2]; r.Edges != 3 || r.InDegree.Max != 2 || r.OutDegree.Max != 1 ||
		r.EdgeFeatureColumns != 1 {
		t.Errorf("%+v", r)
	}
	if got := describe(g).Relations[3]; got.Source != "place of work" || got.Name != "is of" ||
		got.Target != "author" {
		t.Errorf("%+v", got)
	}
}

// TestReverseRelations: each relation gets one that leads back, once.
func TestReverseRelations(t *testing.T) {
	g := must(typed().ReverseRelations())
	if len(g.Relations) != 8 || g.Check() != nil {
		t.Fatalf("%d relations, %v", len(g.Relations), g.Check())
	}
	assert.Len(t, must(g.ReverseRelations()).Relations, 8, "relations after a second time")
	back := g.Relations[6]
	if source, name, target := back.Ends(); source != "place of work" || name != "rev_works" ||
		target != "author" {
		t.Errorf("%s %s %s", source, name, target)
	}
	assert.Equal(t, []int32{1, 0, 1}, back.Sources)
	assert.Equal(t, []float32{2, 1, 3}, back.Features.Dense)
	single := must(
		Of(must(NewRelation(2, Edges{Source: []int32{0}, Target: []int32{1}}))).
			ReverseRelations())
	if err := single.Check(); err != nil || !single.Typed() {
		t.Errorf("%+v %v", single.Relations, err)
	}
}

func TestTypedIsNotWritten(t *testing.T) {
	for want, spoil := range map[string]func(g *Graph){
		"place of work/names.json: 1 names":  func(g *Graph) { g.Types[2].Names = []string{"x"} },
		"author/features_data":               func(g *Graph) { g.Types[1].Features.Data[0] = nan },
		"author__works__place of work/indic": func(g *Graph) { g.Relations[2].Sources[0] = 3 },
		`no vertex type "writer"`:            func(g *Graph) { g.Relations[1].Source = "writer" },
	} {
		g := typed()
		spoil(g)
		dir := filepath.Join(t.TempDir(), "store")
		assert.Refused(t, g.Write(dir), want)
	}
	for _, name := range []string{"a\nb", strings.Repeat("x", 201), "\xff", strings.Repeat("/", 90)} {
		g := typed()
		g.Types[2].Type, g.Relations[2].Target, g.Relations[3].Source = name, name, name
		assert.Refused(t, g.Write(filepath.Join(t.TempDir(), "store")), "", "a type called %q", name)
	}
	for name, change := range map[string]func() error{
		"symmetrize": func() error { _, err := typed().Symmetrize(); return err },
		"loops":      func() error { _, err := typed().AddSelfLoops(); return err },
		"component":  func() error { _, err := typed().LargestComponent(); return err },
	} {
		assert.Error(t, change(), "%s: a graph of several types was changed", name)
	}
}

// TestNamesOfOneType: what cannot be read again under its name is not written, of a graph of one type as of
// several.
func TestNamesOfOneType(t *testing.T) {
	for _, c := range []struct{ vertex, relation, want string }{
		{"a\nb", "to", `a type is called "a\nb": give it a name of up to 200 bytes of printed characters`},
		{"item", "\x1b[31m", `a relation is called "\x1b[31m"`},
	} {
		g := &Graph{
			Types: []VertexType{{Type: c.vertex, Frame: Frame{Count: 2}}},
			Relations: []Relation{
				{
					Source: c.vertex, Name: c.relation, Target: c.vertex, Indptr: []int64{0, 0, 1},
					Sources: []int32{0},
				},
			},
		}
		assert.Refused(t, g.Check(), c.want, "%q, %q", c.vertex, c.relation)
		dir := filepath.Join(t.TempDir(), "store")
		assert.Refused(t, g.Write(dir), "", "%q, %q: written", c.vertex, c.relation)
	}
}

// TestNamesInFolders: names that are no names of folders are those that are read again.
func TestNamesInFolders(t *testing.T) {
	g := typed()
	name, relation := "http://example.org/Place", ".http://example.org/works-at%2F"
	g.Types[2].Type, g.Relations[2].Target, g.Relations[3].Source = name, name, name
	g.Relations[2].Name = relation
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, g.Write(dir))
	for _, folder := range []string{
		"vertices/http:%2F%2Fexample.org%2FPlace",
		"edges/author__.http:%2F%2Fexample.org%2Fworks-at%2F__http:%2F%2Fexample.org%2FPlace",
	} {
		_, err := os.Stat(filepath.Join(dir, folder))
		assert.NoError(t, err)
	}
	got, err := Open(dir)
	require.NoError(t, err)
	defer got.Close()
	assert.Equal(t, name, got.Types[2].Name())
	assert.Equal(t, relation, got.Relations[2].Name)
	assert.Equal(t, g.Relations[2].Sources, got.Relations[2].Sources)
	assert.Equal(t, "%2E.a%2Fb", FolderName("..a/b"))
	g.Types[1].Type, g.Types[2].Type = "a%2Fb", "a/b"
	for k, old := range map[string]string{"author": "a%2Fb", name: "a/b"} {
		for i := range g.Relations {
			for _, end := range []*string{&g.Relations[i].Source, &g.Relations[i].Target} {
				if *end == k {
					*end = old
				}
			}
		}
	}
	const want = `two vertex types would have the folder "vertices/a%2Fb": rename one of them`
	assert.Refused(t, g.Check(), want)
}

// TestRelationsOfOneFolder: names that make the same folder are refused with the way out.
func TestRelationsOfOneFolder(t *testing.T) {
	g := typed()
	g.Types = append(g.Types, VertexType{Type: "paper__cites", Frame: Frame{Count: 4}})
	again := g.Relations[0]
	again.Source, again.Name = "paper__cites", "too"
	other := g.Relations[0]
	other.Name = "cites__too"
	g.Relations = append(g.Relations, again, other)
	const want = `two relations would have the folder "edges/paper__cites__too__paper": rename one of them`
	assert.Refused(t, g.Check(), want)
}

// TestProgressOfWriting: what is written is at most what there is to write, whose headers do not count, and
// it is all of that in the end.
func TestProgressOfWriting(t *testing.T) {
	written, all := int64(0), int64(0)
	progress := func(_ string, done, total int64) {
		if done > total {
			t.Errorf("%d of %d bytes are written", done, total)
		}
		written, all = done, total
	}
	require.NoError(t, typed().WriteWith(filepath.Join(t.TempDir(), "s"), progress,
		func(string) error { return nil }))
	assert.Equal(t, all, written)
}
