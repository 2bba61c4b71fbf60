package pyg

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/require"
)

// TestFilesInStream: the files that PyG wrote are written in a stream to the store of the graph in memory.
func TestFilesInStream(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pt")
	require.NoError(t, err)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".pt")
		if strings.HasPrefix(name, "refused") || name == "two-labels" {
			continue
		}
		for _, dense := range []bool{false, true} {
			streamedtest.Same(t, func() (*streamed.Graph, error) {
				return Open(path, Options{DenseFeatures: dense})
			})
		}
	}
}

// tensorOf is a tensor as torch.save writes it.
type tensorOf struct {
	name, kind     string // kind of the storage
	values         any
	shape, strides []int
}

// row returns a tensor whose numbers lie in row order.
func row(name, kind string, values any, shape ...int) tensorOf {
	strides, step := make([]int, len(shape)), 1
	for k := range slices.Backward(shape) {
		strides[k], step = step, step*shape[k]
	}
	return tensorOf{name, kind, values, shape, strides}
}

// number is the code of a number.
func number(n int) string { return "J" + string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }

// numbers is the code of a tuple of numbers.
func numbers(list []int) string {
	code := "("
	for _, n := range list {
		code += number(n)
	}
	return code + "t"
}

// code is that of a tensor on the storage of a key.
func (t *tensorOf) code(key int) string {
	return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + t.kind + "\n" +
		text(fmt.Sprint(key)) + text("cpu") +
		number(reflect.ValueOf(t.values).Len()) + "tQK\x00" + numbers(t.shape) +
		numbers(t.strides) + "\x89NtR"
}

// saved writes a dict of tensors, each with a storage of its own.
func saved(t testing.TB, tensors ...tensorOf) string {
	t.Helper()
	code := "}("
	for k, tensor := range tensors {
		code += text(tensor.name) + tensor.code(k)
	}
	return savedAs(t, code+"u.", tensors...)
}

// savedCSR writes a dict with a sparse adj_t of so many rows and columns.
func savedCSR(t testing.TB, bounds, ids, values tensorOf, rows, columns int) string {
	t.Helper()
	code := "}" + text("adj_t") +
		"ctorch._utils\n_rebuild_sparse_csr_tensor\n(ctorch.serialization\n_get_layout\n(" +
		text("torch.sparse_csr") + "tR(" +
		bounds.code(0) + ids.code(1) + values.code(2) + numbers([]int{rows, columns}) + "ttRs."
	return savedAs(t, code, bounds, ids, values)
}

// savedAs writes a file of a pickle and of storages.
func savedAs(t testing.TB, code string, tensors ...tensorOf) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "graph.pt")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	z := zip.NewWriter(f)
	write := func(name string, content []byte) {
		w, err := z.CreateRaw(&zip.FileHeader{
			Name: "archive/" + name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(content),
			UncompressedSize64: uint64(len(content)), CompressedSize64: uint64(len(content)),
		})
		if err == nil {
			_, err = w.Write(content)
		}
		require.NoError(t, err)
	}
	write("data.pkl", []byte(code))
	for k, tensor := range tensors {
		content, err := binary.Append(nil, binary.LittleEndian, tensor.values)
		require.NoError(t, err)
		write(fmt.Sprint("data/", k), content)
	}
	require.NoError(t, z.Close())
	return path
}

// inStream fails unless a file is written in a stream as Read reads it.
func inStream(t *testing.T, path string) *streamed.Written {
	t.Helper()
	return streamedtest.Both(t, func(bool) (*streamed.Graph, error) { return Open(path, Options{}) })
}

// Edges, and what they have, are read in blocks however they lie in the file, and features of each type.
func TestInStream(t *testing.T) {
	const vertices, edges = 331, 140_000
	byEnd, both := make([]int64, 2*edges), make([]int64, 2*edges)
	narrow, weights, features := make([]int32, 2*edges), make([]float64, edges), make([]float32, 3*edges)
	for k := range edges {
		u, v := int64(k*7919%vertices), int64(k*k%vertices)
		byEnd[k], byEnd[edges+k], both[2*k], both[2*k+1], narrow[k], narrow[edges+k] = u, v, u,
			v, int32(u), int32(v)
		weights[k], features[3*k] = float64(k%9)/2, float32(k)
	}
	half, x, y, graphs := make([]uint16, 1000*vertices), make([]float32, 200*vertices),
		make([]int64, vertices), make([]int64, vertices)
	for k := range half {
		half[k] = uint16(math.Float32bits(float32(k%17)) >> 16)
	}
	for k := range x {
		x[k] = float32(k % 3)
	}
	for k := range y {
		y[k] = int64(k % 4)
	}
	transposed := tensorOf{"edge_index", "LongStorage", both, []int{2, edges}, []int{1, 2}}
	strided := tensorOf{"edge_index", "LongStorage", both, []int{2, edges / 2}, []int{1, 4}}
	labels := row("y", "LongStorage", y, vertices)
	for name, tensors := range map[string][]tensorOf{
		"rows": {
			row("edge_index", "LongStorage", byEnd, 2, edges),
			row("x", "FloatStorage", x, vertices, 200), labels,
		},
		"narrow": {
			row("edge_index", "IntStorage", narrow, 2, edges),
			row("edge_weight", "DoubleStorage", weights, edges), labels,
		},
		"transposed": {
			transposed, row("edge_attr", "FloatStorage", features, edges, 3),
			row("x", "BFloat16Storage", half, vertices, 1000),
		},
		"all of edges": {
			transposed, row("edge_attr", "FloatStorage", features, edges, 3),
			row("edge_weight", "DoubleStorage", weights, edges),
		},
		"features by column": {
			transposed,
			{"x", "FloatStorage", x, []int{vertices, 200}, []int{1, vertices}},
			row("batch", "LongStorage", graphs, vertices),
		},
		"every other":     {strided},
		"weights by twos": {transposed, {"edge_weight", "FloatStorage", features, []int{edges}, []int{2}}},
	} {
		t.Run(name, func(t *testing.T) {
			inStream(t, saved(t, tensors...))
		})
	}
	// Compressed rows of targets, with and without weights
	bounds, columns, values := make([]int64, vertices+1), make([]int64, edges), make([]float32, edges)
	for k := range columns {
		columns[k], values[k] = int64(k*7919%vertices), 1
		bounds[k*vertices/edges+1] = int64(k + 1)
	}
	for _, weighted := range []bool{false, true} {
		if weighted {
			values[edges-1] = 2
		}
		path := savedCSR(t, row("", "LongStorage", bounds, vertices+1),
			row("", "LongStorage", columns, edges), row("", "FloatStorage", values, edges),
			vertices, vertices)
		if w := inStream(t, path); w.Weighted != weighted {
			t.Errorf("weighted %v, want %v", w.Weighted, weighted)
		}
	}
	columns[100_000] = vertices
	path := savedCSR(t, row("", "LongStorage", bounds, vertices+1), row("", "LongStorage", columns, edges),
		row("", "FloatStorage", values, edges), vertices, vertices)
	streamedtest.WantRefused(t, opening(path, Options{}), path,
		`"adj_t": column 331 of a sparse matrix of 331 columns`)
	byEnd[edges+100_000] = vertices
	for want, tensors := range map[string][]tensorOf{
		`"edge_index": edge 100000 (`: {row("edge_index", "LongStorage", byEnd, 2, edges), labels},
		`"edge_index": a tensor of float32, where integers are due: save it after .long()`: {row("edge_index",
			"FloatStorage", x, 2, 100), labels},
	} {
		path := saved(t, tensors...)
		streamedtest.WantRefused(t, opening(path, Options{}), path, want)
	}
}

// TestBeyondMemory: edges and features that exceed the memory are written, in a stream. Read refuses them.
func TestBeyondMemory(t *testing.T) {
	const vertices, edges, left = 5000, 4 << 20, 64 << 20
	ids := make([]int32, 2*edges)
	for k := range ids {
		ids[k] = int32(k * 7919 % vertices)
	}
	path := saved(t, row("edge_index", "IntStorage", ids, 2, edges),
		row("x", "FloatStorage", make([]float32, 4000*vertices), vertices, 4000))
	streamedtest.BeyondMemory(t, left, edges,
		func() (*streamed.Graph, error) { return Open(path, Options{DenseFeatures: true}) })
}

// archive is a file of torch.save: a pickle, and storages "0" to "3" with the same bytes.
func archive(t testing.TB, code string, storage []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	write := func(name string, content []byte) {
		w, err := z.CreateRaw(&zip.FileHeader{
			Name: "archive/" + name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(content),
			UncompressedSize64: uint64(len(content)), CompressedSize64: uint64(len(content)),
		})
		if err == nil {
			_, err = w.Write(content)
		}
		require.NoError(t, err)
	}
	write("data.pkl", []byte(code))
	for _, key := range []string{"0", "1", "2", "3"} {
		write("data/"+key, storage)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// pulled takes the pickle and the first storage out of a file of torch.save, nothing out of another.
func pulled(t testing.TB, content []byte) (code, storage []byte) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, nil
	}
	for _, entry := range z.File {
		r, err := entry.Open()
		require.NoError(t, err)
		bytes, err := io.ReadAll(r)
		require.NoError(t, err)
		switch {
		case path.Base(entry.Name) == "data.pkl":
			code = bytes
		case strings.HasSuffix(entry.Name, "data/0"):
			storage = bytes
		}
	}
	return code, storage
}
