package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/worker"
)

// TestLimit: a limit holds a worker's tensors and its part of the graph together, to the byte; 0 is none.
func TestLimit(t *testing.T) {
	p := Plan{PeakTensorBytes: []int64{100, 60}, GraphBytes: []int64{7, 50}}
	for limit, refused := range map[setting.Bytes]bool{
		0: false, 1: true, 109: true,
		110: false, 1000: false,
	} {
		err := p.CheckLimit(limit)
		if (err != nil) != refused || refused && !refusal.Is(err) {
			t.Errorf("limit %d: %v", limit, err)
		}
		if limit == 109 && !strings.Contains(fmt.Sprint(err), "worker 1 would need") {
			t.Errorf("%v, want that of worker 1", err)
		}
		if limit == 109 && !strings.Contains(fmt.Sprint(err), "; raise the limit to 110 B, or try "+
			"--partitions auto --offload DIR, by which partitions take turns and rest on disk, ") {
			t.Errorf("%v, want the limit that suffices", err)
		}
	}
	for advice, hint := range map[Advice]string{
		MorePartitions:  "--offload DIR and more --partitions, by which partitions take turns and rest on disk, --recompute",
		TrainPartitions: "weft train --parallel graph=2 --partitions auto --offload DIR, by which partitions take turns",
		NoPartitions:    "--recompute",
	} {
		p.Advice = advice
		if err := p.CheckLimit(1); !strings.Contains(fmt.Sprint(err), "raise the limit to 110 B, or try "+hint) {
			t.Errorf("%v, want %s", err, hint)
		}
	}
	assert.Equal(t, 110, most([]Worker{{Tensors: 100, Graph: 7}, {Tensors: 60, Graph: 50}}),
		"the worker that needs most takes")
}

// TestLimitOfCard: the limit that suffices is of all workers on a card, and is told where the card has as
// much.
// What the flag limits names the flag, and what the card limits names the device.
func TestLimitOfCard(t *testing.T) {
	const may, out = "--memory-limit 24GB: worker 0 would need 7.1 TB of the card, and may have 8.0 GB; ",
		"try --partitions auto --offload ram, by which partitions take turns and rest in the host's memory, " +
			"--recompute blocks, a smaller model, or --device cpu"
	p := Plan{PeakTensorBytes: []int64{7e12}, GraphBytes: []int64{1e11}}
	for _, c := range []struct {
		bytes, free int64
		want        string
	}{
		{8e9, 8e12, may + "raise the limit to 22 TB, " + out},
		{8e9, 7e12, may + out},
		{7e9, 7e9, "--device cuda: worker 0 would need 7.1 TB of the card, and may have 7.0 GB; " + out},
		{0, 0, "--device cuda: worker 0 would need 7.1 TB of the card, and may have 0 B; " + out},
	} {
		p.Cards = &worker.Cards{Device: setting.AllCards, Bytes: c.bytes, Free: c.free}
		assert.EqualRefusal(t, p.CheckLimit(24e9), c.want)
	}
	var exceeds Exceeds
	assert.Equal(t, true, errors.As(p.CheckLimit(24e9), &exceeds), "of memory")
	assert.EqualRefusal(t, exceeds.WithoutPartitions(), "--device cuda: worker 0 would need 7.1 TB of the card, and may "+
		"have 0 B; try --recompute blocks, a smaller model, or --device cpu")
}

// TestInVain: by hand, 100 bytes that no partition divides and 800 of all: 500 in two, 300 in four, 200 in
// eight.
func TestInVain(t *testing.T) {
	for _, c := range []struct {
		before, need, room int64
		want               bool
	}{
		{math.MaxInt64, 500, 1, false}, // nothing is known of fewer
		{500, 300, 99, false},
		{300, 200, 1, false}, // it might be halved yet
		{200, 150, 60, false},
		{200, 150, 49, true},
		{125, 113, 80, true},
		{500, 500, 499, true},
		{400, 500, 450, true},
	} {
		assert.Equal(t, c.want, Exceeds{Need: c.need, Room: c.room}.InVain(c.before), "%+v", c)
	}
}

// TestFewest: twice as many partitions are tried each time, until some are not refused or more cannot do
// either.
func TestFewest(t *testing.T) {
	const room = 100
	needs := func(sizes ...int64) func(each int) error { // in 2, 4, 8 and so on
		return func(each int) error {
			if need := sizes[bits.Len(uint(each))-2]; need > room {
				return Exceeds{refusal.Errorf("%d", need), need, room, Plan{}, 0}
			}
			return nil
		}
	}
	host := func(all ...int64) func(each int) error { // has no room for anything
		return func(each int) error {
			if need := all[bits.Len(uint(each))-2]; need == 0 || need > room {
				return ExceedsHost{refusal.Errorf("host"), need, room}
			}
			return nil
		}
	}
	first := func(two, more func(each int) error) func(each int) error {
		return func(each int) error {
			if each == 2 {
				return two(each)
			}
			return more(each)
		}
	}
	wrong, canceled := errors.New("wrong"), context.Canceled
	for name, c := range map[string]struct {
		first, most int
		try         func(each int) error
		each, tries int
		err         error
	}{
		"at once":              {2, 16, needs(100), 2, 1, nil},
		"in eight":             {2, 16, needs(350, 190, 100), 8, 3, nil},
		"from eight on":        {8, 16, needs(350, 190, 90), 8, 1, nil},
		"in none":              {2, 8, needs(350, 230, 160), 0, 3, nil},
		"none is left":         {16, 8, needs(), 0, 0, nil},
		"they save too little": {2, 64, needs(350, 300), 0, 2, nil},
		"the most cannot do":   {2, 4, needs(410), 0, 1, nil},
		"of anything else":     {2, 64, func(int) error { return refusal.Errorf("flag") }, 0, 1, nil},
		"the host, for ever":   {2, 64, host(350, 300), 0, 2, nil},
		"the host, until 8":    {2, 64, host(150, 110, 100), 8, 3, nil},
		"the host, unknown":    {2, 64, host(0), 0, 1, nil},
		"the host, and before": {2, 64, first(needs(120), host(0, 110, 90)), 8, 3, nil},
		"it fails":             {2, 64, func(int) error { return wrong }, 0, 1, wrong},
	} {
		tries := 0
		each, err := Fewest(t.Context(), c.first, c.most, func(each int) error {
			tries++
			return c.try(each)
		})
		assert.Equal(t, []int{c.each, c.tries}, []int{each, tries}, name)
		assert.ErrorIs(t, err, c.err, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Fewest(ctx, 2, 8, func(int) error { return refusal.Errorf("%w", canceled) })
	assert.ErrorIs(t, err, canceled)
}

// TestBeyond: by hand, 800 bytes are at best 200 in four times as many partitions, of which half is allowed
// for.
func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		times      int
		need, room int64
		want       bool
	}{
		{4, 800, 99, true},
		{4, 800, 100, false},
		{1, 800, 399, true},
		{1, 800, 400, false},
		{0, 800, 400, false}, // as many
	} {
		assert.Equal(t, c.want, Exceeds{Need: c.need, Room: c.room}.Beyond(c.times), "%+v", c)
	}
}

// TestParametersOfStages: the parameters of a stage are counted once, however many workers have them.
func TestParametersOfStages(t *testing.T) {
	grid := mesh.Mesh{Stages: 2, Partitions: 1, Slices: 2}
	var p Plan
	for rank := range grid.Workers() {
		p.Workers = append(p.Workers, Worker{Parameters: []int{5, 30}[grid.Coords(rank).Stage]})
	}
	assert.Equal(t, 35, p.Parameters(grid), "parameters")
}

// TestRowSums: rows that add up to 1 are counted, and others but for those of zeros, by hand. A value below
// zero and one with a fraction are told.
func TestRowSums(t *testing.T) {
	for _, c := range []struct {
		rows []float32 // of two columns
		want RowSums
	}{
		{[]float32{0, 0}, RowSums{}},
		{[]float32{0, 1, 1, 0, 0, 0, 1, 1}, RowSums{Ones: 2, Others: 1}},
		{[]float32{.25, .75, 0, 1}, RowSums{Ones: 2, Fraction: .75}},
		{[]float32{2, -1, 1, -1, 3, 4}, RowSums{Ones: 1, Others: 2, Negative: -1}},
		{[]float32{.5, .50005, .5, .5002}, RowSums{Ones: 1, Others: 1, Fraction: .5002}},
	} {
		f := &graph.Features{Columns: 2, Dense: c.rows}
		assert.Equal(t, c.want, rowSums(f, len(c.rows)/2), c.rows)
	}
	// Of 8,192 rows every third is looked at: 0, 3, …, 8190
	const n = 8192
	f := &graph.Features{Columns: 1, Dense: make([]float32, n)}
	for v := range n {
		f.Dense[v] = 1
	}
	assert.Equal(t, (RowSums{Ones: 2731}), rowSums(f, n))
}

// TestPartitionsOfWorker: partitions that take turns have the largest of their memories, and all of their
// parts of a checkpoint and of what they move.
func TestPartitionsOfWorker(t *testing.T) {
	all := Worker{
		Tensors: 10, Graph: 4, Checkpoint: 3, DiskBytes: 20, Messages: 1,
		Disk: tensor.Moved{Written: 1, Read: 2},
	}
	all.add(&Worker{
		Tensors: 8, Graph: 5, Checkpoint: 4, DiskBytes: 21, Messages: 0,
		Disk: tensor.Moved{Written: 10, Read: 20},
	})
	assert.Equal(t, Worker{
		Tensors: 10, Graph: 5, Checkpoint: 7, DiskBytes: 21, Messages: 1,
		Disk: tensor.Moved{Written: 11, Read: 22},
	}, all)
}

// TestScales: the columns of the smallest and the largest deviation, by hand. A constant one does not count,
// even if its mean is rounded.
func TestScales(t *testing.T) {
	v := &partition.Values{Frame: graph.Frame{Count: 4, Features: graph.Features{Columns: 4, Dense: []float32{
		.1, 5, 200, 0,
		.1, 7, 0, 0,
		.1, 5, 200, 1,
		.1, 7, 0, 1,
	}}}}
	assert.Equal(t, Scales{Least: Scale{3, .5}, Most: Scale{2, 100}}, scalesOf(v))
	v.Features.Dense = slices.Repeat([]float32{.1}, 16)
	assert.Equal(t, Scales{}, scalesOf(v))
}
