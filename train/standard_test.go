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
	"weft/train/setting"
)

// TestStandardFeatures: with normalize-features standard a run has the losses of a graph whose columns have a
// mean of 0 and a deviation of 1 (scikit-learn's StandardScaler). The weights hold means and deviations, by
// which predictions on another graph are made.
func TestStandardFeatures(t *testing.T) {
	raw, scaled, o := *tangled(t), *tangled(t), Defaults()
	columns := raw.Features.Columns
	raw.Features.Dense, scaled.Features.Dense = slices.Clone(raw.Features.Dense),
		slices.Clone(raw.Features.Dense)
	means, deviations := make([]float64, columns), make([]float64, columns)
	for i := range raw.Features.Dense {
		k := i % columns
		x := &raw.Features.Dense[i]
		*x = *x*float32(k) + 5*float32(k) // column 0 is constant
		means[k] += float64(*x) / float64(raw.Own())
	}
	for i, x := range raw.Features.Dense {
		deviations[i%columns] += (float64(x) - means[i%columns]) * (float64(x) - means[i%columns]) / float64(
			raw.Own())
	}
	for i, x := range raw.Features.Dense {
		if k := i % columns; k > 0 {
			scaled.Features.Dense[i] = float32((float64(x) - means[k]) / math.Sqrt(deviations[k]))
		} else {
			scaled.Features.Dense[i] = 0
		}
	}
	o.LR, o.Epochs, o.Threads = .001, 3, 1
	want := mustRun(t, &Job{Graph: &scaled, Options: o})
	o.NormalizeFeatures = setting.Standard
	one := mustRun(t, &Job{Graph: &raw, Options: o})
	if d := away(want.Losses, one.Losses); d > 1e-5 {
		t.Errorf("the losses differ by %.1e from those of standardised features", d)
	}
	for k, x := range one.Weights["features.mean"].Float32 {
		d := one.Weights["features.deviation"].Float32[k]
		if math.Abs(float64(x)-means[k]) > 1e-5 ||
			k > 0 && math.Abs(float64(d)-math.Sqrt(deviations[k])) > 1e-5 || k == 0 && d != 1 {
			t.Errorf("column %d: mean %v and deviation %v, want %v and the root of %v", k, x, d,
				means[k], deviations[k])
		}
	}
	some := func(g *graph.Graph) *graph.Graph { // without edges, and with other means
		ids := []int32{0, 1, 2, 3}
		part := g.Bare(ids)
		part.Features, part.Relations = g.Features.Rows(ids),
			[]graph.Relation{{Indptr: make([]int64, len(ids)+1)}}
		return part
	}
	part := some(&raw)
	p, err := (&Job{Graph: part, Options: o}).Predict(context.Background(), one.Weights, Logits)
	require.NoError(t, err)
	part = some(&scaled)
	o.NormalizeFeatures = "none"
	weights := maps.Clone(one.Weights)
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
