package paralleltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"weft/parallel/edges"
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
func wired(model, settings string) train.Options {
	return small(model, "layers=2 input-dropout=.1 "+settings)
}

// half sends half the columns in the last of three epochs, and whole all.
const (
	half  = " wire-schedule=varco:slope=1,from=4" // 4, 3 and 2
	whole = " wire-schedule=varco:slope=5,from=128"
)

// TestBytesOnTheWire compares what is sent along each axis with the formula: halo rows and gradients, four
// all-to-alls for each layer but two for the first, one boundary of the pipeline.
func TestBytesOnTheWire(t *testing.T) {
	g := Tangled(t)
	sent := func(t *testing.T, m mesh.Mesh, settings string) worker.Communication {
		o := wired("gcn", settings)
		if m.Stages > 1 {
			o.Chunks = 1
		}
		return asPlanned(t, (&Case{Mesh: m}).job(t, g, o)).Communication
	}
	graph, tensor, pipeline := Grid(1, 2, 1), Grid(1, 1, 2), Grid(2, 1, 1)
	travels := map[string]int64{} // rows and partial sums: TestCoverTravels counts them
	for _, halo := range edges.HaloNames {
		travels[halo] = sent(t, graph, "halo="+halo).Halo.Bytes / int64(2*4*(10+5))
	}
	for _, wire := range []string{"auto", "bf16", "int8", "int4"} {
		t.Run(wire, func(t *testing.T) {
			check := func(what string, got, want int64) {
				t.Helper()
				if got != want {
					t.Errorf("%s: %d bytes, the formula says %d", what, got, want)
				}
			}
			wire, bytes := "wire="+wire, func(columns int) int64 { return int64(rowBytes(wire, columns)) }
			for halo, rows := range travels {
				halo := " halo=" + halo
				check(halo, sent(t, graph, wire+halo).Halo.Bytes, 2*rows*(bytes(10)+bytes(5)))
				check("half"+halo, sent(t, graph, wire+halo+half).Halo.Bytes, 2*rows*(bytes(5)+bytes(3)))
			}
			allToAll := func(d int, first int64) int64 { // the first worker has so many rows
				return first*bytes(d-d/2) + (int64(g.Vertices())-first)*bytes(d/2)
			}
			got := sent(t, tensor, wire).Layout.Bytes
			if layout := func(first int64) int64 {
				return 2*allToAll(13, first) + 4*allToAll(5, first)
			}; got != layout(75) && got != layout(76) {
				t.Errorf("layout: %d bytes, the formula says %d or %d", got, layout(75), layout(76))
			}
			check("stage", sent(t, pipeline, wire).Stage.Bytes, 2*int64(g.Vertices())*bytes(10))
		})
	}
}

// TestKeysOnTheWire: dot-product attention sends keys as it sends values, encoded, and some of their columns.
func TestKeysOnTheWire(t *testing.T) {
	g := Tangled(t)
	for _, m := range []mesh.Mesh{Grid(1, 2, 1), Grid(2, 2, 1)} {
		sent := func(settings string) int64 {
			// rows of 20 columns in all layers
			o := wired("transformer", "hidden=20 blocks=plain output-heads=4 "+settings)
			if m.Stages > 1 {
				o.Layers, o.Chunks = 4, 2
			}
			return asPlanned(t, (&Case{Mesh: m}).job(t, g, o)).Communication.Halo.Bytes
		}
		stored := sent("")
		for _, wire := range []string{"bf16", "int8", "int4"} {
			want := stored * int64(rowBytes(wire, 20)) / int64(rowBytes("auto", 20))
			if got := sent("wire=" + wire); got != want {
				t.Errorf("%s, %s: %d bytes, the formula says %d", Name(m), wire, got, want)
			}
		}
		if m.Stages == 1 {
			if got := sent(half); got != stored/2 {
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
		mesh           mesh.Mesh
		model          string
		set, otherwise string // settings, and those that change no bit
		recomputation  bool
	}{
		{Grid(1, 3, 1), "gcn", "wire=int8", "prefetch=3 threads=2", true},
		{Grid(1, 2, 1), "gat", "wire=int8", "keep-halo=true", false},
		{Grid(1, 2, 1), "gatv2", "wire=int4", "keep-halo=true", true},
		{Grid(1, 2, 1), "transformer", "wire=int8" + half, "keep-halo=true", true},
		{Grid(2, 2, 1), "transformer", "wire=int4", "threads=2", true},
		{Grid(1, 3, 1), "sage", "wire=bf16", "keep-halo=true", false},
		{Grid(1, 2, 1), "gin", "wire=int4" + wide, "prefetch=0", false},
		{Grid(1, 3, 1), "gcn", "wire=int8 halo=cover", "prefetch=3 threads=2", true},
		{Grid(1, 2, 1), "sage", "wire=int4 halo=cover" + wide, "keep-halo=true", false},
		{Grid(1, 2, 2), "gcn", "wire=bf16 halo=cover", "prefetch=0", false},
		{Grid(1, 3, 1), "gcn", "halo=cover" + half, "keep-halo=true", true},
		{Grid(1, 2, 1), "gat", half, "keep-halo=true", true},
		{Grid(1, 2, 1), "gatv2", "wire=int8" + half, "prefetch=0 threads=2", false},
		{Grid(1, 2, 1), "sage", wide + whole, "keep-halo=true", false},
		{Grid(1, 2, 2), "gcn", "wire=int4 halo=cover" + half, "prefetch=2", false},
		{Grid(1, 1, 2), "gcn", "wire=int8", "aggregation-chunks=3", true},
		{Grid(1, 1, 3), "gat", "wire=int8" + wide, "threads=2", false},
		{Grid(1, 1, 2), "gatv2", "wire=int4", "threads=2", false},
		{Grid(1, 2, 2), "sage", "wire=int8", "prefetch=2", false},
		{Grid(2, 1, 1), "gcnii", "wire=int8", "threads=2", true},
		{Grid(2, 2, 2), "gcnii", "wire=int8", "threads=2", true},
		{Grid(2, 1, 3), "gat", "wire=int8" + wide, "threads=2", true},
		{Grid(2, 2, 1), "gcn", "wire=int4", "threads=2", true},
	} {
		t.Run(fmt.Sprint(Name(c.mesh), " ", c.model, " ", c.set), func(t *testing.T) {
			o := wired(c.model, "hidden=20 "+c.set)
			if c.mesh.Stages > 1 {
				o = with(o, "layers=4 chunks=4 chunk-order=fixed") // for an exact plan
			}
			testCase := &Case{Mesh: c.mesh}
			want := run(t, testCase.job(t, g, with(o, "wire=auto wire-schedule=none")))
			got := asPlanned(t, testCase.job(t, g, o))
			if slices.Equal(got.Losses, want.Losses) {
				t.Error("an encoding changes no loss")
			}
			for i, loss := range got.Losses {
				if d := math.Abs(loss - want.Losses[i]); !(d < .2*want.Losses[i]) {
					t.Errorf("losses %v, and %v without an encoding", got.Losses, want.Losses)
					break
				}
			}
			o = with(o, c.otherwise)
			again := asPlanned(t, testCase.job(t, g, o))
			sameBits(t, "done otherwise", again, got)
			if c.recomputation {
				testCase.otherwiseRecomputed(t, g, o, again)
			}
		})
	}
}

// wide is bfloat16, with so many columns that slices of them are not sent as they are stored.
const wide = " hidden=48 " + inBFloat16

// TestEncodedInTurns: workers that hold several partitions have the bits of as many workers.
func TestEncodedInTurns(t *testing.T) {
	g := Tangled(t)
	for model, set := range map[string]string{
		"gat": "", "gcn": "halo=cover", "gatv2": half, "sage": "halo=cover" + half,
	} {
		o := wired(model, "wire=int8 parallel=graph=3 partition=random "+set)
		want := run(t, &train.Job{Graph: g, Options: o})
		for _, workers := range []string{"graph=1", "graph=2"} {
			got := run(t, &train.Job{Graph: g, Options: with(o, "partitions=3 parallel="+workers)})
			sameBits(t, model+", "+workers, got, want)
		}
	}
}

// TestEncodedTypes trains a model on partitions of a graph of several vertex types.
func TestEncodedTypes(t *testing.T) {
	c := typedModels[0]
	g, o := typedGraphs[c.graph](t), small(c.name, c.set+" wire=int8 hidden=16")
	got := asPlanned(t, &train.Job{Graph: g, Options: o, Mesh: Grid(1, 2, 1), Parts: inTurn(t, g, 2)})
	for _, loss := range got.Losses {
		if math.IsNaN(loss) {
			t.Errorf("losses %v", got.Losses)
		}
	}
}
