package train

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/setting"
)

// withValues is the graph with two values to predict for each vertex in units of their own, in place of
// classes. Every seventh lacks the second, and one in 50 both, outside the splits.
func withValues(g *graph.Graph) *graph.Graph {
	values, nan := *g.Copy(), float32(math.NaN())
	values.Types[0].Labels = graph.Labels{Columns: 2}
	in := map[int64]bool{}
	for _, s := range g.Types[0].Splits {
		for _, part := range s.Parts() {
			for _, v := range *part {
				in[v] = true
			}
		}
	}
	for v, class := range g.Types[0].Labels.Class {
		row := []float32{1990 + 3*float32(class), 1e-3 * g.Types[0].Features.Row(v)[0]}
		if v%7 == 0 {
			row[1] = nan
		}
		if v%50 == 11 && !in[int64(v)] {
			row[0], row[1] = nan, nan
		}
		values.Types[0].Labels.Values = append(values.Types[0].Labels.Values, row...)
	}
	return &values
}

// TestRegression: values are learned, and predicted in their units, also without labels.
func TestRegression(t *testing.T) {
	g, o := withValues(tangled(t)), Defaults()
	o.LR, o.Epochs, o.Dropout, o.Loss, o.Metric = .01, 60, 0, "mse", metric.R2
	learned := run(t, g, o)
	if learned.Test < .3 || learned.BestEpoch == 1 {
		t.Errorf("r2 is %v at epoch %d", learned.Test, learned.BestEpoch)
	}
	if mean := learned.Logits[0]; mean < 1985 || mean > 2007 {
		t.Errorf("a value of 1990 to 2002 is predicted as %v", mean)
	}
	bare := *g.Copy()
	bare.Types[0].Labels, bare.Types[0].Splits = graph.Labels{}, nil
	p, err := (&Job{Graph: &bare, Options: o}).Predict(context.Background(), learned.Weights, Logits)
	if err != nil || !slices.Equal(p.Logits, learned.Logits) || p.Classes != 2 {
		t.Errorf("other predictions without labels, or %v", err)
	}
}

// TestColumnWithoutTrainingValue is refused on any mesh: nothing tells the mean of its values.
func TestColumnWithoutTrainingValue(t *testing.T) {
	g, o := withValues(tangled(t)), Defaults()
	for _, v := range g.Types[0].Splits[0].Train {
		g.Types[0].Labels.Values[2*v+1] = float32(math.NaN())
	}
	o.Epochs = 1
	for _, mesh := range []string{"graph=3", "graph=2,tensor=2"} {
		_, err := onMesh(g, o, mesh).Run(context.Background())
		assert.Refused(t, err, "column 1", mesh)
	}
}

// TestLossesOfOtherLabels: losses and metrics of values are refused for classes, those of classes for values,
// and those of one class per vertex for several labels.
func TestLossesOfOtherLabels(t *testing.T) {
	g := tangle(t, 300, 100)
	values, several := withValues(g), *g.Copy()
	several.Types[0].Labels = graph.Labels{Classes: 2, Multi: make([]float32, 2*g.Types[0].Count)}
	for _, c := range []struct {
		g            *graph.Graph
		change, want string
	}{
		{g, "loss mse", ""},
		{g, "metric r2", ""},
		{values, "loss cross-entropy", ""},
		{values, "metric accuracy", ""},
		{values, "label-smoothing .1", ""},
		{&several, "label-smoothing .1", "--label-smoothing 0.1: it is for one class per vertex"},
		{&several, "loss focal", ""},
		{&several, "class-weights balanced", ""},
	} {
		_, err := (&Job{Graph: c.g, Options: apply(Defaults(), c.change)}).Plan(t.Context())
		assert.Refused(t, err, c.want, c.change)
	}
}

// TestStandardFeatures: with normalize-features standard a run has the losses of a graph whose columns have a
// mean of 0 and a deviation of 1 (scikit-learn's StandardScaler). The weights hold means and deviations, by
// which predictions on another graph are made.
func TestStandardFeatures(t *testing.T) {
	raw, scaled, o := *tangled(t), *tangled(t), Defaults()
	columns := raw.Types[0].Features.Columns
	raw.Types[0].Features.Dense, scaled.Types[0].Features.Dense = slices.Clone(raw.Types[0].Features.Dense),
		slices.Clone(raw.Types[0].Features.Dense)
	means, deviations := make([]float64, columns), make([]float64, columns)
	for i := range raw.Types[0].Features.Dense {
		k := i % columns
		x := &raw.Types[0].Features.Dense[i]
		*x = *x*float32(k) + 5*float32(k) // column 0 is constant
		means[k] += float64(*x) / float64(raw.Types[0].Count)
	}
	for i, x := range raw.Types[0].Features.Dense {
		deviations[i%columns] += (float64(x) - means[i%columns]) * (float64(x) - means[i%columns]) / float64(
			raw.Types[0].Count)
	}
	for i, x := range raw.Types[0].Features.Dense {
		if k := i % columns; k > 0 {
			scaled.Types[0].Features.Dense[i] = float32((float64(x) - means[k]) / math.Sqrt(deviations[k]))
		} else {
			scaled.Types[0].Features.Dense[i] = 0
		}
	}
	o.LR, o.Epochs, o.Threads = .001, 3, 1
	want := mustRun(t, &Job{Graph: &scaled, Options: o})
	o.NormalizeFeatures = setting.Standard
	standard := mustRun(t, &Job{Graph: &raw, Options: o})
	if d := away(want.Losses, standard.Losses); d > 1e-5 {
		t.Errorf("the losses differ by %.1e from those of standardised features", d)
	}
	for k, x := range standard.Weights["features.mean"].Float32 {
		d := standard.Weights["features.deviation"].Float32[k]
		if math.Abs(float64(x)-means[k]) > 1e-5 ||
			k > 0 && math.Abs(float64(d)-math.Sqrt(deviations[k])) > 1e-5 || k == 0 && d != 1 {
			t.Errorf("column %d: mean %v and deviation %v, want %v and the root of %v", k, x, d,
				means[k], deviations[k])
		}
	}
	some := func(g *graph.Graph) *graph.Graph { // without edges, and with other means
		ids := []int32{0, 1, 2, 3}
		return &graph.Graph{
			Types: []graph.VertexType{
				{
					Frame: graph.Frame{
						Count: len(ids), Features: g.Types[0].Features.Rows(ids),
						Labels: g.Types[0].Labels.Select(ids),
					},
				},
			},
			Relations: []graph.Relation{{Indptr: make([]int64, len(ids)+1)}},
		}
	}
	part := some(&raw)
	p, err := (&Job{Graph: part, Options: o}).Predict(context.Background(), standard.Weights, Logits)
	require.NoError(t, err)
	part = some(&scaled)
	o.NormalizeFeatures = "none"
	weights := maps.Clone(standard.Weights)
	delete(weights, "features.mean")
	delete(weights, "features.deviation")
	q, err := (&Job{Graph: part, Options: o}).Predict(context.Background(), weights, Logits)
	require.NoError(t, err)
	for i, z := range q.Logits {
		assert.Near(t, float64(p.Logits[i]), float64(z), 1e-4, "logit %d", i)
	}
	o.NormalizeFeatures = setting.Standard
	if _, err := (&Job{Graph: part, Options: o}).Predict(context.Background(), weights,
		Logits); !refusal.Weights.In(err) {
		t.Errorf("weights without means: %v", err)
	}
}
