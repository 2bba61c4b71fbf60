package main

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"weft/graph/dgl/dgltest"
)

// dglFiles writes what DGL writes into a folder, as in "dgl-files d": one.bin and two.bin with one graph and
// two, typed.bin with a graph of two types, tensors.dgl without a graph, old.bin of a version that is not
// read, and the graphs of one.bin and typed.bin divided by DGL 0.9 (older/one.json, typed/typed.json) and by
// 1.0 (newer/one.json).
func dglFiles(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	one, typed := dglGraph(), dglTyped()
	// v's partition: v mod 7 mod 3, so that an order by partition is another
	parts := make([]int, one.Vertices[0].Count)
	for v := range parts {
		parts[v] = v % 7 % 3
	}
	ts.Check(os.MkdirAll(dir, 0o777))
	old := dgltest.Graphs(nil, one)
	old[8] = 1
	for name, content := range map[string][]byte{
		"one.bin": dgltest.Graphs(nil, one), "two.bin": dgltest.Graphs(nil, typed, one),
		"typed.bin": dgltest.Graphs(nil, typed), "old.bin": old,
		"tensors.dgl": dgltest.File(one.Vertices[0].Tensors),
	} {
		ts.Check(os.WriteFile(filepath.Join(dir, name), content, 0o666))
	}
	ts.Check(dgltest.Divide(filepath.Join(dir, "older"), "one", one,
		dgltest.Division{K: 3, Parts: [][]int{parts}, Names: dgltest.Older}))
	ts.Check(dgltest.Divide(filepath.Join(dir, "newer"), "one", one, dgltest.Division{
		K: 3, Parts: [][]int{parts},
	}))
	ts.Check(dgltest.Divide(filepath.Join(dir, "typed"), "typed", typed,
		dgltest.Division{K: 3, Parts: [][]int{parts, parts[:20]}, Names: dgltest.Older}))
}

// dglGraph is a graph of sixty vertices of three classes. Most edges stay within a class.
func dglGraph() *dgltest.Graph {
	const n = 60
	g := &dgltest.Graph{
		Vertices: []dgltest.Vertices{{Type: "_N", Count: n}}, Relations: []dgltest.Relation{{Name: "_E"}},
	}
	var feat, weight []float32
	var label, year []int64
	masks := map[string][]uint8{}
	for v := range n {
		for _, step := range []int{3, 6, 10, n - 3} {
			g.Relations[0].From, g.Relations[0].To = append(g.Relations[0].From, int64(v)),
				append(g.Relations[0].To, int64((v+step)%n))
			weight = append(weight, 1/float32(step))
		}
		feat = append(feat, float32(v%3), float32(v%5), float32(v)/n)
		label, year = append(label, int64(v%3)), append(year, int64(2000+v))
		for k, name := range []string{"train_mask", "val_mask", "test_mask"} {
			mark := uint8(0)
			if v/3%3 == k {
				mark = 1
			}
			masks[name] = append(masks[name], mark)
		}
	}
	all := dgltest.Tensors{
		"feat": dgltest.Of(feat, n, 3), "label": dgltest.Of(label), "year": dgltest.Of(year),
	}
	for name, marks := range masks {
		all[name] = dgltest.Of(marks)
	}
	g.Vertices[0].Tensors = all
	g.Relations[0].Tensors = dgltest.Tensors{"w": dgltest.Of(weight)}
	return g
}

// dglTyped is that graph with its vertices as papers, and twenty authors of three papers each.
func dglTyped() *dgltest.Graph {
	g := dglGraph()
	g.Vertices[0].Type, g.Relations[0].Name = "paper", "cites"
	g.Vertices = append(g.Vertices,
		dgltest.Vertices{
			Type: "author", Count: 20,
			Tensors: dgltest.Tensors{"feat": dgltest.Of(make([]float32, 40), 20, 2)},
		})
	writes := dgltest.Relation{Name: "writes", Source: 1, Target: 0}
	for v := range g.Vertices[0].Count {
		writes.From, writes.To = append(writes.From, int64(v%20)), append(writes.To, int64(v))
	}
	g.Relations = append(g.Relations, writes)
	return g
}
