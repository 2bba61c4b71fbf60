package paralleltest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
)

// between is a way to aggregate along a relation: z of the rows x of its sources and y of its targets.
type between struct {
	name    string
	weights [][2]int
	forward func(p gnn.Propagator, x, y *autograd.Var, w []*autograd.Var) *autograd.Var
}

const betweenColumns = 4

var betweens = []between{
	{"sum", nil, func(p gnn.Propagator, x, _ *autograd.Var, _ []*autograd.Var) *autograd.Var {
		return p.Propagate(x, gnn.Sum, gnn.Once)
	}},
	{"mean", nil, func(p gnn.Propagator, x, _ *autograd.Var, _ []*autograd.Var) *autograd.Var {
		return p.Propagate(x, gnn.Mean, gnn.Once)
	}},
	{"maximum", nil, func(p gnn.Propagator, x, _ *autograd.Var, _ []*autograd.Var) *autograd.Var {
		return p.Propagate(x, gnn.Max, gnn.Once)
	}},
	{"transformed mean", [][2]int{{4, 4}}, func(p gnn.Propagator, x, _ *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.AggregateLinear(x, w[0], gnn.Mean)
	}},
	{"attention", [][2]int{{4, 2}, {4, 2}}, func(p gnn.Propagator, x, y *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.Attend(gnn.Attention{
			Source: x, SourceScore: autograd.Linear(x, w[0]), TargetScore: autograd.Linear(y, w[1]), Heads: 2, Slope: .2,
		}, gnn.Once)
	}},
	{"attention v2", [][2]int{{1, 4}}, func(p gnn.Propagator, x, y *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.Attend(gnn.Attention{Source: x, Target: y, ASource: w[0], Heads: 2, Slope: .2}, gnn.Once)
	}},
	{"messages", nil, func(p gnn.Propagator, x, y *autograd.Var, _ []*autograd.Var) *autograd.Var {
		return p.Message(gnn.Message{Source: x, Target: y, Columns: betweenColumns, Reduce: gnn.KindMean, Function: func(e gnn.Edges) *autograd.Var {
			return autograd.Multiply(e.Source, e.Target)
		}})
	}},
}

// betweenOutcome is what a way gives, by vertex of the whole graph.
type betweenOutcome struct {
	z, dx, dy []float64
	dw        [][]float64
}

// run is one worker's part, where x has the rows of a vertex type whose ids in the whole graph begin at
// firstX, and y at firstY.
func (b between) run(c engine.Config, a engine.Axis, along gnn.Along, x, y *autograd.RowSet, firstX, firstY int, o *betweenOutcome) {
	memory := c.Team.Memory
	ids := func(set *autograd.RowSet, first int) (ids []int32) {
		for row := range set.Here {
			id := int32(row)
			if set.IDs != nil {
				id = set.IDs.Int32s()[row]
			}
			ids = append(ids, int32(first)+id)
		}
		return ids
	}
	idsX, idsY := ids(x, firstX), ids(y, firstY)
	matrix := func(purpose uint64, ids []int32) *tensor.Matrix {
		m := memory.New(tensor.Features, len(ids), betweenColumns)
		draw(m, purpose, ids)
		return m
	}
	tape := autograd.NewTrainingTape(c.Team, autograd.Random{Seed: 3, Epoch: 5})
	var w []*autograd.Var
	for i, shape := range b.weights {
		value := memory.New(tensor.Parameters, shape[0], shape[1])
		draw(value, weightNumbers(i), nil)
		w = append(w, tape.Parameter(value, c.Team.Zeros(tensor.Gradients, shape[0], shape[1])))
	}
	inX, inY := tape.Input(matrix(inputNumbers, idsX), x), tape.Input(matrix(inputNumbers, idsY), y)
	p := a.Propagator(b.name, along)
	out := tape.Scope(func() *autograd.Var { return b.forward(p, inX, inY, w) })
	if out.RowSet() != y {
		panic("the result has the rows of something else than the targets")
	}
	place(o.z, out.Value(), idsY)
	dz := memory.New(tensor.Gradients, y.Here, out.Cols())
	draw(dz, gradientNumbers, idsY)
	tape.Backward(autograd.Root{Var: out, Grad: dz})
	for in, d := range map[*autograd.Var][]float64{inX: o.dx, inY: o.dy} {
		g := in.TakeGrad()
		if g == nil {
			continue
		}
		if in == inX {
			place(d, g, idsX)
		} else {
			place(d, g, idsY)
		}
		g.Release()
	}
	for i, v := range w {
		dw, _ := v.Grad()
		if err := c.Groups.Replicas.SumFloats(0, dw.Floats()); err != nil {
			panic(err)
		}
		if c.Groups.Replicas.Rank() == 0 {
			o.dw[i] = doubles(dw.Floats())
		}
	}
}

// TestBetweenTypes: a relation between two vertex types, divided anyhow, gives what the same edges give
// between vertices of one type, in both directions.
func TestBetweenTypes(t *testing.T) {
	const items, users = 9, 14 // the first type is the items
	r := rand.New(rand.NewPCG(7, 7))
	var e graph.Edges // from users to items; item 3 has none
	for range 60 {
		if item := r.Int32N(items); item != 3 {
			e.Source, e.Target, e.Weights = append(e.Source, r.Int32N(users-1)), append(e.Target, item), append(e.Weights, .25+r.Float32())
		}
	}
	buys, err := graph.NewBipartite(users, items, e)
	if err != nil {
		t.Fatal(err)
	}
	buys.Source, buys.Name, buys.Target = "user", "buys", "item"
	typed := &graph.Graph{Type: "item", Count: items, Others: []graph.VertexType{{Type: "user", Count: users}}, Relations: []graph.Relation{buys}}
	union := graph.Edges{Target: e.Target, Weights: e.Weights}
	for _, u := range e.Source {
		union.Source = append(union.Source, items+u)
	}
	plain := graphOf(t, items+users, union)
	const name = "user__buys__item"

	for _, reversed := range []bool{false, true} {
		for _, b := range betweens {
			blank := func() *betweenOutcome {
				n := (items + users) * betweenColumns
				return &betweenOutcome{make([]float64, n), make([]float64, n), make([]float64, n), make([][]float64, len(b.weights))}
			}
			want := blank()
			Workers{Mesh: mesh.One, Graph: plain}.Run(t, func(c engine.Config) {
				a := Whole(t, c.Team, &plain.Relations[0])
				b.run(c, a, gnn.Along{Relation: graph.RelationName, Reversed: reversed}, a.Rows(), a.Rows(), 0, 0, want)
			})
			for _, k := range []int{1, 2, 3, 5} {
				for division, of := range Dividings(items+users, k) {
					what := fmt.Sprintf("%s, reversed %v, %d partitions, %s", b.name, reversed, k, division)
					got := blank()
					Workers{Mesh: mesh.Mesh{Stages: 1, Partitions: k, Slices: 1}, Graph: typed, Of: of}.Run(t, func(c engine.Config) {
						a, err := sar.New(c.Team, c.Groups, c.Share, order.Options{}, sar.Options{KeepHalo: k == 3})
						if err != nil {
							panic(err)
						}
						along := gnn.Along{Relation: name, Reversed: reversed}
						if reversed {
							b.run(c, a, along, a.Types()[0], a.Types()[1], 0, items, got)
						} else {
							b.run(c, a, along, a.Types()[1], a.Types()[0], items, 0, got)
						}
					})
					const tolerance = 1e-5
					near(t, what, got.z, want.z, tolerance)
					near(t, what+", gradient of the sources", got.dx, want.dx, tolerance)
					near(t, what+", gradient of the targets", got.dy, want.dy, tolerance)
					for i := range want.dw {
						near(t, what+", gradient of a parameter", got.dw[i], want.dw[i], tolerance)
					}
				}
			}
		}
	}
}
