package ogb

import (
	"archive/zip"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// typedToy is a graph of authors, papers and fields, of which papers have features and labels.
type typedToy struct {
	papers  *toy // whose edges cite
	authors int
	fields  int
	writes  [2][]int64 // author, paper
	about   [2][]int64 // paper, field
}

func newTypedToy() *typedToy {
	random := rand.New(rand.NewPCG(5, 6))
	y := &typedToy{papers: newToy(30, 90), authors: 12, fields: 4}
	y.papers.edgeFeatures = nil
	for range 50 {
		y.writes[0], y.writes[1] = append(y.writes[0], random.Int64N(12)),
			append(y.writes[1], random.Int64N(30))
		y.about[0], y.about[1] = append(y.about[0], random.Int64N(30)), append(y.about[1], random.Int64N(4))
	}
	return y
}

func (y *typedToy) writeSplits(t testing.TB, folder string) {
	t.Helper()
	split := y.papers.splits["time"]
	gzipped(t, filepath.Join(folder, "split/time/nodetype-has-split.csv.gz"),
		"author,paper,field\nFalse,True,False\n")
	for part, file := range []string{"train", "valid", "test"} {
		gzipped(t, filepath.Join(folder, "split/time/paper", file+textSuffix), ints(split[part]))
	}
}

func (y *typedToy) text(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "ogbn_mag")
	raw := func(name, text string) { gzipped(t, filepath.Join(folder, "raw", name+textSuffix), text) }
	raw("num-node-dict", "author,paper,field\n12,30,4\n")
	raw("triplet-type-list", "author,writes,paper\npaper,cites,paper\npaper,about,field\n")
	relation := func(name string, ends [2][]int64) {
		var b strings.Builder
		for k := range ends[0] {
			fmt.Fprintf(&b, "%d,%d\n", ends[0][k], ends[1][k])
		}
		raw("relations/"+name+"/edge", b.String())
		raw("relations/"+name+"/num-edge-list", fmt.Sprintln(len(ends[0])))
		raw("relations/"+name+"/edge_reltype", strings.Repeat("0\n", len(ends[0])))
	}
	relation("author___writes___paper", y.writes)
	relation("paper___cites___paper", [2][]int64{y.papers.source, y.papers.target})
	relation("paper___about___field", y.about)
	raw("node-feat/paper/node-feat", rowsOf(y.papers.features, y.papers.columns))
	raw("node-feat/paper/node_year", ints(y.papers.years))
	raw("nodetype-has-label", "author,paper,field\nFalse,True,False\n")
	raw("node-label/paper/node-label", rowsOf(y.papers.labels, 1))
	y.writeSplits(t, folder)
	return folder
}

func (y *typedToy) binary(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "ogbn_mag")
	raw := func(name string, entries ...entry) {
		write(t, filepath.Join(folder, "raw", name+".npz"), archive(t, zip.Deflate, entries...))
	}
	count := func(key string, n int) entry { return entry{key, []int64{int64(n)}, []int{1}, false} }
	list := func(key string, source, target []int64) entry {
		return entry{key, slices.Concat(source, target), []int{2, len(source)}, false}
	}
	raw("num_nodes_dict", count("author", 12), count("paper", 30), count("field", 4))
	raw("num_edges_dict", count("author___writes___paper", 50), count("paper___cites___paper", 90),
		count("paper___about___field", 50))
	raw("edge_index_dict", list("author___writes___paper", y.writes[0], y.writes[1]),
		list("paper___cites___paper", y.papers.source, y.papers.target),
		list("paper___about___field", y.about[0], y.about[1]))
	raw("node_feat_dict", entry{"paper", y.papers.features, []int{30, 3}, false})
	raw("node_year_dict", entry{"paper", y.papers.years, []int{30, 1}, false})
	raw("edge_reltype_dict", entry{"paper___cites___paper", make([]int64, 90), []int{90, 1}, false})
	raw("node-label", entry{"paper", y.papers.labels, []int{30, 1}, false})
	y.writeSplits(t, folder)
	return folder
}

// want is the graph: the labelled type first, then types and relations by name.
func (y *typedToy) want(t testing.TB) *graph.Graph {
	t.Helper()
	counts := map[string]int{"author": 12, "paper": 30, "field": 4}
	g := y.papers.want(t, false)
	g.Types[0].Type, g.Relations = "paper", nil
	for _, name := range []string{"author", "field"} {
		g.Types = append(g.Types, graph.VertexType{Type: name, Frame: graph.Frame{Count: counts[name]}})
	}
	for _, name := range []string{
		"author___writes___paper", "paper___about___field", "paper___cites___paper",
	} {
		r := triplet(strings.Split(name, "___"))
		ends := map[string][2][]int64{
			"writes": y.writes, "cites": {y.papers.source, y.papers.target},
			"about": y.about,
		}[r[1]]
		e := graph.Edges{}
		for k := range ends[0] {
			e.Source, e.Target = append(e.Source, int32(ends[0][k])), append(e.Target, int32(ends[1][k]))
		}
		relation, err := graph.NewBipartite(counts[r[0]], counts[r[2]], e)
		require.NoError(t, err)
		relation.Source, relation.Name, relation.Target = r[0], r[1], r[2]
		g.Relations = append(g.Relations, relation)
	}
	return g
}

func TestTypedLayouts(t *testing.T) {
	y := newTypedToy()
	ignore := cmpopts.IgnoreFields(graph.Graph{}, "Notes", "Metric", "Provenance")
	for name, folder := range map[string]string{"text": y.text(t), "binary": y.binary(t)} {
		t.Run(name, func(t *testing.T) {
			g, err := streamedtest.Read(Open(Options{Folder: folder}))
			require.NoError(t, err)
			want := y.want(t)
			assert.EqualBy(t, want, g, cmpopts.IgnoreUnexported(graph.Graph{}), ignore, cmpopts.EquateEmpty())
			if g.Metric != "accuracy" || len(g.Notes) != 3 ||
				!strings.HasPrefix(g.Notes[1], "190 edges of 3 relations, without inverse ones") ||
				g.Notes[0] != `kept as arrays, which no model reads: "node_year" of "paper"` ||
				g.Notes[2] != `not read: "edge_reltype"` {
				t.Errorf("metric %q, notes %q", g.Metric, g.Notes)
			}
			store := filepath.Join(t.TempDir(), "store")
			divided, err := Open(Options{Folder: folder, Rule: &Rule{"random:50/25/25", 1, 0}})
			require.NoError(t, err)
			s, err := divided.Write(store)
			if err != nil || s.Edges != 190 || s.Vertices() != 46 {
				t.Fatal(s, err)
			}
			stored, err := graph.Open(store)
			require.NoError(t, err)
			defer stored.Close()
			assert.Equal(t, 190, stored.Edges())
			assert.Equal(t, 30, stored.Types[0].Count)
			assert.Len(t, stored.Types[0].Splits, 1)
		})
	}
}

// What is in the folder and not read is named: arrays of edges, which OGB has, in a note, all else in a
// warning.
func TestUnknownFilesAreNamed(t *testing.T) {
	y, plain := newTypedToy(), newToy(20, 40)
	for _, c := range []struct {
		folder, file, want string
	}{
		{
			y.text(t), "raw/node-feat/paper/node-fear.csv.gz",
			`raw: not read, as nothing of OGB's has the name: "node-fear"`,
		},
		{y.text(t), "raw/node-feat/paper/node-feat.csv", `"node-feat.csv"`},
		{y.text(t), "raw/relations/author___writes___paper/edges.csv.gz", `"edges"`},
		{y.text(t), "raw/edges/x.csv.gz", `"edges"`},
		{y.binary(t), "raw/nodes_dict.npz", `"nodes"`},
		{plain.text(t, "ogbn_arxiv"), "raw/node-fear.csv.gz", `"node-fear"`},
		{plain.text(t, "ogbn_arxiv"), "raw/node-feat.csx.gz", `"node-feat.csx.gz"`},
		{plain.binary(t, "ogbn_arxiv", zip.Store), "raw/data.npy", `"data.npy"`},
	} {
		gzipped(t, filepath.Join(c.folder, c.file), "1\n")
		gzipped(t, filepath.Join(filepath.Dir(filepath.Join(c.folder, c.file)), ".hidden"), "")
		g := streamedtest.Same(t, func() (*streamed.Graph, error) { return Open(Options{Folder: c.folder}) })
		if len(g.Warnings) != 1 || !strings.HasSuffix(g.Warnings[0], c.want) {
			t.Errorf("%s: warnings %q, want %q", c.file, g.Warnings, c.want)
		}
	}
	folder := plain.binary(t, "ogbn_arxiv", zip.Store)
	label := entry{"node_label", plain.labels, []int{20, 1}, false}
	write(t, filepath.Join(folder, "raw/node-label.npz"),
		archive(t, zip.Store, label, entry{"node_labex", plain.labels, []int{20, 1}, false}))
	if g, err := streamedtest.Read(Open(Options{Folder: folder})); err != nil || len(g.Warnings) != 1 ||
		!strings.HasSuffix(g.Warnings[0], `"node_labex"`) {
		t.Error(g.Warnings, err)
	}
}

func TestDamagedTypedFoldersAreRefused(t *testing.T) {
	y := newTypedToy()
	refuseAll(t, y.text, []damage{
		{remove("raw/num-node-dict.csv.gz"), "num-node-dict.csv.gz: no such file"},
		{textOf("raw/num-node-dict", "author,paper,field\n12,30\n"), "holds no line of types"},
		{textOf("raw/num-node-dict", "author,paper,field\n12,30,many\n"), `"many" is no count of vertices`},
		{
			textOf("raw/num-node-dict", "author,paper,author\n12,30,4\n"),
			`"author" has 4 vertices, or stands twice`,
		},
		{textOf("raw/num-node-dict", "author,paper,../field\n12,30,4\n"), `"../field" is no name of a type`},
		{textOf("raw/triplet-type-list", "author,..,paper\n"), `".." is no name of a type`},
		{
			textOf("raw/num-node-dict", "author,paper,field\n12,30,2000000\n"),
			`2000000 vertices of the type "field" with only 190 edges`,
		},
		{
			all(textOf("raw/num-node-dict", "author,paper,field\n12,30,600000\n"),
				textOf("raw/triplet-type-list",
					"author,writes,paper\npaper,cites,paper\npaper,about,field\nfield,in,field\n"),
				textOf("raw/relations/field___in___field/edge", "0,1\n"),
				textOf("raw/relations/field___in___field/num-edge-list", "1\n")),
			"1200060 vertices, counted once for each of 4 relations, with only 191 edges and 30 rows",
		},
		{
			textOf("raw/num-node-dict", "author,paper,field\n12,31,4\n"),
			"node-label.csv.gz:30: the last row, where 31",
		},
		{textOf("raw/triplet-type-list", "\n"), "lists no relation"},
		{
			textOf("raw/triplet-type-list", "author,paper\n"),
			"a relation is a source type, a name and a target type",
		},
		{
			all(remove("raw/relations"), textOf("raw/triplet-type-list", "author,writes,book\n")),
			`joins the type "book", which there is none of`,
		},
		{remove("raw/relations/paper___cites___paper"), "num-edge-list.csv.gz: no such file"},
		{
			textOf("raw/relations/paper___about___field/edge", "29,4\n"),
			"edge.csv.gz:1: 4 is out of the range of 4",
		},
		{
			textOf("raw/nodetype-has-label", "author,paper,field\nFalse,False,False\n"),
			"the types that have labels are 0 (none)",
		},
		{
			textOf("raw/nodetype-has-label", "author,paper,field\nTrue,True,False\n"),
			`the types that have labels are 2 ("author", "paper")`,
		},
		{
			textOf("raw/nodetype-has-label", "author,book,field\nFalse,True,False\n"),
			`"book" has labels and is no vertex type`,
		},
		{
			textOf("raw/nodetype-has-label", "author,paper,field\nFalse,Yes,False\n"),
			`"Yes" is neither True nor False`,
		},
		{remove("split/time/paper"), "train.csv.gz: no such file"},
		{
			file("split/time/train.pt"),
			"split/time: a split of triples (head, relation, tail), as ogbl-wikikg2 and ogbl-biokg have, " +
				"is not read",
		},
		{
			textOf("raw/triplet-type-list", "author,writes,paper\n"),
			`raw/relations: "paper___about___field" is not in `,
		},
		{textOf("raw/node-feat/papes/node-feat", "1\n"), `raw/node-feat: "papes" is not in `},
		{textOf("raw/node-label/author/node-label", "1\n"), `raw/node-label: "author" is not in `},
	})
	arrays := func(file string, entries ...entry) spoil {
		return arraysOf("raw/"+file+"_dict.npz", entries...)
	}
	npy := func(key string, data any, shape ...int) entry { return entry{key, data, shape, false} }
	refuseAll(t, y.binary, []damage{
		{remove("raw/num_edges_dict.npz"), "num_edges_dict.npz: no such file"},
		{arrays("num_edges", npy("x___y___z", []int64{1}, 1)), `num_edges_dict.npz: "x___y___z" is not in `},
		{
			arrays("num_edges", npy("paper___cites___paper", []int64{90}, 1)),
			`has no array "author___writes___paper"`,
		},
		{
			arrays("edge_index", npy("paper___cites___paper", make([]int64, 180), 2, 90)),
			`num_edges_dict.npz: "author___writes___paper" is not in `,
		},
		{
			arrays("node_feat", npy("papes", y.papers.features, 30, 3)),
			`node_feat_dict.npz: "papes" is not in `,
		},
		{arrays("node_year", npy("papes", y.papers.years, 30, 1)), `node_year_dict.npz: "papes" is not in `},
		{
			arrays("edge_feat", npy("cites", make([]float32, 90), 90, 1)),
			`edge_feat_dict.npz: "cites" is not in `,
		},
		{arrays("num_nodes", npy("paper", []int64{1, 2}, 2)), "holds 2 values, where one count is expected"},
		{
			arrays("edge_index", npy("cites", []int64{1, 2}, 2, 1)),
			`"cites" is no relation, HEAD___NAME___TAIL`,
		},
	})
	folder := y.text(t)
	refuse(t, Options{Folder: folder, Inverse: Add}, "inverse-edges: ")
	refuse(t, Options{Folder: folder, FromEdges: Mean}, "features-from-edges: ")
	refuse(t, Options{Folder: folder, Symmetrize: true}, "3 vertex types and 3 relations")
}
