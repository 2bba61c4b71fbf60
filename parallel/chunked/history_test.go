package chunked

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/assert"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/order"
	"weft/tensor"
)

// trial is some epochs of a layer that sums a column over in-neighbours: Σ x_u, or Σ x_u·w.
type trial struct {
	*divided
	orders [][]int                             // of the chunks, by epoch
	x      func(epoch int, v int32) float32    // of a vertex
	dz     func(epoch int, v int32) float32    // gradient of its sum
	w      func(epoch int) float32             // nil: the layer has no weight
	input  func(x *autograd.Var) *autograd.Var // nil: the rows are embeddings
	once   bool                                // do not repeat forward passes in the backward pass
	// the history begins with an exact pass of the first epoch's rows
	warm    bool
	between func(g *Graph, team *kernel.Team) // after each epoch; nil: nothing
}

// sums are the results of an epoch, by vertex.
type sums struct{ Z, DX []float32 }

// run runs the epochs on every replica.
func (tr *trial) run(t rapid.TB) []sums {
	out := make([]sums, len(tr.orders))
	for i := range out {
		out[i] = sums{make([]float32, len(tr.part)), make([]float32, len(tr.part))}
	}
	tr.divided.run(t, func(_ int, team *kernel.Team, g *Graph) {
		p := g.Propagator("convs.0", along)
		if tr.warm {
			g.Warm(func(k int) { tr.forward(team, p, g.Chunks[k], 1, autograd.NewTape(team)) })
		}
		for i, order := range tr.orders {
			epoch := 1 + i
			tapes, results := make([]*autograd.Tape, len(order)), make([][2]*autograd.Var, len(order))
			pass := func(k int, recording bool) *autograd.Var {
				tapes[k] = autograd.NewTrainingTape(team, autograd.Random{Epoch: epoch})
				tapes[k].Recording = recording
				results[k][0], results[k][1] = tr.forward(team, p, g.Chunks[k], epoch, tapes[k])
				return results[k][1]
			}
			epochPass := g.Forward(epoch, order)
			for _, k := range order {
				put(out[i].Z, g.Chunks[k], pass(k, tr.once).Value())
			}
			epochPass.Backward()
			for _, k := range slices.Backward(order) {
				if !tr.once {
					again := make([]float32, len(tr.part))
					put(again, g.Chunks[k], pass(k, true).Value())
					for _, v := range g.Chunks[k].Vertices() {
						if again[v] != out[i].Z[v] {
							t.Errorf("epoch %d, vertex %d: %v, and %v in the backward pass", epoch, v,
								out[i].Z[v], again[v])
						}
					}
				}
				dz := column(team, g.Chunks[k], func(v int32) float32 { return tr.dz(epoch, v) })
				tapes[k].Backward(autograd.Root{Var: results[k][1], Grad: dz})
				dx := results[k][0].TakeGrad()
				put(out[i].DX, g.Chunks[k], dx)
				dx.Release()
			}
			epochPass.End()
			if tr.between != nil {
				tr.between(g, team)
			}
		}
	})
	return out
}

// forward runs the layer on a chunk.
func (tr *trial) forward(team *kernel.Team, p gnn.Propagator, c *Chunk, epoch int,
	t *autograd.Tape,
) (x, z *autograd.Var) {
	rows := column(team, c, func(v int32) float32 { return tr.x(epoch, v) })
	x = t.Received(rows, c.Rows())
	if tr.input != nil {
		x = t.Constant(rows, c.Rows())
	}
	if tr.w == nil {
		return x, p.Propagate(x, gnn.Sum, gnn.Once)
	}
	w := team.Memory.New(tensor.Parameters, 1, 1)
	w.Floats()[0] = tr.w(epoch)
	return x, p.AggregateLinear(x, t.Parameter(w, nil), gnn.Sum)
}

// column is a value for each vertex of a chunk.
func column(team *kernel.Team, c *Chunk, value func(v int32) float32) *tensor.Matrix {
	m := team.Memory.New(tensor.Activations, c.Rows().Here, 1)
	for row, v := range c.Vertices() {
		m.Floats()[row] = value(v)
	}
	return m
}

// put writes a chunk's column to its vertices. No other chunk has them.
func put(all []float32, c *Chunk, m *tensor.Matrix) {
	for row, v := range c.Vertices() {
		all[v] = m.Floats()[row]
	}
}

// tens is a number whose digits tell its vertex and its epoch.
func tens(epoch int, v int32) float32 { return float32(epoch) * []float32{1, 10, 100, 1000}[v] }

// complete has an edge from each vertex to every other.
func complete(vertices int32) (list []edge) {
	for u := range vertices {
		for v := range vertices {
			if u != v {
				list = append(list, edge{u, v})
			}
		}
	}
	return list
}

// TestRowsOfOthers: three vertices, a chunk each, read each other. Rows of earlier chunks in the order are
// this epoch's. Rows of later chunks are the snapshot's, which is taken every Period epochs. The gradients
// are computed by hand too.
func TestRowsOfOthers(t *testing.T) {
	orders := [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 1, 2}}
	everySecond := [][]float32{{0, 1, 11}, {220, 200, 0}, {230, 202, 33}, {220, 204, 44}}
	doubled := [][]float32{{220, 200, 0}, {0, 4, 44}, {600, 606, 0}, {880, 800, 0}}
	for _, c := range []struct {
		name    string
		options axis.Options
		warm    bool
		z, dx   [][]float32 // by epoch and vertex
	}{
		{"period 2", axis.Options{HistoryPeriod: 2}, false, everySecond, doubled},
		{
			"period 1",
			axis.Options{HistoryPeriod: 1},
			false,
			[][]float32{{0, 1, 11}, {220, 201, 11}, {230, 202, 33}, {330, 304, 44}},
			doubled,
		},
		{
			"period 5",
			axis.Options{HistoryPeriod: 5},
			false,
			[][]float32{{0, 1, 11}, {220, 200, 0}, {30, 0, 33}, {0, 4, 44}},
			doubled,
		},
		{
			"warm",
			axis.Options{HistoryPeriod: 2},
			true,
			[][]float32{{110, 101, 11}, {220, 201, 11}, {230, 202, 33}, {220, 204, 44}},
			doubled,
		},
		{
			"drop",
			axis.Options{HistoryPeriod: 2, StaleGradients: axis.Drop},
			false, everySecond,
			[][]float32{{110, 100, 0}, {0, 2, 22}, {300, 303, 0}, {440, 400, 0}},
		},
		{
			"keep",
			axis.Options{HistoryPeriod: 2, StaleGradients: axis.Keep},
			false, everySecond,
			[][]float32{{110, 100, 0}, {110, 102, 22}, {320, 303, 22}, {440, 403, 33}},
		},
	} {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, forward once %v", c.name, once), func(t *testing.T) {
				tr := &trial{
					divided: readsAll(t, []int32{0, 0, 0}, []int32{0, 1, 2}, c.options),
					orders:  orders, x: tens, dz: tens, warm: c.warm, once: once,
				}
				for i, got := range tr.run(t) {
					if !slices.Equal(got.Z, c.z[i]) || !slices.Equal(got.DX, c.dx[i]) {
						t.Errorf("epoch %d: %v and gradients %v, want %v and %v", 1+i, got.Z,
							got.DX, c.z[i], c.dx[i])
					}
				}
			})
		}
	}
}

// TestRowsOfOtherReplicas: vertices 0 and 1 are chunk 0 of two replicas. In every order each reads the
// other's row of this epoch, and its gradient counts once.
func TestRowsOfOtherReplicas(t *testing.T) {
	tr := &trial{
		divided: readsAll(t, []int32{0, 1, 0}, []int32{0, 0, 1}, axis.Options{HistoryPeriod: 1}),
		orders:  [][]int{{0, 1}, {1, 0}}, x: tens, dz: tens,
	}
	want := []sums{
		{[]float32{10, 1, 11}, []float32{210, 201, 0}},
		{[]float32{220, 202, 11}, []float32{20, 2, 44}},
	}
	assert.Equal(t, want, tr.run(t))
}

// TestHistoryOfEmbeddings: where a layer has a weight, the history holds the layer's input, for any order of
// work. This epoch's weight multiplies it. Of features the history holds the product with the weight of that
// epoch.
func TestHistoryOfEmbeddings(t *testing.T) {
	features := func(x *autograd.Var) *autograd.Var { return x }
	for _, choice := range []order.Choice{order.Auto, order.TransformFirst, order.AggregateFirst} {
		for _, c := range []struct {
			name  string
			input func(*autograd.Var) *autograd.Var
			want  [][]float32
		}{
			{"embeddings", nil, [][]float32{{0, 1}, {2 * 10, 2 * 2}, {3 * 20, 3 * 3}}},
			{"features", features, [][]float32{{0, 1}, {1 * 10, 2 * 2}, {2 * 20, 3 * 3}}},
		} {
			t.Run(c.name+" "+order.Names[choice], func(t *testing.T) {
				tr := &trial{
					divided: readsAll(t, []int32{0, 0}, []int32{0, 1}, axis.Options{
						HistoryPeriod: 1, AggregationOrder: choice,
					}),
					orders: [][]int{{0, 1}, {0, 1}, {0, 1}}, x: tens, dz: tens,
					w: func(epoch int) float32 { return float32(epoch) }, input: c.input,
				}
				for i, got := range tr.run(t) {
					if !slices.Equal(got.Z, c.want[i]) {
						t.Errorf("epoch %d: %v, want %v", 1+i, got.Z, c.want[i])
					}
				}
			})
		}
	}
}

// TestEveryRow is TestRowsOfOthers for random graphs, divisions, orders and numbers. It finds what is read
// and returned edge by edge.
func TestEveryRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, list := drawn(t)
		d.graph = graphOf(t, len(d.part), list)
		stales := []axis.Stale{axis.DropScale, axis.Drop, axis.Keep}
		d.options.StaleGradients = rapid.SampledFrom(stales).Draw(t, "stale")
		var orders [][]int
		for range 4 {
			all := make([]int, d.count)
			for k := range all {
				all[k] = k
			}
			orders = append(orders, rapid.Permutation(all).Draw(t, "order"))
		}
		number := func(name string) func(epoch int, v int32) float32 {
			drawn := rapid.SliceOfN(rapid.IntRange(-9, 9), 4*len(d.part), 4*len(d.part)).Draw(t, name)
			return func(epoch int, v int32) float32 { return float32(drawn[(epoch-1)*len(d.part)+int(v)]) }
		}
		tr := &trial{
			divided: d, orders: orders, x: number("x"), dz: number("dz"),
			once: rapid.Bool().Draw(t, "once"), warm: rapid.Bool().Draw(t, "warm"),
		}
		assert.Equal(t, tr.definition(list), tr.run(t))
	})
}

// definition computes a trial edge by edge.
func (tr *trial) definition(list []edge) (out []sums) {
	n := int32(len(tr.part))
	snapshot := make([]float32, n)
	take := func(epoch int) {
		for v := range n {
			snapshot[v] = tr.x(epoch, v)
		}
	}
	if tr.warm {
		take(1)
	}
	for i, order := range tr.orders {
		epoch, s := 1+i, sums{make([]float32, n), make([]float32, n)}
		for _, e := range list {
			from, to := slices.Index(order, int(tr.chunk[e.u])), slices.Index(order, int(tr.chunk[e.v]))
			late := from > to // the source's chunk is later
			switch {
			case late:
				s.Z[e.v] += snapshot[e.u]
			default:
				s.Z[e.v] += tr.x(epoch, e.u)
			}
			switch stale := tr.options.StaleGradients; {
			case late && stale == axis.Keep && epoch > 1:
				s.DX[e.u] += tr.dz(epoch-1, e.v)
			case late:
			case from < to && stale == axis.DropScale:
				s.DX[e.u] += 2 * tr.dz(epoch, e.v)
			default:
				s.DX[e.u] += tr.dz(epoch, e.v)
			}
		}
		if out = append(out, s); epoch%tr.options.HistoryPeriod == 0 {
			take(epoch)
		}
	}
	return out
}

// TestBetweenEpochs: between epochs a history has one row for each row that is read, and with Keep its
// gradients. With one chunk it has none. An inference leaves none.
func TestBetweenEpochs(t *testing.T) {
	for _, c := range []struct {
		stale  axis.Stale
		chunks int
	}{{axis.DropScale, 3}, {axis.Drop, 3}, {axis.Keep, 3}, {axis.DropScale, 1}} {
		chunk := []int32{0, 1, 2, 2}
		if c.chunks == 1 {
			clear(chunk)
		}
		tr := &trial{
			divided: readsAll(t, []int32{0, 0, 1, 1}, chunk,
				axis.Options{HistoryPeriod: 2, StaleGradients: c.stale}),
			orders: slices.Repeat([][]int{[]int{0, 1, 2}[:c.chunks]}, 2), x: tens, dz: tens,
		}
		tr.between = func(g *Graph, team *kernel.Team) {
			g.Lockstep(func(k int) {
				tr.forward(team, g.Propagator("convs.0", along), g.Chunks[k], 1, autograd.NewTape(team))
			})
			for _, r := range g.lasting {
				if (r.rows != nil) != (c.chunks > 1) || r.other != nil ||
					(r.grads != nil) != (c.stale == axis.Keep) ||
					(r.returned != nil) != (c.stale == axis.Keep) {
					t.Errorf("%v, %d chunks: rows %v, other %v, gradients %v, returned %v", c.stale, c.chunks,
						r.rows, r.other, r.grads, r.returned)
				}
			}
			if len(g.lasting) != 1 || len(g.inferring) != 0 {
				t.Errorf("%d calls of training, %d of inference", len(g.lasting), len(g.inferring))
			}
		}
		tr.run(t)
	}
}

// TestTogether: an inference reads all rows of its own pass. If a chunk's pass panics, the others end.
func TestTogether(t *testing.T) {
	d := readsAll(t, []int32{0, 0, 0}, []int32{0, 1, 2}, axis.Options{HistoryPeriod: 1})
	tr := &trial{divided: d, x: tens}
	d.run(t, func(_ int, team *kernel.Team, g *Graph) {
		got, p := make([]float32, 3), g.Propagator("convs.0", along)
		g.Lockstep(func(k int) {
			_, z := tr.forward(team, p, g.Chunks[k], 2, autograd.NewTape(team))
			put(got, g.Chunks[k], z.Value())
		})
		if want := []float32{220, 202, 22}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		ended := 0
		func() {
			defer func() {
				if p := recover(); p != "chunk 1" {
					t.Errorf("panics with %v", p)
				}
			}()
			g.Lockstep(func(k int) {
				defer func() { ended++ }()
				if k == 1 {
					panic("chunk 1")
				}
				tr.forward(team, p, g.Chunks[k], 2, autograd.NewTape(team))
			})
		}()
		if ended != 2 { // the third has not begun
			t.Errorf("%d passes have ended", ended)
		}
	})
}

// TestOtherRelation: the error for a missing relation names the module.
func TestOtherRelation(t *testing.T) {
	d := readsAll(t, []int32{0}, []int32{0}, axis.Options{HistoryPeriod: 1})
	d.run(t, func(_ int, _ *kernel.Team, g *Graph) {
		defer func() {
			if message := fmt.Sprint(recover()); !strings.Contains(message,
				`convs.1 aggregates over relation "likes"`) {
				t.Error(message)
			}
		}()
		g.Propagator("convs.1", gnn.Along{Relation: "likes"})
	})
}
