package paralleltest

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"slices"
	"testing"

	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/train"
	"weft/train/worker"
)

// rowBytes is what a row of d columns takes on the wire: 4·d, 2·d, d + 8 and ⌈d/2⌉ + 8 bytes (AdaQP sends two
// floats with each row), and of integers at most those of bf16.
func rowBytes(wire string, d int) int {
	return map[string]int{
		"auto": 4 * d, "bf16": 2 * d, "int8": min(2*d, d+8),
		"int4": min(2*d, (d+1)/2+8),
	}[wire]
}

// wired are options of a model of two layers that aggregates in training alone, and sends rows of 10 and of 5
// columns.
func wired(model, wire string) train.Options {
	o := (&variant{}).options(model)
	o.Layers, o.InputDropout = 2, .1
	parse(&o.Wire, wire)
	return o
}

// parse reads a setting's word.
func parse(word encoding.TextUnmarshaler, text string) {
	exchange.Must(word.UnmarshalText([]byte(text)))
}

// half sends half the columns in the last of three epochs, and whole all; none has no schedule.
var (
	half  = axis.WireSchedule{Slope: 1, From: 4} // 4, 3 and 2
	whole = axis.WireSchedule{Slope: 5, From: 128}
	none  axis.WireSchedule
)

// TestBytesOnTheWire compares what is sent along each axis with the formula: halo rows and gradients, four
// all-to-alls for each layer but two for the first, one boundary of the pipeline.
func TestBytesOnTheWire(t *testing.T) {
	g := Tangled(t)
	sent := func(t *testing.T, m mesh.Mesh, wire, halo string,
		schedule axis.WireSchedule,
	) worker.Communication {
		o := wired("gcn", wire)
		o.WireSchedule = schedule
		parse(&o.Halo, halo)
		if m.Stages > 1 {
			o.Chunks = 1
		}
		got := asPlanned(t, (&Case{Mesh: m}).job(t, g, o))
		return got.Communication
	}
	graph, tensor, pipeline := grid(1, 2, 1), grid(1, 1, 2), grid(2, 1, 1)
	travels := map[string]int64{} // rows and partial sums: TestCoverTravels counts them
	for _, halo := range edges.HaloNames {
		travels[halo] = sent(t, graph, "auto", halo, none).Halo.Bytes / int64(2*4*(10+5))
	}
	for _, wire := range []string{"auto", "bf16", "int8", "int4"} {
		t.Run(wire, func(t *testing.T) {
			for halo, rows := range travels {
				if got, want := sent(t, graph, wire, halo, none).Halo.Bytes, 2*rows*int64(rowBytes(wire, 10)+
					rowBytes(wire, 5)); got != want {
					t.Errorf("halo %s: %d bytes, the formula says %d", halo, got, want)
				}
				if got, want := sent(t, graph, wire, halo, half).Halo.Bytes, 2*rows*int64(rowBytes(wire, 5)+
					rowBytes(wire, 3)); got != want {
					t.Errorf("half the columns, halo %s: %d bytes, the formula says %d", halo, got, want)
				}
			}
			allToAll := func(d, first int) int { // the first worker has so many rows
				return first*rowBytes(wire, d-d/2) + (g.Vertices()-first)*rowBytes(wire, d/2)
			}
			got := int(sent(t, tensor, wire, "rows", none).Layout.Bytes)
			if of := func(first int) int {
				return 2*allToAll(13, first) + 4*allToAll(5, first)
			}; got != of(75) && got != of(76) {
				t.Errorf("layout: %d bytes, the formula says %d or %d", got, of(75), of(76))
			}
			if got, want := int(sent(t, pipeline, wire, "rows", none).Stage.Bytes), 2*g.Vertices()*rowBytes(
				wire, 10); got != want {
				t.Errorf("stage: %d bytes, the formula says %d", got, want)
			}
		})
	}
}

// TestKeysOnTheWire: dot-product attention sends keys as it sends values, encoded, and some of their columns.
func TestKeysOnTheWire(t *testing.T) {
	g := Tangled(t)
	for _, m := range []mesh.Mesh{grid(1, 2, 1), grid(2, 2, 1)} {
		sent := func(wire string, schedule axis.WireSchedule) int64 {
			o := wired("transformer", wire)
			o.Hidden, o.WireSchedule = 20, schedule
			if m.Stages > 1 {
				o.Layers, o.Chunks = 4, 2
			}
			o.BlockForm, o.OutputHeads = "plain", 4 // rows of 20 columns in all layers
			got := asPlanned(t, (&Case{Mesh: m}).job(t, g, o))
			return got.Communication.Halo.Bytes
		}
		stored := sent("auto", none)
		for _, wire := range []string{"bf16", "int8", "int4"} {
			if got, want := sent(wire, none), stored*int64(rowBytes(wire, 20))/int64(
				rowBytes("auto", 20)); got != want {
				t.Errorf("%s, %s: %d bytes, the formula says %d", Name(m), wire, got, want)
			}
		}
		if m.Stages == 1 {
			if got := sent("auto", half); got != stored/2 {
				t.Errorf("%s, half the columns: %d bytes of %d", Name(m), got, stored)
			}
		}
	}
}

// TestEncodedRuns trains with each encoding on meshes of all axes. Losses are finite and near those of values
// as they are stored, plans have the bytes of runs, and threads, prefetching, recomputation, rows that are
// kept instead of fetched again, and the number of aggregation chunks change no bit.
func TestEncodedRuns(t *testing.T) {
	g := Tangled(t)
	for _, c := range []struct {
		mesh          mesh.Mesh
		model, wire   string
		halo          string
		schedule      axis.WireSchedule
		bf16          bool
		otherwise     func(*train.Options)
		recomputation bool
	}{
		{
			mesh: grid(1, 3, 1), model: "gcn", wire: "int8",
			otherwise: func(o *train.Options) { o.Prefetch, o.Threads = 3, 2 }, recomputation: true,
		},
		{
			mesh: grid(1, 2, 1), model: "gat", wire: "int8",
			otherwise: func(o *train.Options) { o.KeepHalo = true },
		},
		{
			mesh: grid(1, 2, 1), model: "gatv2", wire: "int4",
			otherwise: func(o *train.Options) { o.KeepHalo = true }, recomputation: true,
		},
		{
			mesh: grid(1, 2, 1), model: "transformer", wire: "int8", schedule: half,
			otherwise: func(o *train.Options) { o.KeepHalo = true }, recomputation: true,
		},
		{
			mesh: grid(2, 2, 1), model: "transformer", wire: "int4",
			otherwise: func(o *train.Options) { o.Threads = 2 }, recomputation: true,
		},
		{
			mesh: grid(1, 3, 1), model: "sage", wire: "bf16",
			otherwise: func(o *train.Options) { o.KeepHalo = true },
		},
		{
			mesh: grid(1, 2, 1), model: "gin", wire: "int4", bf16: true,
			otherwise: func(o *train.Options) { o.Prefetch = 0 },
		},
		{
			mesh: grid(1, 3, 1), model: "gcn", wire: "int8", halo: "cover",
			otherwise: func(o *train.Options) { o.Prefetch, o.Threads = 3, 2 }, recomputation: true,
		},
		{
			mesh: grid(1, 2, 1), model: "sage", wire: "int4", halo: "cover", bf16: true,
			otherwise: func(o *train.Options) { o.KeepHalo = true },
		},
		{
			mesh: grid(1, 2, 2), model: "gcn", wire: "bf16", halo: "cover",
			otherwise: func(o *train.Options) { o.Prefetch = 0 },
		},
		{
			mesh: grid(1, 3, 1), model: "gcn", wire: "auto", halo: "cover", schedule: half,
			otherwise: func(o *train.Options) { o.KeepHalo = true }, recomputation: true,
		},
		{
			mesh: grid(1, 2, 1), model: "gat", wire: "auto", schedule: half,
			otherwise: func(o *train.Options) { o.KeepHalo = true }, recomputation: true,
		},
		{
			mesh: grid(1, 2, 1), model: "gatv2", wire: "int8", schedule: half,
			otherwise: func(o *train.Options) { o.Prefetch, o.Threads = 0, 2 },
		},
		{
			mesh: grid(1, 2, 1), model: "sage", wire: "auto", bf16: true, schedule: whole,
			otherwise: func(o *train.Options) { o.KeepHalo = true },
		},
		{
			mesh: grid(1, 2, 2), model: "gcn", wire: "int4", halo: "cover", schedule: half,
			otherwise: func(o *train.Options) { o.Prefetch = 2 },
		},
		{
			mesh: grid(1, 1, 2), model: "gcn", wire: "int8",
			otherwise: func(o *train.Options) { o.AggregationChunks = 3 }, recomputation: true,
		},
		{
			mesh: grid(1, 1, 3), model: "gat", wire: "int8", bf16: true,
			otherwise: func(o *train.Options) { o.Threads = 2 },
		},
		{
			mesh: grid(1, 1, 2), model: "gatv2", wire: "int4",
			otherwise: func(o *train.Options) { o.Threads = 2 },
		},
		{
			mesh: grid(1, 2, 2), model: "sage", wire: "int8",
			otherwise: func(o *train.Options) { o.Prefetch = 2 },
		},
		{
			mesh: grid(2, 1, 1), model: "gcnii", wire: "int8",
			otherwise: func(o *train.Options) { o.Threads = 2 }, recomputation: true,
		},
		{
			mesh: grid(2, 2, 2), model: "gcnii", wire: "int8",
			otherwise: func(o *train.Options) { o.Threads = 2 }, recomputation: true,
		},
		{
			mesh: grid(2, 1, 3), model: "gat", wire: "int8", bf16: true,
			otherwise: func(o *train.Options) { o.Threads = 2 }, recomputation: true,
		},
		{
			mesh: grid(2, 2, 1), model: "gcn", wire: "int4",
			otherwise:     func(o *train.Options) { o.Threads = 2 },
			recomputation: true,
		},
	} {
		t.Run(fmt.Sprint(c.mesh, " ", c.model, " ", c.wire, " ", c.halo, " ", c.schedule),
			func(t *testing.T) {
				o := wired(c.model, c.wire)
				o.Hidden, o.WireSchedule = 20, c.schedule
				parse(&o.Halo, cmp.Or(c.halo, "rows"))
				if c.bf16 {
					inBFloat16(&o)
					o.Hidden = 48 // slices of 8 columns would be sent as they are stored
				}
				if c.mesh.Stages > 1 {
					o.Layers, o.Chunks = 4, 4
					o.ChunkOrder = axis.Fixed // for an exact plan
				}
				stored := o
				stored.Wire, stored.WireSchedule = axis.AsStored, axis.WireSchedule{}
				want := run(t, (&Case{Mesh: c.mesh}).job(t, g, stored))
				got := asPlanned(t, (&Case{Mesh: c.mesh}).job(t, g, o))
				if slices.Equal(got.Losses, want.Losses) {
					t.Error("an encoding changes no loss")
				}
				for i, loss := range got.Losses {
					if d := math.Abs(loss - want.Losses[i]); !(d < .2*want.Losses[i]) {
						t.Errorf("losses %v, and %v without an encoding", got.Losses, want.Losses)
						break
					}
				}
				c.otherwise(&o)
				again := asPlanned(t, (&Case{Mesh: c.mesh}).job(t, g, o))
				if !slices.Equal(again.Losses, got.Losses) || !slices.Equal(again.Logits, got.Logits) {
					t.Errorf("done otherwise: losses %v, want %v, or other logits", again.Losses, got.Losses)
				}
				if c.recomputation {
					(&Case{Mesh: c.mesh}).otherwiseRecomputed(t, g, o, again)
				}
			})
	}
}

// TestEncodedInTurns: workers that hold several partitions have the bits of as many workers.
func TestEncodedInTurns(t *testing.T) {
	g := Tangled(t)
	for model, halo := range map[string]string{
		"gat": "rows", "gcn": "cover",
		"gatv2": "rows", "sage": "cover",
	} {
		o := wired(model, "int8")
		o.Parallel, o.Partition = "graph=3", "random"
		parse(&o.Halo, halo)
		if model == "gatv2" || model == "sage" {
			o.WireSchedule = half
		}
		want := run(t, &train.Job{Graph: g, Options: o})
		for _, workers := range []int{1, 2} {
			o.Parallel, o.Partitions = fmt.Sprintf("graph=%d", workers), 3
			got := run(t, &train.Job{Graph: g, Options: o})
			if !slices.Equal(got.Losses, want.Losses) || !slices.Equal(got.Logits, want.Logits) {
				t.Errorf("%s, %d workers: losses %v, want %v, or other logits", model, workers,
					got.Losses, want.Losses)
			}
		}
	}
}

// TestEncodedTypes trains a model on partitions of a graph of several vertex types.
func TestEncodedTypes(t *testing.T) {
	c := typedModels[0]
	g, o := typedGraphs[c.graph](t), typedOptions(c.name, c.set)
	o.Wire, o.Hidden = axis.Int8, 16
	got := asPlanned(t, &train.Job{Graph: g, Options: o, Mesh: grid(1, 2, 1), Parts: evenParts(t, g, 2)})
	for _, loss := range got.Losses {
		if math.IsNaN(loss) {
			t.Errorf("losses %v", got.Losses)
		}
	}
}
