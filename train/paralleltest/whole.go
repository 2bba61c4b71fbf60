// Package paralleltest tests what every engine must do. propagators.go compares an axis's Propagators with
// the layers that layers.go lists, whose results exact.go computes in double precision.
//
// Among the package's own tests, runs_test.go compares whole runs with one worker. definition_test.go
// computes the training pass of a pipeline by its definition.
// chunklayers_test.go compares the Propagators of chunks with each layer's definition.
package paralleltest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/setting"
)

// Whole is the Partition of a whole graph on one worker.
func Whole(t testing.TB, team *kernel.Team, g *graph.Graph) *sar.Partition {
	t.Helper()
	p, err := sar.New(axis.Env{Team: team, Groups: mesh.One.Join(comm.Alone()), Share: partition.All(g)},
		axis.Options{})
	require.NoError(t, err)
	return p
}

// Grid is the mesh of so many stages, partitions and slices.
func Grid(stages, partitions, slices int) mesh.Mesh {
	return mesh.Mesh{Stages: stages, Partitions: partitions, Slices: slices}
}

// Workers are the workers of a mesh, in this process.
type Workers struct {
	Mesh   mesh.Mesh
	Graph  *graph.Graph
	Owners []int32 // each vertex's partition
	// Holders say who holds which partition, instead of the mesh. It may be nil.
	Holders []int
	// Storage is the element type in which the workers store values of vertices.
	Storage tensor.Element
	// Wrap, unless nil, wraps each worker's transport.
	Wrap func(comm.Transport) comm.Transport
}

// Run runs f on every worker, with its team, mesh, groups and share. If one panics, Run fails and ends the
// others.
func (w Workers) Run(t testing.TB, f func(c engine.Config)) {
	t.Helper()
	for rank, outcome := range w.Outcomes(t, f) {
		if outcome != nil {
			t.Errorf("worker %d: %v", rank, outcome)
		}
	}
}

// Outcomes runs workers of which some may panic. It returns what each worker panicked with, or nil.
// After its end nothing may use a worker's memory.
func (w Workers) Outcomes(t testing.TB, f func(c engine.Config)) []any {
	t.Helper()
	shares := []*partition.Share{partition.All(w.Graph)}
	if k := w.Mesh.Partitions; k > 1 {
		var err error
		if shares, err = partition.Split(w.Graph, &partition.Assignment{K: k, Parts: w.Owners}); err != nil {
			t.Fatal(err)
		}
	}
	ends := comm.InProcess(w.Mesh.Workers())
	meters := make([]*tensor.Meter, w.Mesh.Workers())
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
				outcomes[rank] = recover()
				if outcomes[rank] != nil {
					world.Abort(fmt.Errorf("worker %d: %v", rank, outcomes[rank]))
				}
			}()
			groups := w.Mesh.Join(world)
			if w.Holders != nil {
				groups.Holders = w.Holders
			}
			index := slices.Index(groups.Holders, groups.Halo.Rank())
			team := kerneltest.Team(t, 1+rank%2, meters[rank])
			team.Storage = w.Storage
			f(engine.Config{
				Env:      axis.Env{Team: team, Groups: groups, Share: shares[index]},
				Resolved: &setting.Resolved{},
			})
		})
	}
	all.Wait()
	for _, m := range meters {
		m.Close()
	}
	return outcomes
}
