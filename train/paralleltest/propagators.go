package paralleltest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/kernel/reference"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train/engine"
)

// Axis makes a worker's axis.
type Axis func(engine.Config) (engine.Axis, error)

// The directions of a graph of one relation.
var (
	Stored   = gnn.Along{Relation: graph.RelationName}
	Reversed = gnn.Along{Relation: graph.RelationName, Reversed: true}
)

// Propagators compares the Propagators of an axis with each layer's definition in double precision, or else
// with one worker: outputs and every gradient, in both directions, twice in a row. methods are the methods to
// test; none: all. The graphs are directed, with self loops, duplicate edges, isolated vertices and edge
// weights. They are divided evenly, unevenly and with empty partitions. One graph has more edges than a
// message function sees at a time, and more rows than a message has.
func Propagators(t *testing.T, m mesh.Mesh, axis Axis, methods ...string) {
	compare(t, m, axis, roundedOnce, methods)
}

// PartialSums tests an axis whose messages may hold partial sums. Sums in bfloat16 may then be rounded more
// than once, and are not checked.
func PartialSums(t *testing.T, m mesh.Mesh, axis Axis) {
	compare(t, m, axis, func(testing.TB, string, []float64, []float64) {}, nil)
}

// sumCheck compares sums with the exact ones.
type sumCheck func(t testing.TB, what string, got, want []float64)

// compare compares each method of an axis with double precision. rounded checks a sum in bfloat16.
func compare(t *testing.T, m mesh.Mesh, axis Axis, rounded sumCheck, methods []string) {
	both, one, other := []gnn.Along{Stored, Reversed}, []gnn.Along{Stored}, []gnn.Along{Reversed}
	if m.Slices%2 == 0 { // pairs of a direction and a division differ from mesh to mesh
		one, other = other, one
	}
	for _, c := range []struct {
		name       string
		graph      *testGraph
		storage    tensor.Element
		directions []gnn.Along
		division   string
	}{
		{"plain, f32", smallPlain, tensor.Float32, one, "in turn"},
		{"plain, f32", smallPlain, tensor.Float32, other, "to the last"},
		{"loops and weights, f32", smallWeighted, tensor.Float32, other, "unevenly"},
		{"loops and weights, f32", smallWeighted, tensor.Float32, one, "to first and last"},
		{"loops and weights, bf16", smallWeighted, tensor.BFloat16, both, "unevenly"},
		{"many edges", manyEdges, tensor.Float32, []gnn.Along{Stored}, "unevenly"},
	} {
		t.Run(c.name+", "+c.division, func(t *testing.T) {
			agree(t, m, c.storage, axis, rounded, methods, c.graph, c.directions, c.division)
		})
	}
}

// testGraph is a graph that is made once, and the layers' results on it, which many meshes are compared with.
type testGraph struct {
	graph   func(t testing.TB) *graph.Graph
	results sync.Map // by result
}

// result names a layer's result.
type result struct {
	layer   string
	storage tensor.Element
	along   gnn.Along
}

func newGiven(make func(t testing.TB) *graph.Graph) *testGraph {
	var once sync.Once
	var g *graph.Graph
	return &testGraph{graph: func(t testing.TB) *graph.Graph {
		once.Do(func() { g = make(t) })
		return g
	}}
}

// The graphs of Propagators.
var (
	smallPlain    = newGiven(func(t testing.TB) *graph.Graph { return Small(t, false, false) })
	smallWeighted = newGiven(func(t testing.TB) *graph.Graph { return Small(t, true, true) })
	manyEdges     = newGiven(func(t testing.TB) *graph.Graph {
		return WithEdgeFeatures(ManyEdges(t, 2200, 5))
	})
)

// right is what the layer gives on the graph.
func (g *testGraph) right(t testing.TB, l Layer, storage tensor.Element, along gnn.Along) *Outcome {
	name := result{l.Name, storage, along}
	if known, ok := g.results.Load(name); ok {
		return known.(*Outcome)
	}
	o := l.right(t, storage, g.graph(t), along)
	g.results.Store(name, o)
	return o
}

// tolerances bound the rounding of an outcome, relative to its largest number. A bfloat16 is off by at most
// 2⁻⁸ of itself, and a layer stores a few values on the way from its input to a gradient.
var tolerances = map[tensor.Element]float64{tensor.Float32: 1e-5, tensor.BFloat16: 1. / 64}

func (l Layer) tolerance(storage tensor.Element) float64 {
	if storage == tensor.BFloat16 {
		return tolerances[storage] * max(1, l.coarse)
	}
	return tolerances[storage]
}

// passes is how often a layer runs with one Propagator: the second pass uses what the first cached.
const passes = 2

// agree runs the layers on one graph.
func agree(t *testing.T, m mesh.Mesh, storage tensor.Element, axis Axis, rounded sumCheck, methods []string,
	on *testGraph, directions []gnn.Along, division string,
) {
	t.Helper()
	g := on.graph(t)
	type work struct {
		Layer
		along gnn.Along
		want  *Outcome
	}
	var all []work
	for _, l := range Layers {
		if len(methods) > 0 && !slices.Contains(methods, l.method) {
			continue
		}
		for _, along := range directions {
			if l.Is(along) {
				all = append(all, work{l, along, on.right(t, l, storage, along)})
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("no layer has the methods %q", methods)
	}
	owners := Dividings(g.Vertices(), m.Partitions)[division]
	got := make([][]*Outcome, len(all))
	for i, l := range all {
		for range passes {
			got[i] = append(got[i], l.Blank(g.Vertices()))
		}
	}
	Workers{Mesh: m, Storage: storage, Graph: g, Owners: owners}.Run(t, func(c engine.Config) {
		a, err := axis(c)
		exchange.Must(err)
		a.BeginEpoch(1)
		for i, l := range all {
			l.Run(c, a, l.along, got[i]...)
		}
	})
	for i, l := range all {
		for pass, o := range got[i] {
			if storage == tensor.BFloat16 && l.exact != nil && l.method == "Propagate" && !l.rounds {
				rounded(t, fmt.Sprintf("%s, %+v, divided %s", l.Name, l.along, division), o.Out,
					l.want.Out)
			}
			o.within(t, l.tolerance(storage), fmt.Sprintf("%s, %+v, divided %s, pass %d", l.Name, l.along,
				division, pass+1), l.want)
		}
	}
}

// roundedOnce fails unless each sum is the exact one, rounded to bfloat16 when it was complete: "the number
// of workers adds no rounding of its own". Roundings of parts of a sum are larger than the sum's own where
// it cancels.
func roundedOnce(t testing.TB, what string, got, want []float64) {
	t.Helper()
	const unit, single = 1. / 256, 1e-6 // unit roundoff of bfloat16; float32's errors before
	for i, x := range got {
		if d := math.Abs(x - want[i]); !(d <= unit*math.Abs(want[i])+single) {
			t.Errorf("%s: sum %d is %v, want %v, rounded once", what, i, x, want[i])
			return
		}
	}
}

// right is the layer's result in double precision, or else on one worker.
func (l Layer) right(t testing.TB, storage tensor.Element, g *graph.Graph, along gnn.Along) *Outcome {
	if l.exact == nil {
		return l.alone(t, storage, g, along)
	}
	n := g.Vertices()
	x, dz := l.inputs(storage, n)
	return l.exact(inEdgesOf(&g.Relations[0], along), matrix(n, l.In, x),
		matrix(n, l.Out, dz), l.drawnWeights())
}

// drawnWeights are the parameters that Run gives the layer.
func (l Layer) drawnWeights() (w []*reference.Matrix) {
	memory := tensor.NewMeter()
	defer memory.Close()
	for i, shape := range l.Weights {
		value := memory.New(tensor.Parameters, shape[0], shape[1])
		drawWeight(value, i)
		w = append(w, matrix(shape[0], shape[1], doubles(value.Floats())))
	}
	return w
}

func matrix(rows, cols int, data []float64) *reference.Matrix {
	return &reference.Matrix{Rows: rows, Cols: cols, Data: data}
}

// Alone is the layer's result on one worker.
func (l Layer) Alone(t testing.TB, g *graph.Graph, along gnn.Along) *Outcome {
	t.Helper()
	return l.alone(t, tensor.Float32, g, along)
}

func (l Layer) alone(t testing.TB, storage tensor.Element, g *graph.Graph, along gnn.Along) *Outcome {
	t.Helper()
	o := l.Blank(g.Vertices())
	Workers{Mesh: mesh.One, Storage: storage, Graph: g}.Run(t, func(c engine.Config) {
		l.Run(c, Whole(t, c.Team, g), along, o)
	})
	return o
}

// Near fails if an outcome differs from the wanted one by more than rounding.
func (o *Outcome) Near(t testing.TB, what string, want *Outcome) {
	t.Helper()
	o.within(t, tolerances[tensor.Float32], what, want)
}

func (o *Outcome) within(t testing.TB, tolerance float64, what string, want *Outcome) {
	t.Helper()
	near(t, what, o.Out, want.Out, tolerance)
	near(t, what+", input gradient", o.DX, want.DX, tolerance)
	for i, dw := range want.DW {
		near(t, fmt.Sprintf("%s, gradient of parameter %d", what, i), o.DW[i], dw, tolerance)
	}
}

// near fails if two results differ by more than tolerance, relative to the largest number.
func near(t testing.TB, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	largest := 0.0
	for _, x := range want {
		largest = math.Max(largest, math.Abs(x))
	}
	for i, x := range got {
		if d := math.Abs(x - want[i]); !(d <= tolerance*largest) {
			t.Errorf("%s: number %d is %v, want %v", what, i, x, want[i])
			return
		}
	}
}
