package dgl

import (
	"slices"
	"testing"

	"weft/graph/dgl/dgltest"
	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/realdata"
)

// opening opens a file.
func opening(path string, o Options) func() (*streamed.Graph, error) {
	return func() (*streamed.Graph, error) {
		g, _, err := Open(path, o)
		return g, err
	}
}

// inStream wants the store that a file is written to in a stream to be that of the graph in memory.
func inStream(t *testing.T, path string, o Options) {
	t.Helper()
	open := opening(path, o)
	if !streamedtest.Same(t, open).Typed() {
		streamedtest.Both(t, func(bool) (*streamed.Graph, error) { return open() })
	}
}

// Edges of several blocks are read in each format, in the order of their ids or in another.
func TestInStream(t *testing.T) {
	const n, edges = 300, 140_000
	var from, to []int64
	for k := range edges {
		from, to = append(from, int64(k*n/edges)), append(to, int64(k*k%n))
	}
	features := make([]float64, 4*edges)
	for k := range features {
		features[k] = float64(k % 77)
	}
	wide := make([]float32, 200*n)
	for format, ends := range map[int][2][]int64{
		dgltest.COO: {from, to}, dgltest.CSR: {from, to},
		dgltest.CSC: {to, from},
	} {
		for _, sorted := range []bool{true, false} {
			g := &dgltest.Graph{
				Vertices: []dgltest.Vertices{{Type: "_N", Count: n + 1, Tensors: dgltest.Tensors{
					"feat":  dgltest.Of(append(wide, make([]float32, 200)...), n+1, 10, 20),
					"label": dgltest.Of(make([]int64, n+1)),
				}}},
				Relations: []dgltest.Relation{
					{
						Name: "_E", From: ends[0], To: ends[1], Formats: format, Sorted: sorted,
						Tensors: dgltest.Tensors{
							"feat": dgltest.Of(features, edges, 2, 2),
							"w":    dgltest.Of(features[edges : 2*edges]),
						},
					},
				},
			}
			path := graphtest.File(t, "g.bin", dgltest.Graphs(nil, g))
			o := Options{Graph: AllGraphs, EdgeWeights: "w", DenseFeatures: sorted}
			inStream(t, path, o)
		}
	}
	for name, change := range map[string]func(g *dgltest.Graph){
		"a name of the type":     func(g *dgltest.Graph) { g.Vertices[0].Type = "user" },
		"a name of the relation": func(g *dgltest.Graph) { g.Relations[0].Name = "follows" },
		"ends of two types": func(g *dgltest.Graph) {
			g.Vertices = append(g.Vertices, dgltest.Vertices{Type: "other", Count: 1})
		},
		"masks of edges": func(g *dgltest.Graph) {
			delete(g.Vertices[0].Tensors, "label")
			for _, name := range edgeMasks {
				delete(g.Vertices[0].Tensors, name)
			}
			g.Relations[0].Tensors["train_mask"] = dgltest.Of(slices.Repeat([]uint8{1},
				len(g.Relations[0].From)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := ring()
			change(g)
			inStream(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, g)), only)
		})
	}
	inStream(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, ring(), ring())), only)
	inStream(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, ring(), shop())), Options{Graph: 0})
	inStream(t, graphtest.File(t, "g.bin", dgltest.Graphs(lists(nil), ring())), only)
	inStream(t, graphtest.File(t, "g.bin", dgltest.Graphs(lists(nil), ring())),
		Options{Graph: AllGraphs, EdgeSplit: None})
}

// A file of DGL 0.9 is read in a stream.
func TestRealInStream(t *testing.T) {
	inStream(t, realdata.File(t, "dgl", "single_graph", "graph_0.9a220622.dgl"), only)
}

// TestBeyondMemory: edges and features that exceed the memory are written, in a stream. Read refuses them.
func TestBeyondMemory(t *testing.T) {
	const vertices, edges, left = 5000, 4 << 20, 64 << 20
	g := &dgltest.Graph{
		Vertices:  []dgltest.Vertices{{Type: "_N", Count: vertices}},
		Relations: []dgltest.Relation{{Name: "_E"}},
	}
	for k := range int64(edges) {
		r := &g.Relations[0]
		r.From, r.To = append(r.From, k*7919%vertices), append(r.To, k*k%vertices)
	}
	path := graphtest.File(t, "g.bin", dgltest.Graphs(nil, g))
	streamedtest.BeyondMemory(t, left, edges, opening(path, only))
}
