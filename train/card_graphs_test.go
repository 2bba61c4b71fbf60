package train

import (
	"fmt"
	"testing"

	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/tensor"
)

// The settings of Cora, in configs, and GraphSAGE with batch norm.
const (
	coraGCN = "model gcn, input-dropout 0.5, decay-first-layer-only, weight-decay 5e-4"
	coraGAT = "model gat, heads 8, output-heads 1, activation elu, input-dropout 0.6, transform-dropout 0.6, " +
		"attention-dropout 0.6, weight-decay 5e-4"
	batchSAGE = "model sage, norm batch"
)

// TestGraphsOnCard: kernels that are launched as graphs give the bits of kernels that are launched one by
// one: losses, scores of all epochs, what ends the run, weights and predictions. Epochs differ in their
// learning rates, in whether they are evaluated and in whether they are the best.
func TestGraphsOnCard(t *testing.T) {
	devicetest.Library(t)
	const everyThird = coraGCN + ", eval-every 3, schedule cosine, warmup 2"
	g := tangle(t, 300, 100)
	for _, c := range []struct {
		words, mesh string
		graphs      tensor.Graphs // in the last epoch; zero: some
		ended       Ended
	}{
		{coraGCN, "", tensor.Graphs{Launches: 2, Kernels: 48, Changed: 7}, EndedEpochs},
		{batchSAGE, "", tensor.Graphs{Launches: 3, Kernels: 76, Changed: 9}, EndedEpochs},
		{coraGAT, "", tensor.Graphs{Launches: 4, Kernels: 111, Changed: 23}, EndedEpochs},
		{everyThird, "", tensor.Graphs{Launches: 1, Kernels: 28, Changed: 7}, EndedEpochs},
		{coraGAT + ", lr .5, patience 2, epochs 30", "", tensor.Graphs{}, EndedPatience},
		{batchSAGE + ", dropout 0, lr .1, patience 3, epochs 40", "", tensor.Graphs{}, EndedPatience},
		{coraGCN + ", recompute blocks, precision bf16", "", tensor.Graphs{}, EndedEpochs},
		{batchSAGE, "graph=2", tensor.Graphs{}, EndedEpochs},
		{coraGAT, "/3", tensor.Graphs{}, EndedEpochs},
		{"model gcnii, layers 4, norm layer", "pipeline=2", tensor.Graphs{}, EndedEpochs},
	} {
		j := onMesh(g, apply(apply(Defaults(), "epochs 9, hidden 16, device cuda, lr .001, select loss"), c.words), c.mesh)
		run := func(graphs string) (r *Result, reported string) {
			t.Setenv("WEFT_DEVICE_GRAPHS", graphs)
			j.OnEpoch = func(e Epoch) {
				e.Seconds = 0
				reported += fmt.Sprintf("%+v\n", e)
			}
			r = mustRun(t, j)
			return r, reported
		}
		want, wantSaid := run("0")
		got, reported := run("1")
		what := c.words + " " + c.mesh
		assert.Equal(t, wantSaid, reported, what)
		assert.Equal(t, want.Weights, got.Weights, what)
		assert.Equal(t, want.Logits, got.Logits, what)
		assert.Equal(t, c.ended, got.Ended, what)
		assert.Equal(t, want.BestEpoch, got.BestEpoch, what)
		assert.Equal(t, want.Device.Launches, got.Device.Launches, what)
		assert.Equal(t, tensor.Graphs{}, want.Device.Graphs, what)
		if graphs := got.Device.Graphs; c.graphs != (tensor.Graphs{}) {
			assert.Equal(t, c.graphs, graphs, what)
		} else if graphs.Launches == 0 || graphs.Kernels > got.Device.Launches {
			t.Errorf("%s: %+v of %d launches", what, graphs, got.Device.Launches)
		}
	}
}
