package paralleltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/parallel/tp"
	"weft/tensor"
	"weft/train"
	"weft/train/engine"
	"weft/train/worker"
)

// between is an aggregation along a relation: z from rows x of its sources and y of its targets.
type between struct {
	name    string
	weights [][2]int
	forward func(p gnn.Propagator, x, y *autograd.Var, w []*autograd.Var) *autograd.Var
}

const betweenColumns = 4

var betweens = []between{
	propagated("sum", gnn.Sum), propagated("mean", gnn.Mean), propagated("maximum", gnn.Max),
	propagated("weighted sum without loops",
		gnn.Reduce{Kind: gnn.KindSum, Weighted: true, Loops: gnn.RemovedLoops}),
	{"transformed mean", [][2]int{{4, 4}}, func(
		p gnn.Propagator, x, _ *autograd.Var, w []*autograd.Var,
	) *autograd.Var {
		return p.AggregateLinear(x, w[0], gnn.Mean)
	}},
	{"attention", [][2]int{{4, 2}, {4, 2}}, func(
		p gnn.Propagator, x, y *autograd.Var, w []*autograd.Var,
	) *autograd.Var {
		return p.Attend(gnn.Attention{
			Source: x, SourceScore: autograd.Linear(x, w[0]), TargetScore: autograd.Linear(y, w[1]),
			Heads: 2, Slope: .2,
		}, gnn.Once)
	}},
	{"attention v2", [][2]int{{1, 4}}, func(
		p gnn.Propagator, x, y *autograd.Var, w []*autograd.Var,
	) *autograd.Var {
		return p.Attend(gnn.Attention{Source: x, Target: y, ASource: w[0], Heads: 2, Slope: .2}, gnn.Once)
	}},
	{"messages", nil, func(p gnn.Propagator, x, y *autograd.Var, _ []*autograd.Var) *autograd.Var {
		return p.Message(gnn.Message{
			Source: x, Target: y, Columns: betweenColumns, Columnwise: true, Reduce: gnn.KindMean,
			Function: func(e gnn.Edges) *autograd.Var { return autograd.Multiply(e.Source, e.Target) },
		})
	}},
	{"messages of rows", [][2]int{{4, 4}}, func(
		p gnn.Propagator, x, y *autograd.Var, w []*autograd.Var,
	) *autograd.Var {
		own := params(w)
		return p.Message(gnn.Message{
			Source: x, Target: y, Columns: betweenColumns, Reduce: gnn.KindMin, Parameters: own,
			Function: func(e gnn.Edges) *autograd.Var {
				return autograd.Multiply(autograd.Linear(e.Source, own[0].On(e.Tape)), e.Target)
			},
		})
	}},
}

func propagated(name string, r gnn.Reduce) between {
	return between{name, nil, func(p gnn.Propagator, x, _ *autograd.Var, _ []*autograd.Var) *autograd.Var {
		return p.Propagate(x, r, gnn.Once)
	}}
}

// betweenOutcome is its result, by vertex of the whole graph.
type betweenOutcome struct {
	z, dx, dy []float64
	dw        [][]float64
}

// run is one worker's part. x are rows of the vertex type whose ids in the whole graph begin at firstX; y
// begin at firstY.
func (b between) run(c engine.Config, a engine.Axis, along gnn.Along, x, y *autograd.RowSet, firstX,
	firstY int, o *betweenOutcome,
) {
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
		m := memory.NewElement(tensor.Features, c.Team.Storage, len(ids), betweenColumns)
		draw(m, purpose, ids)
		return m
	}
	tape := autograd.NewTrainingTape(c.Team, autograd.Random{Seed: 3, Epoch: 5})
	w := drawnParameters(tape, b.weights)
	inX, inY := tape.Input(matrix(inputNumbers, idsX), x), tape.Input(matrix(inputNumbers, idsY), y)
	p := a.Propagator(b.name, along)
	out := tape.Scope(func() *autograd.Var { return b.forward(p, inX, inY, w) })
	if out.RowSet() != y {
		panic("the result has the rows of something else than the targets")
	}
	place(o.z, out.Value(), idsY)
	dz := memory.NewElement(tensor.Gradients, out.Element(), y.Here, out.Cols())
	draw(dz, gradientNumbers, idsY)
	tape.Backward(autograd.Root{Var: out, Grad: dz})
	for _, in := range []struct {
		x   *autograd.Var
		d   []float64
		ids []int32
	}{{inX, o.dx, idsX}, {inY, o.dy, idsY}} {
		if g := in.x.TakeGrad(); g != nil {
			place(in.d, g, in.ids)
			g.Release()
		}
	}
	for i, v := range w {
		dw, _ := v.Grad()
		summed(c, dw, &o.dw[i])
	}
}

// TestBetweenTypes: a relation between two vertex types, for any division, gives the result of the same edges
// between vertices of one type, in both directions. Two and five partitions also send partial sums.
func TestBetweenTypes(t *testing.T) {
	const items, users = 9, 14 // the first type is the items
	r := rand.New(rand.NewPCG(7, 7))
	var e graph.Edges // from users to items; item 3 has none
	for range 60 {
		if item := r.Int32N(items); item != 3 {
			e.Source, e.Target, e.Weights = append(e.Source, r.Int32N(users-1)), append(e.Target, item),
				append(e.Weights, .25+r.Float32())
		}
	}
	buys, err := graph.NewBipartite(users, items, e)
	require.NoError(t, err)
	buys.Source, buys.Name, buys.Target = "user", "buys", "item"
	typed := &graph.Graph{
		Types: []graph.VertexType{
			{Type: "item", Frame: graph.Frame{Count: items}},
			{Type: "user", Frame: graph.Frame{Count: users}},
		},
		Relations: []graph.Relation{buys},
	}
	union := graph.Edges{Target: e.Target, Weights: e.Weights}
	for _, u := range e.Source {
		union.Source = append(union.Source, items+u)
	}
	plain := GraphOf(t, items+users, union)
	const name = "user__buys__item"

	for _, reversed := range []bool{false, true} {
		for _, b := range betweens {
			blank := func() *betweenOutcome {
				n := (items + users) * betweenColumns
				return &betweenOutcome{
					make([]float64, n), make([]float64, n), make([]float64, n),
					make([][]float64, len(b.weights)),
				}
			}
			wants := map[tensor.Element]*betweenOutcome{}
			for _, storage := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
				want := blank()
				Workers{Mesh: mesh.One, Storage: storage, Graph: plain}.Run(t, func(c engine.Config) {
					a := Whole(t, c.Team, plain)
					b.run(c, a, gnn.Along{Relation: graph.RelationName, Reversed: reversed}, a.Rows(),
						a.Rows(), 0, 0, want)
				})
				wants[storage] = want
			}
			compare := func(what string, w Workers, axis Axis) {
				w.Graph = typed
				want, got := wants[w.Storage], blank()
				w.Run(t, func(c engine.Config) {
					a, err := axis(c)
					exchange.Must(err)
					along := gnn.Along{Relation: name, Reversed: reversed}
					if reversed {
						b.run(c, a, along, a.Types()[0], a.Types()[1], 0, items, got)
					} else {
						b.run(c, a, along, a.Types()[1], a.Types()[0], items, 0, got)
					}
				})
				tolerance := tolerances[w.Storage]
				near(t, what, got.z, want.z, tolerance)
				near(t, what+", gradient of the sources", got.dx, want.dx, tolerance)
				near(t, what+", gradient of the targets", got.dy, want.dy, tolerance)
				for i := range want.dw {
					near(t, what+", gradient of a parameter", got.dw[i], want.dw[i], tolerance)
				}
			}
			for _, k := range []int{1, 2, 3, 5} {
				for division, owners := range Dividings(items+users, k) {
					storage := tensor.Float32
					if division == "unevenly" {
						storage = tensor.BFloat16
					}
					what := fmt.Sprintf("%s, reversed %v, %d partitions, %s", b.name, reversed, k, division)
					compare(what, Workers{Mesh: Grid(1, k, 1), Storage: storage, Owners: owners},
						func(c engine.Config) (engine.Axis, error) {
							c.Tile = k % 2
							return sar.New(c.Env, axis.Options{KeepHalo: k == 3, Halo: edges.Halo(k % 3)})
						})
				}
			}
			for slices := 2; slices <= 6; slices++ { // of six some have no columns
				partitions, chunks := 1+slices%3/2, slices%4
				// the second of two partitions has few items, and all users but one
				owners := make([]int32, items+users)
				for v := range owners {
					owners[v] = int32(min(v/(items-2), partitions-1))
				}
				owners[items] = 0
				what := fmt.Sprintf("%s, reversed %v, %d slices of %d partitions, %d chunks", b.name,
					reversed, slices, partitions, chunks)
				compare(what, Workers{Mesh: Grid(1, partitions, slices), Owners: owners},
					func(c engine.Config) (engine.Axis, error) {
						return tp.New(c.Env, axis.Options{AggregationChunks: axis.Chunks(chunks)})
					})
			}
		}
	}
}

// library is Tangled as papers. It also has authors without features, venues with other features than
// papers', and fields without out-edges.
func library(t *testing.T) *graph.Graph {
	t.Helper()
	const authors, venues, fields = 60, 9, 5
	g := Tangled(t)
	papers, r := g.Vertices(), rand.New(rand.NewPCG(6, 6))
	relation := func(source, name, target string, sources, targets, n int) {
		var e graph.Edges
		for range n {
			e.Source, e.Target = append(e.Source, r.Int32N(int32(sources))),
				append(e.Target, r.Int32N(int32(targets)))
		}
		made, err := graph.NewBipartite(sources, targets, e)
		require.NoError(t, err)
		made.Source, made.Name, made.Target = source, name, target
		g.Relations = append(g.Relations, made)
	}
	g.Types[0].Type = "paper"
	g.Relations[0].Source, g.Relations[0].Name, g.Relations[0].Target = "paper", "cites", "paper"
	relation("author", "writes", "paper", authors, papers, 300)
	relation("paper", "rev_writes", "author", papers, authors, 200)
	relation("venue", "prints", "paper", venues, papers, 90)
	relation("paper", "appears", "venue", papers, venues, 140)
	relation("author", "knows", "author", authors, authors, 100)
	relation("paper", "is about", "field", papers, fields, 110)
	v := graph.VertexType{
		Type: "venue", Frame: graph.Frame{Count: venues, Features: graph.Features{Columns: 4}},
	}
	for range venues * 4 {
		v.Features.Dense = append(v.Features.Dense, float32(r.NormFloat64()))
	}
	g.Types = append(g.Types, graph.VertexType{Type: "author", Frame: graph.Frame{Count: authors}}, v,
		graph.VertexType{Type: "field", Frame: graph.Frame{Count: fields}})
	return g
}

// sources is library without relations into authors and venues. These have no rows after the first layer.
func sources(t *testing.T) *graph.Graph {
	t.Helper()
	g := library(t)
	g.Relations = slices.DeleteFunc(g.Relations, func(r graph.Relation) bool { return r.Target != "paper" })
	return g
}

// entities is Tangled with its edges divided among four relations, of which one is empty. Without features
// each vertex is known by its number.
func entities(t *testing.T, bare bool) *graph.Graph {
	t.Helper()
	g := Tangled(t)
	e, lists := g.Relations[0].Edges(), make([]graph.Edges, 4)
	for k := range e.Len() {
		to := &lists[k%3]
		to.Source, to.Target = append(to.Source, e.Source[k]), append(to.Target, e.Target[k])
	}
	n := g.Vertices()
	g.Relations = nil
	for i, list := range lists {
		r, err := graph.NewRelation(n, list)
		require.NoError(t, err)
		r.Name = fmt.Sprintf("r%d", i)
		g.Relations = append(g.Relations, r)
	}
	if bare {
		g.Types[0].Features = graph.Features{}
	}
	return g
}

// typedGraphs are graphs of several types of vertices or edges.
var typedGraphs = map[string]func(*testing.T) *graph.Graph{
	"library":  library,
	"sources":  sources,
	"entities": func(t *testing.T) *graph.Graph { return entities(t, false) },
	"bare":     func(t *testing.T) *graph.Graph { return entities(t, true) },
}

// typedModels are models of several types, with the precisions in which they run, and meshes besides
// partitions.
var typedModels = []struct {
	graph, name, precisions, set string
	meshes                       []mesh.Mesh
}{
	{
		"library", "sage", "f32 bf16", "node-embedding=6 norm=batch",
		[]mesh.Mesh{Grid(1, 1, 3), Grid(1, 2, 2)},
	},
	{
		"library", "gat", "f32", "node-embedding=6 attention-dropout=.2 residual=true",
		[]mesh.Mesh{Grid(1, 1, 3)},
	},
	{"library", "gatv2", "f32 bf16", "node-embedding=6 norm=layer clip=.5", []mesh.Mesh{Grid(1, 2, 2)}},
	{"library", "rgcn", "f32", "bases=2 clip=.5 drop-edge=.2", []mesh.Mesh{Grid(1, 1, 2), Grid(1, 2, 3)}},
	{"library", "rgcn", "f32 bf16", "node-embedding=4", []mesh.Mesh{Grid(1, 1, 3)}},
	{"sources", "sage", "f32", "node-embedding=6 norm=graph", nil},
	{"sources", "rgcn", "f32 bf16", "bases=2", []mesh.Mesh{Grid(1, 1, 4)}},
	{
		"entities", "sage", "f32", "norm=batch",
		[]mesh.Mesh{Grid(1, 1, 3), Grid(1, 2, 2), Grid(2, 1, 1), Grid(3, 1, 1)},
	},
	{"entities", "gcn", "f32 bf16", "", []mesh.Mesh{Grid(1, 1, 2)}},
	{"entities", "gin", "f32", "lr=.001", []mesh.Mesh{Grid(1, 1, 2)}},
	{"entities", "gat", "f32 bf16", "", []mesh.Mesh{Grid(1, 1, 2)}},
	{"entities", "rgcn", "f32", "bases=3", []mesh.Mesh{Grid(1, 1, 3), Grid(2, 1, 1)}},
	{"bare", "rgcn", "f32 bf16", "bases=3 norm=layer", []mesh.Mesh{Grid(1, 2, 2)}},
	{
		"library", "rgcn", "f32", "decoupled=true bases=2 teleport=.1",
		[]mesh.Mesh{Grid(1, 1, 2), Grid(1, 1, 8), Grid(1, 2, 2)},
	},
	{
		"entities", "rgcn", "f32 bf16", "decoupled=true bases=3",
		[]mesh.Mesh{Grid(1, 1, 3), Grid(2, 1, 1), Grid(2, 2, 2)},
	},
	{"bare", "rgcn", "f32", "decoupled=true bases=2", []mesh.Mesh{Grid(1, 2, 2)}},
	{"bare", "sage", "f32 bf16", "node-embedding=5", []mesh.Mesh{Grid(1, 1, 3)}},
}

// TestTypedEngines compares divided models of several types and relations with one worker: types without
// features or rows, relations without edges, learned features, bases, and what the other axes support of it.
func TestTypedEngines(t *testing.T) {
	for _, c := range typedModels {
		t.Run(c.graph+" "+c.name, func(t *testing.T) {
			g, o := typedGraphs[c.graph](t), small(c.name, c.set)
			alone := run(t, &train.Job{Graph: g, Options: o})
			for i, m := range append([]mesh.Mesh{Grid(1, 3, 1)}, c.meshes...) {
				t.Run(Name(m), func(t *testing.T) {
					(&Case{Mesh: m, Tolerance: 2e-5, otherwise: i == 0}).check(t, g, alone, o, o)
				})
			}
			if !strings.Contains(c.precisions, bfloat16) {
				return
			}
			t.Run("bfloat16", func(t *testing.T) {
				o = with(o, inBFloat16)
				o.LR /= 50 // these graphs are so small that roundings grow tenfold in an epoch
				alone := run(t, &train.Job{Graph: g, Options: o})
				(&Case{Mesh: Grid(1, 2, 1)}).check(t, g, alone, o, o)
			})
		})
	}
}

// TestTypedBytes: slices of several types send what the relations that a layer computes say. For each of them
// the rows of its sources become slices, those of its targets become rows, and the gradients go back: four
// all-to-alls. In an all-to-all a worker sends its own rows, without its own columns of them. Decoupled R-GCN
// has as many all-to-alls for any number of rounds.
func TestTypedBytes(t *testing.T) {
	g := library(t)
	o := small("rgcn", "layers=2 node-embedding=4 aggregation-order=transform-first")
	vertices := map[string]int{}
	for _, v := range g.Types {
		vertices[v.Name()] = v.Count
	}
	computed := [][]string{ // by layer: those of which the papers' logits depend
		{"cites", "writes", "rev_writes", "prints", "appears", "knows"}, {"cites", "writes", "prints"},
	}
	layout := func(computed [][]string, slices int) func(*train.Options, int, int) (worker.Traffic, bool) {
		even := func(n, worker int) int { return n*(worker+1)/slices - n*worker/slices }
		return func(o *train.Options, _, classes int) (sent worker.Traffic, known bool) {
			for layer, names := range computed {
				columns := o.Hidden
				if layer == o.Layers-1 {
					columns = classes
				}
				for _, r := range g.Relations {
					for _, name := range names {
						if r.Name != name {
							continue
						}
						sent.Messages += 4
						for k := range slices {
							for _, kind := range []string{r.Source, r.Target} {
								rows := (vertices[kind] + slices - 1 - k) / slices
								sent.Bytes += 2 * 4 * int64(rows*(columns-even(columns, k)))
							}
						}
					}
				}
			}
			// and the rows of three types become slices, those of papers rows, and their gradients go back
			if o.Decoupled {
				for _, kind := range []string{"paper", "author", "venue", "paper"} {
					sent.Messages += 2
					for k := range slices {
						sent.Bytes += 2 * 4 * int64(
							(vertices[kind]+slices-1-k)/slices*(classes-even(classes, k)))
					}
				}
			}
			return sent, true
		}
	}
	alone := run(t, &train.Job{Graph: g, Options: o})
	for _, slices := range []int{2, 3} {
		(&Case{Mesh: Grid(1, 1, slices), Tolerance: 2e-5, Layout: layout(computed, slices)}).
			check(t, g, alone, o, o)
	}
	for _, layers := range []int{2, 4} { // with weights there is the first round alone
		o.Decoupled, o.Layers = true, layers
		first := make([][]string, layers)
		first[layers-1] = computed[0]
		alone := run(t, &train.Job{Graph: g, Options: o})
		(&Case{Mesh: Grid(1, 1, 3), Tolerance: 2e-5, Layout: layout(first, 3)}).check(t, g, alone, o, o)
	}
}

// TestTypedMemory: a worker's tensors are its share of one worker's, for each type and for learned vertex
// features, plus a window of other partitions' rows. That holds even if every partition needs all rows of
// every other.
func TestTypedMemory(t *testing.T) {
	const vertices, k = 6000, 8
	for model, set := range map[string]string{"sage": "node-embedding=64", "rgcn": "bases=2"} {
		o := with(train.Defaults(), "layers=3 hidden=64 epochs=2 threads=1 model="+model+" "+set)
		peak := func(g *graph.Graph, k int) int64 {
			j := train.Job{Graph: g, Options: o, Mesh: Grid(1, k, 1)}
			if k > 1 {
				j.Parts = inTurn(t, g, k)
			}
			plan, err := j.Plan(t.Context())
			require.NoError(t, err)
			return slices.Max(plan.PeakTensorBytes)
		}
		g := dense(t, vertices)
		whole := peak(dense(t, k), 1) // the parameters of all replicas, and hardly a row
		share := whole + (peak(g, 1)-whole)/k
		// A partition has vertices/k rows of a type. The halo of a relation has k−1 times as many.
		const rows, window = 4 * 64 * vertices / k, 4
		if many := peak(g, k); many > share+window*rows {
			t.Errorf("%s: %d bytes on one of %d workers, %.1f partitions' rows above its share; "+
				"want at most %d",
				model, many, k, float64(many-share)/rows, window)
		}
		o.KeepHalo = true
		if kept := peak(g, k); kept <= share+window*rows {
			t.Errorf("%s: %d bytes on one of %d workers with the halo kept, which should not fit the window",
				model, kept, k)
		}
	}
}

// dense is a graph of two types without features, of which nearly all partitions need all rows.
func dense(t *testing.T, vertices int) *graph.Graph {
	t.Helper()
	const degree = 40
	r := rand.New(rand.NewPCG(8, 8))
	g := &graph.Graph{
		Types: []graph.VertexType{
			{
				Type: "a",
				Frame: graph.Frame{
					Count: vertices, Labels: graph.Labels{Classes: 4, Class: make([]int64, vertices)},
					Splits: []graph.Split{{Train: []int64{0, 1, 2}}},
				},
			},
			{Type: "b", Frame: graph.Frame{Count: vertices}},
		},
	}
	for _, ends := range [][2]string{{"a", "a"}, {"b", "a"}, {"a", "b"}} {
		var e graph.Edges
		for range vertices * degree {
			e.Source, e.Target = append(e.Source, r.Int32N(int32(vertices))),
				append(e.Target, r.Int32N(int32(vertices)))
		}
		relation, err := graph.NewRelation(vertices, e)
		require.NoError(t, err)
		relation.Source, relation.Name, relation.Target = ends[0], "to", ends[1]
		g.Relations = append(g.Relations, relation)
	}
	return g
}
