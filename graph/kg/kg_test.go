package kg

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/require"
)

// pets is a graph of two relations; no triple that trains has the third, nor the entity dan.
func pets(t testing.TB) map[string]string {
	return map[string]string{
		"train.txt":    "ann\t/has/pet\trex\r\n\nben\t/has/pet\ttom cat\nann\t_knows\tben\nann\t_knows\tben\n",
		"valid.txt":    "rex\t_knows\ttom cat\n",
		"test.txt.gz":  graphtest.Zipped(t, "dan\t_knows\tann\nann\tfed, by\tdan\nben\t/has/pet\trex"),
		"licence.txt":  "",
		".hidden":      "",
		"relations.md": "",
	}
}

// triples are the relations of a graph, and their splits, by the names of the ends.
func triples(g *graph.Graph) (all []string) {
	pair := func(u, v int32) string { return g.Types[0].Names[u] + "→" + g.Types[0].Names[v] }
	for k := range g.Relations {
		r := &g.Relations[k]
		var edges []string
		for v := range g.Types[0].Names {
			for _, u := range r.Sources[r.Indptr[v]:r.Indptr[v+1]] {
				edges = append(edges, pair(u, int32(v)))
			}
		}
		line := fmt.Sprint(r.Source, ",", r.Name, ",", r.Target, edges)
		if r.EdgeSplit != nil {
			for _, part := range r.EdgeSplit.Edges {
				var pairs []string
				for i := 0; i < len(part); i += 2 {
					pairs = append(pairs, pair(part[i], part[i+1]))
				}
				line += fmt.Sprint(" ", pairs)
			}
		}
		all = append(all, line)
	}
	return all
}

// TestRead: training triples are the edges, and all of them the split.
func TestRead(t *testing.T) {
	dir := graphtest.Files(t, pets(t))
	forward := []string{
		"entity,has.pet,entity[ann→rex ben→tom cat] [ann→rex ben→tom cat] [] [ben→rex]",
		"entity,_knows,entity[ann→ben ann→ben] [ann→ben ann→ben] [rex→tom cat] [dan→ann]",
		"entity,fed_ by,entity[] [] [] [ann→dan]",
	}
	back := []string{
		"entity,rev_has.pet,entity[rex→ann tom cat→ben] [rex→ann tom cat→ben] [] [rex→ben]",
		"entity,rev__knows,entity[ben→ann ben→ann] [ben→ann ben→ann] [tom cat→rex] [ann→dan]",
		"entity,rev_fed_ by,entity[] [] [] [dan→ann]",
	}
	for reciprocal, want := range map[bool][]string{false: forward, true: slices.Concat(forward, back)} {
		g, err := Read(Options{Path: dir, Reciprocal: reciprocal})
		require.NoError(t, err)
		assert.Equal(t, []string{"ann", "rex", "ben", "tom cat", "dan"}, g.Types[0].Names)
		assert.Equal(t, want, triples(g))
		assert.Equal(t,
			[]string{`names of 1 relation cannot be those of folders: the first, "fed, by", is "fed_ by"`},
			g.Notes)
		assert.Equal(t, []string{dir + `: not read: "licence.txt", "relations.md"`}, g.Warnings)
		if g.Types[0].Type != "entity" || g.Types[0].Count != 5 || g.Provenance != "kg "+dir {
			t.Errorf("%d of type %s, %s", g.Types[0].Count, g.Types[0].Type, g.Provenance)
		}
	}
}

// TestLists: with DGL's lists vertices and relations have their numbers.
func TestLists(t *testing.T) {
	files := pets(t)
	files["entities.dict"] = "0\tdan\n1\ttom cat\n2\tann\n3\tben\n4\teve\n5\trex\n"
	files["relations.dict"] = "0\tfed, by\n1\t_knows\n2\tunused\n3\t/has/pet\n"
	g, err := Read(Options{Path: graphtest.Files(t, files)})
	require.NoError(t, err)
	assert.Equal(t, []string{"dan", "tom cat", "ann", "ben", "eve", "rex"}, g.Types[0].Names)
	want := []string{
		"entity,fed_ by,entity[] [] [] [ann→dan]",
		"entity,_knows,entity[ann→ben ann→ben] [ann→ben ann→ben] [rex→tom cat] [dan→ann]",
		"entity,unused,entity[] [] [] []",
		"entity,has.pet,entity[ben→tom cat ann→rex] [ann→rex ben→tom cat] [] [ben→rex]",
	}
	assert.Equal(t, want, triples(g))
}

// TestFile: one file is a graph without a split. Fields are between spaces if the first line has no tab.
func TestFile(t *testing.T) {
	path := graphtest.File(t, "a.txt", "00001 _part 00002\n\n 00002  _part\t00003 \n")
	g, err := Read(Options{Path: path})
	require.NoError(t, err)
	if diff := cmp.Diff([]string{"entity,_part,entity[00001→00002 00002→00003]"}, triples(g)); diff != "" ||
		g.Warnings != nil {
		t.Errorf("%s, warnings %q", diff, g.Warnings)
	}
}

func TestCalled(t *testing.T) {
	for name, want := range map[string]string{
		"/film/actor/film./film/performance/film": "film.actor.film..film.performance.film",
		"_hypernym": "_hypernym", ".x": "_x", "..": "_", "/": "_", "a,b;c\x1b": "a_b_c_",
		"größe 1":                "größe 1",
		strings.Repeat("é", 200): strings.Repeat("é", 90), "x" + strings.Repeat("é", 200): "x" +
			strings.Repeat("é", 89),
	} {
		assert.Equal(t, want, called(name), "%q", name)
	}
}

// TestNamesThatCollide: relations that would have one folder are numbered, and so is one that would have that
// of a reverse.
func TestNamesThatCollide(t *testing.T) {
	g, err := Read(
		Options{
			Path:       graphtest.File(t, "a.txt", "a\tx/y\tb\na\tx.y\tb\na\trev_x.y\tb\n"),
			Reciprocal: true,
		})
	require.NoError(t, err)
	var names []string
	for _, r := range g.Relations {
		names = append(names, r.Name)
	}
	assert.Equal(t, []string{"x.y", "x.y_2", "rev_x.y_3", "rev_x.y", "rev_x.y_2", "rev_rev_x.y_3"}, names)
}

func TestIs(t *testing.T) {
	files := pets(t)
	if dir := graphtest.Files(t, files); !Is(dir) {
		t.Errorf("%s is none", dir)
	}
	delete(files, "valid.txt")
	if dir := graphtest.Files(t, files); Is(dir) {
		t.Errorf("%s without valid.txt is one", dir)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"two fields", "train.txt", "a\tb\tc\na\tb\n", "train.txt:2: 2 fields, where a triple has three"},
		{"four fields", "valid.txt", "a\tb\tc\td\n", "valid.txt:1: 4 fields"},
		{"spaces after tabs", "train.txt", "a\tb\tc\na b c\n", "train.txt:2: 1 fields"},
		{"an empty name", "train.txt", "a\tb\t\n", `train.txt:1: the name "" is empty`},
		{"an empty relation", "train.txt", "a\t\tc\n", `train.txt:1: the name "" is empty`},
		{"not UTF-8", "train.txt", "\xff\tb\tc\n", `train.txt:1: the name "\xff" is empty, or not UTF-8`},
		{"no triple", "valid.txt", "\n", "valid.txt: has no triple"},
		{"an array", "train.txt", "\x93NUMPY", "train.txt: is a NumPy array"},
		{"zeros", "train.txt", "\x00", "train.txt: is no text"},
		{"a damaged gzip", "train.txt", "\x1f\x8bx", "train.txt: a damaged gzip file"},
		{"a short gzip", "train.txt", graphtest.Zipped(t, "a\tb\tc\n")[:24], "the file is damaged or cut short"},
		{
			"a long line", "train.txt", graphtest.Zipped(t, "a\tb\t"+strings.Repeat("c", 1<<16)),
			"train.txt:1: the line is longer than 65536 bytes",
		},
		{
			"no number", "entities.dict", "ann\t0\n",
			`entities.dict:1: "ann\t0" is not the number 0 and a name`,
		},
		{"from 1", "entities.dict", "1\tann\n", "is not the number 0 and a name"},
		{"no tab", "relations.dict", "0 _knows\n", "is not the number 0 and a name"},
		{"no name", "relations.dict", "0\t\n", `relations.dict:1: the name "" is empty`},
		{"listed twice", "entities.dict", "0\tann\n1\tann\n", `entities.dict:2: "ann" stands twice`},
		{
			"an unlisted entity", "entities.dict", "0\tann\n",
			`train.txt:1: "rex" is not among the names of entities.dict`,
		},
		{
			"an unlisted relation", "relations.dict", "0\t/has/pet\n",
			`train.txt:4: "_knows" is not among the names of relations.dict`,
		},
		{"no test triples", "test.txt.gz", "", "test.txt.gz: has no triple"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := pets(t)
			files[c.file] = c.text
			_, err := Read(Options{Path: graphtest.Files(t, files)})
			assert.Refused(t, err, c.want)
		})
	}
	files := pets(t)
	delete(files, "valid.txt")
	for path, want := range map[string]string{
		graphtest.Files(t, files): "has no valid.txt: a folder has train.txt, valid.txt, " +
			"test.txt, or name one file of triples",
		filepath.Join(t.TempDir(), "none"): "no such file or directory",
	} {
		_, err := Read(Options{Path: path})
		assert.Refused(t, err, want, path)
	}
}

// TestManyRelations: each relation has a row for each entity, which costs a file one triple.
func TestManyRelations(t *testing.T) {
	file := func(relations int) string {
		var b strings.Builder
		for k := range relations {
			fmt.Fprintf(&b, "s%d\tp%d\to%d\n", k, k, k)
		}
		return graphtest.File(t, "a.txt", b.String())
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(40 << 20))
	for relations, want := range map[int]string{
		1500: ": 3000 entities and 1500 relations: needs 72.0 MB",
		3000: ": 6000 entities and 3000 relations, with only 3000 triples",
	} {
		path := file(relations)
		_, err := Read(Options{Path: path})
		assert.RefusedFor(t, err, path+want, "", "want a refusal with the file and %q", want)
	}
}

func FuzzRead(f *testing.F) {
	files := pets(f)
	f.Add([]byte(files["train.txt"]), []byte(files["test.txt.gz"]),
		[]byte("0\tann\n1\trex\n2\tben\n3\ttom cat\n4\tdan\n"))
	f.Add([]byte("a b c\nc b a"), []byte("a  b\tc"), []byte("\n"))
	f.Add([]byte("\xef\xbb\xbfa\t/\tc\n\ta\t.\tc"), []byte("a\tb\tc"), []byte(""))
	f.Fuzz(func(t *testing.T, train, heldOut, entities []byte) {
		dir := graphtest.Files(t, map[string]string{
			"train.txt": string(train), "valid.txt": string(heldOut),
			"test.txt": string(heldOut),
		})
		if len(entities) > 0 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "entities.dict"), entities, 0o666))
		}
		var g *graph.Graph
		var err error
		alloctest.Reading(t, len(train)+2*len(heldOut)+len(entities),
			func() { g, err = Read(Options{Path: dir, Reciprocal: len(entities)%2 == 0}) })
		if err != nil {
			assert.Refused(t, err, "", "is not a refusal of one line")
			return
		}
		if len(g.Types[0].Names) != g.Vertices() || g.Edges() == 0 {
			t.Errorf("%d names for %d vertices, %d edges", len(g.Types[0].Names), g.Vertices(), g.Edges())
		}
	})
}
