package dgl

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/dgl/dgltest"
	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/realdata"
	"weft/internal/require"
)

// ring is a graph of ten vertices of one type, with edges v→v+1 and v→v+3, of which one comes twice.
func ring() *dgltest.Graph {
	const n = 10
	g := &dgltest.Graph{
		Vertices: []dgltest.Vertices{{Type: "_N", Count: n}}, Relations: []dgltest.Relation{{Name: "_E"}},
	}
	r := &g.Relations[0]
	var feat, weight []float32
	var label []int64
	var masks [3][]uint8
	for v := range n {
		for _, step := range []int{3, 1} {
			r.From, r.To = append(r.From, int64(v)), append(r.To, int64((v+step)%n))
		}
		feat, label = append(feat, float32(v), -1), append(label, int64(v%3))
		for part := range masks {
			mark := uint8(0)
			if v%4 == part {
				mark = 1
			}
			masks[part] = append(masks[part], mark)
		}
	}
	r.From, r.To = append(r.From, 3), append(r.To, 6)
	for k := range r.From {
		weight = append(weight, float32(k)+.5)
	}
	g.Vertices[0].Tensors = dgltest.Tensors{
		"feat": dgltest.Of(feat, n, 2), "label": dgltest.Of(label), "train_mask": dgltest.Of(masks[0]),
		"val_mask": dgltest.Of(masks[1]), "test_mask": dgltest.Of(masks[2]), "year": dgltest.Of(label),
	}
	r.Tensors = dgltest.Tensors{"w": dgltest.Of(weight)}
	return g
}

// shop is a graph of three vertex types and three relations, of which the second type has labels.
func shop() *dgltest.Graph {
	return &dgltest.Graph{
		Vertices: []dgltest.Vertices{
			{Type: "dev", Count: 2},
			{Type: "game", Count: 4, Tensors: dgltest.Tensors{
				"label":      dgltest.Of([]float32{0, 1, float32(math.NaN()), 1}),
				"features":   dgltest.Of([]float64{1, 2, 3, 4}),
				"train_mask": dgltest.Of([]uint8{1, 0, 0, 0}), "test_mask": dgltest.Of([]uint8{0, 1, 0, 1}),
			}},
			{
				Type: "user", Count: 3,
				Tensors: dgltest.Tensors{"feat": dgltest.Of([]int64{1, 2, 3, 4, 5, 6}, 3, 1, 2)},
			},
		},
		Relations: []dgltest.Relation{
			{Name: "makes", Source: 0, Target: 1, From: []int64{0, 1, 1}, To: []int64{3, 0, 1}},
			{
				Name: "plays", Source: 2, Target: 1, From: []int64{2, 0, 1, 2}, To: []int64{1, 1, 2, 0},
				Tensors: dgltest.Tensors{"feat": dgltest.Of([]float32{1, 2, 3, 4})},
			},
			{Name: "knows", Source: 2, Target: 2, From: []int64{0, 1}, To: []int64{1, 2}},
		},
	}
}

// write writes a file and returns its path.
func read(t testing.TB, path string, o Options) (*graph.Graph, *Division) {
	t.Helper()
	opened, d, err := Open(path, o)
	g, err := streamedtest.Read(opened, err)
	require.NoError(t, err)
	return g, d
}

var only = Options{Graph: AllGraphs}

// same compares graphs but for where they came from.
func same(t testing.TB, got, want *graph.Graph) {
	t.Helper()
	assert.EqualBy(t, want, got, cmpopts.IgnoreUnexported(graph.Graph{}),
		cmpopts.IgnoreFields(graph.Graph{}, "Provenance", "Notes"), cmpopts.EquateNaNs())
}

// A graph is the same in every format of its edges and in both codes of them, and has the edges that were
// written.
func TestFormats(t *testing.T) {
	want, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, ring())), only)
	r := &want.Relations[0]
	for v := range 10 {
		from := []int32{int32((v + 7) % 10), int32((v + 9) % 10)}
		if v == 6 {
			from = append(from, 3)
		}
		slices.Sort(from)
		assert.Equal(t, from, r.Sources[r.Indptr[v]:r.Indptr[v+1]], "in-neighbours of %d", v)
	}
	if want.Types[0].Features.Columns != 2 || want.Types[0].Features.Dense[8] != 4 ||
		want.Types[0].Labels.Classes != 3 ||
		want.Types[0].Labels.Class[5] != 2 {
		t.Errorf("features %+v, labels %+v", want.Types[0].Features, want.Types[0].Labels)
	}
	assert.Equal(t, []graph.Split{{Train: []int64{0, 4, 8}, Val: []int64{1, 5, 9}, Test: []int64{2, 6}}},
		want.Types[0].Splits)
	assert.Equal(t, `[columns of vertices left out: "year" columns of edges left out: "w"]`,
		fmt.Sprint(want.Notes), "notes")
	for _, formats := range []int{
		dgltest.COO, dgltest.CSR, dgltest.CSC, dgltest.CSR | dgltest.CSC,
		dgltest.COO | dgltest.CSR | dgltest.CSC,
	} {
		for _, old := range []bool{false, true} {
			if old && formats&(formats-1) != 0 {
				continue // DGL had one format at a time
			}
			g := ring()
			g.Relations[0].Formats, g.Old = formats, old
			tensors := dgltest.Tensors{"glabel": dgltest.Of([]int64{1})}
			path := graphtest.File(t, "g.dgl", dgltest.Graphs(tensors, g))
			got, _ := read(t, path, only)
			same(t, got, want)
			inStream(t, path, only)
		}
	}
}

// Columns are found by name or by what the options say, and converted.
func TestColumns(t *testing.T) {
	g := ring()
	half := dgltest.Tensor{Code: 2, Bits: 16, Shape: []int64{10, 1}, Data: []byte{}}
	for range 10 {
		half.Data = binary.LittleEndian.AppendUint16(half.Data, 0x3e00) // 1.5
	}
	tensors := g.Vertices[0].Tensors
	tensors["half"], tensors["y"] = half, dgltest.Of([]float64{0, 1, 2, 3, -1, 0, 0, 1, 2, math.NaN()}, 10, 1)
	tensors["several"] = dgltest.Of([]int8{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 10, 2)
	g.Relations[0].Tensors["ef"] = dgltest.Of(make([]float32, 21*2), 21, 2)
	path := graphtest.File(t, "g.bin", dgltest.Graphs(nil, g))
	got, _ := read(t, path, Options{
		Graph: AllGraphs, Features: "half", Labels: "y", Train: "several",
		EdgeWeights: "w", EdgeFeatures: "ef", Val: None, Test: None,
	})
	assert.Equal(t, 1.5, got.Types[0].Features.Dense[3], "features %v, labels", got.Types[0].Features.Dense)
	assert.Equal(t, []int64{0, 1, 2, 3, -1, 0, 0, 1, 2, -1}, got.Types[0].Labels.Class, "features %v, labels",
		got.Types[0].Features.Dense)
	if len(got.Types[0].Splits) != 2 || !slices.Equal(got.Types[0].Splits[1].Train,
		[]int64{2}) || len(got.Types[0].Splits[0].Val) != 0 {
		t.Errorf("splits %v", got.Types[0].Splits)
	}
	inStream(t, path, Options{
		Graph: AllGraphs, Features: "half", Labels: "y", Train: "several",
		EdgeWeights: "w", EdgeFeatures: "ef", Val: None, Test: None,
	})
	r := &got.Relations[0]
	// The edges into vertex 6 are 3→6 twice, with the ids 6 and 20, and 5→6 with the id 11.
	if first := r.Indptr[6]; !slices.Equal(r.Weights[first:first+3], []float32{6.5, 20.5, 11.5}) ||
		r.Features.Columns != 2 {
		t.Errorf("weights %v of %d columns", r.Weights[first:first+3], r.Features.Columns)
	}
	if bare, _ := read(t, path, Options{
		Graph: AllGraphs, Features: None, Labels: None, Train: None,
	}); bare.Types[0].Features.Columns != 0 || bare.Types[0].Labels.Classes != 0 ||
		bare.Types[0].Splits != nil {
		t.Errorf("without columns: %+v", bare)
	}
	tensors["half a class"], tensors["infinite"] = dgltest.Of([]float32{0, .5, 0, 0, 0, 0, 0, 0, 0, 0}),
		dgltest.Of([]float64{0, math.Inf(-1), 0, 0, 0, 0, 0, 0, 0, 0})
	path = graphtest.File(t, "g.bin", dgltest.Graphs(nil, g))
	for want, o := range map[string]Options{
		"label -Inf of vertex 1": {Labels: "infinite"},
		`features "x": there is no such column: those that are there are "feat", "half", "half a class", "infinite", "label"`: {Features: "x"},
		`edge-weights "ef": has 2 columns`:                                                {EdgeWeights: "ef"},
		`column "year" of "_N": element 2, 2, is not a truth value`:                       {Train: "year"},
		`val_mask: a split without training vertices`:                                     {Train: None, Val: "val_mask"},
		`vertex 0 is also in train_mask`:                                                  {Val: "train_mask"},
		`vertex 4 has no label`:                                                           {Labels: "y"},
		"graph 1: the file holds 1, counted from 0":                                       {Graph: 1},
		`labels "_N/nothing": there is no such column`:                                    {Labels: "_N/nothing"},
		`edge-features "w2": there is no such column: those that are there are "ef", "w"`: {EdgeFeatures: "w2"},
	} {
		if o.Graph == 0 {
			o.Graph = AllGraphs
		}
		refused(t, path, o, want)
	}
}

// refused reads a file that must be refused in one line with its name and the text.
func refused(t *testing.T, path string, o Options, want string) {
	t.Helper()
	streamedtest.WantRefused(t, opening(path, o), filepath.Dir(path), want)
}

// A graph of several types begins with the one that has labels.
func TestTypes(t *testing.T) {
	want, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, shop())), only)
	require.NoError(t, want.Check())
	if want.Types[0].Type != "game" || want.Types[0].Count != 4 || len(want.Types) != 3 ||
		want.Types[1].Name() != "dev" ||
		want.Types[2].Features.Columns != 2 {
		t.Errorf("types %+v", want.Types)
	}
	assert.Equal(t, []int64{0, 1, -1, 1}, want.Types[0].Labels.Class)
	assert.Equal(t, []float32{1, 2, 3, 4}, want.Types[0].Features.Dense)
	plays := want.Relations[1]
	if plays.Source != "user" || plays.Name != "plays" || !slices.Equal(plays.Sources, []int32{2, 0, 2, 1}) ||
		!slices.Equal(plays.Features.Dense, []float32{4, 2, 1, 3}) {
		t.Errorf("%+v", plays)
	}
	g := shop()
	g.Vertices[2].Tensors["label"] = dgltest.Of([]int64{0, 1, 0})
	path := graphtest.File(t, "g.bin", dgltest.Graphs(nil, g))
	got, _ := read(t, path, only) // the one that has a mask as well
	same(t, got, want)
	got, _ = read(t, path,
		Options{Graph: AllGraphs, Labels: "user/label", Features: "user/feat", Train: None})
	if got.Types[0].Type != "user" || got.Types[0].Labels.Classes != 2 ||
		got.Types[0].Features.Columns != 2 ||
		got.Types[2].Features.Columns != 1 {
		t.Errorf("type %q, labels %+v", got.Types[0].Type, got.Types[0].Labels)
	}
	refused(t, path, Options{Graph: AllGraphs, Labels: "game/feat"},
		`labels "game/feat": there is no such column: those that are there are "game/features"`)
	named := shop()
	named.Vertices[0].Type = "a\x01"
	refused(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, named)), only,
		`a type is called "a\x01": give it a name of up to 200 bytes of printed characters`)
	delete(g.Vertices[1].Tensors, "train_mask")
	refused(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, g)), only,
		`the vertex types "game" and "user" have labels: choose by --labels TYPE/NAME`)
}

// Several graphs of the same types are one graph; of others one is named.
func TestSeveralGraphs(t *testing.T) {
	path := graphtest.File(t, "g.bin",
		dgltest.Graphs(dgltest.Tensors{"glabel": dgltest.Of([]int64{1, 2})}, shop(), ring()))
	refused(t, path, only, "graph 1 of 2: it has 1 vertex types and 1 relations, and the first graph has "+
		"3 and 3: give graphs of the same types; --graph takes one graph by its number")
	refused(t, path, Options{Graph: 2}, "graph 2: the file holds 2")
	typed, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, shop(), shop())), only)
	once, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, shop())), only)
	if n := once.Types[0].Count; typed.Graphs != 2 || typed.Types[0].Count != 2*n ||
		len(typed.Types[2].GraphOf) != 2*once.Types[2].Count || typed.Types[0].GraphOf[n] != 1 ||
		typed.Edges() != 2*once.Edges() {
		t.Errorf("two shops: %d graphs, %d vertices of the first type, %d edges", typed.Graphs,
			typed.Types[0].Count, typed.Edges())
	}
	got, _ := read(t, path, Options{Graph: 1})
	assert.Equal(t, `labels of whole graphs left out: "glabel"`, got.Notes[len(got.Notes)-1], "notes %q",
		got.Notes)
	want, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, ring())), only)
	same(t, got, want)
	got, _ = read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, ring(), ring())), only)
	n, own := got.Types[0].Count, want.Types[0].Count
	if n != 2*own || got.Graphs != 2 || got.Types[0].GraphOf[own-1] != 0 || got.Types[0].GraphOf[own] != 1 ||
		got.Edges() != 2*want.Edges() {
		t.Errorf("%d vertices, %d edges, graphs %v", n, got.Edges(), got.Types[0].GraphOf)
	}
	for v := range own {
		assert.Equal(t, want.Types[0].Features.Row(v), got.Types[0].Features.Row(own+v),
			"vertex %d of the second graph", v)
		assert.Equal(t, want.Types[0].Labels.Class[v], got.Types[0].Labels.Class[own+v],
			"vertex %d of the second graph", v)
	}
	refused(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil)), only, "holds no graph")
}

// Other files are refused by name, with the way out.
func TestOtherFiles(t *testing.T) {
	old := dgltest.Graphs(nil, ring())
	old[8] = 1
	kind := dgltest.Graphs(nil, ring())
	kind[16] = 0
	for name, c := range map[string]struct{ content, want string }{
		"tensors.dgl": {string(dgltest.File(nil)), "tensors saved by DGL, without a graph"},
		"old.bin": {string(old), "version 1 of DGL's format, which DGL wrote before " +
			"0.5: load them with DGL 0.5 or later and save them again"},
		"kind.bin": {string(kind), "graphs of DGL's kind 0"},
		"fused_csc_sampling_graph.pt": {"PK\x03\x04", "a graph of GraphBolt, a pickle, which is never " +
			"read: divide the graph with use_graphbolt=False and give the JSON file"},
		"graph.pt": {"\x80\x02}q\x00", "a Python pickle, which is never read"},
		"graph.npz": {"PAR1", "is a Parquet file; give a file of dgl.save_graphs, or " +
			"the JSON file of a divided graph"},
		"empty.json": {"", "neither a graph saved by DGL nor the JSON file"},
		"other.json": {"[]", "neither a graph saved by DGL nor the JSON file"},
	} {
		refused(t, graphtest.File(t, name, []byte(c.content)), only, c.want)
	}
	refused(t, t.TempDir(), only, "is a directory")
}

// A file that is cut, or has a byte changed, is read or refused, and nothing else.
func TestDamaged(t *testing.T) {
	content := dgltest.Graphs(nil, shop())
	streamedtest.Damaged(t, content, 40, func(path string) func() (*streamed.Graph, error) {
		return opening(path, only)
	})
	refusedAs := func(want string, content []byte) {
		t.Helper()
		refused(t, graphtest.File(t, "g.bin", content), only, want)
	}
	refusedAs("1 bytes follow the last part", append(slices.Clone(content), 0))
	// What only claims to have many vertices.
	many := &dgltest.Graph{
		Vertices:  []dgltest.Vertices{{Type: "_N", Count: math.MaxInt32}},
		Relations: []dgltest.Relation{{Name: "_E", From: []int64{0}, To: []int64{1}}},
	}
	refusedAs("2147483647 vertices, counted once for each relation, with only 1 edges",
		dgltest.Graphs(nil, many))
	for want, change := range map[string]func(g *dgltest.Graph){
		`relation "_E": element 4 is 10, where 0 to 9 are possible`: func(g *dgltest.Graph) {
			g.Relations[0].From[4] = 10
		},
		`relation "_E": 20 sources and 21 destinations of edges`: func(g *dgltest.Graph) {
			g.Relations[0].From = g.Relations[0].From[1:]
		},
		`column "label" of "_N": has shape [9]`: func(g *dgltest.Graph) {
			g.Vertices[0].Tensors["label"] = dgltest.Of(make([]int64, 9))
		},
		`column "feat" of "_N": has elements of bfloat16, which are not read: save it as float32`: func(g *dgltest.Graph) {
			g.Vertices[0].Tensors["feat"] = dgltest.Tensor{
				Code: 4, Bits: 16, Shape: []int64{10, 1}, Data: make([]byte, 20),
			}
		},
		"a tensor of more elements than can be counted": func(g *dgltest.Graph) {
			g.Vertices[0].Tensors["feat"] = dgltest.Tensor{
				Code: 2, Bits: 32, Shape: []int64{1 << 32, 1 << 32},
			}
		},
		"3 × 64 bits": func(*dgltest.Graph) {},
	} {
		g := ring()
		change(g)
		content := dgltest.Graphs(nil, g)
		if want == "3 × 64 bits" { // lanes of the first tensor
			content[4112+8+8+8+16+8+8+4+4+4+2] = 3
		}
		refusedAs(want, content)
	}
}

// A file of DGL 0.9 has its parts where DGL's sources say.
func TestRealGraph(t *testing.T) {
	path := realdata.File(t, "dgl", "single_graph", "graph_0.9a220622.dgl")
	g, d := read(t, path, only)
	if g.Vertices() != 100 || g.Edges() != 200 || g.Typed() || d != nil {
		t.Errorf("%d vertices, %d edges", g.Vertices(), g.Edges())
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for magic, at := range map[uint64]int{
		heteroMagic: 4112, csrMagic: 4128, unitMagic: 4337, cooMagic: 4570,
		tensorMagic: 4594,
	} {
		assert.Equal(t, magic, binary.LittleEndian.Uint64(content[at:]), "at byte %d", at)
	}
	refused(t, graphtest.File(t, "cut.dgl", content[:len(content)-1]), only, "damaged")
}

// What DGL 2 divided is whole: its own edges and rows are those of the graph.
func TestRealDivision(t *testing.T) {
	g, d := read(t, realdata.File(t, "dgl", "three_parts", "grafo_prueba.json"), only)
	if g.Vertices() != 10000 || g.Edges() != 50000 || g.Types[0].Features.Columns != 128 ||
		g.Types[0].Labels.Classes != 10 ||
		len(g.Types[0].Splits[0].Train) != 6000 {
		t.Errorf("%d vertices, %d edges, %d features, %d classes", g.Vertices(), g.Edges(),
			g.Types[0].Features.Columns, g.Types[0].Labels.Classes)
	}
	counts := make([]int, d.K)
	for _, p := range d.Parts {
		counts[p]++
	}
	if !slices.Equal(counts, []int{3323, 3301, 3376}) || d.Parts[3322] != 0 || d.Parts[3323] != 1 {
		t.Errorf("partitions of %v vertices", counts)
	}
}
