package planning

import (
	"io"
	"testing"

	"weft/cmd/weft/internal/session"
	"weft/device/devicetest"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
)

// TestFittingByCounts: partitions that counts of a graph name fit its card: by the plan of the graph itself,
// on one worker and on two that share the card. An epoch takes at least what is copied to the card.
func TestFittingByCounts(t *testing.T) {
	devicetest.Library(t)
	t.Setenv("WEFT_CACHE", t.TempDir())
	from := generate.Default(generate.Uniform)
	from.Vertices, from.Degree, from.Features, from.Classes = 60_000, 6, 32, 3
	g, err := generate.Graph(from)
	require.NoError(t, err)
	for parallel, part := range map[string]float64{"": .4, "graph=2": .6} {
		o := setting.Defaults()
		o.Device, o.Parallel, o.Threads = setting.AllCards, parallel, 1
		whole := &train.Job{Graph: g, Options: o}
		r, err := o.Resolve()
		require.NoError(t, err)
		if r.Workers > 1 {
			require.NoError(t, session.DivideOnce(t.Context(), r, whole, nil))
		}
		all, err := whole.PlanWith(t.Context(), plan.Asks{})
		require.NoError(t, err)
		_, needs := all.Most()
		all.Cards.Bytes = int64(part * float64(needs))
		o.MemoryLimit = setting.Bytes(all.Cards.Bytes * int64(r.Workers))
		if r, err = o.Resolve(); err != nil {
			t.Fatal(err)
		}
		whole.Cards = all.Cards
		fit, err := FittingByCounts(t.Context(), Wanted{Job: whole, Settings: r}, io.Discard)
		require.NoError(t, err)
		if fit == nil {
			t.Fatalf("%q: nothing fits", parallel)
		}
		assert.Equal(t, setting.RAM, fit.Settings.Offload)
		named := &train.Job{Graph: g, Options: fit.Settings.Options}
		require.NoError(t, session.DivideOnce(t.Context(), fit.Settings, named, nil))
		p, err := named.PlanWith(t.Context(), plan.Asks{})
		require.NoError(t, err)
		require.NoError(t, p.CheckLimit(o.MemoryLimit), fit.Flags())
		if p.Cards.Bytes != all.Cards.Bytes || p.InMemory {
			t.Errorf("%q: %+v, want a part of the memory, below which some rests", parallel, p.Cards)
		}
		on, err := onCards(r, all.Cards, io.Discard)
		require.NoError(t, err)
		assert.Equal(t, r.Workers, on.Machine.OnOne(r.Workers), "workers on the card")
		if least := float64(p.Workers[0].Disk.Read) / on.Machine.Card.ToDevice; fit.seconds < .8*least {
			t.Errorf("%q: %g s, and copies take %g", parallel, fit.seconds, least)
		}
		fit.seconds = 90
		assert.Equal(t, fit.Memory()+" for a worker and about 90 s an epoch", fit.Takes())
		fit.seconds = 0
		assert.Equal(t, fit.Memory()+" for a worker", fit.Takes(), "nothing predicts it")
	}
	for workers, most := range map[int]int{1: 32, 2: 16, 4: 8, 64: 8} {
		assert.Equal(t, most, mostCounted(workers), "%d workers", workers)
	}
}
