package reports

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/cmd/weft/internal/ui"
	"weft/internal/assert"
	"weft/tensor"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/worker"
)

// TestViewProfile: what a page shows of two workers and one layer, by hand: means over the workers, the part
// of the pass that they are, and cells by the largest one.
func TestViewProfile(t *testing.T) {
	kinds := append(append([]string{}, tensor.KindNames()...), "idle")
	bytes := make([][]int64, len(kinds))
	for k := range bytes {
		bytes[k] = []int64{0, 0}
	}
	bytes[tensor.Activations], bytes[tensor.Graph] = []int64{1e6, 3e6}, []int64{5e5, 5e5}
	p := &rundir.Profile{
		Profile: worker.Profile{
			Epoch: 1000, Layers: []string{"convs.0"},
			Workers: []worker.Times{
				{
					Seconds: 1, Forward: []float64{.1}, Backward: []float64{.2}, Communication: []float64{.1},
					Wait: []float64{.2}, Other: worker.OtherTimes{Compute: .1, Communication: .2, Wait: .1},
				},
				{
					Seconds: 2, Forward: []float64{.3}, Backward: []float64{.4}, Communication: []float64{.1},
					Wait: []float64{.4}, Other: worker.OtherTimes{Compute: .3, Communication: .2, Wait: .3},
				},
			},
			Memory: worker.Memory{
				Worker: 1, Evaluated: true, Kinds: kinds, Seconds: []float64{0, .5}, Layers: []int{-1, 0},
				Parts: []string{"rest", "forward"}, Bytes: bytes,
				Peaks: [][]int64{{0, 0, 0, 3e6, 1e6, 0, 9e6}, {0, 0, 0, 2e6, 0, 0, 9e6}},
			},
		},
		SentTo: [][]int64{{0, 4e6}, {2e6, 0}},
	}
	want := &profileView{
		Epoch: 1000, Pass: 2,
		Layers: []timesRow{
			{"convs.0", .2, .3, 0, .1, .3, 1.5},
			{"outside the layers", 0, 0, .2, .2, .2, 1.5},
		},
		Workers: []timesRow{
			{"0", .1, .2, .1, .3, .3, 2},
			{"1", .3, .4, .3, .3, .7, 2},
		},
		Grid: &heatTable{
			Columns: []string{"0", "1"},
			Rows:    []heatRow{{"convs.0", []heatCell{{"400 ms", .5}, {"800 ms", 1}}}},
		},
		Sent: &heatTable{Columns: []string{"0", "1", "sent"}, Rows: []heatRow{
			{"0", []heatCell{{"–", 0}, {"4.0 MB", 1}, {"7.0 MB", 0}}},
			{"1", []heatCell{{"2.0 MB", .5}, {"–", 0}, {"8.0 MB", 0}}},
			{"received", []heatCell{{"2.0 MB", 0}, {"4.0 MB", 0}, {"15 MB", 0}}},
		}},
		Peaks: &heatTable{Columns: []string{"activations", "gradients", "all"}, Rows: []heatRow{
			{"0", []heatCell{{"3.0 MB", .75}, {"1.0 MB", .25}, {"4.0 MB", 0}}},
			{"1", []heatCell{{"2.0 MB", 1}, {"0 B", 0}, {"2.0 MB", 0}}},
		}},
		Chart: &memoryChart{
			Title: "memory of worker 1 over epoch 1000 and its evaluation", X: []metric.Number{0, 500},
			At: []string{"rest", "forward convs.0"},
			Series: []memorySeries{
				{"activations", kindColors[tensor.Activations], bytes[tensor.Activations]},
				{"graph", kindColors[tensor.Graph], bytes[tensor.Graph]},
			},
		},
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })
	got := viewProfile(p, []int64{7e6, 8e6})
	assert.EqualBy(t, want, got, near, cmp.AllowUnexported(timesRow{}))
	if all, share := got.Layers[0].All(), got.Layers[0].Share(); ui.Brief(all) != "900 ms" ||
		share-.6 > 1e-12 || .6-share > 1e-12 {
		t.Errorf("%v s, %v of the pass", all, share)
	}
	for s, want := range map[float64]string{0: "–", 2e-6: "2 µs", 9e-4: "900 µs", 2e-3: "2.0 ms"} {
		assert.Equal(t, want, ui.Brief(s), "%v s", s)
	}
}
