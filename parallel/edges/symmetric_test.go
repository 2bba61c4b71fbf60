package edges

import (
	"slices"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// TestSymmetricBlocks: a local block that equals its transpose is held once, in a plan too. A block is held
// in both directions if an edge, a multiplicity or a weight differs.
func TestSymmetricBlocks(t *testing.T) {
	type edge struct {
		source, target int32
		weight         float32
	}
	both := []edge{{0, 1, 2}, {1, 0, 2}, {3, 1, .5}, {1, 3, .5}, {2, 2, 7}, {2, 3, 1}, {3, 2, 1}}
	for _, c := range []struct {
		name string
		list []edge
		once bool
	}{
		{"nothing", nil, true},
		{"both directions", both, true},
		{"duplicates", append(slices.Clone(both), edge{0, 1, 3}, edge{1, 0, 3}), true},
		{"loops alone", []edge{{1, 1, 1}, {1, 1, 2}}, true},
		{"one direction", append(slices.Clone(both), edge{0, 3, 1}), false},
		{"the other direction", append(slices.Clone(both), edge{3, 0, 1}), false},
		{"a duplicate one way", append(slices.Clone(both), edge{0, 1, 2}), false},
		{"another weight", append(slices.Clone(both[2:]), edge{0, 1, 2}, edge{1, 0, 3}), false},
		{"duplicates of exchanged weights", append(slices.Clone(both[2:]), edge{0, 1, 2}, edge{0, 1, 3},
			edge{1, 0, 3}, edge{1, 0, 2}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			const vertices = 4
			var list graph.Edges
			for _, e := range c.list {
				list.Source, list.Target, list.Weights = append(list.Source, e.source),
					append(list.Target, e.target), append(list.Weights, e.weight)
			}
			if len(c.list) == 0 {
				list.Weights = []float32{}
			}
			r, err := graph.NewRelation(vertices, list)
			require.NoError(t, err)
			bytes := map[bool]int64{}
			for _, plans := range []bool{false, true} {
				mem := tensor.NewMeter()
				defer mem.Close()
				team := kernel.NewTeam(1, mem)
				if plans {
					team = kernel.NewPlan(1, mem)
				}
				e, err := New(team, comm.Alone(),
					Source{Relation: &r, Starts: []int{0, vertices}, Holders: []int{0}})
				require.NoError(t, err)
				bytes[plans] = mem.Live(tensor.Graph)
				b := e.Local()
				if once := b.Out == b.In; once != c.once {
					t.Errorf("plans: %v; held once: %v, want %v", plans, once, c.once)
				}
				if plans {
					continue
				}
				want := team.Transpose(b.In, tensor.Graph)
				if !slices.Equal(b.Out.Indptr.Int64s(), want.Indptr.Int64s()) ||
					!slices.Equal(b.Out.Indices.Int32s(), want.Indices.Int32s()) ||
					!slices.Equal(b.Out.Values.Floats(), want.Values.Floats()) {
					t.Errorf("%v %v %v is not the transpose", b.Out.Indptr.Int64s(), b.Out.Indices.Int32s(),
						b.Out.Values.Floats())
				}
			}
			if bytes[false] != bytes[true] {
				t.Errorf("%d bytes, planned %d", bytes[false], bytes[true])
			}
		})
	}
}

// TestKnownSymmetry: edges that are known to be symmetric are not looked at, unless they have weights.
func TestKnownSymmetry(t *testing.T) {
	for _, weights := range [][]float32{nil, {1}} {
		r, err := graph.NewRelation(2, graph.Edges{Source: []int32{0}, Target: []int32{1}, Weights: weights})
		require.NoError(t, err)
		for _, known := range []bool{false, true} {
			mem := tensor.NewMeter()
			defer mem.Close()
			r.Symmetric = known
			e, err := New(kernel.NewTeam(1, mem), comm.Alone(),
				Source{Relation: &r, Starts: []int{0, 2}, Holders: []int{0}})
			require.NoError(t, err)
			if once := e.Local().Out == e.Local().In; once != (known && weights == nil) {
				t.Errorf("weights %v, known %v: held once %v", weights, known, once)
			}
		}
	}
}
