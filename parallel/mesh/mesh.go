// Package mesh arranges the workers of a run in a grid: pipeline stages × graph partitions × tensor slices. A
// worker's place in the grid says what it computes. The groups that it belongs to say with whom it
// communicates.
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

// Place is a worker's position in the grid; each number counts from 0.
type Place struct{ Stage, Partition, Slice int }

// Place returns the place of a rank: rank = (stage·Partitions + partition)·Slices + slice. So the slices of a
// partition, which exchange most, have consecutive ranks, and so do the partitions of a stage. A launcher
// that fills one machine after the other keeps them together.
func (m Mesh) Place(rank int) Place {
	if rank < 0 || rank >= m.Workers() {
		panic(fmt.Sprintf("mesh: rank %d of %d", rank, m.Workers()))
	}
	return Place{rank / (m.Partitions * m.Slices), rank / m.Slices % m.Partitions, rank % m.Slices}
}

// Rank returns the rank at a place.
func (m Mesh) Rank(p Place) int { return (p.Stage*m.Partitions+p.Partition)*m.Slices + p.Slice }

// Groups are the groups of workers that a worker belongs to, with the mesh and the worker's place. The
// members of a group are in the order of their places along its axis. Along an axis of size 1 the worker is
// alone in the group.
type Groups struct {
	Mesh Mesh
	Place
	Slices   *comm.Comm // the same stage and partition: they hold the columns of the same rows
	Halo     *comm.Comm // the same stage and slice: they hold other partitions' rows of the same columns
	Stages   *comm.Comm // the same partition and slice: each sends rows to the next
	Replicas *comm.Comm // the same stage, by partition and then slice: they hold the same parameters
	World    *comm.Comm // all workers: for set-up, and for the end of an epoch
	Common   *comm.Comm // of Slices, those that have the edges in common; nil: none have, as after Join
	Holders  []int      // for each partition, the rank in Halo of the worker that holds it
}

// Join makes the groups of this rank of world, which must have a rank for each place. It sends no message.
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
