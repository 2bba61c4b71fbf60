package sar_test

import (
	"slices"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// workers runs f on every worker of a graph that an assignment divides into k partitions.
func workers(t *testing.T, g *graph.Graph, owners []int32, k int, o axis.Options,
	wrap func(comm.Transport) comm.Transport, f func(c engine.Config, p *sar.Partition),
) {
	t.Helper()
	w := paralleltest.Workers{Mesh: paralleltest.Grid(1, k, 1), Graph: g, Owners: owners, Wrap: wrap}
	w.Run(t, func(c engine.Config) {
		c.Epochs = 76
		p, err := sar.New(c.Env, o)
		exchange.Must(err)
		f(c, p)
	})
}

// inTurn assigns n vertices to k partitions in turn.
func inTurn(n, k int) []int32 { return paralleltest.Dividings(n, k)["in turn"] }

// TestSameBitsAgain: a layer gives the same bits each time, even if one value is both source and target and
// its gradient has two parts.
func TestSameBitsAgain(t *testing.T) {
	const vertices = 4000
	g := paralleltest.ManyEdges(t, vertices, 10)
	for _, name := range []string{
		"message sum", "attention 2 of one value", "attention",
		"linear mean", "maximum",
	} {
		l := paralleltest.Named(name)
		var first *paralleltest.Outcome
		for again := range 4 {
			got := l.Blank(vertices)
			workers(t, g, inTurn(vertices, 2), 2, axis.Options{Prefetch: 1}, nil,
				func(c engine.Config, p *sar.Partition) {
					l.Run(c, p, paralleltest.Stored, got)
				})
			if first == nil {
				first = got
			}
			if !slices.Equal(got.Out, first.Out) || !slices.Equal(got.DX, first.DX) {
				t.Errorf("%s: other bits at try %d", name, again)
			}
		}
	}
}

// TestHolders: the rows of a partition's vertices and their gradients have the same bits, whichever worker
// holds the partition, because they are added in the order of the partitions. Sums over the workers, such as
// weight gradients, are added in the order of ranks, and round differently.
func TestHolders(t *testing.T) {
	const k = 4
	g := paralleltest.ManyEdges(t, 700, 6)
	owners := paralleltest.Dividings(g.Vertices(), k)["unevenly"]
	var layers []paralleltest.Layer
	for _, l := range paralleltest.Layers {
		if l.Is(paralleltest.Reversed) {
			layers = append(layers, l)
		}
	}
	all := func(holders []int) (got []*paralleltest.Outcome) {
		for _, l := range layers {
			got = append(got, l.Blank(g.Vertices()))
		}
		w := paralleltest.Workers{
			Mesh: paralleltest.Grid(1, k, 1), Graph: g, Owners: owners, Holders: holders,
		}
		w.Run(t, func(c engine.Config) {
			p, err := sar.New(c.Env, axis.Options{Prefetch: 1})
			exchange.Must(err)
			for i, l := range layers {
				l.Run(c, p, paralleltest.Reversed, got[i])
			}
		})
		return got
	}
	want := all(nil)
	for _, holders := range [][]int{{1, 2, 3, 0}, {2, 0, 3, 1}} {
		for i, got := range all(holders) {
			name := layers[i].Name
			if !slices.Equal(got.Out, want[i].Out) || !slices.Equal(got.DX, want[i].DX) {
				t.Errorf("%s, held by %d: other bits", name, holders)
			}
			got.Near(t, name, want[i])
		}
	}
}

// TestUnknownRelation: a relation that the graph does not have is named in the error, with those that it has.
func TestUnknownRelation(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	p := paralleltest.Whole(t, team, paralleltest.Small(t, false, false))
	defer func() {
		if got, want := recover(), `sar: convs.1 aggregates over relation "cites", but the graph has ["edge"]`; got != want {
			t.Errorf("%v, want %s", got, want)
		}
	}()
	p.Propagator("convs.1", gnn.Along{Relation: "cites"})
}

// TestOrdersOfWork: Explain is told in which order Â(xW) was computed.
func TestOrdersOfWork(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	var explained []string
	p, err := sar.New(axis.Env{
		Team: team, Groups: mesh.One.Join(comm.Alone()),
		Share:   partition.All(paralleltest.Small(t, true, true)),
		Explain: func(path, what string) { explained = append(explained, path+": "+what) },
	}, axis.Options{})
	require.NoError(t, err)
	tape, x := autograd.NewTape(team), team.Zeros(tensor.Features, p.Rows().Here, 8)
	indptr := team.Memory.NewElement(tensor.Features, tensor.Int64, 1, x.Rows+1)
	clear(indptr.Int64s())
	none := &kernel.CSR{
		Rows: x.Rows, Cols: x.Cols, Indptr: indptr,
		Indices: team.Memory.NewElement(tensor.Features, tensor.Int32, 1, 0),
		Values:  team.Memory.New(tensor.Features, 1, 0),
	}
	sparse := &autograd.Sparse{Rows: none, Columns: team.Transpose(none, tensor.Features)}
	for name, c := range map[string]struct {
		out  int
		x    *autograd.Var
		want string
	}{
		"narrow": {3, tape.Input(x, p.Rows()), "transform 8 columns to 3, then aggregate"},
		"wide":   {20, tape.Input(x, p.Rows()), "aggregate 8 columns, then transform to 20"},
		"fixed": {5, tape.Fixed(x, p.Rows()), "aggregate the features once, then transform " +
			"in every epoch"},
		"fixed and too wide": {3, tape.Fixed(x, p.Rows()), "transform 8 columns to 3, then aggregate"},
		"sparse": {
			20, tape.SparseConstant(sparse, p.Rows()),
			"transform the sparse features, then aggregate",
		},
	} {
		w := tape.Parameter(team.Zeros(tensor.Parameters, x.Cols, c.out), nil)
		p.Propagator(name, paralleltest.Stored).AggregateLinear(c.x, w, gnn.Symmetric)
		if !slices.Contains(explained, name+": "+c.want) {
			t.Errorf("%q, want %q", explained, name+": "+c.want)
		}
	}
}

// TestTiles: sums that are computed in tiles of columns have the same bits as whole ones, with as many bytes
// sent, in more messages. So have those of a few columns, of which a tile may have none.
func TestTiles(t *testing.T) {
	const vertices, k = 3000, 3
	g := paralleltest.ManyEdges(t, vertices, 10)
	few := axis.WireSchedule{From: 3} // of the columns
	for name, o := range map[string]axis.Options{
		"linear sum": {}, "linear mean": {WireSchedule: few}, "symmetric twice": {},
		"symmetric": {Halo: edges.HaloCover, WireSchedule: few},
	} {
		l := paralleltest.Named(name)
		o.Prefetch = 1
		type outcome struct {
			*paralleltest.Outcome
			sent [2]comm.Traffic
		}
		var outcomes []outcome
		for _, tile := range []int{64, 1, 2} {
			got := outcome{Outcome: l.Blank(vertices)}
			var mu sync.Mutex
			w := paralleltest.Workers{
				Mesh: paralleltest.Grid(1, k, 1), Storage: tensor.BFloat16, Graph: g,
				Owners: inTurn(vertices, k),
			}
			w.Run(t, func(c engine.Config) {
				c.Tile, c.Epochs = tile, 1
				p, err := sar.New(c.Env, o)
				exchange.Must(err)
				l.Run(c, p, paralleltest.Stored, got.Outcome)
				mu.Lock()
				defer mu.Unlock()
				for i, kind := range []comm.Kind{comm.Halo, comm.HaloGradient} {
					sent := c.Groups.Halo.Sent(kind)
					got.sent[i].Bytes += sent.Bytes
					got.sent[i].Messages += sent.Messages
				}
			})
			outcomes = append(outcomes, got)
		}
		whole := outcomes[0]
		for _, tiled := range outcomes[1:] {
			if !slices.Equal(tiled.Out, whole.Out) || !slices.Equal(tiled.DX, whole.DX) {
				t.Errorf("%s: tiles change bits", name)
			}
			for i, sent := range tiled.sent {
				// an empty message does not count
				more := sent.Messages > whole.sent[i].Messages || o.WireSchedule == few
				if sent.Bytes != whole.sent[i].Bytes || !more {
					t.Errorf("%s: %+v sent in tiles, and %+v otherwise", name, sent, whole.sent[i])
				}
			}
		}
	}
}
