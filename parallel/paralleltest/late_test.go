package paralleltest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"weft/parallel/axis"
	"weft/parallel/order"
	"weft/train/setting"
)

// TestLateRuns trains with a late halo: sums, maxima, attention, message functions, with encodings, partial
// sums and bfloat16. Plans have the bytes of runs, an epoch sends the bytes of exact training in the same
// order of work, and threads, recomputation and prefetching change no bit. Attention sends its rows once, and
// not twice.
func TestLateRuns(t *testing.T) {
	g := Tangled(t)
	for _, c := range []struct {
		model, wire, halo, smoothing string
		bf16                         bool
	}{
		{model: "gcn", wire: "auto", halo: "rows", smoothing: "none"},
		{model: "sage", wire: "int8", halo: "rows", smoothing: "both"},
		{model: "gcn", wire: "auto", halo: "cover", smoothing: "both"},
		{model: "gcn", wire: "int8", halo: "cover", smoothing: "none"},
		{model: "gin", wire: "int4", halo: "cover", smoothing: "both", bf16: true},
		{model: "gat", wire: "int8", halo: "rows", smoothing: "none"},
		{model: "gatv2", wire: "auto", halo: "rows", smoothing: "features", bf16: true},
		{model: "transformer", wire: "int8", halo: "rows", smoothing: "both"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			o := wired(c.model, c.wire)
			o.Hidden = 20
			parse(&o.Halo, c.halo)
			if c.bf16 {
				inBFloat16(&o)
			}
			three := &Case{Mesh: grid(1, 3, 1)}
			inOrder := o
			if c.model == "gcn" || c.model == "sage" || c.model == "gin" { // auto's order with a late halo
				inOrder.AggregationOrder = order.AggregateFirst
			}
			exact := run(t, three.job(t, g, inOrder))
			o.HaloDelay = 1
			parse(&o.HaloSmoothing, c.smoothing)
			smoothing := o.HaloSmoothing
			got := asPlanned(t, three.job(t, g, o))
			want := exact.Communication.Halo
			if attends := strings.HasPrefix(c.model, "gat") || c.model == "transformer"; attends {
				o.KeepHalo, o.HaloDelay, o.HaloSmoothing = true, 0, axis.NoSmoothing
				kept := run(t, three.job(t, g, o))
				want = kept.Communication.Halo
				o.KeepHalo, o.HaloDelay, o.HaloSmoothing = false, 1, smoothing
			}
			if got.Communication.Halo != want {
				t.Errorf("sent %+v, exact training %+v", got.Communication.Halo, want)
			}
			for i, loss := range got.Losses {
				if i > 0 && loss == exact.Losses[i] ||
					!(math.Abs(loss-exact.Losses[i]) < .5*exact.Losses[i]) {
					t.Errorf("losses %v, and %v of exact training", got.Losses, exact.Losses)
					break
				}
			}
			o.Threads, o.Prefetch, o.KeepHalo, o.Recompute = 3, 2, true, setting.RecomputeBlocks
			again := asPlanned(t, three.job(t, g, o))
			if !slices.Equal(again.Losses, got.Losses) || !slices.Equal(again.Logits, got.Logits) {
				t.Errorf("done otherwise: losses %v, want %v, or other logits", again.Losses, got.Losses)
			}
		})
	}
}
