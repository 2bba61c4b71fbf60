package task

import (
	"fmt"
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
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

func TestParseShares(t *testing.T) {
	for text, want := range map[string]Shares{
		"85/5/10": {85, 5, 10}, "99.5/.2/0.3": {99.5, .2, .3},
		"100/0/0": {100, 0, 0},
	} {
		var s, again Shares
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
		if err := again.UnmarshalText([]byte(fmt.Sprint(s))); err != nil || again != s {
			t.Errorf("%s is written as %v", text, s)
		}
	}
	for _, text := range []string{
		"", "85/15", "85/5/5", "0/50/50", "a/b/c", "-5/5/100", "NaN/5/5", "80/10/5/5", "Inf/0/0",
	} {
		var s Shares
		assert.Error(t, s.UnmarshalText([]byte(text)), "%q is read as %v", text, s)
	}
}

// TestSplitThatIsNotThere: splits count from 0, and one without training vertices is refused.
func TestSplitThatIsNotThere(t *testing.T) {
	two := []graph.SplitSizes{{Train: 1}, {Val: 3, Test: 4}}
	for _, c := range []struct {
		splits []graph.SplitSizes
		graphs int
		split  int
		want   string // how the refusal begins, or nothing
	}{
		{nil, 0, 0, "the graph has no split into training, validation and test vertices; draw one with " +
			"--split random:60/20/20, for a training or in an import"},
		{nil, 20, 0, "the graph has no split into training, validation and test vertices; draw one with " +
			"--split graphs:60/20/20, percent of its 20 graphs, or random:60/20/20"},
		{two, 0, 0, ""},
		{two, 0, 1, "--split 1 has no training vertices"},
		{two, 0, 2, "--split 2: the number of splits that the graph has is 2"},
		{two, 0, 3, "--split 3: the number of splits that the graph has is 2"},
	} {
		got, err := "", New(Goal{
			Task: Vertex, Split: Split{Number: c.split}, Loss: AutoLoss, ClassWeights: NoClassWeights,
		}).
			Check(&partition.Whole{WholeFrame: partition.WholeFrame{Splits: c.splits}, Graphs: c.graphs})
		if err != nil {
			got = err.Error()
			assert.Refused(t, err, "")
		}
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("split %d of %d: %q, want %q", c.split, len(c.splits), got, c.want)
		}
	}
}

// TestNothingToLearn: a worker knows that all labels are one class where it has the whole graph, or where the
// graph has one class; the labels of its own partition alone tell nothing.
func TestNothingToLearn(t *testing.T) {
	same, two := []int64{1, -1, 1}, []int64{1, 0, 1}
	for _, c := range []struct {
		partitions, classes int
		class               []int64
		multi               []float32
		want                bool
	}{
		{1, 2, same, nil, true},
		{1, 2, two, nil, false},
		{2, 2, same, nil, false},
		{2, 2, two, nil, false},
		{2, 1, []int64{0, 0}, nil, true},
		{2, 1, nil, []float32{1, 0}, false}, // a vertex may lack the label
		{1, 1, nil, []float32{1, 0}, false},
	} {
		labels := graph.Labels{Classes: c.classes, Class: c.class, Multi: c.multi}
		s := &partition.Share{}
		s.Edges.Types = []partition.PartRows{{Starts: make([]int, c.partitions+1)}}
		task := &rows{
			Env: Env{Share: s}, frame: &partition.WholeFrame{Classes: c.classes},
			own: &partition.Values{Frame: graph.Frame{Labels: labels}},
		}
		if got := (&classes{rows: task}).oneClass(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestBeginOfSeveralLabels: the targets have a row of labels for each vertex. There is a validation loss if
// there are validation vertices.
func TestBeginOfSeveralLabels(t *testing.T) {
	for _, validation := range [][]int64{nil, {3}} {
		team := kernel.NewPlan(1, tensor.NewMeter())
		s := &partition.Share{Types: []partition.Values{{Frame: graph.Frame{
			Labels: graph.Labels{Classes: 3, Multi: make([]float32, 4*3)},
			Splits: []graph.Split{{Train: []int64{0}, Val: validation}},
		}}}}
		s.Whole.Splits = []graph.SplitSizes{{Train: 1, Val: len(validation)}}
		goal := Goal{Task: Vertex, Metric: metric.Auto, Loss: AutoLoss, ClassWeights: NoClassWeights}
		begun, err := New(goal).Begin(Env{Team: team, Share: s, World: comm.Alone()})
		require.NoError(t, err)
		c := begun.(*rows).target.(*classes)
		if m := c.targets.Multi; m.Rows != 4 || m.Cols != 3 || c.targets.Class != nil {
			t.Errorf("targets of %d×%d", m.Rows, m.Cols)
		}
		if c.Validates() != (len(validation) > 0) {
			t.Errorf("%d validation vertices: there is a validation loss: %v", len(validation), c.Validates())
		}
		team.Memory.Close()
	}
}

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
	c := &classes{rows: &rows{Env: Env{Team: team, World: comm.Alone()}}}
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
	c := &classes{rows: &rows{Env: Env{Team: team, World: comm.Alone()}}}
	c.labels = graph.Labels{Classes: 3, Class: []int64{0, 1, 2}}
	c.targets.Classes = 3
	c.train.ids, c.val.ids = []int64{0, 1}, []int64{2}
	assert.Refused(t, c.weigh(path), path, "training vertices that weigh 0")
}
