package tp_test

import (
	"slices"
	"testing"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/tp"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// sliced runs f on every worker of a graph in n slices, with so many aggregation chunks; 0: auto.
func sliced(t *testing.T, g *graph.Graph, n, chunks int, wrap func(comm.Transport) comm.Transport,
	f func(c engine.Config, a *tp.Axis),
) {
	t.Helper()
	w := paralleltest.Workers{Mesh: paralleltest.Grid(1, 1, n), Graph: g, Wrap: wrap}
	w.Run(t, func(c engine.Config) {
		a, err := tp.New(c.Env, axis.Options{AggregationChunks: axis.Chunks(chunks)})
		exchange.Must(err)
		f(c, a)
	})
}

// TestChunks: the number of aggregation chunks changes no bit of a result or a gradient, and both are right.
// The cases have more chunks than rows, rows whose edges several threads share, one round or several, and a
// teleport or none.
func TestChunks(t *testing.T) {
	for name, g := range map[string]*graph.Graph{
		"small":      paralleltest.Small(t, true, true),
		"many edges": paralleltest.ManyEdges(t, 700, 6), "hubs": hubs(t),
	} {
		for _, l := range []paralleltest.Layer{
			paralleltest.Propagation("one round", 5, gnn.Symmetric, 1),
			paralleltest.Propagation("three rounds", 5, gnn.Mean, 3),
			paralleltest.Named("symmetric with a teleport"), paralleltest.Named("sum with a teleport"),
			paralleltest.Named("linear sum"), paralleltest.Named("fixed"), paralleltest.Named("sparse"),
		} {
			for _, along := range []gnn.Along{paralleltest.Stored, paralleltest.Reversed} {
				if along.Reversed && name != "small" {
					continue
				}
				var want *paralleltest.Outcome
				for _, chunks := range []int{1, 2, 5, 1000} {
					got := l.Blank(g.Vertices())
					sliced(t, g, 3, chunks, nil,
						func(c engine.Config, a *tp.Axis) { l.Run(c, a, along, got) })
					if want == nil {
						want = got
						got.Near(t, l.Name, l.Alone(t, g, along))
					}
					if !slices.Equal(got.Out, want.Out) || !slices.Equal(got.DX, want.DX) {
						t.Errorf("%s, %s, %+v: %d chunks give bits that differ from one chunk's", name,
							l.Name, along, chunks)
					}
				}
			}
		}
	}
}

// hubs is a graph in which one vertex has more than 16384 in-edges, and another has as many out-edges.
func hubs(t *testing.T) *graph.Graph {
	t.Helper()
	const vertices, edges, into, out = 300, 17000, 123, 7
	e := paralleltest.ManyEdges(t, vertices, 3).Relations[0].Edges()
	for k := range int32(edges) {
		e.Source, e.Target = append(e.Source, k*k%vertices, out), append(e.Target, into, k*7%vertices)
	}
	return paralleltest.GraphOf(t, vertices, e)
}
