package sar_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
)

// part is one worker of a partitioned graph.
type part struct {
	team  *kernel.Team
	comm  *comm.Comm
	share *partition.Share
	graph *sar.Partition
}

// workers runs f on every worker of a graph that is divided as the assignment says, and fails where one of
// them fails.
func workers(t *testing.T, g *graph.Graph, of []int32, k int, o sar.Options, wrap func(comm.Transport) comm.Transport, f func(p *part)) {
	t.Helper()
	shares, err := partition.Split(g, &partition.Assignment{K: k, Of: of})
	if err != nil {
		t.Fatal(err)
	}
	ends := comm.InProcess(k)
	meters := make([]*tensor.Meter, k)
	var all sync.WaitGroup
	for rank := range k {
		meters[rank] = tensor.NewMeter()
		all.Go(func() {
			end := ends[rank]
			if wrap != nil {
				end = wrap(end)
			}
			c := comm.New(end, 0)
			defer func() {
				if failure := recover(); failure != nil {
					t.Errorf("worker %d: %v", rank, failure)
					c.Abort(fmt.Errorf("worker %d: %v", rank, failure))
				}
			}()
			p := &part{team: kernel.NewTeam(1+rank%2, meters[rank]), comm: c, share: shares[rank]}
			var err error
			if p.graph, err = sar.New(p.team, c, shares[rank], o); err != nil {
				panic(err)
			}
			f(p)
		})
	}
	all.Wait()
	for _, m := range meters {
		m.Close()
	}
}

// dividings are assignments of n vertices to workers: even, uneven, with empty partitions, a vertex to each.
func dividings(n int) map[string][]int32 {
	r := rand.New(rand.NewPCG(2, 9))
	d := map[string][]int32{}
	for name, of := range map[string]func(v int) int{
		"2":             func(v int) int { return v % 2 },
		"3 uneven":      func(int) int { return min(2, r.IntN(8)) },
		"4 empty":       func(v int) int { return 3 * (v % 2) },
		"5":             func(int) int { return r.IntN(5) },
		"8 all at last": func(int) int { return 7 },
	} {
		d[name] = make([]int32, n)
		for v := range n {
			d[name][v] = int32(of(v))
		}
	}
	return d
}

func partitions(name string) (k int) {
	if _, err := fmt.Sscan(name, &k); err != nil {
		panic(err)
	}
	return k
}

// layer is some work with a propagator on rows x of the vertices, with the parameters w.
type layer struct {
	in, out int
	weights [][2]int // shapes
	forward func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var
}

// layers are what every way of dividing a graph has to agree on.
var layers = map[string]layer{
	"linear sum": {6, 3, [][2]int{{6, 3}}, func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.AggregateLinear(x, w[0], gnn.Reduce{Kind: gnn.KindSum, Self: 1.25})
	}},
	"linear mean": {3, 6, [][2]int{{3, 6}}, func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.AggregateLinear(x, w[0], gnn.Mean)
	}},
	"symmetric twice":       {5, 5, nil, propagate(gnn.Symmetric, 2)},
	"symmetric, no loops":   {5, 5, nil, propagate(gnn.SymmetricNoLoops, 1)},
	"maximum":               {5, 5, nil, propagate(gnn.Max, 1)},
	"attention":             attend(1, 5, false, 0),
	"attention with loops":  attend(3, 4, true, 0.4),
	"attention 2":           attendV2(2, 3, false, 0.4),
	"attention 2 and loops": attendV2(1, 7, true, 0),
}

func propagate(r gnn.Reduce, k int) func(gnn.Propagator, *autograd.Var, []*autograd.Var) *autograd.Var {
	return func(p gnn.Propagator, x *autograd.Var, _ []*autograd.Var) *autograd.Var { return p.Propagate(x, r, k) }
}

func attend(heads, width int, loops bool, dropout float64) layer {
	n := heads * width
	return layer{n, n, [][2]int{{1, n}, {1, n}}, func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.Attend(gnn.Attention{Source: x, Target: x, ASource: w[0], ATarget: w[1], Heads: heads, Slope: .2, SelfLoops: loops, Dropout: dropout})
	}}
}

func attendV2(heads, width int, loops bool, dropout float64) layer {
	n := heads * width
	return layer{n, n, [][2]int{{n, n}, {1, n}}, func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.Attend(gnn.Attention{Source: x, Target: autograd.Linear(x, w[0]), ASource: w[1], Heads: heads, Slope: .2, SelfLoops: loops, Dropout: dropout})
	}}
}

// outcome is what a layer gives: output and input gradient by vertex, and the gradients of its parameters.
type outcome struct {
	out, dx []float32
	dw      [][]float32
}

// values draws numbers that depend on what they are for, the vertex and the column alone.
func values(m *tensor.Matrix, purpose uint64, ids []int32) {
	for i := range m.Rows {
		id := i
		if ids != nil {
			id = int(ids[i])
		}
		r := rand.New(rand.NewPCG(purpose, uint64(id)))
		for c := range m.Cols {
			m.Floats()[i*m.Cols+c] = float32(r.NormFloat64())
		}
	}
}

// run computes a layer forward and backward on one worker and puts what it has into o.
func (l layer) run(team *kernel.Team, g *sar.Partition, ids []int32, along gnn.Along, o *outcome, sum func(values []float32)) {
	rows := g.Rows()
	x, dz := team.Memory.New(tensor.Features, rows.Here, l.in), team.Memory.New(tensor.Gradients, rows.Here, l.out)
	values(x, 1, ids)
	values(dz, 2, ids)
	tape := autograd.NewTrainingTape(team, autograd.Random{Seed: 3, Epoch: 5})
	var w []*autograd.Var
	var dw []*tensor.Matrix
	for i, shape := range l.weights {
		value, grad := team.Memory.New(tensor.Parameters, shape[0], shape[1]), team.Zeros(tensor.Gradients, shape[0], shape[1])
		values(value, uint64(10+i), nil)
		w, dw = append(w, tape.Parameter(value, grad)), append(dw, grad)
	}
	in := tape.Input(x, rows)
	out := l.forward(g.Propagator("here", along), in, w)
	place(o.out, out.Value(), ids)
	tape.Backward(autograd.Root{Var: out, Grad: dz})
	place(o.dx, in.TakeGrad(), ids)
	for i, d := range dw {
		sum(d.Floats())
		if o.dw[i] == nil {
			o.dw[i] = append(o.dw[i], d.Floats()...)
		}
	}
}

// place copies the rows to those of their vertices.
func place(to []float32, from *tensor.Matrix, ids []int32) {
	for i := range from.Rows {
		id := i
		if ids != nil {
			id = int(ids[i])
		}
		copy(to[id*from.Cols:], from.Floats()[i*from.Cols:(i+1)*from.Cols])
	}
}

func (l layer) blank(vertices int) *outcome {
	return &outcome{make([]float32, vertices*l.out), make([]float32, vertices*l.in), make([][]float32, len(l.weights))}
}

// apart fails where two results differ by more than rounding.
func apart(t *testing.T, what string, got, want []float32) {
	t.Helper()
	scale := 1.0
	for _, w := range want {
		scale = math.Max(scale, math.Abs(float64(w)))
	}
	for i := range want {
		if !(math.Abs(float64(got[i]-want[i])) <= 1e-5*scale) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestPartitionsAgree: "the training curve is the same regardless of the number of machines": outputs and
// every gradient are those of one worker, on a directed graph with self loops, duplicate edges, isolated
// vertices, edge weights, and empty partitions; with any prefetch depth, and with the halo kept.
func TestPartitionsAgree(t *testing.T) {
	each(t, func(b *bench, along gnn.Along) {
		agree(b.t, &graph.Graph{Relation: b.relation}, along, layers, dividings(b.vertices), []sar.Options{{}, {Prefetch: 1}, {Prefetch: 7}, {KeepHalo: true}})
	})
}

// TestPiecesAgree is the same where the rows of a partition travel in several pieces.
func TestPiecesAgree(t *testing.T) {
	const vertices = 3000
	d := dividings(vertices)
	agree(t, manyEdges(t, vertices, 20), stored, layers, map[string][]int32{"2": d["2"], "3 uneven": d["3 uneven"]}, []sar.Options{{Prefetch: 1}, {KeepHalo: true}})
}

// TestSameBitsAgain: a layer gives the same bits each time, also where one value is source and target, whose
// gradient then has two parts.
func TestSameBitsAgain(t *testing.T) {
	const vertices = 4000
	g := manyEdges(t, vertices, 10)
	of := dividings(vertices)["2"]
	for name, l := range map[string]layer{
		"message": messageLayers["message sum"],
		"GATv2": {6, 6, [][2]int{{1, 6}}, func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
			return p.Attend(gnn.Attention{Source: x, Target: x, ASource: w[0], Heads: 2, Slope: .2})
		}},
		"GAT": layers["attention"], "mean": layers["linear mean"], "maximum": layers["maximum"],
	} {
		var first *outcome
		for again := range 4 {
			got := l.blank(vertices)
			workers(t, g, of, 2, sar.Options{Prefetch: 1}, nil, func(p *part) {
				l.run(p.team, p.graph, p.share.Values.IDs, stored, &outcome{got.out, got.dx, make([][]float32, len(l.weights))}, func([]float32) {})
			})
			if first == nil {
				first = got
			}
			if !slices.Equal(got.out, first.out) || !slices.Equal(got.dx, first.dx) {
				t.Errorf("%s: other bits at try %d", name, again)
			}
		}
	}
}

// manyEdges is a directed random graph with so many edges into a vertex, on average.
func manyEdges(t *testing.T, vertices int32, degree int32) *graph.Graph {
	r := rand.New(rand.NewPCG(4, 4))
	var e graph.Edges
	for range degree * vertices {
		e.Source, e.Target = append(e.Source, r.Int32N(vertices)), append(e.Target, r.Int32N(vertices))
	}
	relation, err := graph.NewRelation(int(vertices), e)
	if err != nil {
		t.Fatal(err)
	}
	return &graph.Graph{Relation: relation}
}

func agree(t *testing.T, g *graph.Graph, along gnn.Along, layers map[string]layer, dividings map[string][]int32, settings []sar.Options) {
	t.Helper()
	for name, l := range layers {
		team := kernel.NewTeam(2, tensor.NewMeter())
		want := l.blank(g.Vertices())
		l.run(team, paralleltest.Whole(t, team, &g.Relation), nil, along, want, func([]float32) {})
		for division, of := range dividings {
			for _, o := range settings {
				what := fmt.Sprintf("%s, %s workers, %+v", name, division, o)
				got := l.blank(g.Vertices())
				var first sync.Mutex
				workers(t, g, of, partitions(division), o, nil, func(p *part) {
					sum := func(values []float32) {
						if err := p.comm.SumFloats(comm.Gradient, values); err != nil {
							panic(err)
						}
					}
					mine := &outcome{got.out, got.dx, make([][]float32, len(l.weights))}
					l.run(p.team, p.graph, p.share.Values.IDs, along, mine, sum)
					first.Lock()
					got.dw = mine.dw
					first.Unlock()
				})
				apart(t, what, got.out, want.out)
				apart(t, what+", input gradient", got.dx, want.dx)
				for i := range want.dw {
					apart(t, what+fmt.Sprintf(", gradient of parameter %d", i), got.dw[i], want.dw[i])
				}
			}
		}
		team.Memory.Close()
	}
}
