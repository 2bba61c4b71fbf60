package mfg

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
)

// TestRows compares the rows of each layer, on any partitions, with a search that follows single edges, and
// the needs with counts of those.
func TestRows(t *testing.T) {
	const vertices, edges = 60, 90
	in, out := gnn.Along{Relation: graph.RelationName},
		gnn.Along{Relation: graph.RelationName, Reversed: true}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var e graph.Edges
		for range edges {
			e.Source, e.Target = append(e.Source, r.Int32N(vertices)), append(e.Target, r.Int32N(vertices))
		}
		relation, err := graph.NewRelation(vertices, e)
		require.NoError(t, err)
		g := graph.Of(relation)
		blocks := []Reach{
			{Rounds: 1},
			{Along: []gnn.Along{in}, Rounds: 1},
			{Along: []gnn.Along{in, out}, Rounds: 1},
			{Rounds: 1},
			{Along: []gnn.Along{out}, Rounds: 3},
		}
		wanted := []int32{r.Int32N(vertices), r.Int32N(vertices)}
		want, needs := search(e, blocks, wanted)
		for k := 1; k <= 4; k++ {
			got := make([][]int32, len(blocks))
			parts := make([]int32, vertices)
			for v := range parts {
				parts[v] = r.Int32N(int32(k))
			}
			shares := []*partition.Share{partition.All(g)}
			if k > 1 {
				if shares, err = partition.Split(g, &partition.Assignment{K: k, Parts: parts}); err != nil {
					t.Fatal(err)
				}
			}
			all := make([][]*Layer, k)
			err := launch.Workers(k, 0, func(c *comm.Comm) error {
				mem := tensor.NewMeter()
				defer mem.Close()
				s := shares[c.Rank()]
				var rows []int32
				for row := range s.Types[0].Count {
					if slices.Contains(wanted, s.Types[0].ID(row)) {
						rows = append(rows, int32(row))
					}
				}
				groups := mesh.Mesh{Stages: 1, Partitions: k, Slices: 1}.Join(c)
				layers, told, err := New(axis.Env{Team: kernel.NewTeam(1, mem), Groups: groups, Share: s},
					axis.Options{}, blocks, Wanted{Rows: [][]int32{rows}})
				all[c.Rank()] = layers
				if err == nil && !slices.Equal(told, needs) {
					err = fmt.Errorf("needs %v, want %v", told, needs)
				}
				return err
			})
			if err != nil {
				t.Fatalf("seed %d, %d partitions: %v", seed, k, err)
			}
			for p, layers := range all {
				for i, l := range layers[:len(blocks)] {
					for _, row := range l.Rows[0] {
						got[i] = append(got[i], shares[p].Types[0].ID(int(row)))
					}
				}
			}
			for i := range got {
				slices.Sort(got[i])
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("seed %d, %d partitions: layer %d has rows %v, want %v", seed, k,
						i, got[i], want[i])
				}
			}
		}
	}
}

// search finds the rows before each block, ascending, and counts what the block needs.
func search(e graph.Edges, blocks []Reach, wanted []int32) (rows [][]int32, needs []Need) {
	rows, needs = make([][]int32, len(blocks)), make([]Need, len(blocks))
	set := map[int32]bool{}
	for _, v := range wanted {
		set[v] = true
	}
	for i, b := range slices.Backward(blocks) {
		for range b.Rounds {
			next := map[int32]bool{}
			for v := range set {
				next[v] = true
			}
			needs[i].Edges = 0
			for _, a := range b.Along {
				for k := range e.Source {
					u, v := e.Source[k], e.Target[k]
					if a.Reversed {
						u, v = v, u
					}
					if set[v] {
						next[u] = true
						needs[i].Edges++
					}
				}
			}
			set = next
		}
		for v := range set {
			rows[i] = append(rows[i], v)
		}
		slices.Sort(rows[i])
		needs[i].Vertices = int64(len(set))
	}
	return rows, needs
}

// TestReachOfAll: blocks share a layer once the rows no longer grow.
func TestReachOfAll(t *testing.T) {
	const vertices, blocks = 10, 40
	var e graph.Edges // a ring
	for v := range int32(vertices) {
		e.Source, e.Target = append(e.Source, v), append(e.Target, (v+1)%vertices)
	}
	relation, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	mem := tensor.NewMeter()
	defer mem.Close()
	reaches := slices.Repeat([]Reach{{Along: []gnn.Along{{Relation: graph.RelationName}}, Rounds: 1}}, blocks)
	s := partition.All(graph.Of(relation))
	layers, _, err := New(axis.Env{
		Team: kernel.NewTeam(1, mem), Groups: mesh.One.Join(comm.Alone()),
		Share: s,
	}, axis.Options{}, reaches, Wanted{Rows: [][]int32{{0}}})
	require.NoError(t, err)
	if n := len(slices.Compact(layers[:blocks])); n != vertices {
		t.Errorf("%d layers, want %d: one for each step around the ring, of which the last stays", n,
			vertices)
	}
}
