package task

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// TestReadClassWeights reads a number for each class, and refuses what is none.
func TestReadClassWeights(t *testing.T) {
	for text, want := range map[string][]float64{
		"1\n2.5\n0\n": {1, 2.5, 0}, " 3 1e-1 .5": {3, .1, .5},
		"": nil, "1 2": nil, "1 2 3 4": nil, "1 2 -1": nil, "1 2 Inf": nil, "1 2 NaN": nil,
		"a 1 2": nil, "0 0 0": nil,
	} {
		path := filepath.Join(t.TempDir(), "w")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		switch got, err := readClassWeights(path, 3); {
		case want == nil && (!refusal.Is(err) || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "\n")):
			t.Errorf("%q: %v", text, err)
		case want != nil && (err != nil || !slices.Equal(got, want)):
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	_, err := readClassWeights(filepath.Join(t.TempDir(), "nothere"), 3)
	assert.Refused(t, err, "", "a file that is not there")
}

// TestBalancedWeights holds the weights against compute_class_weight("balanced") of scikit-learn. A class
// without training vertices weighs 0, and a mean is over the weights.
func TestBalancedWeights(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	c := &classes{vertices: &vertices{Env: Env{Team: team, World: comm.Alone()}}}
	c.labels = graph.Labels{Classes: 4, Class: []int64{0, 1, 1, 2, 2, 2, 2, 0, 2, 3, 1}}
	c.targets.Classes = 4
	c.train.ids, c.val.ids = []int64{0, 1, 2, 3, 4, 5, 6, 7, 8}, []int64{9, 10}
	require.NoError(t, c.weigh(Balanced))
	assert.Equal(t, []float64{1.5, 1.5, .6, 0}, c.targets.Weights, "weights")
	assert.Near(t, 9, c.train.total, 1e-12)
	assert.Equal(t, 1.5, c.val.total)
}

// TestTrainingVerticesWithoutWeight are refused: a mean weighted by zeros is none.
func TestTrainingVerticesWithoutWeight(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	require.NoError(t, os.WriteFile(path, []byte("0 0 5\n"), 0o666))
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	c := &classes{vertices: &vertices{Env: Env{Team: team, World: comm.Alone()}}}
	c.labels = graph.Labels{Classes: 3, Class: []int64{0, 1, 2}}
	c.targets.Classes = 3
	c.train.ids, c.val.ids = []int64{0, 1}, []int64{2}
	assert.Refused(t, c.weigh(path), path, "training vertices that weigh 0")
}
