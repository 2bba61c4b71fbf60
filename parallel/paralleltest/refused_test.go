package paralleltest

import (
	"strings"
	"sync"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
)

// TestMessagesRefused: every worker refuses the same message functions with the same error, before it sends
// anything. The tensor axis names a mesh of as many workers that can compute them.
func TestMessagesRefused(t *testing.T) {
	g := Small(t, false, false)
	messages := func(columns int, columnwise bool) func(x *autograd.Var) gnn.Message {
		return func(x *autograd.Var) gnn.Message {
			return gnn.Message{
				Source: x, Columns: columns, Columnwise: columnwise,
				Function: func(e gnn.Edges) *autograd.Var { return e.Source },
			}
		}
	}
	for _, c := range []struct {
		mesh    mesh.Mesh
		message func(x *autograd.Var) gnn.Message
		want    string
	}{
		{
			mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1},
			messages(3, true),
			"messages of 3 columns and sources of 4",
		},
		{
			mesh.Mesh{Stages: 1, Partitions: 1, Slices: 2},
			messages(3, true),
			"messages of 3 columns and sources of 4",
		},
		{
			mesh.Mesh{Stages: 1, Partitions: 1, Slices: 3},
			messages(5, true),
			"messages of 5 columns and sources of 4",
		},
		{mesh.Mesh{Stages: 1, Partitions: 1, Slices: 2}, messages(4, false), "take parallel graph=2"},
		{mesh.Mesh{Stages: 1, Partitions: 2, Slices: 3}, messages(4, false), "take parallel graph=6"},
	} {
		var mu sync.Mutex
		refused := 0
		w := Workers{Mesh: c.mesh, Graph: g, Of: Dividings(g.Vertices(), c.mesh.Partitions)["in turn"]}
		w.Run(t, func(e engine.Config) {
			axis := newSlice
			if c.mesh.Slices == 1 {
				axis = newPartition
			}
			a, err := axis(e)
			exchange.Must(err)
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				f, is := recover().(exchange.Failure)
				if !is || !strings.HasPrefix(f.Error(), "convs.1: ") || !strings.Contains(f.Error(), c.want) {
					t.Errorf("%s: %v, want %q", Name(c.mesh), f, c.want)
					return
				}
				refused++
			}()
			x := autograd.NewTape(e.Team).Constant(e.Team.Zeros(tensor.Features, a.Rows().Here, 4), a.Rows())
			a.Propagator("convs.1", Stored).Message(c.message(x))
		})
		if refused != c.mesh.Workers() {
			t.Errorf("%s: %d workers refuse", Name(c.mesh), refused)
		}
	}
}

// TestEdgeFeaturesRefused: attention refuses edges without as many features as it is asked to use, such as
// reversed ones.
func TestEdgeFeaturesRefused(t *testing.T) {
	g := Small(t, false, false)
	for _, along := range []gnn.Along{Stored, Reversed} {
		for _, m := range []mesh.Mesh{
			{Stages: 1, Partitions: 2, Slices: 1},
			{Stages: 1, Partitions: 1, Slices: 2},
		} {
			w := Workers{Mesh: m, Graph: g, Of: Dividings(g.Vertices(), m.Partitions)["in turn"]}
			w.Run(t, func(e engine.Config) {
				axis := newSlice
				if m.Slices == 1 {
					axis = newPartition
				}
				a, err := axis(e)
				exchange.Must(err)
				defer func() {
					const want = "convs.1: attention is asked to use 7 features of each edge"
					if f, is := recover().(exchange.Failure); !is || !strings.HasPrefix(f.Error(), want) {
						t.Errorf("%s: %v, want %q", Name(m), f, want)
					}
				}()
				tape := autograd.NewTape(e.Team)
				rows := func() *autograd.Var {
					return tape.Constant(e.Team.Zeros(tensor.Features, a.Rows().Here, 4), a.Rows())
				}
				weight := tape.Constant(e.Team.Zeros(tensor.Features, 7, 4), nil)
				a.Propagator("convs.1", along).Attend(gnn.Attention{
					Source: rows(), Key: rows(),
					Target: rows(), EdgeWeight: weight, Heads: 2,
				}, gnn.Once)
			})
		}
	}
}

var newPartition Axis = func(c engine.Config) (engine.Axis, error) {
	return sar.New(c.Env, axis.Options{})
}
