package train

import (
	"math"
	"testing"

	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/setting"
)

// TestLinksOnCard: edges are scored, learned and ranked on a card, with the CPU's curve and ranks, on one
// worker and on several. Nothing of that runs on the CPU, and the plan's memory is the run's.
func TestLinksOnCard(t *testing.T) {
	devicetest.Library(t)
	g := tangle(t, 300, 500)
	for _, words := range []string{
		"decoder dot", "decoder distmult, parallel graph=2", "decoder distmult, metric mrr, parallel tensor=2",
	} {
		o := apply(Defaults(), "task link, model sage, layers 2, hidden 16, epochs 3, threads 1, "+words)
		j := onMesh(g, o, "")
		j.Options.Parallel = o.Parallel
		want := mustRun(t, j)
		j.Options.Device = setting.AllCards
		got, _ := planAndRun(t, j)
		if d := away(got.Losses, want.Losses); d > 1e-5 {
			t.Errorf("%s: losses differ from the CPU's by %.1e", words, d)
		}
		assert.Len(t, got.Device.OnCPU, 0, words)
		require.Equal(t, len(want.Links.Test), len(got.Links.Test), words)
		for name, value := range want.Links.Test {
			// of equal scores but for roundings, a rank may be either
			if math.Abs(float64(got.Links.Test[name]-value)) > .01 {
				t.Errorf("%s: %s is %v, and %v on the CPU", words, name, got.Links.Test[name], value)
			}
		}
	}
}
