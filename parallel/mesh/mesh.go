// Package mesh arranges the workers of a run in a grid: pipeline stages × graph partitions × tensor slices.
// What a worker computes follows from its place in the grid, and whom it talks to from the groups that it
// belongs to.
package mesh

import (
	"fmt"

	"weft/comm"
)

// Mesh is the size of the grid. Each number is at least 1; an axis of 1 divides nothing.
type Mesh struct {
	Stages     int // runs of consecutive layers (pipeline=N)
	Partitions int // parts of the vertices (graph=N)
	Slices     int // parts of the feature columns (tensor=N)
}

// MaxWorkers is how many places a mesh may have: what a run reports has an entry for each, and the partitions
// of a graph are no more (partition.MaxPartitions).
const MaxWorkers = 1024

// One is the mesh of a single worker.
var One = Mesh{1, 1, 1}

// Workers is the number of places.
func (m Mesh) Workers() int { return m.Stages * m.Partitions * m.Slices }

// Place is where a worker stands; each number counts from 0.
type Place struct{ Stage, Partition, Slice int }

// Place is that of a rank: rank = (stage·Partitions + partition)·Slices + slice. So the slices of a
// partition, which exchange most, are neighbours, and then the partitions of a stage: a launcher that fills
// one machine after the other keeps them together.
func (m Mesh) Place(rank int) Place {
	if rank < 0 || rank >= m.Workers() {
		panic(fmt.Sprintf("mesh: rank %d of %d", rank, m.Workers()))
	}
	return Place{rank / (m.Partitions * m.Slices), rank / m.Slices % m.Partitions, rank % m.Slices}
}

// Rank is the rank at a place.
func (m Mesh) Rank(p Place) int { return (p.Stage*m.Partitions+p.Partition)*m.Slices + p.Slice }

// Groups are the mesh, a worker's place in it and the groups that it belongs to, in the order of their
// members' place along the axis. Along an axis of 1 the worker is alone in the group.
type Groups struct {
	Mesh Mesh
	Place
	Slices   *comm.Comm // the same stage and partition: they hold the columns of the same rows
	Halo     *comm.Comm // the same stage and slice: they hold the rows of the same columns
	Stages   *comm.Comm // the same partition and slice: rows pass from each to the next
	Replicas *comm.Comm // the same stage, by partition and then slice: they hold the same parameters
	World    *comm.Comm // all workers: for set-up, and for the end of an epoch
	Holders  []int      // for each partition the rank in Halo that holds it
}

// Join makes the groups of this rank of world, which has a rank for each place. No message is sent.
func (m Mesh) Join(world *comm.Comm) Groups {
	if world.Size() != m.Workers() {
		panic(fmt.Sprintf("mesh: %d workers for %d places", world.Size(), m.Workers()))
	}
	at := m.Place(world.Rank())
	along := func(n int, place func(i int) Place) *comm.Comm {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = m.Rank(place(i))
		}
		return world.Group(ranks...)
	}
	g := Groups{
		Mesh:   m,
		Place:  at,
		Slices: along(m.Slices, func(i int) Place { return Place{at.Stage, at.Partition, i} }),
		Halo:   along(m.Partitions, func(i int) Place { return Place{at.Stage, i, at.Slice} }),
		Stages: along(m.Stages, func(i int) Place { return Place{i, at.Partition, at.Slice} }),
		Replicas: along(m.Partitions*m.Slices, func(i int) Place {
			return Place{at.Stage, i / m.Slices, i % m.Slices}
		}),
		World: world,
	}
	for p := range m.Partitions {
		g.Holders = append(g.Holders, p)
	}
	return g
}
