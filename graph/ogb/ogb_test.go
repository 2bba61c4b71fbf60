package ogb

import (
	"archive/zip"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

var nan = float32(math.NaN())

// check reads and writes a folder, and wants g of both.
func check(t *testing.T, o Options, g *graph.Graph) *graph.Graph {
	t.Helper()
	read, err := streamedtest.Read(Open(o))
	require.NoError(t, err)
	ignore := cmpopts.IgnoreFields(graph.Graph{}, "Notes", "Metric", "Provenance")
	if diff := cmp.Diff(g, read, cmpopts.IgnoreUnexported(graph.Graph{}), ignore, cmpopts.EquateEmpty(),
		cmpopts.EquateNaNs()); diff != "" {
		t.Fatalf("read (-want +got):\n%s", diff)
	}
	opened, err := Open(o)
	require.NoError(t, err)
	defer opened.Close()
	return streamedtest.Equal(t, opened, read).Graph
}

// Text and archives, stored and compressed, hold the same graph.
func TestLayouts(t *testing.T) {
	plain := newToy(200, 1500)
	for name, folder := range map[string]string{
		"text":    plain.text(t, "ogbn_arxiv"),
		"stored":  plain.binary(t, "ogbn_papers100M", zip.Store),
		"deflate": plain.binary(t, "ogbn-papers100M_pyg", zip.Deflate),
	} {
		t.Run(name, func(t *testing.T) {
			s := check(t, Options{Folder: folder}, plain.want(t, false))
			if !strings.Contains(s.Notes[0], "1500 edges, without inverse ones, as OGB's loader "+
				"does for ogbn_") ||
				s.Notes[1] != `kept as arrays, which no model reads: "node_year"` ||
				name == "text" && s.Notes[2] != `not read: "edge_kind"` {
				t.Errorf("notes %q", s.Notes)
			}
		})
	}
}

// The two ends of an edge may lie together.
func TestEdgesInFortranOrder(t *testing.T) {
	y := newToy(30, 200_000)
	y.edgeFeatures = nil
	folder := y.binary(t, "ogbn_arxiv", zip.Store)
	var ends []int64
	for k := range y.source {
		ends = append(ends, y.source[k], y.target[k])
	}
	write(t, filepath.Join(folder, "raw", "data.npz"), archive(t, zip.Deflate,
		entry{edgeIndex, ends, []int{2, len(y.source)}, true},
		entry{"num_nodes_list", []int64{30}, []int{1}, false},
		entry{"num_edges_list", []int64{200_000}, []int{1}, false},
		entry{"node_feat", y.features, []int{30, 3}, false}, entry{"node_year", y.years, []int{30}, false}))
	check(t, Options{Folder: folder}, y.want(t, false))
}

// Inverse edges are added to the graphs that OGB's loader adds them to, or as asked; each lies behind its
// edge.
func TestInverseEdges(t *testing.T) {
	y := newToy(50, 400)
	for _, c := range []struct {
		folder  string
		asked   Inverse
		inverse bool
		metric  string
		note    string
	}{
		{"ogbn_products", ByName, true, "accuracy", "400 edges, and the inverse of each, as OGB's loader " +
			"does for ogbn_products"},
		{"ogbn_proteins", ByName, true, "roc-auc", "for ogbn_proteins"},
		{"ogbn_proteins", Leave, false, "roc-auc", "400 edges, without inverse ones, as " +
			"--inverse-edges asks for"},
		{
			"ogbn_arxiv", Add, true, "accuracy",
			"400 edges, and the inverse of each, as --inverse-edges asks for",
		},
		{
			"mine", ByName, false, "",
			`as the folder lists them: "mine" is none of OGB's names (--inverse-edges adds inverse edges)`,
		},
	} {
		for _, folder := range []string{y.text(t, c.folder), y.binary(t, c.folder, zip.Deflate)} {
			s := check(t, Options{Folder: folder, Inverse: c.asked}, y.want(t, c.inverse))
			assert.Contains(t, s.Notes[0], c.note, "%s: notes %q", c.folder, s.Notes)
			assert.Equal(t, c.metric, s.Metric, "%s: metric", c.folder)
		}
	}
}

// What the stream leaves out and adds is what graph.Symmetrize does.
func TestSymmetrize(t *testing.T) {
	y := newToy(60, 900)
	for _, asked := range []Inverse{Leave, Add} {
		for _, features := range [][]float32{y.edgeFeatures, nil} {
			part := *y
			part.edgeFeatures = features
			want, err := part.want(t, asked == Add).Symmetrize()
			require.NoError(t, err)
			s := check(t, Options{Folder: part.text(t, "mine"), Inverse: asked, Symmetrize: true}, want)
			assert.Equal(t, want.Notes[0], s.Notes[len(s.Notes)-1], "note")
		}
	}
}

// Features of vertices are made from those of the edges into them.
func TestFeaturesFromEdges(t *testing.T) {
	y := newToy(40, 100)
	y.features = nil
	for _, kind := range []string{Mean, Sum} {
		g := y.want(t, true)
		r := &g.Relations[0]
		g.Types[0].Features = graph.Features{Columns: 2, Dense: make([]float32, 2*40)}
		for v := range 40 {
			for c := range 2 {
				sum, n := 0., r.Indptr[v+1]-r.Indptr[v]
				for k := r.Indptr[v]; k < r.Indptr[v+1]; k++ {
					sum += float64(r.Features.Dense[2*k+int64(c)])
				}
				if kind == Mean {
					sum /= float64(max(n, 1))
				}
				g.Types[0].Features.Dense[2*v+c] = float32(sum)
			}
		}
		check(t, Options{Folder: y.text(t, "ogbn_proteins"), FromEdges: kind}, g)
	}
	s := check(t, Options{Folder: y.text(t, "ogbn_proteins")}, y.want(t, true))
	if !slices.Contains(s.Notes, "no features of vertices; --features-from-edges mean makes them of the 2 "+
		"that edges have") {
		t.Errorf("notes %q", s.Notes)
	}
}

// Arrays that are none of integers are of floats; the species of proteins have a name of their own.
func TestArrays(t *testing.T) {
	y := newToy(5, 10)
	folder := y.text(t, "ogbn_proteins")
	gzipped(t, filepath.Join(folder, "raw", "species.csv.gz"), "3702\n4932\n\n511145\n9606\n")
	gzipped(t, filepath.Join(folder, "raw", "node_large.csv.gz"), "1,2\n3,4\n5,6\n7,8\n9,16777216\n")
	want := y.want(t, true)
	want.Types[0].Arrays = []graph.Array{
		{Name: "node_large", Columns: 2, Floats: []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 16777216}},
		want.Types[0].Arrays[0],
		{Name: "node_species", Columns: 1, Floats: []float32{3702, 4932, nan, 511145, 9606}},
	}
	check(t, Options{Folder: folder}, want)
}

func TestSeveralTasks(t *testing.T) {
	y := newToy(40, 100).several(4)
	for k := 0; k < len(y.labels); k += 7 { // of vertices that keep others
		y.labels[k] = nan
	}
	for _, folder := range []string{y.text(t, "ogbn_proteins"), y.binary(t, "ogbn_proteins", zip.Store)} {
		check(t, Options{Folder: folder}, y.want(t, true))
	}
}

// The ways in which a label can be missing, and a number be spelled.
func TestSpellings(t *testing.T) {
	y := newToy(5, 4)
	y.features, y.edgeFeatures = nil, nil
	y.labels = []float32{nan, nan, nan, 2, 4}
	y.splits = map[string][3][]int64{"time": {{4}, {}, {3}}}
	folder := y.text(t, "ogbn_arxiv")
	gzipped(t, filepath.Join(folder, "raw", "node-label.csv.gz"), "\nnan\r\n\"\"\n2.0\r\n4")
	gzipped(t, filepath.Join(folder, "raw", "edge.csv.gz"),
		fmt.Sprintf("%d,%d\r\n\n%d,%d\n%d,%d\n%d,%d", y.source[0], y.target[0],
			y.source[1], y.target[1], y.source[2], y.target[2], y.source[3], y.target[3]))
	gzipped(t, filepath.Join(folder, "raw", "node-feat.csv.gz"),
		"1,-0.5\n1e-3,-2.5E+2\n123456789012345678901234567890,.5\n-0,0.1000000000000000055\n\n 1,+3\n")
	_, err := streamedtest.Read(Open(Options{Folder: folder}))
	assert.ErrorContains(t, err, `node-feat.csv.gz:6: " 1" is not a number`)
	gzipped(t, filepath.Join(folder, "raw", "node-feat.csv.gz"),
		"1,-0.5\n1e-3,-2.5E+2\n123456789012345678901234567890,.5\n-0,0.1000000000000000055\n\n1,+3\n")
	want := y.want(t, false)
	want.Types[0].Features = graph.Features{
		Columns: 2,
		Dense: []float32{
			1, -.5, 1e-3, -250, 123456789012345678901234567890, .5,
			float32(math.Copysign(0, -1)), .1, 1, 3,
		},
	}
	check(t, Options{Folder: folder}, want)
}

// One split is taken as it is, of several the one that is named; a rule takes the place of all.
func TestSplits(t *testing.T) {
	y := newToy(20, 50)
	folder := y.text(t, "ogbn_arxiv")
	check(t, Options{Folder: folder, Split: "time"}, y.want(t, false))
	s := y.splits["time"]
	y.splits["random"] = [3][]int64{s[1], s[2], s[0]}
	folder = y.text(t, "ogbn_arxiv")
	check(t, Options{Folder: folder, Split: "time"}, y.want(t, false))
	for split, want := range map[string]string{
		"":     `has the splits "random", "time": choose one with --split`,
		"tmie": `none of that name, but "random", "time"`,
	} {
		_, err := streamedtest.Read(Open(Options{Folder: folder, Split: split}))
		assert.Refused(t, err, want, "split %q", split)
	}
	ruled := y.want(t, false)
	require.NoError(t, ruled.MakeSplits("random:50/25/25", 2, 7))
	y.splits = nil
	check(t, Options{Folder: y.text(t, "ogbn_arxiv"), Rule: &Rule{"random:50/25/25", 2, 7}}, ruled)
}
