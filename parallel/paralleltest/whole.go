// Package paralleltest is what every way of dividing the work must do, and what its tests need:
// propagators.go holds an axis's Propagators to the layers of layers.go, whose values exact.go has in double
// precision. In its tests, runs_test.go holds whole runs to what one worker computes, definition_test.go is
// the training pass of a pipeline by its definition, and chunklayers_test.go holds the Propagators of chunks
// to that of each layer.
package paralleltest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// Whole is all of a graph of these edges on one worker.
func Whole(t testing.TB, team *kernel.Team, r *graph.Relation) *sar.Partition {
	t.Helper()
	g, err := sar.New(team, mesh.One.Join(comm.Alone()), partition.All(&graph.Graph{Relations: []graph.Relation{*r}}), order.Options{}, sar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Workers are those of a mesh, in this process.
type Workers struct {
	Mesh  mesh.Mesh
	Graph *graph.Graph
	Of    []int32 // each vertex's partition
	// Holders are who holds which partition, in place of those of the mesh; nil: not.
	Holders []int
	// Wrap, unless nil, puts something around each worker's transport.
	Wrap func(comm.Transport) comm.Transport
}

// Run runs f on every worker, which is given its team, mesh, groups and share. It fails where one of them
// panics, and ends the others.
func (w Workers) Run(t testing.TB, f func(c engine.Config)) {
	t.Helper()
	for rank, outcome := range w.Outcomes(t, f) {
		if outcome != nil {
			t.Errorf("worker %d: %v", rank, outcome)
		}
	}
}

// Outcomes is Run for workers of which some may panic: it returns what each panicked with, nil where one did
// not. Nothing uses a worker's memory after its end: that would be a fault.
func (w Workers) Outcomes(t testing.TB, f func(c engine.Config)) []any {
	t.Helper()
	shares := []*partition.Share{partition.All(w.Graph)}
	if k := w.Mesh.Partitions; k > 1 {
		var err error
		if shares, err = partition.Split(w.Graph, &partition.Assignment{K: k, Of: w.Of}); err != nil {
			t.Fatal(err)
		}
	}
	ends, meters := comm.InProcess(w.Mesh.Workers()), make([]*tensor.Meter, w.Mesh.Workers())
	outcomes := make([]any, len(ends))
	var all sync.WaitGroup
	for rank, end := range ends {
		meters[rank] = tensor.NewMeter()
		all.Go(func() {
			if w.Wrap != nil {
				end = w.Wrap(end)
			}
			world := comm.New(end, 0)
			defer func() {
				if outcomes[rank] = recover(); outcomes[rank] != nil {
					world.Abort(fmt.Errorf("worker %d: %v", rank, outcomes[rank]))
				}
			}()
			groups := w.Mesh.Join(world)
			if w.Holders != nil {
				groups.Holders = w.Holders
			}
			held := slices.Index(groups.Holders, groups.Halo.Rank())
			f(engine.Config{Team: kernel.NewTeam(1+rank%2, meters[rank]), Groups: groups, Share: shares[held]})
		})
	}
	all.Wait()
	for _, m := range meters {
		m.Close()
	}
	return outcomes
}
