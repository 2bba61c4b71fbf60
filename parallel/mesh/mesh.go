// Package mesh arranges the workers of a run in a grid: pipeline stages × graph partitions × tensor slices. A
// worker's place in the grid says what it computes. The groups to which it belongs say with whom it
// communicates. Several groups of workers may each be such a grid: they hold the same graph and the same
// parameters, and take different samples. Package setting reads the mesh of --parallel, and a worker joins
// it.
package mesh

import (
	"fmt"

	"weft/comm"
)

// Mesh is the size of the grid. Each number is at least 1; an axis of size 1 divides nothing.
type Mesh struct {
	Stages     int // runs of consecutive layers (pipeline=N)
	Partitions int // parts of the vertices (graph=N)
	Slices     int // parts of the feature columns (tensor=N)
}

// MaxWorkers is the largest number of workers of a mesh. A run's report has an entry for each worker, and
// partition.MaxPartitions is the same number.
const MaxWorkers = 1024

// One is the mesh of a single worker.
var One = Mesh{1, 1, 1}

// Workers returns the number of places.
func (m Mesh) Workers() int { return m.Stages * m.Partitions * m.Slices }

// Coords is a worker's position in the grid; each number counts from 0.
type Coords struct{ Stage, Partition, Slice int }

// Coords returns the place of a rank: rank = (stage·Partitions + partition)·Slices + slice. The slices of a
// partition, which exchange most, have consecutive ranks, and so have the partitions of a stage. A launcher
// that fills one machine after the other keeps them together.
func (m Mesh) Coords(rank int) Coords {
	if rank < 0 || rank >= m.Workers() {
		panic(fmt.Sprintf("mesh: rank %d of %d", rank, m.Workers()))
	}
	return Coords{rank / (m.Partitions * m.Slices), rank / m.Slices % m.Partitions, rank % m.Slices}
}

// Rank returns the rank at a place.
func (m Mesh) Rank(p Coords) int { return (p.Stage*m.Partitions+p.Partition)*m.Slices + p.Slice }

// Groups are the groups to which a worker belongs, with the mesh and the worker's place. The members of a
// group are in the order of their places along its axis. Along an axis of size 1 the worker is alone in the
// group.
type Groups struct {
	Mesh Mesh
	Coords
	Slices   *comm.Comm // the same stage and partition: they hold the columns of the same rows
	Halo     *comm.Comm // the same stage and slice: they hold other partitions' rows of the same columns
	Stages   *comm.Comm // the same partition and slice: each sends rows to the next
	Replicas *comm.Comm // the same stage, by partition and then slice: they hold the same parameters
	World    *comm.Comm // all workers of the mesh: for set-up, and for the end of an epoch
	Samples             // the groups that take different samples
	Common   *comm.Comm // the workers of Slices that share the edges; nil: none do, as after Join
	Holders  []int      // for each partition, the rank in Halo of the worker that holds it
}

// Samples are the groups of workers that hold the same graph, and take different samples. Each group is a
// mesh by itself.
type Samples struct {
	Group    int        // the number of this worker's group
	All      *comm.Comm // all workers of all groups, one group after the other
	Alike    *comm.Comm // the same place in each group, with the same rows
	Learners *comm.Comm // the Replicas of all groups: gradients are summed over them
}

// Join makes the groups of this rank of all. all has a rank for each place of one mesh, or of several meshes
// one after the other. It sends no message.
func (m Mesh) Join(all *comm.Comm) Groups {
	n := m.Workers()
	groups, group := all.Size()/n, all.Rank()/n
	if groups*n != all.Size() {
		panic(fmt.Sprintf("mesh: %d workers for %d places", all.Size(), n))
	}
	at, world := m.Coords(all.Rank()%n), all
	if groups > 1 {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = group*n + i
		}
		world = all.Group(ranks...)
	}
	along := func(n int, place func(i int) Coords) *comm.Comm {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = m.Rank(place(i))
		}
		return world.Group(ranks...)
	}
	g := Groups{
		Mesh:   m,
		Coords: at,
		Slices: along(m.Slices, func(i int) Coords { return Coords{at.Stage, at.Partition, i} }),
		Halo:   along(m.Partitions, func(i int) Coords { return Coords{at.Stage, i, at.Slice} }),
		Stages: along(m.Stages, func(i int) Coords { return Coords{i, at.Partition, at.Slice} }),
		Replicas: along(m.Partitions*m.Slices, func(i int) Coords {
			return Coords{at.Stage, i / m.Slices, i % m.Slices}
		}),
		World:   world,
		Samples: Samples{Group: group, All: all, Alike: comm.Alone()},
	}
	if g.Learners = g.Replicas; groups > 1 {
		replicas := make([]int, m.Partitions*m.Slices)
		for i := range replicas {
			replicas[i] = at.Stage*len(replicas) + i
		}
		g.Alike, g.Learners = across(all, groups, n, []int{world.Rank()}), across(all, groups, n, replicas)
	}
	for p := range m.Partitions {
		g.Holders = append(g.Holders, p)
	}
	return g
}

// across is the group of the same ranks in each of several groups, which are meshes of n workers.
func across(all *comm.Comm, groups, n int, ranks []int) *comm.Comm {
	var members []int
	for group := range groups {
		for _, rank := range ranks {
			members = append(members, group*n+rank)
		}
	}
	return all.Group(members...)
}
