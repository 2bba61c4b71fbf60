package planetoid

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/realdata"
	"weft/internal/require"
)

// The published counts, and sums over the assembled arrays as NumPy and SciPy compute them from the same
// files.
func TestPublishedGraphs(t *testing.T) {
	type facts struct {
		Vertices, Edges, Columns, NonZero, Classes int
		Train, Val, Test, Unlabelled, FirstTest    int
		// LabelSum, FeatureSum: Σ (v+1)·label[v], Σ (v+1)·(column+1) over the non-zero features
		LabelSum, FeatureSum int64
		EdgeSum              int64 // Σ (source+1)·(target+3)
	}
	for name, want := range map[string]facts{
		"ind.cora": {
			2708, 2 * 5278, 1433, 49216, 7, 140, 500, 1000, 0, 1708, 10514174, 52537512582, 18168363378,
		},
		"ind.citeseer": {
			3327, 2 * 4552, 3703, 105165, 6, 120, 500, 1000, 15, 2312, 14854682, 317817808020, 24027735128,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := realdata.File(t, "planetoid", name+".graph")
			g, err := Read(strings.TrimSuffix(path, ".graph"))
			require.NoError(t, err)
			if note := fmt.Sprintf("%d vertices have neither features nor a label, as no file has a "+
				"row for them", want.Unlabelled); slices.Contains(g.Notes, note) != (want.Unlabelled > 0) {
				t.Errorf("notes %q", g.Notes)
			}
			s, x := g.Types[0].Splits[0], &g.Types[0].Features
			got := facts{
				Vertices: g.Vertices(), Edges: int(g.Edges()), Columns: x.Columns,
				NonZero: len(x.Data), Classes: g.Types[0].Labels.Classes, Train: len(s.Train),
				Val: len(s.Val), Test: len(s.Test), FirstTest: int(s.Test[0]),
			}
			for v, class := range g.Types[0].Labels.Class {
				got.LabelSum += int64(v+1) * class
				if class < 0 {
					got.Unlabelled++
				}
				for _, c := range x.Indices[x.Indptr[v]:x.Indptr[v+1]] {
					got.FeatureSum += int64(v+1) * int64(c+1)
				}
			}
			e := g.Relations[0].Edges()
			for k := range e.Len() {
				got.EdgeSum += int64(e.Source[k]+1) * int64(e.Target[k]+3)
			}
			assert.Equal(t, want, got)
		})
	}
}

// vertices 0 and 1 train, 2 is known, 4 and 3 are tested in this order, 5 is left out.
func tiny() map[string]string {
	return map[string]string{
		"x":          matrix(2, 3, []int32{0, 1, 2}, []int32{0, 1}, []float32{1, 2}),
		"y":          oneHotPickle(2, 2, 1, 0, 0, 1),
		"allx":       matrix(3, 3, []int32{0, 1, 2, 4}, []int32{0, 1, 2, 0}, []float32{1, 2, 3, 4}),
		"ally":       oneHotPickle(3, 2, 1, 0, 0, 1, 1, 0),
		"tx":         matrix(2, 3, []int32{0, 1, 2}, []int32{2, 1}, []float32{5, 6}),
		"ty":         oneHotPickle(2, 2, 0, 1, 1, 0),
		"graph":      adjacency([][]int{{1, 1, 2}, {0}, {0, 4}, {3, 5}, {2}, {3}}),
		"test.index": "4\n3\n",
	}
}

func write(t testing.TB, content map[string]string) string {
	t.Helper()
	files := map[string]string{}
	for suffix, c := range content {
		files["ind.tiny."+suffix] = c
	}
	return filepath.Join(graphtest.Files(t, files), "ind.tiny")
}

func TestAssembly(t *testing.T) {
	prefix := write(t, tiny())
	g, err := Read(prefix)
	require.NoError(t, err)
	want := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{
				Count: 6, Features: graph.Features{
					Columns: 3, Indptr: []int64{0, 1, 2, 4, 5, 6, 6},
					Indices: []int32{0, 1, 0, 2, 1, 2}, Data: []float32{1, 2, 4, 3, 6, 5},
				},
				Labels: graph.Labels{Classes: 2, Class: []int64{0, 1, 0, 0, 1, -1}},
				Splits: []graph.Split{{Train: []int64{0, 1}, Val: []int64{2}, Test: []int64{3, 4}}},
			},
		}},
		Relations: []graph.Relation{
			{
				Indptr:  []int64{0, 2, 3, 5, 6, 7, 8},
				Sources: []int32{1, 2, 0, 0, 4, 5, 2, 3}, Symmetric: true,
			},
		},
		Provenance: "planetoid " + prefix,
	}
	assert.Equal(t, want.Relations[0], g.Relations[0], "edges")
	assert.Equal(t, want.Types[0].Features, g.Types[0].Features, "features")
	assert.Equal(t, want.Types[0].Labels, g.Types[0].Labels, "labels")
	if diff := cmp.Diff(want.Types[0].Splits,
		g.Types[0].Splits); diff != "" || g.Provenance != want.Provenance {
		t.Errorf("provenance %q, splits (-want +got):\n%s", g.Provenance, diff)
	}
}

// How the edges differ from those of the files is told, and which vertices no file has a row for.
func TestChangesAreNoted(t *testing.T) {
	g, err := Read(write(t, tiny()))
	require.NoError(t, err)
	assert.Equal(t, []string{
		"10 edges made undirected: 0 added, 1 duplicates left out", "1 self loops left out",
		"1 vertices have neither features nor a label, as no file has a row for them",
	}, g.Notes)
}

func TestDamagedIsRefused(t *testing.T) {
	for _, c := range []struct{ suffix, content, want string }{
		{"x", "", "byte 0"},
		{"x", "cos\nsystem\n(S'true'\ntR.", `"os.system"`},
		{"y", "].", "something else than an array"},
		{"tx", "\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81.", "without content"},
		{"tx", matrix(2, 3, []int32{0, 1, 9}, []int32{2, 1}, []float32{5, 6}), "row bounds"},
		{"tx", matrix(2, 3, []int32{0, 2, 2}, []int32{2, 3}, []float32{5, 6}), "column 3"},
		{"tx", matrix(2, 4, []int32{0, 1, 2}, []int32{2, 1}, []float32{5, 6}), "differ in their columns"},
		{"ty", oneHotPickle(2, 2, 1, 1, 1, 0), "not one-hot"},
		{"ty", oneHotPickle(1, 2, 1, 0), "1 rows of labels"},
		{"ty", oneHotPickle(2, 2, 0, 0, 1, 0), "vertex 4 has no label"},
		{"graph", adjacency([][]int{{1}, {6}, {}, {}, {}, {}}), "vertex 1 has a neighbour"},
		{"graph", "(dI0\n(lsI0\n(ls.", "each once"},
		{"graph", adjacency(make([][]int, 2)), "each must contain"},
		{"test.index", "4\n\n4\n", "test.index:3"},
		{"test.index", "4\n6\n", "test.index:2"},
		{"test.index", "4\n", "1 vertices for the 2 rows"},
	} {
		content := tiny()
		content[c.suffix] = c.content
		_, err := Read(write(t, content))
		assert.Refused(t, err, c.want, "%s = %.40q", c.suffix, c.content)
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	content := tiny()
	delete(content, "allx")
	prefix := write(t, content)
	_, err := Read(prefix)
	assert.Refused(t, err, prefix+".allx")
	assert.Refused(t, err, ".test.index")
}

// A pickle of a few kilobytes may give each of a thousand vertices the same list of a thousand neighbours.
func TestRepeatedListIsBounded(t *testing.T) {
	const n = 2000
	var b strings.Builder
	b.WriteString("\x80\x02}(K\x00](" + strings.Repeat("K\x01", n) + "eq\x01")
	for v := 1; v < n; v++ {
		fmt.Fprintf(&b, "M%sh\x01", binary.LittleEndian.AppendUint16(nil, uint16(v)))
	}
	b.WriteString("u.")
	content := tiny()
	content["graph"] = b.String()
	_, err := Read(write(t, content))
	assert.ErrorContains(t, err, "more edges")
}

func FuzzRead(f *testing.F) {
	seed := tiny()
	f.Add(seed["allx"], seed["ally"], seed["graph"], seed["test.index"])
	f.Fuzz(func(t *testing.T, allx, ally, neighbours, index string) {
		content := tiny()
		content["allx"], content["ally"], content["graph"], content["test.index"] = allx,
			ally, neighbours, index
		g, err := Read(write(t, content))
		if err != nil {
			assert.Refused(t, err, "")
			return
		}
		if len(g.Types[0].Labels.Class) != g.Vertices() || len(g.Types[0].Features.Indptr) != g.Vertices()+1 {
			t.Errorf("%d vertices, %d labels, %d rows of features", g.Vertices(), len(g.Types[0].Labels.Class),
				len(g.Types[0].Features.Indptr)-1)
		}
	})
}

// The pickles below are spelt as Python 2's cPickle spells them, protocol 2.

func binInt(v int) string { return "J" + string(binary.LittleEndian.AppendUint32(nil, uint32(v))) }

func binString(s string) string {
	return "T" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func array(code string, shape []int, data string) string {
	dims := "("
	for _, n := range shape {
		dims += binInt(n)
	}
	return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + dims + "t" +
		"cnumpy\ndtype\nU\x02" + code +
		"K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89" +
		binString(data) + "tb"
}

func int32s(values []int32) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return array("i4", []int{len(values)}, string(b))
}

func matrix(rows, columns int, indptr, indices []int32, data []float32) string {
	var b []byte
	for _, v := range data {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return "\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}(U\x06_shape" + binInt(rows) + binInt(columns) +
		"\x86U\x06indptr" + int32s(indptr) + "U\x07indices" + int32s(indices) +
		"U\x04data" + array("f4", []int{len(data)}, string(b)) + "ub."
}

func oneHotPickle(rows, columns int, values ...byte) string {
	return "\x80\x02" + array("u1", []int{rows, columns}, string(values)) + "."
}

func adjacency(lists [][]int) string {
	var b strings.Builder
	b.WriteString("\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(")
	for v, list := range lists {
		b.WriteString(binInt(v) + "](")
		for _, u := range list {
			b.WriteString(binInt(u))
		}
		b.WriteString("e")
	}
	b.WriteString("u.")
	return b.String()
}
