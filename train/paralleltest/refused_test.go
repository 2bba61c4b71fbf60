package paralleltest

import (
	"strings"
	"sync/atomic"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
)

// TestMessagesRefused: every worker refuses the same message functions with the same error, before it sends
// anything.
func TestMessagesRefused(t *testing.T) {
	g := Small(t, false, false)
	messages := func(columns int) func(x *autograd.Var) gnn.Message {
		return func(x *autograd.Var) gnn.Message {
			return gnn.Message{
				Source: x, Columns: columns, Columnwise: true,
				Function: func(e gnn.Edges) *autograd.Var { return e.Source },
			}
		}
	}
	for _, c := range []struct {
		mesh    mesh.Mesh
		message func(x *autograd.Var) gnn.Message
		want    string
	}{
		{Grid(1, 2, 1), messages(3), "messages of 3 columns and sources of 4"},
		{Grid(1, 1, 2), messages(3), "messages of 3 columns and sources of 4"},
		{Grid(1, 1, 3), messages(5), "messages of 5 columns and sources of 4"},
	} {
		eachRefuses(t, c.mesh, g, c.want, func(a engine.Axis, tape *autograd.Tape) {
			x := tape.Constant(tape.Team.Zeros(tensor.Features, a.Rows().Here, 4), a.Rows())
			a.Propagator("convs.1", Stored).Message(c.message(x))
		})
	}
}

// eachRefuses fails unless do ends on each worker with the same failure of convs.1.
func eachRefuses(t *testing.T, m mesh.Mesh, g *graph.Graph, want string,
	do func(a engine.Axis, tape *autograd.Tape),
) {
	t.Helper()
	var refused atomic.Int64
	w := Workers{Mesh: m, Graph: g, Owners: Dividings(g.Vertices(), m.Partitions)["in turn"]}
	w.Run(t, func(e engine.Config) {
		axis := newSlice
		if m.Slices == 1 {
			axis = newPartition
		}
		a, err := axis(e)
		exchange.Must(err)
		f, is := panicOf(func() { do(a, autograd.NewTape(e.Team)) }).(exchange.Failure)
		if !is || !strings.HasPrefix(f.Error(), "convs.1: ") || !strings.Contains(f.Error(), want) {
			t.Errorf("%s: %v, want %q", Name(m), f, want)
			return
		}
		refused.Add(1)
	})
	if int(refused.Load()) != m.Workers() {
		t.Errorf("%s: %d workers refuse", Name(m), refused.Load())
	}
}

// TestEdgeFeaturesRefused: attention refuses edges without as many features as it is asked to use, such as
// reversed ones.
func TestEdgeFeaturesRefused(t *testing.T) {
	g := Small(t, false, false)
	for _, c := range []struct {
		along    gnn.Along
		loops    gnn.Loops
		features int
		want     string
	}{
		{Stored, gnn.StoredLoops, 7, "attention is asked to use 7 features of each edge"},
		{Reversed, gnn.StoredLoops, 7, "attention is asked to use 7 features of each edge"},
		{Stored, gnn.AddedLoops, edgeColumns, "no features for loops beside the stored ones"},
	} {
		for _, m := range []mesh.Mesh{Grid(1, 2, 1), Grid(1, 1, 2)} {
			eachRefuses(t, m, g, c.want, func(a engine.Axis, tape *autograd.Tape) {
				constant := func(rows int, set *autograd.RowSet) *autograd.Var {
					return tape.Constant(tape.Team.Zeros(tensor.Features, rows, 4), set)
				}
				rows := func() *autograd.Var { return constant(a.Rows().Here, a.Rows()) }
				a.Propagator("convs.1", c.along).Attend(gnn.Attention{
					Source: rows(), Key: rows(), Target: rows(), EdgeWeight: constant(c.features, nil),
					Heads: 2, Loops: c.loops,
				}, gnn.Once)
			})
		}
	}
}

var newPartition Axis = func(c engine.Config) (engine.Axis, error) {
	return sar.New(c.Env, axis.Options{})
}
