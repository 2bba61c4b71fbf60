package npz

import (
	"archive/zip"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
)

// large draws a graph of so many edges, of several blocks, with duplicates and self loops.
func large(vertices, edges int) (source, target []int64, weights, features []float32) {
	for k := range edges {
		source, target = append(source, int64(k*7919%vertices)), append(target, int64(k*k%vertices))
		weights, features = append(weights, float32(k%9)/2), append(features, float32(k), -float32(k%5))
	}
	return source, target, weights, features
}

// inFortran says that an array lies column by column.
func inFortran(e entry) entry {
	e.file = strings.Replace(e.file, "False", "True ", 1)
	return e
}

// Each way in which edges lie in an archive is read in blocks to the store of the graph in memory, with all
// that edges and vertices have, symmetrized or not, and with a split by a rule.
func TestInStream(t *testing.T) {
	const vertices, edges = 331, 140_000
	u, v, w, f := large(vertices, edges)
	var both []int64
	narrow := make([]int32, 2*edges)
	for k := range u {
		both = append(both, u[k], v[k])
		narrow[k], narrow[edges+k] = int32(u[k]), int32(v[k])
	}
	x, y := make([]float64, 3*vertices), make([]int16, vertices)
	indptr, indices, data := make([]int64, vertices+1), []int32{}, []float32{}
	for k := range y {
		x[3*k], y[k] = float64(k)/3, int16(k%4)
		for n := range 430 {
			indices, data = append(indices, int32((k*n+n*n)%vertices)), append(data, float32(n%3))
		}
		indptr[k+1] = int64(len(indices))
	}
	ones := make([]float32, len(data))
	for k := range ones {
		ones[k] = 1
	}
	byEnd, pairs := fmt.Sprintf("(2, %d)", edges), fmt.Sprintf("(%d, 2)", edges)
	attributes := []entry{
		array("x", "<f8", fmt.Sprintf("(%d, 3)", vertices), x),
		array("y", "<i2", fmt.Sprintf("(%d,)", vertices), y),
		array("edge_weight", "<f4", fmt.Sprintf("(%d,)", edges), w), array("edge_attr", "<f4", pairs, f),
	}
	square := array("adj_shape", "<i8", "(2,)", []int64{vertices, vertices})
	matrix := []entry{
		square, array("adj_indptr", "<i8", fmt.Sprintf("(%d,)", vertices+1), indptr),
		array("adj_indices", "<i4", fmt.Sprintf("(%d,)", len(indices)), indices),
	}
	wide := make([]float32, 200*vertices)
	for k := range wide {
		wide[k] = float32(k % 3)
	}
	with := func(entries []entry, more ...entry) []entry {
		return append(append([]entry{}, entries...), more...)
	}
	for name, entries := range map[string][]entry{
		"edge_index": with(attributes,
			array("edge_index", "<i8", byEnd, append(append([]int64{}, u...), v...))),
		"edge_index, int32":      with(attributes, array("edge_index", "<i4", byEnd, narrow)),
		"edge_index, by columns": with(attributes[:2], inFortran(array("edge_index", "<i8", byEnd, both))),
		"edge_index alone":       {array("edge_index", "<i8", byEnd, append(append([]int64{}, u...), v...))},
		"edges": with(attributes[1:3], array("edges", "<i8", pairs, both),
			array("num_nodes", "<i8", "()", []int64{vertices})),
		"edges, by columns": {inFortran(array("edges", "<i8", pairs,
			append(append([]int64{}, u...), v...))), array("num_nodes", "<i8", "()", []int64{vertices + 9})},
		"heterophilous": {
			array("edges", "<i8", pairs, both),
			array("node_features", "<f4", fmt.Sprintf("(%d, 200)", vertices), wide),
			array("node_labels", "<i2", fmt.Sprintf("(%d,)", vertices), y),
		},
		"heterophilous, sparse": {
			array("edges", "<i8", pairs, both),
			array("node_features", "<f4", fmt.Sprintf("(%d, 200)", vertices), make([]float32, 200*vertices)),
			array("node_labels", "<i2", fmt.Sprintf("(%d,)", vertices), y),
		},
		"adjacency": with(matrix, array("adj_data", "<f4", fmt.Sprintf("(%d,)", len(data)),
			ones), array("labels", "<i2", fmt.Sprintf("(%d,)", vertices), y)),
		"weighted adjacency": with(matrix, array("adj_data", "<f4", fmt.Sprintf("(%d,)", len(data)),
			data), array("attr_matrix", "<f4", fmt.Sprintf("(%d, 200)", vertices), wide)),
	} {
		t.Run(name, func(t *testing.T) {
			method := zip.Store
			if strings.Contains(name, " ") {
				method = zip.Deflate
			}
			path := writeWith(t, func(z *zip.Writer, e entry) (io.Writer, error) {
				return z.CreateHeader(&zip.FileHeader{Name: e.key + ".npy", Method: method})
			}, entries...)
			streamedtest.Both(t, func(both bool) (*streamed.Graph, error) {
				return Open(path, Options{AsListed: both})
			})
		})
	}
}

// What is wrong with an element is said of its place in the array, whichever block it is in.
func TestRefusedInStream(t *testing.T) {
	const vertices, edges = 50, 140_000
	u, v, w, f := large(vertices, edges)
	var byColumns []int64
	for k := range u {
		byColumns = append(byColumns, u[k], v[k])
	}
	byEnd := fmt.Sprintf("(2, %d)", edges)
	num := array("num_nodes", "<i8", "()", []int64{vertices})
	change := func(values []int64, at int, to int64) []int64 {
		changed := append([]int64{}, values...)
		changed[at] = to
		return changed
	}
	w[125_000], f[2*138_000+1] = float32(math.Inf(1)), float32(math.NaN())
	for want, entries := range map[string][]entry{
		`array "edge_index": element 275000, 4294967296, exceeds a 32-bit integer`: {
			num,
			array("edge_index", "<i8", byEnd, append(append([]int64{}, u...), change(v, 135_000, 1<<32)...)),
		},
		`array "edge_index": element 275000, 9223372036854775808, exceeds a signed 64-bit integer`: {
			num,
			array("edge_index", "<u8", byEnd,
				append(append([]int64{}, u...), change(v, 135_000, math.MinInt64)...)),
		},
		`array "edge_index": element 275000, 4294967297, exceeds a 32-bit integer`: {
			num, inFortran(array("edge_index", "<i8", byEnd, change(byColumns, 2*135_000+1, 1<<32+1))),
		},
		`graph.npz: edge 135000 (`: {
			num,
			array("edge_index", "<i8", byEnd, append(append([]int64{}, u...), change(v, 135_000, 50)...)),
		},
		`→-1) leaves the range of 50 vertices`: {array(
			"edge_index", "<i8", byEnd, append(append([]int64{}, u...), change(v, 135_000, -1)...))},
		`array "edge_attr": edge 138000 of the file has the value NaN in column 1`: {
			num, array("edge_index", "<i8", byEnd, append(append([]int64{}, u...), v...)),
			array("edge_attr", "<f4", fmt.Sprintf("(%d, 2)", edges), f),
		},
		`array "edge_weight": edge 125000 of the file has the weight +Inf`: {
			num, array("edge_index", "<i8", byEnd, append(append([]int64{}, u...), v...)),
			array("edge_weight", "<f4", fmt.Sprintf("(%d,)", edges), w),
		},
		`array "x": feature 1 of vertex 138000 is NaN: replace values that are not finite`: {
			array("edge_index", "<i8", "(2, 1)", []int64{0, 1}),
			array("x", "<f4", fmt.Sprintf("(%d, 2)", edges), f),
		},
		`graph.npz: val_edges: edge 0 has an end 50, which is outside the range of 50`: {
			num, array("edge_index", "<i8", "(2, 1)", []int64{0, 1}),
			array("train_edges", "<i8", "(1, 2)", []int64{0, 1}),
			array("val_edges", "<i8", "(1, 2)", []int64{0, 50}),
			array("test_edges", "<i8", "(0, 2)", []int64{}),
		},
		`array "edge_index": it is cut short: (2, 4) of <i8 needs 64 bytes of data, 32 are there`: {
			num, array("edge_index", "<i8", "(2, 4)", []int64{0, 1, 2, 3}),
		},
	} {
		refused(t, want, entries...)
	}
}

// TestBeyondMemory: edges and features that exceed the memory are written, in a stream. Read refuses them.
func TestBeyondMemory(t *testing.T) {
	const vertices, edges, columns, left = 5000, 4 << 20, 4096, 64 << 20
	ids := make([]int32, 2*edges)
	for k := range ids {
		ids[k] = int32(k * 7919 % vertices)
	}
	path := write(t, array("edge_index", "<i4", fmt.Sprintf("(2, %d)", edges), ids),
		array("x", "<f4", fmt.Sprintf("(%d, %d)", vertices, columns), make([]float32, vertices*columns)))
	streamedtest.BeyondMemory(t, left, edges,
		func() (*streamed.Graph, error) { return Open(path, Options{DenseFeatures: true}) })
}
