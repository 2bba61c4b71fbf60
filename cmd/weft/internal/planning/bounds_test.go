package planning

import (
	"bytes"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/machine"
	"weft/train/plan"
)

// TestBounds: what layers take at least follows from their work by the rates of two machines; layers that are
// alike share a line.
func TestBounds(t *testing.T) {
	work := func(operations float64, least, written, entries, gathered int) kernel.Work {
		return kernel.Work{
			Bytes:   kernel.Bytes{Streamed: 9 * least, Least: least, Written: written, Gathered: gathered},
			Entries: entries, Operations: operations,
		}
	}
	multiplies := plan.LayerWork{Forward: work(40e9, 2e9, 1e9, 0, 0), Backward: work(80e9, 4e9, 1e9, 0, 0)}
	gathers := plan.LayerWork{
		Forward: work(0, 4e9, 2e9, 4e6, 256e6), Backward: work(10e9, 4e9, 2e9, 4e6, 256e6),
	}
	b := &bounds{
		Parallel: "graph=8", Epoch: 47,
		Rates: machine.Rates{
			Threads: 4, Read: 2e9, Write: 1e9, Gather: 128e6, Lines: 64e6, Flops: 10e9, BFloat16Flops: 20e9,
		},
		work: []plan.LayerWork{multiplies, multiplies, gathers, {}}, on: 2,
	}
	b.find()
	forward, backward := machine.Bound{Products: 2, Streamed: .75}, machine.Bound{Products: 4, Streamed: 1.25}
	assert.Equal(t, layerBound{0, forward, backward, "compute"}, b.Layers[0])
	forward, backward = machine.Bound{Gathered: 2, Streamed: 1.5}, machine.Bound{Gathered: 2, Streamed: 1.5}
	backward.Products = .5
	assert.Equal(t, layerBound{2, forward, backward, "memory"}, b.Layers[2])
	var out bytes.Buffer
	b.print(&out)
	assert.Equal(t, strings.Join([]string{
		"this machine reads 2 GB/s in order and 0.128 of rows from all over its memory, and multiplies at " +
			"10 GFLOP/s (4 threads)",
		"layers 0–1, each: at least 2.8 s + 5.2 s (forward + backward), bound by compute: products of 40 + " +
			"80 GFLOP, 2000.0 + 4000.0 MB in order, 0.0 + 0.0 MB gathered",
		"layer 2: at least 3.5 s + 4.0 s (forward + backward), bound by memory: products of 0 + 10 GFLOP, " +
			"4000.0 + 4000.0 MB in order, 256.0 + 256.0 MB gathered",
		"all layers of graph=8 take at least 24 s, and its epoch is predicted to take 2 times as long", "",
	}, "\n"), out.String())
	b.short = true
	assert.Equal(t, 1., b.bound(&multiplies).Forward.Products, "of bfloat16")
}
