package rdf

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/graph/internal/names"
	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/realdata"
	"weft/internal/require"
)

// family are triples of three predicates, of which two have one local name.
const family = "\ufeff# a family\r\n" +
	"<http://x/anna> <http://x/v#knows> <http://x/ben> .\r\n" +
	"\n" +
	"<http://x/ben> <http://x/v#knows> _:c .\n" +
	"<http://x/anna> <http://y/knows> <http://x/ben> .\n" +
	"_:c <http://x/v#age> \"7\"^^<http://x/int> .\n" +
	"<http://x/ben> <http://x/v#knows> _:c . # again\n" +
	"<http://x/anna> <http://x/v#age> \"7\" .\n" +
	"<http://x/ben> <http://x/v#age> \"\\u0037\"" + ".\n" +
	"_:c <http://x/v#knows> _:c ."

// edges lists the edges of a relation by the names of their ends.
func edges(g *graph.Graph, r *graph.Relation) (all []string) {
	for v := range g.Types[0].Names {
		for _, u := range r.Sources[r.Indptr[v]:r.Indptr[v+1]] {
			all = append(all, g.Types[0].Names[u]+"→"+g.Types[0].Names[v])
		}
	}
	slices.Sort(all)
	return all
}

func TestRead(t *testing.T) {
	const header = "id\tperson\tgroup\r\n"
	o := Options{
		Paths: []string{
			graphtest.File(t, "a.nt", family),
			graphtest.File(t, "b.nt.gz", graphtest.Zipped(t, "_:c <http://x/v#knows> <http://x/anna> .\n")),
		},
		Train:  graphtest.File(t, "train.tsv", header+"1\thttp://x/ben\tred\r\n\r\n2\t_:c#2\tblue"),
		Test:   graphtest.File(t, "test.tsv", header+"3\thttp://x/anna\tred\n"),
		Entity: "person", Label: "group",
	}
	g, err := Read(o)
	require.NoError(t, err)
	got := map[string][]string{}
	var order []string
	for k := range g.Relations {
		r := &g.Relations[k]
		assert.Equal(t, names.EntityType, r.Source, "%s joins to", r.Name)
		assert.Equal(t, names.EntityType, r.Target, "%s joins to", r.Name)
		order = append(order, r.Name)
		got[r.Name] = edges(g, r)
	}
	assert.Equal(t, []string{"knows", "knows_2", "age", "rev_knows", "rev_knows_2", "rev_age"}, order,
		"relations")
	names := []string{"http://x/anna", "http://x/ben", "_:c", `"7"^^<http://x/int>`, `"7"`, "_:c#2"}
	assert.Equal(t, names, g.Types[0].Names)
	want := map[string][]string{
		"knows":   {"_:c#2→http://x/anna", "_:c→_:c", "http://x/anna→http://x/ben", "http://x/ben→_:c"},
		"knows_2": {"http://x/anna→http://x/ben"},
		"age":     {`_:c→"7"^^<http://x/int>`, `http://x/anna→"7"`, `http://x/ben→"7"`},
	}
	for name, forth := range want {
		assert.Equal(t, forth, got[name], name)
		var back []string
		for _, e := range forth {
			source, target, _ := strings.Cut(e, "→")
			back = append(back, target+"→"+source)
		}
		slices.Sort(back)
		assert.Equal(t, back, got["rev_"+name], "rev_%s", name)
	}
	assert.Equal(t, graph.Labels{
		Classes: 2, Class: []int64{1, 1, -1, -1, -1, 0}, Names: []string{"blue", "red"},
	}, g.Types[0].Labels)
	assert.Equal(t, []graph.Split{
		{Train: []int64{1, 5}, Val: []int64{}, Test: []int64{0}},
	}, g.Types[0].Splits)
	assert.Equal(t, []string{
		"relation knows_2 is http://y/knows", "1 triples that stand twice left out",
		"3 reverse relations added",
	}, g.Notes)

	// What gives the label away is left out, and entities that nothing else names with it.
	o.Without = []string{"http://x/v#age"}
	g, err = Read(o)
	require.NoError(t, err)
	if len(g.Relations) != 4 || len(g.Types[0].Names) != 4 || g.Notes[0] != "3 triples of http://x/v#age left out" {
		t.Errorf("%d relations, names %q, notes %q", len(g.Relations), g.Types[0].Names, g.Notes)
	}
	// Labels may stay away.
	if g, err = Read(Options{
		Paths: o.Paths,
	}); err != nil || g.Types[0].Labels.Class != nil || g.Types[0].Splits != nil {
		t.Errorf("without tables: %v, labels %v, splits %v", err, g.Types[0].Labels, g.Types[0].Splits)
	}
}

func TestLocalNames(t *testing.T) {
	r := names.NewRelations()
	// The third of a name that is knows, as the one back of knows_2 would be taken
	want := []string{
		"knows", "rev_knows_2", "Größe_1.2-x", "_x", "a_b", "urn", "_", "knows_3", "rev",
		strings.Repeat("é", 50),
	}
	for _, iri := range []string{
		"http://x/knows", "http://y/rev_knows_2", "http://x#Größe!!1.2-x", "http://x/.x", "http://x/a__b/",
		"urn:", "x:_", "urn:knows", "x:rev", "x:" + strings.Repeat("é", 200),
	} {
		r.All = append(r.All, names.Relation{Name: iri})
	}
	got, notes := r.Names(localName)
	assert.Equal(t, want, got)
	assert.Equal(t, []string{"relation knows_3 is urn:knows"}, notes)
}

func TestRefusals(t *testing.T) {
	const header = "person\tgroup\n"
	good := func(t *testing.T) Options {
		return Options{
			Paths: []string{graphtest.File(t, "a.nt", family)}, Entity: "person", Label: "group",
			Train: graphtest.File(t, "train.tsv", header+"http://x/ben\tred\n"),
			Test:  graphtest.File(t, "test.tsv", header+"http://x/anna\tblue\n"),
		}
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, o *Options)
		want   string // where %s is the folder of the file that is to blame
	}{
		{"missing dot", func(t *testing.T, o *Options) {
			o.Paths[0] = graphtest.File(t, "a.nt", "# x\r\n\r\n<a:s> <a:p> <a:o>\r\n")
		}, "a.nt:3: the dot is missing"},
		{"second file", func(t *testing.T, o *Options) {
			o.Paths = append(o.Paths, graphtest.File(t, "b.nt", "x"))
		}, `b.nt:1: the subject "x" is not what N-Triples has there`},
		{"no file", func(t *testing.T, o *Options) {
			o.Paths[0] = filepath.Join(t.TempDir(), "a.nt")
		}, "a.nt: no such file"},
		{"a folder", func(t *testing.T, o *Options) {
			o.Paths[0] = t.TempDir()
		}, "is a directory, not a file"},
		{"an array", func(t *testing.T, o *Options) {
			o.Paths[0] = graphtest.File(t, "a.nt", "\x93NUMPY")
		}, "a.nt: is a NumPy array"},
		{"zeros", func(t *testing.T, o *Options) {
			o.Paths[0] = graphtest.File(t, "a.nt", "\x00")
		}, "a.nt: is no text: give N-Triples"},
		{"damaged gzip", func(t *testing.T, o *Options) {
			o.Paths[0] = graphtest.File(t, "a.nt.gz", "\x1f\x8bx")
		}, "a.nt.gz: a damaged gzip file"},
		{"short gzip", func(t *testing.T, o *Options) {
			whole := graphtest.Zipped(t, family)
			o.Paths[0] = graphtest.File(t, "a.nt.gz", whole[:len(whole)-9])
		}, "the file is damaged or cut short"},
		{"gzip that ends in a line", func(t *testing.T, o *Options) {
			whole := graphtest.Zipped(t, "<a:s> <a:p> \""+strings.Repeat("0123456789 abcdef", 8)+"\" .\n")
			o.Paths[0] = graphtest.File(t, "a.nt.gz", whole[:len(whole)-16])
		}, "a.nt.gz:1: unexpected EOF: the file is damaged or cut short"},
		{"long line", func(t *testing.T, o *Options) {
			line := "<a:s> <a:p> \"" + strings.Repeat("x", 16<<20) + "\" .\n"
			o.Paths[0] = graphtest.File(t, "a.nt.gz", graphtest.Zipped(t, line))
		}, "a.nt.gz:1: the line is longer than 16777216 bytes"},
		{"no triple", func(t *testing.T, o *Options) {
			o.Paths[0] = graphtest.File(t, "a.nt", "# nothing\n")
		}, "a.nt: no triple is left"},
		{"unknown predicate", func(_ *testing.T, o *Options) {
			o.Without = []string{"http://x/v#know"}
		}, "without-predicate http://x/v#know: no triple has that predicate; did you mean http://x/v#knows?"},
		{"nothing left", func(_ *testing.T, o *Options) {
			o.Without = []string{"http://x/v#knows", "http://x/v#age", "http://y/knows"}
		}, "a.nt: no triple is left"},

		{"no training", func(_ *testing.T, o *Options) {
			o.Train = ""
		}, "labels without entities that train: give --train"},
		{"no tables", func(_ *testing.T, o *Options) {
			o.Train, o.Test = "", ""
		}, "--entity and --label name columns of a table"},
		{"no columns", func(_ *testing.T, o *Options) {
			o.Entity = ""
		}, "train.tsv: which columns count? give --entity and --label"},
		{"one column", func(_ *testing.T, o *Options) {
			o.Label = "person"
		}, "--entity and --label are one column"},
		{"unknown column", func(_ *testing.T, o *Options) {
			o.Label = "grop"
		}, `train.tsv:1: no column is --label "grop"; did you mean group?`},
		{"column twice", func(t *testing.T, o *Options) {
			o.Test = graphtest.File(t, "test.tsv", "person\tgroup\tgroup\n")
		}, `test.tsv:1: several columns are --label "group"`},
		{"empty table", func(t *testing.T, o *Options) {
			o.Test = graphtest.File(t, "test.tsv", "")
		}, "test.tsv: is empty"},
		{"no rows", func(t *testing.T, o *Options) {
			o.Test = graphtest.File(t, "test.tsv", header+"\r\n")
		}, "test.tsv: has no entity below its first line"},
		{"few fields", func(t *testing.T, o *Options) {
			o.Test = graphtest.File(t, "test.tsv", header+"http://x/anna\n")
		}, "test.tsv:2: 1 columns, where the first line has 2"},
		{"stranger", func(t *testing.T, o *Options) {
			o.Test = graphtest.File(t, "test.tsv", header+"\nhttp://x/eve\tred\n")
		}, `test.tsv:3: "http://x/eve" is no entity of the graph`},
		{"no label", func(t *testing.T, o *Options) {
			o.Test = graphtest.File(t, "test.tsv", header+"http://x/anna\t\n")
		}, `test.tsv:2: "http://x/anna" has no label`},
		{"twice", func(t *testing.T, o *Options) {
			o.Test = graphtest.File(t, "test.tsv", header+"http://x/ben\tred\n")
		}, "train.tsv:2: leave one of the lines out"},
		{"not UTF-8", func(t *testing.T, o *Options) {
			o.Test = graphtest.File(t, "test.tsv", header+"http://x/anna\t\xff\n")
		}, "test.tsv:2: the line is not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := good(t)
			c.change(t, &o)
			_, err := Read(o)
			assert.Refused(t, err, c.want)
		})
	}
}

// TestMUTAG reads the graph that R-GCN was published on, and compares it with what other programs make of the
// same files.
func TestMUTAG(t *testing.T) {
	g, err := Read(Options{
		Paths: []string{realdata.File(t, "rdf_mutag", "mutag_stripped.nt.gz")}, Entity: "bond",
		Label: "label_mutagenic", Train: realdata.File(t, "rdf_mutag", "trainingSet.tsv"),
		Test: realdata.File(t, "rdf_mutag", "testSet.tsv"),
	})
	require.NoError(t, err)
	type facts struct {
		Entities, Relations, Edges, Train, Val, Test int
		EdgeSum                                      int // Σ (relation+1)·(subject+1)·(object+3)
		TrainSum, Mutagenic                          int // Σ (v+1)·label[v], how many are
		Classes                                      []string
	}
	s := g.Types[0].Splits[0]
	got := facts{
		Entities: g.Vertices(), Relations: len(g.Relations), Edges: int(g.Edges()),
		Train: len(s.Train), Val: len(s.Val), Test: len(s.Test), Classes: g.Types[0].Labels.Names,
	}
	for k := range len(g.Relations) / 2 {
		e := g.Relations[k].Edges()
		for i := range e.Len() {
			got.EdgeSum += (k + 1) * int(e.Source[i]+1) * int(e.Target[i]+3)
		}
	}
	for _, v := range s.Train {
		got.TrainSum += int(v+1) * int(g.Types[0].Labels.Class[v])
	}
	for _, class := range g.Types[0].Labels.Class {
		if class == 1 {
			got.Mutagenic++
		}
	}
	want := facts{
		Entities: 23644, Relations: 46, Edges: 2 * 74227, Train: 272, Test: 68, Mutagenic: 129,
		Classes: []string{"0.0", "1.0"}, EdgeSum: 7973052409853, TrainSum: 164928,
	}
	assert.Equal(t, want, got)
}

// A vertex for each predicate and each end: relations of as many vertices each take more memory than there
// is, and with more of them more than any graph of so many triples.
func TestManyPredicates(t *testing.T) {
	file := func(predicates int) string {
		var b strings.Builder
		for k := range predicates {
			fmt.Fprintf(&b, "<a:s%d> <a:p%d> <a:o%d> .\n", k, k, k)
		}
		return graphtest.File(t, "a.nt", b.String())
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(40 << 20))
	for predicates, want := range map[int]string{
		1500: ": 3000 entities and 1500 relations: needs 72.0 MB",
		3000: ": 6000 entities and 3000 relations, with only 3000 triples: leave predicates out",
	} {
		path := file(predicates)
		_, err := Read(Options{Paths: []string{path}})
		assert.RefusedFor(t, err, path+want, "", "want a refusal with the file and %q", want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(family), []byte("person\tgroup\nhttp://x/ben\tred\n_:c\tblue\n"))
	f.Add([]byte(graphtest.Zipped(f, family)), []byte(graphtest.Zipped(f, "group\tperson\r\n1\thttp://x/anna\r\n")))
	f.Add([]byte("<a:\\u0073> <a:p> \"\\\"\\U0001F600\"@en-x.\n_:a.b<a:p>_:c.."),
		[]byte("person\tgroup\na:s\t\xff"))
	f.Fuzz(func(t *testing.T, triples, table []byte) {
		train := graphtest.File(t, "train.tsv", string(table))
		o := Options{
			Paths: []string{graphtest.File(t, "a.nt", string(triples))}, Train: train,
			Entity: "person", Label: "group",
		}
		var g *graph.Graph
		var err error
		alloctest.Reading(t, len(triples)+len(table), func() { g, err = Read(o) })
		if err != nil {
			assert.Refused(t, err, "", "is not a refusal of one line")
			return
		}
		if len(g.Types[0].Names) != g.Vertices() || len(g.Types[0].Splits[0].Train) == 0 {
			t.Errorf("%d names for %d vertices, %d train", len(g.Types[0].Names), g.Vertices(), len(g.Types[0].Splits[0].Train))
		}
	})
}

// FuzzTriple: a term has the name that it has when it is written as that.
func FuzzTriple(f *testing.F) {
	for _, line := range strings.Split(family, "\n") {
		f.Add(line)
	}
	f.Add("<a:\\u00e9> <a:p> \"\\\"\\U0001F600\\n\"@EN-x.#")
	f.Add("_:a.b<a:p>_:c..")
	f.Fuzz(func(t *testing.T, line string) {
		var first, second triple
		present, err := first.parse([]byte(line))
		if err != nil || !present {
			return
		}
		term := func(name []byte) string {
			if name[0] == '_' || name[0] == '"' {
				return string(name)
			}
			return "<" + string(name) + ">"
		}
		again := term(first.subject) + term(first.predicate) + term(first.object) + " ."
		if present, err = second.parse([]byte(again)); err != nil || !present {
			t.Fatalf("%q became %q: %v", line, again, err)
		}
		assert.EqualBy(t, first, second, cmp.AllowUnexported(triple{}))
	})
}
