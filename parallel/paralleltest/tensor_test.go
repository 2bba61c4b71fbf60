package paralleltest_test

import (
	"testing"

	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/parallel/tensor"
	"weft/train"
	"weft/train/engine"
	"weft/train/worker"
)

// TestTensorAxis: any number of slices gives one worker's training curve, also more than there are columns,
// and slices of partitions. It alone pins whole runs of slices, and the bytes between them by NeutronTP's
// formula.
func TestTensorAxis(t *testing.T) {
	var cases []paralleltest.Case
	for _, m := range []mesh.Mesh{{Stages: 1, Partitions: 1, Slices: 2}, {Stages: 1, Partitions: 1, Slices: 7}, {Stages: 1, Partitions: 3, Slices: 2}} {
		cases = append(cases, paralleltest.Case{Mesh: m, Tolerance: 2e-5, Layout: layout(m)})
	}
	paralleltest.Engines(t, cases...)
}

// TestChunkedRuns: a plan names the bytes of a run in aggregation chunks, which gives one worker's results.
// It alone pins whole runs of more chunks than one; parallel/tensor's TestChunks has their bits.
func TestChunkedRuns(t *testing.T) {
	var cases []paralleltest.Case
	for _, chunks := range []int{2, 7} {
		cases = append(cases, paralleltest.Case{Mesh: mesh.Mesh{Stages: 1, Partitions: 1, Slices: 3}, Tolerance: 2e-5, Models: []string{"gcn", "sage"}, Engine: func(c engine.Config) (engine.Engine, error) {
			c.AggregationChunks = chunks
			return engine.New(c)
		}})
	}
	paralleltest.Engines(t, cases...)
}

// layout is what a decoupled model sends on one partition, whatever its depth (NeutronTP, section 4.1): four
// switches, in each of which a worker's own rows go to the others, but for its own columns of them. Attention
// of one head sends two scores of each row beside them to whoever has columns, and takes the gradients back.
func layout(m mesh.Mesh) func(o *train.Options, vertices, classes int) (worker.Traffic, bool) {
	return func(o *train.Options, vertices, classes int) (worker.Traffic, bool) {
		sent, share := worker.Traffic{Messages: 4}, func(n, worker int) int { return n*(worker+1)/m.Slices - n*worker/m.Slices }
		for worker := range m.Slices {
			rows := vertices / m.Slices
			if worker < vertices%m.Slices {
				rows++
			}
			sent.Bytes += 4 * 4 * int64(rows*(classes-share(classes, worker)))
			if o.Model != "gat" {
				continue
			}
			ways := 2
			if o.AttentionGradient == "stop" {
				ways = 1
			}
			for other := range m.Slices {
				if other != worker && share(classes, other) > 0 {
					sent.Bytes += int64(ways) * 4 * int64(rows*2)
				}
			}
		}
		return sent, o.Decoupled && m.Partitions == 1
	}
}

// TestTensorAxisPropagators is the same of each layer, alone and on partitions, of which some are empty. It
// alone holds every kind of aggregation of slices, in both directions, to double precision: outputs and
// gradients.
func TestTensorAxisPropagators(t *testing.T) {
	for _, m := range []mesh.Mesh{
		{Stages: 1, Partitions: 1, Slices: 2},
		{Stages: 1, Partitions: 1, Slices: 3},
		{Stages: 1, Partitions: 1, Slices: 7},
		{Stages: 1, Partitions: 2, Slices: 2},
	} {
		t.Run(paralleltest.Name(m), func(t *testing.T) {
			t.Parallel()
			paralleltest.Propagators(t, m, newSlice, "AggregateLinear", "Propagate", "Attend", paralleltest.Columnwise)
		})
	}
}

// TestOrders: each order of work that is asked for is right, on either axis.
func TestOrders(t *testing.T) {
	for _, choice := range []order.Choice{order.TransformFirst, order.AggregateFirst} {
		t.Run(order.Names[choice], func(t *testing.T) {
			o := order.Options{Choice: choice}
			paralleltest.Propagators(t, mesh.Mesh{Stages: 1, Partitions: 1, Slices: 2}, func(c engine.Config) (engine.Axis, error) {
				return tensor.New(c.Team, c.Groups, c.Share, o, tensor.Options{})
			}, "AggregateLinear")
			paralleltest.Propagators(t, mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}, func(c engine.Config) (engine.Axis, error) {
				return sar.New(c.Team, c.Groups, c.Share, o, sar.Options{})
			}, "AggregateLinear")
		})
	}
}

var newSlice paralleltest.Axis = func(c engine.Config) (engine.Axis, error) {
	return tensor.New(c.Team, c.Groups, c.Share, c.Order, tensor.Options{})
}
