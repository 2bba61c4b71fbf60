package mesh_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/parallel/mesh"
)

var meshes = []mesh.Mesh{
	mesh.One,
	{1, 4, 1},
	{1, 1, 3},
	{4, 1, 1},
	{2, 3, 1},
	{1, 2, 2},
	{3, 1, 2},
	{2, 3, 2},
}

// TestPlaces: ranks and places are one to one, in the order of stage, partition, slice.
func TestPlaces(t *testing.T) {
	for _, m := range meshes {
		rank := 0
		for stage := range m.Stages {
			for partition := range m.Partitions {
				for slice := range m.Slices {
					p := mesh.Coords{Stage: stage, Partition: partition, Slice: slice}
					if m.Coords(rank) != p || m.Rank(p) != rank {
						t.Errorf("%+v: rank %d is at %+v, and %+v is rank %d", m, rank,
							m.Coords(rank), p, m.Rank(p))
					}
					rank++
				}
			}
		}
		if rank != m.Workers() {
			t.Errorf("%+v: %d places, %d workers", m, rank, m.Workers())
		}
	}
}

// TestGroups: the members of a group share what the group is for, they agree on its order, and what one sends
// in a group arrives in that group. Join sends no message. A plan, which has no other ranks, makes the same
// groups.
func TestGroups(t *testing.T) {
	for _, m := range meshes {
		var ranks sync.WaitGroup
		for r, transport := range comm.InProcess(m.Workers()) {
			ranks.Go(func() {
				world := comm.New(transport, 0)
				g := m.Join(world)
				if sent := world.Sent(comm.Setup); sent.Messages != 0 {
					t.Errorf("%+v: rank %d sent %d messages for its groups", m, r, sent.Messages)
				}
				plan := m.Join(comm.New(comm.Plan(t.Context(), r, m.Workers()), 0))
				for _, c := range []struct {
					name        string
					group, plan *comm.Comm
					size, rank  int
					same        func(p mesh.Coords) mesh.Coords // what its members have in common
				}{
					{
						"slices", g.Slices, plan.Slices, m.Slices, g.Slice,
						func(p mesh.Coords) mesh.Coords { p.Slice = 0; return p },
					},
					{
						"halo", g.Halo, plan.Halo, m.Partitions, g.Partition,
						func(p mesh.Coords) mesh.Coords { p.Partition = 0; return p },
					},
					{
						"stages", g.Stages, plan.Stages, m.Stages, g.Stage,
						func(p mesh.Coords) mesh.Coords { p.Stage = 0; return p },
					},
					{
						"replicas", g.Replicas, plan.Replicas, m.Partitions * m.Slices,
						g.Partition*m.Slices + g.Slice,
						func(p mesh.Coords) mesh.Coords { return mesh.Coords{Stage: p.Stage} },
					},
				} {
					what := fmt.Sprintf("%+v: %s of rank %d", m, c.name, r)
					if c.group.Size() != c.size || c.group.Rank() != c.rank ||
						c.plan.Size() != c.size || c.plan.Rank() != c.rank {
						t.Errorf("%s: place %d of %d, planned %d of %d, want %d of %d", what,
							c.group.Rank(), c.group.Size(),
							c.plan.Rank(), c.plan.Size(), c.rank, c.size)
					}
					members, err := comm.Gather(c.group, comm.Statistics, int64(r))
					if err != nil {
						t.Error(err)
						return
					}
					if !slices.IsSorted(members) || members[c.rank] != int64(r) {
						t.Errorf("%s: %v", what, members)
					}
					for p, holder := range g.Holders {
						if c.group == g.Halo && m.Coords(int(members[holder])).Partition != p {
							t.Errorf("%s: partition %d is held by rank %d", what, p, members[holder])
						}
					}
					for _, member := range members {
						if c.same(m.Coords(int(member))) != c.same(g.Coords) {
							t.Errorf("%s: rank %d is among %v", what, member, members)
						}
					}
				}
			})
		}
		ranks.Wait()
	}
}

// TestSamples: of several meshes one after the other each is a world by itself. Those at the same place of
// each are alike, and the replicas of all learn together, one mesh's after the other's.
func TestSamples(t *testing.T) {
	const groups = 3
	for _, m := range meshes {
		n := m.Workers()
		var ranks sync.WaitGroup
		for r, transport := range comm.InProcess(groups * n) {
			ranks.Go(func() {
				g := m.Join(comm.New(transport, 0))
				if g.Group != r/n || m.Rank(g.Coords) != r%n {
					t.Errorf("%+v: rank %d is at %+v of group %d", m, r, g.Coords, g.Group)
				}
				var alike, learners, world []int64
				for group := range groups {
					for local := range n {
						rank := int64(group*n + local)
						if group == g.Group {
							world = append(world, rank)
						}
						if m.Coords(local) == g.Coords {
							alike = append(alike, rank)
						}
						if m.Coords(local).Stage == g.Stage {
							learners = append(learners, rank)
						}
					}
				}
				for _, c := range []struct {
					name  string
					group *comm.Comm
					want  []int64
				}{{"world", g.World, world}, {"alike", g.Alike, alike}, {"learners", g.Learners, learners}} {
					members, err := comm.Gather(c.group, comm.Statistics, int64(r))
					if err != nil || !slices.Equal(members, c.want) {
						t.Errorf("%+v: %s of rank %d: %v, want %v; %v", m, c.name, r, members, c.want, err)
					}
				}
			})
		}
		ranks.Wait()
	}
}
