package program_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
	"weft/train/paralleltest"
)

// TestGolden compares the logits, gradients and running statistics of programs with the PyTorch modules that
// they were traced from, on a directed graph with isolated vertices, self loops and parallel edges, as one
// block, as several, on partitions of the graph, and on slices of the columns.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.safetensors")
	require.NoError(t, err)
	if len(files) < 14 {
		t.Fatalf("%d golden files", len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".safetensors")
		t.Run(name, func(t *testing.T) {
			readGolden(t, file).test(t)
		})
	}
}

// TestGoldenInBFloat16 is TestGolden of values that are stored as bfloat16, each off by at most 2⁻⁸ of
// itself.
func TestGoldenInBFloat16(t *testing.T) {
	files, err := filepath.Glob("testdata/*.safetensors")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".safetensors")
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, file)
			g.storage, g.jumps = tensor.BFloat16, max(1, jumps[name])
			g.step(t, 1, paralleltest.Grid(1, 1, 1))
			g.step(t, 1, paralleltest.Grid(1, 3, 1))
			g.step(t, 1, paralleltest.Grid(1, 1, 2))
		})
	}
}

// jumps are factors by which the gradients of these modules may be off further than others. If a maximum or a
// ReLU is about to switch, a rounding gives the gradient to another element.
var jumps = map[string]float64{"corners": 3, "gen": 2, "pna": 8, "sage": 2, "to-hetero": 4}

// TestEdgesMultiplyInBFloat16: if values are stored as bfloat16, products of rows of edges with a weight, and
// the gradients of such weights, read bfloat16s. Except for the weights' gradients, they also write them.
func TestEdgesMultiplyInBFloat16(t *testing.T) {
	for _, name := range []string{"edge", "attentive"} {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, "testdata/"+name+".safetensors")
			vertices, found := g.graph(t).Vertices(), map[string]int{}
			g.storage, g.jumps = tensor.BFloat16, 1
			g.watch = func(c kernel.Call, run func()) {
				run()
				rows, in, out := c.Shape[0], c.Shape[1], c.Shape[2]
				if in*out == 0 || rows <= vertices {
					return
				}
				found[c.Kernel]++
				assert.Equal(t, 2*rows*(in+out)+4*in*out, c.Bytes.Least, c.Kernel)
			}
			g.step(t, 1, paralleltest.Grid(1, 1, 1))
			if found["product"] < 3 || found["weight"] < 1 {
				t.Errorf("products of rows of edges: %v", found)
			}
		})
	}
}

// TestChains is TestGolden for random modules that testdata/chains.py has written: the first 20, or those in
// the folder that WEFT_CHAINS names, as `make programs` does.
func TestChains(t *testing.T) {
	for _, file := range chains(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			readGolden(t, file).test(t)
		})
	}
}

// chains returns the files of random modules.
func chains(t *testing.T) []string {
	t.Helper()
	folder := cmp.Or(os.Getenv("WEFT_CHAINS"), "testdata/chains")
	files, err := filepath.Glob(filepath.Join(folder, "*.safetensors"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Fatalf("no programs in %s", folder)
	}
	return files
}
