package bench

import (
	"context"
	"errors"
	"math"
	"regexp"
	"testing"

	"weft/internal/assert"
	"weft/internal/machine"
	"weft/internal/require"
	"weft/kernel"
)

var here = &Machine{Rates: machine.Rates{
	Threads: 3, Read: 10, Write: 5, Gather: 64, Lines: 64, Flops: 100, BFloat16Flops: 400,
}}

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
	e := &epoch{100, 80, map[kernel.Call]*calls{spmm: {2, 60, 24}, product: {1, 9, 5}, norm: {1, 10, 20}}}
	slower := &epoch{200, 90, map[kernel.Call]*calls{spmm: {2, 70, 16}}}
	m := here.model(Run{Model: "a", Precision: bf16}, []*epoch{slower, e})
	assert.Equal(t, Bound{600. / 400, 2 * 6, 2*(6+8) + 1 + 2}, m.Bound)
	assert.Equal(t, []float64{100, 80, .8, 44.5, 100 / 44.5},
		[]float64{m.EpochSeconds, m.KernelSeconds, m.Fraction, m.BoundSeconds, m.TimesBound})
	assert.Equal(t, []Kernel{
		{"a", "spmm", "50×7", 3, 16, 0, 684. / 16 / 1e9, "memory", (26 + 8 + 6) / 16., 2, .6},
		{"a", "attention back", "50×7", 3, 20, 0, 100. / 20 / 1e9, "memory", 10 / 20., 1, .1},
		{"a", "product", "50×2×3", 3, 5, 600. / 5 / 1e9, 20. / 5 / 1e9, "memory", (1.5 + 1 + 2) / 5, 1, .09},
	}, m.Kernels)
	k := here.kernel(product, f32, 12)
	assert.Equal(t, "compute", k.Bound)
	assert.Equal(t, (6+3)/12., k.Fraction)
}

// TestMeasure: each model has its kernels, once for each layer, and their time is a part of the epoch's.
func TestMeasure(t *testing.T) {
	o := Options{Threads: 2, Quick: true}
	shown := 0
	r, err := Measure(t.Context(), o, append(Kernels(o), Epochs(o)...), func(Machine) {},
		func(Model) { shown++ })
	require.NoError(t, err)
	require.Len(t, r.Models, 5+12)
	assert.Equal(t, 5+12, shown)
	names := map[string]bool{}
	for _, m := range r.Models {
		if !(m.KernelSeconds > 0) || m.KernelSeconds > m.EpochSeconds || !(m.TimesBound > 0) {
			t.Errorf("%+v", m)
		}
		for _, k := range m.Kernels {
			names[k.Name] = true
			if !(k.Fraction > 0) || math.IsInf(k.Fraction, 0) || k.Threads != 2 || k.Model != m.Model {
				t.Errorf("%+v", k)
			}
		}
	}
	for _, name := range []string{
		"spmm", "max", "max back", "attention", "attention v2", "attention back source",
		"attention back target v2", "product", "weight", "normalize", "layer norm",
	} {
		assert.Equal(t, true, names[name], name)
	}
}

// TestOnly: a filter chooses among models, precisions and graphs. One that leaves nothing is refused, and an
// ended context stops before the first epoch.
func TestOnly(t *testing.T) {
	o := Options{Threads: 1, Quick: true, Only: regexp.MustCompile("gcn.* bf16 rmat")}
	runs := Epochs(o)
	require.Len(t, runs, 1)
	assert.Equal(t, "gcn 3×256 bf16 rmat V=2048 E=32768", runs[0].String())
	_, err := Measure(t.Context(), o, Kernels(o), nil, nil)
	assert.Refused(t, err, "nothing matches")
	ctx, end := context.WithCancelCause(t.Context())
	signal := errors.New("a signal")
	end(signal)
	r, err := Measure(ctx, o, runs, func(Machine) {}, nil)
	assert.ErrorIs(t, err, signal)
	assert.Empty(t, r.Models)
}
