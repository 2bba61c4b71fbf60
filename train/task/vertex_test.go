package task

import (
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// TestSplitThatIsNotThere: splits count from 0, and one without training vertices is refused.
func TestSplitThatIsNotThere(t *testing.T) {
	two := []graph.SplitSizes{{Train: 1}, {Val: 3, Test: 4}}
	for _, c := range []struct {
		splits []graph.SplitSizes
		graphs int
		split  int
		want   string // how the refusal begins, or nothing
	}{
		{nil, 0, 0, "the graph has no split into training, validation and test vertices; import it with " +
			"split random:60/20/20"},
		{nil, 20, 0, "the graph has no split into training, validation and test vertices; import it with " +
			"split graphs:60/20/20, percent of its 20 graphs, or random:60/20/20"},
		{two, 0, 0, ""},
		{two, 0, 1, "split 1 has no training vertices"},
		{two, 0, 2, "split 2: the number of splits that the graph has is 2"},
		{two, 0, 3, "split 3: the number of splits that the graph has is 2"},
	} {
		got, err := "", New(Goal{Task: Vertex, Split: c.split, ClassWeights: NoClassWeights}).
			Check(&partition.Whole{Splits: c.splits, Graphs: c.graphs})
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
		s := &partition.Share{Edges: partition.Edges{Starts: make([]int, c.partitions+1)}}
		s.Values.Labels = graph.Labels{Classes: c.classes, Class: c.class, Multi: c.multi}
		s.Whole.Classes = c.classes
		if got := (&classes{vertices: &vertices{Env: Env{Share: s}}}).oneClass(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestBeginOfSeveralLabels: the targets have a row of labels for each vertex. There is a validation loss if
// there are validation vertices.
func TestBeginOfSeveralLabels(t *testing.T) {
	for _, validation := range [][]int64{nil, {3}} {
		team := kernel.NewPlan(1, tensor.NewMeter())
		s := &partition.Share{}
		s.Values.Labels = graph.Labels{Classes: 3, Multi: make([]float32, 4*3)}
		s.Values.Splits = []graph.Split{{Train: []int64{0}, Val: validation}}
		s.Whole.Splits = []graph.SplitSizes{{Train: 1, Val: len(validation)}}
		begun, err := New(Goal{Task: Vertex, Metric: metric.Auto, ClassWeights: NoClassWeights}).
			Begin(Env{Team: team, Share: s})
		require.NoError(t, err)
		c := begun.(*vertices).target.(*classes)
		if m := c.targets.Multi; m.Rows != 4 || m.Cols != 3 || c.targets.Class != nil {
			t.Errorf("targets of %d×%d", m.Rows, m.Cols)
		}
		if c.Validates() != (len(validation) > 0) {
			t.Errorf("%d validation vertices: there is a validation loss: %v", len(validation), c.Validates())
		}
		team.Memory.Close()
	}
}
