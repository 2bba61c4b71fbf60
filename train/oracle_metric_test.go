package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/worker"
)

// TestMetricsOfScikitLearn compares the metrics with scikit-learn's, with equal logits and missing labels, on
// one worker and on three. Each metric of classes is among them.
func TestMetricsOfScikitLearn(t *testing.T) {
	measured := map[string]bool{}
	for who, c := range readOracle(t).Measures {
		logits, labels := slices.Concat(c.Logits...), c.Labels.graphLabels(c.Classes)
		for name, want := range c.Metrics {
			measured[name] = true
			for _, workers := range []int{1, 3} {
				var mu sync.Mutex
				err := launch.Workers(workers, time.Minute, func(k *comm.Comm) error {
					var local []int64
					for i, v := range c.Vertices {
						if i%workers == k.Rank() {
							local = append(local, v)
						}
					}
					got, err := metric.Named(name, &labels)(logits, &labels, local, k)
					mu.Lock()
					defer mu.Unlock()
					closeTo(t, fmt.Sprintf("%s: %s on %d workers", who, name, workers), got, want, 1e-12)
					return err
				})
				require.NoError(t, err)
			}
		}
	}
	for _, name := range metric.ClassNames {
		assert.Equal(t, true, measured[name], "testdata/oracle.json has numbers of %s", name)
	}
}

// TestMissingLabelsByHand: a missing label is neither a positive nor a negative, and its prediction is not
// wrong.
func TestMissingLabelsByHand(t *testing.T) {
	nan := float32(math.NaN())
	labels := &graph.Labels{Classes: 2, Multi: []float32{1, nan, 0, 1, nan, 0, nan, nan, 1, 0}}
	logits := []float32{
		2, 9,
		1, -1,
		5, 3, // missing: as a negative it would score above both positives
		-7, 8,
		.5, -2,
	}
	// Label 0: positives 2 and 0.5, a negative 1, and all of them predicted. Label 1: a positive −1, which is
	// missed, negatives 3 and −2, of which one is predicted.
	for name, want := range map[string]float64{
		"roc-auc":  (1./2 + 1./2) / 2,
		"micro-f1": 2. * 2 / (2*2 + 2 + 1), // of 2 hits, 2 wrong positives, 1 missed
		"macro-f1": (2.*2/(2*2+1) + 0) / 2,
	} {
		got, err := metric.Named(name, labels)(logits, labels, []int64{0, 1, 2, 3, 4}, comm.Alone())
		require.NoError(t, err)
		closeTo(t, name, got, want, 1e-12)
	}
}

// TestLossesByHand compares the losses of one epoch with their definitions, computed from the logits. The
// learning rate is so small that the weights do not change, and there is no dropout. So the run's final
// logits are those of its loss.
func TestLossesByHand(t *testing.T) {
	single := tangled(t)
	several := *single.Copy()
	several.Types[0].Labels, several.Metric = graph.Labels{Classes: 3}, ""
	for v := range single.Vertices() {
		for c := range 3 {
			label := float32((int(single.Types[0].Labels.Class[v]) >> c) & 1)
			if (v+c)%4 == 0 {
				label = float32(math.NaN())
			}
			several.Types[0].Labels.Multi = append(several.Types[0].Labels.Multi, label)
		}
	}
	for name, g := range map[string]*graph.Graph{"a class each": single, "several labels": &several} {
		for _, mesh := range []string{"", "graph=3", "tensor=2"} {
			o := apply(Defaults(), "model gcn, lr 1e-30, dropout 0, epochs 1")
			r, err := onMesh(g, o, mesh).Run(context.Background())
			require.NoError(t, err)
			mean := func(vertices []int64) float64 {
				sum, n := 0.0, 0.0
				for _, v := range vertices {
					z := r.Logits[int(v)*g.Types[0].Labels.Classes:][:g.Types[0].Labels.Classes]
					if !g.Types[0].Labels.MultiLabel() {
						all := 0.0
						for _, x := range z {
							all += math.Exp(float64(x))
						}
						sum, n = sum+math.Log(all)-float64(z[g.Types[0].Labels.Class[v]]), n+1
						continue
					}
					for c, x := range z {
						p := 1 / (1 + math.Exp(-float64(x)))
						switch g.Types[0].Labels.Multi[int(v)*g.Types[0].Labels.Classes+c] {
						case 1:
							sum, n = sum-math.Log(p), n+1
						case 0:
							sum, n = sum-math.Log(1-p), n+1
						}
					}
				}
				return sum / n
			}
			s := g.Types[0].Splits[0]
			closeTo(t, fmt.Sprintf("%s, %s: the loss", name, mesh), r.Losses[0], mean(s.Train), 1e-5)
			closeTo(t, fmt.Sprintf("%s, %s: the validation loss", name, mesh), r.ValLoss, mean(s.Val), 1e-5)
		}
	}
}

// TestImbalance: the largest over the mean.
func TestImbalance(t *testing.T) {
	for _, c := range []struct {
		amounts []int64
		want    float64
	}{
		{[]int64{1, 2, 3}, 1.5},
		{[]int64{4, 4}, 1},
		{[]int64{0, 6, 0}, 3},
		{[]int64{7}, 1},
		{[]int64{0, 0}, 0},
		{nil, 0},
	} {
		assert.Equal(t, c.want, worker.Imbalance(c.amounts), "of %d", c.amounts)
	}
	assert.Equal(t, 1.5, worker.Imbalance([]float64{.5, .25, .25}), "of fractions")
}
