package chunked

import (
	"fmt"
	"slices"
	"sync"

	"pgregory.net/rapid"

	"weft/comm"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
)

// divided is a graph divided among replicas, with each replica's vertices in chunks.
type divided struct {
	graph    *graph.Graph
	replicas int
	part     []int32 // the partition of each vertex
	chunk    []int32 // the chunk of each vertex
	count    int     // of chunks
	options  axis.Options
}

// readsAll is a graph in which each vertex reads every other one, in these partitions and chunks.
func readsAll(t rapid.TB, part, chunk []int32, o axis.Options) *divided {
	vertices := int32(len(part))
	return &divided{
		graph: graphOf(t, len(part), complete(vertices)), replicas: 1 + int(slices.Max(part)), part: part,
		chunk: chunk, count: 1 + int(slices.Max(chunk)), options: o,
	}
}

// edge is a directed edge: v aggregates u.
type edge struct{ u, v int32 }

// graphOf is a graph of these edges.
func graphOf(t rapid.TB, vertices int, list []edge) *graph.Graph {
	var e graph.Edges
	for _, pair := range list {
		e.Source, e.Target = append(e.Source, pair.u), append(e.Target, pair.v)
	}
	r, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	return graph.Of(r)
}

// inPartitions puts a number for each vertex into the order of the partitions.
func (d *divided) inPartitions(numbers []int32) (list []int32) {
	for p := range int32(d.replicas) {
		for v, x := range numbers {
			if d.part[v] == p {
				list = append(list, x)
			}
		}
	}
	return list
}

// run runs do on every replica of a stage, and fails if one panics.
func (d *divided) run(t rapid.TB, do func(me int, team *kernel.Team, g *Graph)) {
	shares := []*partition.Share{partition.All(d.graph)}
	if d.replicas > 1 {
		var err error
		if shares, err = partition.Split(d.graph,
			&partition.Assignment{K: d.replicas, Parts: d.part}); err != nil {
			t.Fatal(err)
		}
	}
	division := Division{d.inPartitions(d.chunk), d.count}
	outcomes, memories := make([]any, d.replicas), make([]*tensor.Meter, d.replicas)
	var all sync.WaitGroup
	for me, end := range comm.InProcess(d.replicas) {
		memories[me] = tensor.NewMeter()
		all.Go(func() {
			world := comm.New(end, 0)
			defer func() {
				if outcomes[me] = recover(); outcomes[me] != nil {
					world.Abort(fmt.Errorf("replica %d: %v", me, outcomes[me]))
				}
			}()
			team := kernel.NewTeam(1, memories[me])
			grid := mesh.Mesh{Stages: 1, Partitions: d.replicas, Slices: 1}
			g, err := New(axis.Env{Team: team, Groups: grid.Join(world), Share: shares[me]},
				d.options, division)
			exchange.Must(err)
			do(me, team, g)
		})
	}
	all.Wait()
	for me, outcome := range outcomes {
		if memories[me].Close(); outcome != nil {
			t.Errorf("replica %d: %v", me, outcome)
		}
	}
}

// drawn is a small random directed graph, with a vertex that many read, one that reads many, duplicate edges,
// self loops and isolated vertices. Chunks and partitions may be empty.
func drawn(t *rapid.T) (*divided, []edge) {
	vertices := rapid.IntRange(1, 12).Draw(t, "vertices")
	vertex := rapid.Int32Range(0, int32(vertices-1))
	ends := rapid.SliceOfN(vertex, 0, 40).Draw(t, "ends")
	var list []edge
	for k := 0; k+1 < len(ends); k += 2 {
		list = append(list, edge{ends[k], ends[k+1]})
	}
	for v := range int32(vertices) / 2 {
		list = append(list, edge{0, v}, edge{v, int32(vertices - 1)})
	}
	d := &divided{replicas: rapid.IntRange(1, 3).Draw(t, "replicas")}
	d.count = rapid.IntRange(1, 4).Draw(t, "chunks")
	d.options = axis.Options{HistoryPeriod: rapid.IntRange(1, 3).Draw(t, "period")}
	d.part = rapid.SliceOfN(rapid.Int32Range(0, int32(d.replicas-1)), vertices, vertices).Draw(t, "partition")
	d.chunk = rapid.SliceOfN(rapid.Int32Range(0, int32(d.count-1)), vertices, vertices).Draw(t, "chunk")
	return d, list
}
