package edges

import (
	"math/rand/v2"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// TestFeatureRows: each entry of the transposed block finds the features of its edge, and equal edges have
// the same order in both. A block that is its own transpose has a list as well.
func TestFeatureRows(t *testing.T) {
	const vertices = 12
	r := rand.New(rand.NewPCG(5, 1))
	for _, symmetric := range []bool{false, true} {
		var list graph.Edges
		for range 60 {
			u, v := r.Int32N(vertices), r.Int32N(vertices)
			list.Source, list.Target = append(list.Source, u), append(list.Target, v)
			if symmetric {
				list.Source, list.Target = append(list.Source, v), append(list.Target, u)
			}
		}
		list.FeatureColumns = 1
		for k := range list.Source {
			list.Features = append(list.Features, float32(k))
		}
		relation, err := graph.NewRelation(vertices, list)
		require.NoError(t, err)
		mem := tensor.NewMeter()
		defer mem.Close()
		team := kernel.NewTeam(1, mem)
		e, err := New(team, comm.Alone(), Source{
			Relation: &relation, Starts: []int{0, vertices},
			Holders: []int{0},
		})
		require.NoError(t, err)
		b := e.Local()
		if (b.Out == b.In) != symmetric {
			t.Fatalf("symmetric %t: a block of its own transpose: %t", symmetric, b.Out == b.In)
		}
		rows, err := b.FeatureRows(team)
		require.NoError(t, err)
		in, out := b.In.Indptr.Int64s(), b.Out.Indptr.Int64s()
		for u := range vertices {
			last := -1
			for k := out[u]; k < out[u+1]; k++ {
				v, row := int(b.Out.Indices.Int32s()[k]), int(rows.Int32s()[k])
				edge := int(b.Features.Floats()[row])
				if int64(row) < in[v] || int64(row) >= in[v+1] || int(list.Source[edge]) != u ||
					int(list.Target[edge]) != v || row <= last {
					t.Errorf("symmetric %t: entry %d, %d→%d, has the features of edge %d, %d→%d", symmetric,
						k, u, v, edge, list.Source[edge], list.Target[edge])
				}
				last = row
			}
		}
	}
}
