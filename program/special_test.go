package program_test

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/program"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// unlike are operations that differ from PyTorch at some numbers, and say at which. These are not compared.
var unlike = map[string]string{
	"one: gelu tanh":        "the gradient at infinities, where PyTorch's is NaN",
	"one: xlogx":            "the gradient at 0, where PyTorch's is NaN",
	"two: smooth_l1":        "the gradient of NaN, which is 0",
	"edges: max of relu":    "equal messages, of which one has the gradient",
	"one: logit eps":        "in version 2.6 the gradient of NaN, which is 0",
	"two: clamp by rows":    "in version 2.6 the gradient where a bound is NaN",
	"two: clamp below rows": "in version 2.6 the gradient where a bound is NaN",
	"two: huber":            "the gradient of NaN, which is 0",
	"four: var_mean":        "the mean of infinities, where PyTorch's is NaN",
	"four: std_mean":        "the mean of infinities, where PyTorch's is NaN",
	"four: norm inf":        "the gradient of NaN, which is NaN",
	"four: norm -inf":       "the gradient of NaN, which is NaN",
	"four: norm 0.5":        "the gradient at 0 beside infinities, where PyTorch's is NaN",
	"four: normalize 1":     "the gradient at 0 beside infinities, where PyTorch's is NaN",
	"four: argmax weighted": "the gradient of NaN, which is NaN",
	"rows: max of values":   "equal rows, which share the gradient",
	"edges: max":            "equal and unknown messages, of which one has the gradient",
	"edges: min":            "equal and unknown messages, of which one has the gradient",
	"edges: times exp":      "sums of 1e30 and infinities, in another order",
	"edges: clamp":          "a product of NaN and 0 that no edge reads",
}

// TestSpecialPoints compares operations and their gradients with those of the oldest and the newest PyTorch
// in float64 (testdata/special_points.py): at bounds, 0, ties, infinities, large and denormal numbers, and
// NaN. Where an intermediate value of float64 does not fit float32, it compares with PyTorch in float32.
func TestSpecialPoints(t *testing.T) {
	files, err := filepath.Glob("testdata/special/*.safetensors")
	require.NoError(t, err)
	assert.Equal(t, 2, len(files))
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".safetensors"), func(t *testing.T) {
			tensors, meta, err := safetensors.ReadFile(file)
			require.NoError(t, err)
			p, err := program.Read(strings.NewReader(meta["program"]))
			require.NoError(t, err)
			logits, gradient := special(t, p, tensors)
			var results []string
			require.NoError(t, json.Unmarshal([]byte(meta["names"]), &results))
			alike := slices.DeleteFunc(slices.Compact(slices.Clone(results)), func(name string) bool {
				return unlike[name] != ""
			})
			if len(alike) < 200 {
				t.Errorf("%d operations", len(alike))
			}
			for _, array := range []struct{ name, columns string }{{"logits", "names"}, {"grad", "inputs"}} {
				var names []string
				require.NoError(t, json.Unmarshal([]byte(meta[array.columns]), &names))
				got := map[string][]float32{"logits": logits, "grad": gradient}[array.name]
				wrong := map[string][]string{}
				for i, v := range tensors[array.name].Float32 {
					in32 := tensors[array.name+"32"].Float32[i]
					column, scale := i%len(names), 0.
					if array.name == "grad" {
						scale = 1e-6 * float64(slices.Index(results, names[column])+1)
					}
					if !equalNumbers(got[i], v, scale) && !equalNumbers(got[i], in32, scale) {
						text := fmt.Sprintf("row %d: %g, want %g (%g)", i/len(names), got[i], v, in32)
						if array.name == "grad" {
							text += fmt.Sprintf(" at %g", tensors["x"].Float32[i])
						}
						wrong[names[column]] = append(wrong[names[column]], text)
					}
				}
				for _, name := range names {
					if wrong[name] != nil && unlike[name] == "" {
						t.Errorf("%s of %s:\n\t%s", array.name, name, strings.Join(wrong[name], "\n\t"))
						delete(wrong, name)
					}
				}
			}
		})
	}
}

// equalNumbers reports whether two numbers are equal up to a few roundings of float32, and up to what remains
// when numbers of that size cancel.
func equalNumbers(got, want float32, size float64) bool {
	g, w := float64(got), float64(want)
	return g == w || g != g && w != w || math.Abs(g-w) <= 5e-5*math.Abs(w)+size+2e-20
}

// special returns the output of a program for x on one worker, and the gradient by x of the sum of its
// columns times 1, 2, 3, ….
func special(
	t *testing.T, p *program.Program, tensors map[string]safetensors.Tensor,
) (logits, gradient []float32) {
	g := golden{program: p, tensors: tensors}
	x := featuresOf(tensors["x"])
	all := paralleltest.GraphOf(t, len(x.Dense)/x.Columns, g.edges(""))
	// finite features for the build
	all.Types[0].Features = graph.Features{Columns: x.Columns, Dense: make([]float32, len(x.Dense))}
	paralleltest.Workers{Mesh: paralleltest.Grid(1, 1, 1), Graph: all}.Run(t, func(c engine.Config) {
		part := axisOf(c, paralleltest.Grid(1, 1, 1))
		_, model := g.model(c, part, p.Outputs(), 1)
		tape := autograd.NewTrainingTape(c.Team, autograd.Random{})
		features := c.Team.Memory.New(tensor.Features, len(x.Dense)/x.Columns, x.Columns)
		copy(features.WriteFloats(), x.Dense)
		input := tape.Input(features, part.Types()[0])
		output := model.Forward(gnn.StateOf(input)).Output()
		logits = slices.Clone(output.Value().ReadFloats())
		cotangent := c.Team.Memory.New(tensor.Gradients, output.Rows(), output.Cols())
		for i := range cotangent.WriteFloats() {
			cotangent.WriteFloats()[i] = float32(1 + i%cotangent.Cols)
		}
		tape.Backward(autograd.Root{Var: output, Grad: cotangent})
		gradient = slices.Clone(input.TakeGrad().ReadFloats())
	})
	return logits, gradient
}
