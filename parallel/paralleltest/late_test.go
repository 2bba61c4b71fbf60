package paralleltest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"weft/parallel/order"
)

// TestLateRuns trains with a late halo: sums, maxima, attention, message functions, with encodings, partial
// sums and bfloat16. Plans have the bytes of runs, an epoch sends the bytes of exact training in the same
// order of work, and threads, recomputation and prefetching change no bit. Attention sends its rows once, and
// not twice.
func TestLateRuns(t *testing.T) {
	g := Tangled(t)
	for _, c := range []struct{ model, set, smoothing string }{
		{"gcn", "", "none"},
		{"sage", "wire=int8", "both"},
		{"gcn", "halo=cover", "both"},
		{"gcn", "wire=int8 halo=cover", "none"},
		{"gin", inBFloat16 + "wire=int4 halo=cover", "both"},
		{"gat", "wire=int8", "none"},
		{"gatv2", inBFloat16, "features"},
		{"transformer", "wire=int8", "both"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			o, three := wired(c.model, "hidden=20 "+c.set), &Case{Mesh: Grid(1, 3, 1)}
			inOrder := o
			if c.model == "gcn" || c.model == "sage" || c.model == "gin" { // auto's order with a late halo
				inOrder.AggregationOrder = order.AggregateFirst
			}
			exact := run(t, three.job(t, g, inOrder))
			want := exact.Communication.Halo
			if attends := strings.HasPrefix(c.model, "gat") || c.model == "transformer"; attends {
				want = run(t, three.job(t, g, with(o, "keep-halo=true"))).Communication.Halo
			}
			o = with(o, "halo-delay=1 halo-smoothing="+c.smoothing)
			got := asPlanned(t, three.job(t, g, o))
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
			o = with(o, "threads=3 prefetch=2 keep-halo=true recompute=blocks")
			sameBits(t, "done otherwise", asPlanned(t, three.job(t, g, o)), got)
		})
	}
}
