package paralleltest

import (
	"testing"

	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/parallel/tp"
	"weft/train"
	"weft/train/engine"
	"weft/train/worker"
)

// TestTensorAxis: any number of slices gives one worker's training curve, also more slices than columns, and
// slices of partitions. It alone tests whole runs of slices, and their bytes by NeutronTP's formula.
func TestTensorAxis(t *testing.T) {
	var cases []Case
	for _, m := range []mesh.Mesh{Grid(1, 1, 6), Grid(1, 2, 2)} {
		cases = append(cases, Case{Mesh: m, Tolerance: 2e-5, Layout: layout(m)})
	}
	Engines(t, 1, cases...)
}

// layout is what a decoupled model sends on one partition, for any depth (NeutronTP, section 4.1). In each of
// four all-to-alls a worker sends its own rows, without its own columns of them. Attention of one head also
// sends two scores of each row to each worker that has columns, and receives their gradients. The first round
// of R-GCN, which has weights, takes as many all-to-alls again.
func layout(m mesh.Mesh) func(o *train.Options, vertices, classes int) (worker.Traffic, bool) {
	return func(o *train.Options, vertices, classes int) (worker.Traffic, bool) {
		sent, share := worker.Traffic{Messages: 4},
			func(n, worker int) int { return n*(worker+1)/m.Slices - n*worker/m.Slices }
		for worker := range m.Slices {
			rows := vertices / m.Slices
			if worker < vertices%m.Slices {
				rows++
			}
			sent.Bytes += 4 * 4 * int64(rows*(classes-share(classes, worker)))
			if o.Model != "gat" {
				continue
			}
			for other := range m.Slices {
				if other != worker && share(classes, other) > 0 {
					sent.Bytes += 2 * 4 * int64(rows*2)
				}
			}
		}
		if o.Model == "rgcn" {
			sent = worker.Traffic{Bytes: 2 * sent.Bytes, Messages: 2 * sent.Messages}
		}
		return sent, o.Decoupled && m.Partitions == 1
	}
}

// TestTensorAxisPropagators tests each layer, alone and on partitions, of which some are empty. It alone
// compares every kind of aggregation of slices with double precision, in both directions: outputs and
// gradients.
func TestTensorAxisPropagators(t *testing.T) {
	for _, m := range []mesh.Mesh{Grid(1, 1, 6), Grid(1, 2, 2)} {
		t.Run(Name(m), func(t *testing.T) {
			t.Parallel()
			Propagators(t, m, newSlice)
		})
	}
}

// TestOrders: every order of work is right, on either axis.
func TestOrders(t *testing.T) {
	for _, choice := range []order.Choice{order.TransformFirst, order.AggregateFirst} {
		t.Run(order.Names[choice], func(t *testing.T) {
			o := axis.Options{AggregationOrder: choice}
			Propagators(t, Grid(1, 1, 2),
				func(c engine.Config) (engine.Axis, error) {
					return tp.New(c.Env, o)
				}, "AggregateLinear")
			Propagators(t, Grid(1, 2, 1),
				func(c engine.Config) (engine.Axis, error) {
					return sar.New(c.Env, o)
				}, "AggregateLinear")
		})
	}
}

var newSlice Axis = func(c engine.Config) (engine.Axis, error) {
	return tp.New(c.Env, axis.Options{})
}
