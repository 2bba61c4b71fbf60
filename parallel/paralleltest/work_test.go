package paralleltest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"weft/internal/refusal"
	"weft/internal/require"
	"weft/parallel/edges"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/train"
	"weft/train/setting"
)

// TestWorkAlone: a setting that must change only how work is done changes no bit of losses, logits and
// weights in a pipeline of several chunks, or is refused by its name.
func TestWorkAlone(t *testing.T) {
	settings := []struct {
		name    string
		refused bool
		set     func(o *train.Options)
	}{
		{"threads", false, func(o *train.Options) { o.Threads = 3 }},
		{"recompute", false, func(o *train.Options) { o.Recompute = setting.RecomputeNone }},
		{"aggregation-order", true, func(o *train.Options) { o.AggregationOrder = order.TransformFirst }},
		{"aggregation-order", true, func(o *train.Options) { o.AggregationOrder = order.AggregateFirst }},
		{"prefetch", true, func(o *train.Options) { o.Prefetch = 3 }},
		{"keep-halo", true, func(o *train.Options) { o.KeepHalo = true }},
		{"halo", true, func(o *train.Options) { o.Halo = edges.HaloCover }},
		{"aggregation-chunks", true, func(o *train.Options) { o.AggregationChunks = 2 }},
	}
	g := Tangled(t)
	for _, model := range []string{"gcn", "sage", "gat", "gin", "gcnii", "resgcn"} {
		t.Run(model, func(t *testing.T) {
			run := func(stages int, set func(o *train.Options)) (*train.Result, error) {
				o := train.Defaults()
				o.Model, o.Layers, o.Hidden, o.Threads, o.Epochs, o.Chunks, o.HistoryPeriod = model, 4, 10, 1,
					3, 8, 2
				o.Dropout, o.LR = .3, .005
				set(&o)
				job := &train.Job{
					Graph: g, Options: o,
					Mesh: mesh.Mesh{Stages: stages, Partitions: 2, Slices: 1}, Parts: inTurn(t, g, 2),
				}
				return job.Run(context.Background())
			}
			want, err := run(2, func(*train.Options) {})
			require.NoError(t, err)
			same := func(what string, got *train.Result) {
				equal := slices.Equal(got.Losses, want.Losses) && slices.Equal(got.Logits, want.Logits)
				for name, w := range want.Weights {
					equal = equal && slices.Equal(got.Weights[name].Float32, w.Float32)
				}
				if !equal {
					t.Errorf("%s: losses %v, want %v, or other logits or weights", what,
						got.Losses, want.Losses)
				}
			}
			for _, s := range settings {
				got, err := run(2, s.set)
				switch {
				case s.refused && (!refusal.Is(err) || !strings.HasPrefix(err.Error(), s.name+" ")):
					t.Errorf("%s: %v, want a refusal of it", s.name, err)
				case !s.refused && err != nil:
					t.Errorf("%s: %v", s.name, err)
				case !s.refused:
					same(s.name, got)
				}
			}
			got, err := run(4, func(*train.Options) {})
			require.NoError(t, err)
			same("four stages", got)
		})
	}
}
