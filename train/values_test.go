package train

import (
	"context"
	"math"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/task"
)

// withValues is the graph with two values to predict for each vertex in units of their own, in place of
// classes. Every seventh lacks the second, and one in 50 both, outside the splits.
func withValues(g *graph.Graph) *graph.Graph {
	values, nan := *g, float32(math.NaN())
	values.Labels = graph.Labels{Columns: 2}
	in := map[int64]bool{}
	for _, s := range g.Splits {
		for _, part := range s.Parts() {
			for _, v := range *part {
				in[v] = true
			}
		}
	}
	for v, class := range g.Labels.Class {
		row := []float32{1990 + 3*float32(class), 1e-3 * g.Features.Row(v)[0]}
		if v%7 == 0 {
			row[1] = nan
		}
		if v%50 == 11 && !in[int64(v)] {
			row[0], row[1] = nan, nan
		}
		values.Labels.Values = append(values.Labels.Values, row...)
	}
	return &values
}

// TestRegression: values are learned, and predicted in their units, also without labels.
func TestRegression(t *testing.T) {
	g, o := withValues(tangled(t)), Defaults()
	o.LR, o.Epochs, o.Dropout, o.Loss, o.Metric = .01, 60, 0, task.MeanSquared, metric.R2
	learned := run(t, g, o)
	if learned.Test < .3 || learned.BestEpoch == 1 {
		t.Errorf("r2 is %v at epoch %d", learned.Test, learned.BestEpoch)
	}
	if mean := learned.Logits[0]; mean < 1985 || mean > 2007 {
		t.Errorf("a value of 1990 to 2002 is predicted as %v", mean)
	}
	bare := *g
	bare.Labels, bare.Splits = graph.Labels{}, nil
	p, err := (&Job{Graph: &bare, Options: o}).Predict(context.Background(), learned.Weights, Logits)
	if err != nil || !slices.Equal(p.Logits, learned.Logits) || p.Classes != 2 {
		t.Errorf("other predictions without labels, or %v", err)
	}
}

// TestColumnWithoutTrainingValue is refused on any mesh: nothing tells the mean of its values.
func TestColumnWithoutTrainingValue(t *testing.T) {
	g, o := withValues(tangled(t)), Defaults()
	for _, v := range g.Splits[0].Train {
		g.Labels.Values[2*v+1] = float32(math.NaN())
	}
	o.Epochs = 1
	for _, mesh := range []string{"graph=3", "graph=2,tensor=2"} {
		_, err := onMesh(g, o, mesh).Run(context.Background())
		assert.Refused(t, err, "column 1", mesh)
	}
}

// TestLossesOfOtherLabels: losses and metrics of values are refused for classes, and those of classes for
// values.
func TestLossesOfOtherLabels(t *testing.T) {
	g := tangled(t)
	for _, c := range []struct {
		g      *graph.Graph
		change func(*Options)
	}{
		{g, func(o *Options) { o.Loss = task.MeanSquared }},
		{g, func(o *Options) { o.Metric = metric.R2 }},
		{withValues(g), func(o *Options) { o.Loss = task.CrossEntropy }},
		{withValues(g), func(o *Options) { o.Metric = metric.Accuracy }},
		{withValues(g), func(o *Options) { o.LabelSmoothing = .1 }},
	} {
		o := Defaults()
		c.change(&o)
		r, err := o.Resolve()
		require.NoError(t, err)
		assert.Refused(t, r.CheckGraph(c.g), "", "loss %s, metric %s, smoothing %v", o.Loss, o.Metric,
			o.LabelSmoothing)
	}
}
