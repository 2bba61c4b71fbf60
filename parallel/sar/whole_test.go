package sar_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/tensor"
)

// The ways along the edges of a graph of one relation.
var (
	stored   = gnn.Along{Relation: graph.RelationName}
	reversed = gnn.Along{Relation: graph.RelationName, Reversed: true}
)

// TestUnknownRelation: a relation that the graph does not have is named with those that it has.
func TestUnknownRelation(t *testing.T) {
	b := newBench(t, false, false)
	defer func() {
		if got, want := recover(), `sar: convs.1 reaches along relation "cites", and the graph has ["edge"]`; got != want {
			t.Errorf("%v, want %s", got, want)
		}
	}()
	b.whole.Propagator("convs.1", gnn.Along{Relation: "cites"})
}

// bench is one graph on one worker.
type bench struct {
	t        *testing.T
	team     *kernel.Team
	r        *rand.Rand
	vertices int
	edges    graph.Edges
	relation graph.Relation
	whole    *sar.Partition
}

// newBench makes a directed graph in which vertex 3 has no edges, vertex 4 none that go in and 5 none that go
// out; others have duplicate edges, and where loops is set one self loop or two.
func newBench(t *testing.T, loops, weighted bool) *bench {
	b := &bench{t: t, team: kernel.NewTeam(2, tensor.NewMeter()), r: rand.New(rand.NewPCG(5, 5)), vertices: 14}
	t.Cleanup(b.team.Memory.Close)
	add := func(source, target int) {
		if source == 3 || target == 3 || source == 5 || target == 4 {
			return
		}
		b.edges.Source, b.edges.Target = append(b.edges.Source, int32(source)), append(b.edges.Target, int32(target))
		if weighted {
			b.edges.Weights = append(b.edges.Weights, .25+b.r.Float32())
		}
	}
	for range 50 {
		if s, v := b.r.IntN(b.vertices), b.r.IntN(b.vertices); s != v {
			add(s, v)
		}
	}
	for v := range 3 {
		add(8, v)
		add(8, v)
		if loops {
			add(v, v)
			add(v+9, v+9)
			add(v+9, v+9)
		}
	}
	var err error
	if b.relation, err = graph.NewRelation(b.vertices, b.edges); err != nil {
		t.Fatal(err)
	}
	b.whole = paralleltest.Whole(t, b.team, &b.relation)
	return b
}

func (b *bench) normal(rows, cols int) *tensor.Matrix {
	m := b.team.Memory.New(tensor.Features, rows, cols)
	for i := range m.Floats() {
		m.Floats()[i] = float32(b.r.NormFloat64())
	}
	return m
}

func exact(m *tensor.Matrix) *reference.Matrix { return reference.From32(m.Rows, m.Cols, m.Floats()) }

func (b *bench) near(what string, got *tensor.Matrix, want *reference.Matrix) {
	b.t.Helper()
	for i, w := range want.Data {
		if g := float64(got.Floats()[i]); !(math.Abs(g-w) <= 2e-5*math.Max(1, math.Abs(w))) {
			b.t.Fatalf("%s: number %d is %v, want %v", what, i, g, w)
		}
	}
}

// dense is the aggregation's matrix by its definition: entry (i, j) for j→i, or for i→j where reversed.
func (b *bench) dense(r gnn.Reduce, along gnn.Along) *reference.Matrix {
	a := reference.New(b.vertices, b.vertices)
	degree, loop, looped := make([]float64, b.vertices), make([]float64, b.vertices), make([]bool, b.vertices)
	symmetric := r.Kind == gnn.KindSymmetric || r.Kind == gnn.KindSymmetricNoLoops
	for v := range b.vertices { // in the relation's order, for the last of several loops
		for k := b.relation.Indptr[v]; k < b.relation.Indptr[v+1]; k++ {
			s, target, w := int(b.relation.Sources[k]), v, 1.
			if along.Reversed {
				s, target = target, s
			}
			if symmetric && b.relation.Weights != nil {
				w = float64(b.relation.Weights[k])
			}
			if s == target && r.Kind == gnn.KindSymmetric {
				loop[v], looped[v] = w, true
				continue
			}
			a.Add(target, s, w)
			degree[target] += w
		}
	}
	for i := range b.vertices {
		switch r.Kind {
		case gnn.KindSum:
			a.Add(i, i, float64(r.Self))
		case gnn.KindSymmetric:
			if !looped[i] {
				loop[i] = 1
			}
			a.Add(i, i, loop[i])
			degree[i] += loop[i]
		}
	}
	for i := range b.vertices {
		for j := range b.vertices {
			switch {
			case a.At(i, j) == 0:
			case r.Kind == gnn.KindMean:
				a.Set(i, j, a.At(i, j)/degree[i])
			case symmetric && degree[i]*degree[j] == 0:
				a.Set(i, j, 0)
			case symmetric:
				a.Set(i, j, a.At(i, j)/math.Sqrt(degree[i]*degree[j]))
			}
		}
	}
	return a
}

var linear = map[string]gnn.Reduce{
	"sum": gnn.Sum, "sum and itself": {Kind: gnn.KindSum, Self: 1.25}, "mean": gnn.Mean, "symmetric": gnn.Symmetric,
	"symmetric without loops": gnn.SymmetricNoLoops,
}

// each runs a test on each graph and direction.
func each(t *testing.T, run func(b *bench, along gnn.Along)) {
	for _, loops := range []bool{false, true} {
		for _, weighted := range []bool{false, true} {
			for _, along := range []gnn.Along{stored, reversed} {
				name := strings.Join([]string{map[bool]string{true: "loops"}[loops], map[bool]string{true: "weighted"}[weighted], map[bool]string{true: "reversed"}[along.Reversed]}, "-")
				t.Run(name, func(t *testing.T) { run(newBench(t, loops, weighted), along) })
			}
		}
	}
}

// TestAggregations: each linear aggregation is a product with its matrix, twice with its square, and its
// gradient one with the transpose.
func TestAggregations(t *testing.T) {
	each(t, func(b *bench, along gnn.Along) {
		for name, reduce := range linear {
			a := b.dense(reduce, along)
			for _, times := range []int{1, 2} {
				tape := autograd.NewTrainingTape(b.team, autograd.Random{})
				x, g := b.normal(b.vertices, 6), b.normal(b.vertices, 6)
				in := tape.Input(x, b.whole.Rows())
				out := b.whole.Propagator("here", along).Propagate(in, reduce, times)
				want, grad := exact(x), exact(g)
				for range times {
					want, grad = reference.MatMul(a, want), reference.MatMulTransA(a, grad)
				}
				b.near(name, out.Value(), want)
				tape.Backward(autograd.Root{Var: out, Grad: g})
				b.near(name+", gradient", in.TakeGrad(), grad)
			}
		}
	})
}

// TestMax: the largest of the in-neighbours' values, a stored self loop making the vertex its own.
func TestMax(t *testing.T) {
	each(t, func(b *bench, along gnn.Along) {
		lists := make([][]int32, b.vertices)
		for k, s := range b.edges.Source {
			target := b.edges.Target[k]
			if along.Reversed {
				s, target = target, s
			}
			lists[target] = append(lists[target], s)
		}
		indptr, indices := []int64{0}, []int32(nil)
		for _, list := range lists {
			indices = append(indices, list...)
			indptr = append(indptr, int64(len(indices)))
		}
		tape := autograd.NewTrainingTape(b.team, autograd.Random{})
		x, g := b.normal(b.vertices, 5), b.normal(b.vertices, 5)
		want, arg := reference.Max(indptr, indices, exact(x))
		grad := reference.MaxBackward(b.vertices, arg, exact(g))
		in := tape.Input(x, b.whole.Rows())
		out := b.whole.Propagator("here", along).Propagate(in, gnn.Max, 1)
		b.near("maximum", out.Value(), want)
		tape.Backward(autograd.Root{Var: out, Grad: g})
		b.near("gradient", in.TakeGrad(), grad)
	})
}

// TestOrdersOfWork: Â(xW) is the same in each order of work, and Explain says which was taken.
func TestOrdersOfWork(t *testing.T) {
	b := newBench(t, true, true)
	features, rows := b.normal(b.vertices, 8), b.whole.Rows()
	for i := range features.Floats() {
		if i%3 != 0 {
			features.Floats()[i] = 0
		}
	}
	for name, c := range map[string]struct {
		out  int
		x    func(t *autograd.Tape) *autograd.Var
		want string
	}{
		"narrow":             {3, func(t *autograd.Tape) *autograd.Var { return t.Input(features, rows) }, "transform 8 columns to 3, then aggregate"},
		"wide":               {20, func(t *autograd.Tape) *autograd.Var { return t.Input(features, rows) }, "aggregate 8 columns, then transform to 20"},
		"fixed":              {5, func(t *autograd.Tape) *autograd.Var { return t.Fixed(features, rows) }, "aggregate the features once, then transform in every epoch"},
		"fixed and too wide": {3, func(t *autograd.Tape) *autograd.Var { return t.Fixed(features, rows) }, "transform 8 columns to 3, then aggregate"},
		"sparse":             {20, func(t *autograd.Tape) *autograd.Var { return t.SparseConstant(b.sparse(features), rows) }, "transform the sparse features, then aggregate"},
	} {
		w := b.normal(8, c.out)
		a := b.dense(gnn.Symmetric, stored)
		p := b.whole.Propagator(name, stored)
		var live int64
		for pass := range 3 { // the second and third pass find what the first kept
			tape := autograd.NewTrainingTape(b.team, autograd.Random{})
			dw, g := b.team.Zeros(tensor.Buffers, 8, c.out), b.normal(b.vertices, c.out)
			x := c.x(tape)
			out := tape.Scope(func() *autograd.Var { return p.AggregateLinear(x, tape.Parameter(w, dw), gnn.Symmetric) })
			b.near(name, out.Value(), reference.MatMul(a, reference.MatMul(exact(features), exact(w))))
			back := reference.MatMulTransA(a, exact(g))
			tape.Backward(autograd.Root{Var: out, Grad: g})
			b.near(name+", weight gradient", dw, reference.MatMulTransA(exact(features), back))
			if x.Wants() {
				dx := x.TakeGrad()
				b.near(name+", input gradient", dx, reference.MatMulTransB(back, exact(w)))
				dx.Release()
			}
			dw.Release()
			if now := b.team.Memory.Live(tensor.Activations) + b.team.Memory.Live(tensor.Gradients); pass > 0 && now != live {
				t.Errorf("%s: %d bytes of values and gradients live after pass %d, %d after the one before", name, now, pass+1, live)
			} else {
				live = now
			}
		}
		if explained := b.whole.Explain(); !slices.Contains(explained, name+": "+c.want) {
			t.Errorf("%q, want %q", explained, name+": "+c.want)
		}
	}
}

func (b *bench) sparse(m *tensor.Matrix) *autograd.Sparse {
	indptr, indices, values := []int64{0}, []int32{}, []float32{}
	for v := range m.Rows {
		for c := range m.Cols {
			if x := m.Floats()[v*m.Cols+c]; x != 0 {
				indices, values = append(indices, int32(c)), append(values, x)
			}
		}
		indptr = append(indptr, int64(len(indices)))
	}
	a := &kernel.CSR{
		Rows: m.Rows, Cols: m.Cols, Indptr: b.team.Memory.NewElement(tensor.Features, tensor.Int64, 1, len(indptr)),
		Indices: b.team.Memory.NewElement(tensor.Features, tensor.Int32, 1, len(indices)), Values: b.team.Memory.New(tensor.Features, 1, len(values)),
	}
	copy(a.Indptr.Int64s(), indptr)
	copy(a.Indices.Int32s(), indices)
	copy(a.Values.Floats(), values)
	return &autograd.Sparse{Rows: a, Columns: b.team.Transpose(a, tensor.Features)}
}

// TestFixedInputChanges: another matrix of features is aggregated anew, in place of the one before.
func TestFixedInputChanges(t *testing.T) {
	b := newBench(t, false, false)
	p := b.whole.Propagator("here", stored)
	w := b.normal(4, 4)
	live := int64(0)
	for i := range 3 {
		tape := autograd.NewTape(b.team)
		x := b.normal(b.vertices, 4)
		out := p.AggregateLinear(tape.Fixed(x, b.whole.Rows()), tape.Parameter(w, nil), gnn.Mean)
		b.near("output", out.Value(), reference.MatMul(b.dense(gnn.Mean, stored), reference.MatMul(exact(x), exact(w))))
		x.Release()
		switch now := b.team.Memory.Live(tensor.Features); {
		case i == 0:
			live = now
		case now != live:
			t.Errorf("%d bytes are live after input %d, %d after the first", now, i, live)
		}
	}
}
