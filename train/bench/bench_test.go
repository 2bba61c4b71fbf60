package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"testing"

	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/trace"
	"weft/kernel"
	"weft/kernel/machine"
	"weft/train/plan"
	"weft/train/worker"
)

var here = &Machine{Rates: machine.Rates{
	Threads: 3, Read: 10, Write: 5, Gather: 64, Lines: 64, Flops: 100, BFloat16Flops: 400,
}}

// TestProgram: by hand. A layer has the bounds of its work, both passes together its ratio, and what is in no
// layer is the rest.
func TestProgram(t *testing.T) {
	work := func(operations float64, least, written int) kernel.Work {
		w := kernel.Work{Operations: operations}
		w.Least, w.Written = least, written
		return w
	}
	p := Program{Machine: *here, Precision: bf16}
	p.found(&worker.Profile{
		Layers:  []string{"convs.0", "convs.1"},
		Workers: []worker.Times{{Seconds: 100, Forward: []float64{30, 6}, Backward: []float64{50, 2}}},
	}, map[int]plan.LayerWork{
		0: {Forward: work(4000, 100, 0), Backward: work(0, 20, 20)}, 1: {Forward: work(400, 30, 0)},
		trace.NoLayer: {Other: work(9, 9, 9)},
	})
	assert.Equal(t, []Layer{
		{
			0, "convs.0", 30, 50,
			machine.Bound{Products: 10, Streamed: 10},
			machine.Bound{Streamed: 4},
			"memory", 80. / 24,
		},
		{1, "convs.1", 6, 2, machine.Bound{Products: 1, Streamed: 3}, machine.Bound{}, "memory", 2},
	}, p.Layers)
	assert.Equal(t, []float64{100, 12, 28, 88. / 28},
		[]float64{p.PassSeconds, p.RestSeconds, p.BoundSeconds, p.TimesBound})
}

// TestBound: by hand. What a kernel writes has the rate of writes, what else it passes over that of reads, a
// row of 64 bytes takes a second and each further 64 bytes one more, and the precision chooses the rate of
// products. A kernel counts all that it passes over, and an epoch the least, for each of its calls.
func TestBound(t *testing.T) {
	spmm := kernel.Call{
		Kernel: "spmm", Shape: kernel.Shape{50, 7}, Entries: 3,
		Bytes: kernel.Bytes{Streamed: 300, Least: 100, Written: 40, Gathered: 3 * 128},
	}
	product := kernel.Call{
		Kernel: "product", Shape: kernel.Shape{50, 2, 3},
		Bytes: kernel.Bytes{Streamed: 20, Least: 20, Written: 10},
	}
	norm := kernel.Call{Kernel: "attend_back", Shape: kernel.Shape{50, 7}, Bytes: kernel.Bytes{Streamed: 100}}
	fill := kernel.Call{Kernel: "fill", Shape: kernel.Shape{9, 1}}
	e := &epoch{100, 80, map[kernel.Call]*calls{
		spmm: {2, 60, 24}, product: {1, 9, 5}, norm: {1, 10, 20}, fill: {9, .1, .1},
	}}
	slower := &epoch{200, 90, map[kernel.Call]*calls{spmm: {2, 70, 16}}}
	m := here.model(Run{Model: "a", Precision: bf16}, []*epoch{slower, e}, .005)
	assert.Equal(t, machine.Bound{Products: 600. / 400, Gathered: 2 * 6, Streamed: 2*(6+8) + 1 + 2}, m.Bound)
	assert.Equal(t, []float64{100, 80, .8, 44.5, 100 / 44.5},
		[]float64{m.EpochSeconds, m.KernelSeconds, m.Fraction, m.BoundSeconds, m.TimesBound})
	assert.Equal(t, []Kernel{
		{
			"a", bf16, " V=0 E=0", "spmm", "50×7", 3, 16, 0, 684. / 16 / 1e9, "memory", (26 + 8 + 6) / 16., 2,
			.6,
		},
		{
			"a", bf16, " V=0 E=0", "attention back", "50×7", 3, 20, 0, 100. / 20 / 1e9, "memory", 10 / 20., 1,
			.1,
		},
		{
			"a", bf16, " V=0 E=0", "product", "50×2×3", 3, 5, 600. / 5 / 1e9, 20. / 5 / 1e9, "memory",
			4.5 / 5, 1, .09,
		},
	}, m.Kernels)
	k := here.kernel(product, f32, 12)
	assert.Equal(t, "compute", k.Bound)
	assert.Equal(t, (6+3)/12., k.Fraction)
}

// TestMeasure: each model has its kernels, and their time is a part of the epoch's. The report has the part
// that was asked for.
func TestMeasure(t *testing.T) {
	var models []Model
	o := Options{Threads: 2, Quick: true, Only: regexp.MustCompile("f32 uniform")}
	r, err := Measure(t.Context(), o, func(Machine) {}, func(m Model) { models = append(models, m) })
	require.NoError(t, err)
	require.Len(t, models, 5)
	assert.EqualBy(t, models, r.Models)
	for _, m := range models {
		if !(m.KernelSeconds > 0) || m.KernelSeconds > m.EpochSeconds || !(m.TimesBound > 0) {
			t.Errorf("%+v", m)
		}
	}
	names := map[string]bool{}
	for _, k := range r.Kernels {
		names[k.Name] = true
		if !(k.Fraction > 0) || math.IsInf(k.Fraction, 0) || k.Threads != 2 || k.Model == "" {
			t.Errorf("%+v", k)
		}
	}
	for _, name := range []string{
		"spmm", "max", "max back", "attention", "attention v2", "attention back source",
		"attention back target v2", "product", "weight", "normalize", "layer norm",
	} {
		assert.Equal(t, true, names[name], name)
	}
	o.Only = regexp.MustCompile("gcn.* f32 uniform")
	for _, o.Part = range Parts {
		r, err := Measure(t.Context(), o, func(Machine) {}, func(Model) {})
		require.NoError(t, err)
		assert.Equal(t, o.Part == "kernels", len(r.Kernels) > 0, o.Part)
		assert.Equal(t, o.Part == "epoch", len(r.Models) > 0, o.Part)
	}
}

// TestCard: on a card all bytes have the rate of its copies, kernels are timed in each precision and on each
// graph, and an epoch is trained once more for its own time. A card that is not there is refused by its flag.
func TestCard(t *testing.T) {
	devicetest.Library(t)
	o := Options{Threads: 1, Quick: true, Device: "cuda", Part: "kernels"}
	assert.Len(t, Runs(o), 20)
	o.Part, o.Only = "", regexp.MustCompile("gcn.* (f32 uniform|bf16 rmat)")
	r, err := Measure(t.Context(), o, func(Machine) {}, func(Model) {})
	require.NoError(t, err)
	assert.Equal(t, "CPU in place of a GPU", r.Machine.Card)
	m := r.Machine.Rates
	assert.Equal(t, machine.Rates{
		Threads: 1, Read: m.Read, Write: m.Read, Gather: m.Read, Lines: m.Read, Flops: m.Flops,
		BFloat16Flops: m.BFloat16Flops,
	}, m)
	counts := map[string]int{}
	for _, k := range r.Kernels {
		if !(k.Seconds > 0) || !(k.GBytesPerSec < m.Read) {
			t.Errorf("%+v", k)
		}
		counts[k.Precision+" "+k.Graph+" "+k.Name]++
	}
	for _, kernel := range []string{"f32 uniform V=60 E=900 spmm", "bf16 rmat V=64 E=1024 spmm"} {
		assert.Equal(t, 2, counts[kernel], "%s", kernel)
	}
	o.Device = "cuda:3"
	_, err = Measure(t.Context(), o, nil, nil)
	assert.EqualRefusal(t, err, "--device cuda:3: this machine has 1 card: name cuda:0, or take --device cpu")
}

// TestRuns: a filter chooses among models, precisions and graphs of a part. One that leaves nothing is
// refused, and an ended context stops before the first epoch.
func TestRuns(t *testing.T) {
	o := Options{Threads: 1, Quick: true}
	for part, want := range map[string]int{"": 14, "kernels": 5, "epoch": 12} {
		o.Part = part
		assert.Len(t, Runs(o), want, "%q", part)
	}
	o.Only = regexp.MustCompile("gcn.* bf16 rmat")
	for part, want := range map[string]string{
		"epoch": "[gcn 3×256 bf16 rmat V=2048 E=32768]", "kernels": "[]",
	} {
		o.Part = part
		assert.Equal(t, want, fmt.Sprint(Runs(o)))
	}
	o.Part = "kernels"
	_, err := Measure(t.Context(), o, nil, nil)
	assert.Refused(t, err, "nothing matches")
	o.Part = "epoch"
	ctx, end := context.WithCancelCause(t.Context())
	signal := errors.New("a signal")
	end(signal)
	r, err := Measure(ctx, o, func(Machine) {}, nil)
	assert.ErrorIs(t, err, signal)
	assert.Empty(t, r.Models)
}
