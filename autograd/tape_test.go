package autograd_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/tensor"
)

// bench is a training tape and a meter. Each matrix fills less than a page, so that live bytes count
// matrices.
type bench struct {
	t    *testing.T
	team *kernel.Team
	tape *autograd.Tape
	r    *rand.Rand
}

const (
	page              = 4096
	rows, cols, inner = 6, 4, 3
)

func newBench(t *testing.T) *bench {
	team := kerneltest.Team(t, 2, tensor.NewMeter())
	t.Cleanup(team.Memory.Close)
	return &bench{
		t, team, autograd.NewTrainingTape(team, autograd.Random{Seed: 1}),
		rand.New(rand.NewPCG(1, 1)),
	}
}

// matrix returns numbers of either sign between 0.1 and 1.5 in size: none is near a kink.
func (b *bench) matrix(rows, cols int) *tensor.Matrix {
	m := b.team.Memory.New(tensor.Parameters, rows, cols)
	for i := range m.Floats() {
		m.Floats()[i] = (.1 + 1.4*b.r.Float32()) * float32(1-2*b.r.IntN(2))
	}
	return m
}

func (b *bench) leaf(rows, cols int) *autograd.Var {
	return b.tape.Parameter(b.matrix(rows, cols), b.team.Zeros(tensor.Parameters, rows, cols))
}

// sparse returns a sparse matrix with about a third of its entries, and the same matrix as a dense one.
func (b *bench) sparse(rows, cols int) (*autograd.Sparse, *tensor.Matrix) {
	dense := b.team.Zeros(tensor.Parameters, rows, cols)
	indptr, indices, values := []int64{0}, []int32{}, []float32{}
	for i := range rows {
		for c := range cols {
			if b.r.IntN(3) == 0 {
				v := b.r.Float32() + .5
				dense.Floats()[i*cols+c] = v
				indices, values = append(indices, int32(c)), append(values, v)
			}
		}
		indptr = append(indptr, int64(len(indices)))
	}
	a := &kernel.CSR{
		Rows: rows, Cols: cols, Indptr: b.team.Memory.NewElement(tensor.Features,
			tensor.Int64, 1, len(indptr)),
		Indices: b.team.Memory.NewElement(tensor.Features, tensor.Int32, 1, len(indices)),
		Values:  b.team.Memory.New(tensor.Features, 1, len(values)),
	}
	copy(a.Indptr.Int64s(), indptr)
	copy(a.Indices.Int32s(), indices)
	copy(a.Values.Floats(), values)
	return &autograd.Sparse{Rows: a, Columns: b.team.Transpose(a, tensor.Features)}, dense
}

// ones returns the gradient of the sum of a value's elements.
func (b *bench) ones(v *autograd.Var) *tensor.Matrix {
	g := b.team.Memory.New(tensor.Gradients, v.Rows(), v.Cols())
	b.team.Fill(g, 1)
	return g
}

// live fails unless so many matrices of values and gradients are live, besides parameters and features.
func (b *bench) live(when string, want int) {
	b.t.Helper()
	m := b.team.Memory
	if got := (m.Live(tensor.Activations) + m.Live(tensor.Gradients) +
		m.Live(tensor.Buffers)) / page; got != int64(want) {
		b.t.Errorf("%s: %d matrices are live, want %d", when, got, want)
	}
}

func panics(t *testing.T, text string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), text) {
			t.Errorf("panic %v, want one with %q", p, text)
		}
	}()
	f()
}

// TestValuesLiveWhileHeld follows each value from the operation that makes it to its last reader.
func TestValuesLiveWhileHeld(t *testing.T) {
	b := newBench(t)
	x, w, v := b.leaf(rows, inner), b.leaf(inner, cols), b.leaf(inner, cols)
	var p *autograd.Var
	out := b.tape.Scope(func() *autograd.Var {
		h := autograd.Linear(x, w) // nobody keeps h
		b.live("a product", 1)
		p = autograd.Activate(h, kernel.Tanh) // it keeps its result
		b.live("an activation", 2)
		h.Drop()
		b.live("its input dropped", 1)
		q := autograd.Linear(x, v)
		m := autograd.Multiply(p, q) // it keeps both factors
		b.live("a product of elements", 3)
		p.Drop()
		q.Drop()
		b.live("both factors dropped, and kept", 3)
		return autograd.Scale(2, m)
	})
	b.live("the end of the scope", 3) // p, q and the result; no operation keeps m
	g := b.ones(out)
	b.live("the gradient", 4)
	b.tape.Backward(autograd.Root{Var: out, Grad: g})
	b.live("the backward pass", 0)
	panics(t, "given away, or dropped", func() { p.Value() })
	panics(t, "given away, or dropped", func() { out.Value() })
}

// TestBackwardReleasesAsItGoes: when an operation runs backward, only values that earlier operations need are
// still live.
func TestBackwardReleasesAsItGoes(t *testing.T) {
	b := newBench(t)
	x := b.leaf(rows, cols)
	var left []int64
	probe := func(in *autograd.Var) *autograd.Var {
		z := b.tape.New(rows, cols)
		b.team.Copy(z, in.Value())
		return b.tape.Record(autograd.Op{
			Value: z, Inputs: []*autograd.Var{in},
			Backward: func(g *tensor.Matrix) {
				left = append(left, b.team.Memory.Live(tensor.Activations)/page)
				in.AddGrad(g)
			},
		})
	}
	out := b.tape.Scope(func() *autograd.Var {
		h := x
		for range 4 {
			h = probe(autograd.Activate(h, kernel.Tanh))
		}
		return h
	})
	b.tape.Backward(autograd.Root{Var: out, Grad: b.ones(out)})
	// A probe's own result is held only until its backward step ends. The results of the earlier tanhs stay.
	for i, want := range []int64{4, 3, 2, 1} {
		if left[i] != want {
			t.Errorf("step %d backward: %d values are left, want %d", i, left[i], want)
		}
	}
	b.live("the end", 0)
}

// TestGradientTakesTheValuesMemory: GraphSAGE's layer has two products. When both have run backward, the
// gradient of the layer's input reuses the memory of the input, unless the operation that made the input
// still reads it.
func TestGradientTakesTheValuesMemory(t *testing.T) {
	for kind := range 4 {
		again, aggregated := kind&1 > 0, kind&2 > 0
		b := newBench(t)
		c, left, right := b.leaf(rows, cols), b.leaf(cols, inner), b.leaf(cols, inner)
		start := b.matrix(rows, cols)
		var x *autograd.Var
		watch := func(when string, want int, v *autograd.Var) *autograd.Var {
			z, _ := v.Take()
			return b.tape.Record(autograd.Op{
				Value: z, Inputs: []*autograd.Var{v}, Reads: true,
				Backward: func(g *tensor.Matrix) {
					b.live(fmt.Sprintf("%s, the input read again %v", when, again), want)
					v.AddGrad(g)
				},
			})
		}
		out := b.tape.Scope(func() *autograd.Var {
			value := b.team.Memory.New(tensor.Activations, rows, cols)
			b.team.Copy(value, start)
			x = b.tape.Record(autograd.Op{
				Value: value, Inputs: []*autograd.Var{c}, KeepsResult: again,
				Backward: func(g *tensor.Matrix) {
					want := 1 // only the gradient
					if again {
						want = 2
						if !slices.Equal(x.Value().Floats(), start.Floats()) {
							t.Error("a value was overwritten that is read again")
						}
					}
					b.live("the input's own step", want)
					c.AddGrad(g)
				},
			})
			if !aggregated {
				// The input, and a gradient that both share.
				z := watch("between the products", 2, autograd.Linear(x, left))
				return autograd.AddLinear(z, x, right)
			}
			z := b.tape.New(rows, cols) // like an aggregation, this adds to the input's gradient itself
			b.team.Copy(z, x.Value())
			neighbours := b.tape.Record(autograd.Op{
				Value: z, Inputs: []*autograd.Var{x}, Reads: true,
				Backward: func(g *tensor.Matrix) {
					dx, add := x.Grad()
					if add {
						t.Error("a gradient came before its time")
					}
					b.team.Copy(dx, g)
					g.Release()
				},
			})
			return autograd.AddLinear(autograd.Linear(neighbours, left), x, right)
		})
		g := b.ones(out)
		b.tape.Backward(autograd.Root{Var: out, Grad: g})
		got, _ := c.Grad()
		for i := range rows {
			for k := range cols {
				want := float32(0)
				for j := range inner {
					want += left.Value().Floats()[k*inner+j] + right.Value().Floats()[k*inner+j]
				}
				if d := got.Floats()[i*cols+k] - want; d > 1e-5 || d < -1e-5 {
					t.Errorf("the gradient at %d, %d is %v, want %v", i, k, got.Floats()[i*cols+k], want)
				}
			}
		}
		b.live("the end", 0)
	}
}

// TestEvaluationKeepsNothing: a tape that does not record releases each value at the end of its scope, keeps
// no buffers and leaves gradients alone.
func TestEvaluationKeepsNothing(t *testing.T) {
	b := newBench(t)
	b.tape = autograd.NewTape(b.team)
	x, w := b.leaf(rows, inner), b.leaf(inner, cols)
	buffer := b.team.Zeros(tensor.Buffers, 1, 1)
	out := b.tape.Scope(func() *autograd.Var {
		h := autograd.Activate(autograd.Linear(x, w), kernel.ELU)
		z := b.tape.New(rows, cols)
		b.team.Copy(z, h.Value())
		return b.tape.Record(autograd.Op{
			Value: z, Inputs: []*autograd.Var{h}, Keeps: []*autograd.Var{h},
			KeepsResult: true, Buffers: []*tensor.Matrix{buffer},
		})
	})
	b.live("the end of the scope", 1)
	if out.RequiresGrad() {
		t.Error("a gradient is wanted in evaluation")
	}
	out.Drop()
	b.live("the result dropped", 0)
}

// TestConstantsRecordNothing: an operation on constants alone is not recorded, and its result is released
// when nobody holds it.
func TestConstantsRecordNothing(t *testing.T) {
	b := newBench(t)
	c, w := b.tape.Fixed(b.matrix(rows, inner), nil), b.leaf(inner, cols)
	if c.RequiresGrad() || !c.Fixed() || b.tape.Constant(b.matrix(1, 1), nil).Fixed() {
		t.Error("a constant wants a gradient, or does not know whether it is fixed")
	}
	out := b.tape.Scope(func() *autograd.Var {
		h := autograd.Scale(2, c)
		if h.RequiresGrad() {
			t.Error("the double of a constant wants a gradient")
		}
		return autograd.Linear(h, w)
	})
	b.live("the scope's end", 2) // the product keeps h for w's gradient
	b.tape.Backward(autograd.Root{Var: out, Grad: b.ones(out)})
	b.live("the backward pass", 0)

	h := autograd.Scale(2, c)
	g := b.ones(h)
	b.tape.Backward(autograd.Root{Var: h, Grad: g}) // nothing needs it
	b.live("a gradient that nobody wants", 0)
}

// TestOutsideScopes: Backward releases values that were made outside every scope.
func TestOutsideScopes(t *testing.T) {
	b := newBench(t)
	c, w := b.tape.Fixed(b.matrix(rows, inner), nil), b.leaf(inner, cols)
	autograd.Scale(3, c)
	out := autograd.Linear(autograd.Scale(2, c), w)
	b.tape.Backward(autograd.Root{Var: out, Grad: b.ones(out)})
	b.live("the backward pass", 0)
}

// TestTake: an operation works in place if nobody else needs its input, and makes a copy otherwise.
func TestTake(t *testing.T) {
	b := newBench(t)
	w := b.leaf(rows, cols)
	finish := func(x *autograd.Var) *autograd.Var {
		return autograd.Finish(x, nil, kernel.ReLU, kernel.Mask{})
	}
	for _, c := range []struct {
		name    string
		x       func() *autograd.Var
		inPlace bool
		leaf    bool // the Var may still be used
	}{
		{"an intermediate value", func() *autograd.Var { return autograd.Scale(1, w) }, true, false},
		{"a parameter", func() *autograd.Var { return w }, false, true},
		{"a constant", func() *autograd.Var {
			return b.tape.Constant(b.matrix(rows, cols), nil)
		}, false, true},
		{"a value kept as a result", func() *autograd.Var {
			return autograd.Activate(w, kernel.Tanh)
		}, false, false},
		{"a value kept as an input", func() *autograd.Var {
			h := autograd.Scale(1, w)
			autograd.Multiply(h, h)
			return h
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := c.x()
			m := x.Value()
			p, before := m.Pointer(), m.Floats()[0]
			z := finish(x)
			if inPlace := z.Value().Pointer() == p; inPlace != c.inPlace {
				t.Errorf("in place: %v, want %v", inPlace, c.inPlace)
			}
			if !c.leaf {
				panics(t, "given away", func() { x.Value() })
				panics(t, "given away", func() { autograd.Scale(2, x) })
				panics(t, "given away", func() { finish(x) })
			}
			if !c.inPlace && m.Floats()[0] != before {
				t.Error("a value that is needed was overwritten")
			}
			if x.Rows() != rows || x.Cols() != cols {
				t.Errorf("the value was %d×%d", x.Rows(), x.Cols())
			}
		})
	}
	panics(t, "sparse", func() { s, _ := b.sparse(rows, cols); b.tape.SparseConstant(s, nil).Value() })
}

// TestScopes: a scope in a scope, one that returns a parameter, and one that returns its input.
func TestScopes(t *testing.T) {
	b := newBench(t)
	w := b.leaf(rows, cols)
	out := b.tape.Scope(func() *autograd.Var {
		h := b.tape.Scope(func() *autograd.Var { return autograd.Scale(2, autograd.Scale(3, w)) })
		b.live("the inner scope", 1)
		same := b.tape.Scope(func() *autograd.Var { return h })
		if same != h || b.tape.Scope(func() *autograd.Var { return w }) != w {
			t.Error("a scope returns another Var")
		}
		b.live("a scope that returns its input", 1)
		return autograd.Scale(5, h)
	})
	b.live("the outer scope", 1)
	if b.tape.Scope(func() *autograd.Var { return nil }) != nil {
		t.Error("a scope returns something for nothing")
	}
	if got, want := out.Value().Floats()[0], 30*w.Value().Floats()[0]; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	b.tape.Backward(autograd.Root{Var: out, Grad: b.ones(out)})
	b.live("the backward pass", 0)
	w.Drop()
	if w.Value() == nil {
		t.Error("a parameter was dropped")
	}
}

func TestRandomKeys(t *testing.T) {
	seen := map[uint64]string{}
	for seed := range uint64(40) {
		for epoch := range 40 {
			for _, path := range []string{
				"", "input", "layers.0.dropout", "layers.1.dropout",
				"layers.0.dropou", "layers.10.dropout", "layers.2.dropout", "layers.4.dropout",
			} {
				at, key := fmt.Sprint(seed, epoch, path), autograd.Random{Seed: seed, Epoch: epoch}.Key(path)
				if other, taken := seen[key]; taken {
					t.Fatalf("%s and %s have one key", at, other)
				}
				seen[key] = at
			}
		}
	}
}

// TestComplete: a leaf's gradient is announced once, when the last operation that adds to it has run
// backward.
func TestComplete(t *testing.T) {
	b := newBench(t)
	value := b.matrix(cols, cols)
	early, late := b.team.Zeros(tensor.Parameters, cols, cols), b.team.Zeros(tensor.Parameters, cols, cols)
	unused := b.team.Zeros(tensor.Parameters, cols, cols)
	var order []string
	var atOnce []float32
	b.tape.Ledger = autograd.NewLedger(func(g *tensor.Matrix) {
		switch g {
		case early:
			order = append(order, "early")
			atOnce = append(atOnce, g.Floats()...)
		case late:
			order = append(order, "late")
		default:
			t.Error("a gradient of no parameter")
		}
	})
	x := b.tape.Constant(b.matrix(rows, cols), nil)
	b.tape.Parameter(value, unused)
	h := autograd.Linear(x, b.tape.Parameter(value, late))
	h = autograd.Linear(h, b.tape.Parameter(value, early))
	h = autograd.Linear(h, b.tape.Parameter(value, early)) // the same parameter on the tape again
	b.tape.Backward(autograd.Root{Var: h, Grad: b.ones(h)})
	if !slices.Equal(order, []string{"early", "late"}) || !slices.Equal(atOnce, early.Floats()) {
		t.Errorf("announced %v", order)
	}
}

// TestAnnounced: a tape with announced parameters refuses others.
func TestAnnounced(t *testing.T) {
	b := newBench(t)
	known, other := b.team.Zeros(tensor.Parameters, 1, 1), b.team.Zeros(tensor.Parameters, 1, 1)
	b.tape.Announced = map[*tensor.Matrix]bool{known: true}
	b.tape.Parameter(known, known)
	panics(t, "not announced", func() { b.tape.Parameter(other, other) })
}

// TestLedgerOfSeveralTapes: a parameter that two tapes of a step use is complete when the last operation of
// both has run backward.
func TestLedgerOfSeveralTapes(t *testing.T) {
	b := newBench(t)
	w := b.leaf(cols, cols)
	value, grad := w.Value(), b.team.Zeros(tensor.Parameters, cols, cols)
	var complete int
	ledger := autograd.NewLedger(func(g *tensor.Matrix) {
		if complete++; g != grad {
			t.Error("another gradient")
		}
	})
	rows := autograd.AllHere(rows)
	run := func() (tape *autograd.Tape, x, out *autograd.Var) {
		tape = autograd.NewTrainingTape(b.team, autograd.Random{})
		tape.Ledger = ledger
		x = tape.Input(b.matrix(rows.Here, cols), rows)
		return tape, x, autograd.Linear(x, tape.Parameter(value, grad))
	}
	first, _, a := run()
	second, _, c := run()
	second.Backward(autograd.Root{Var: c, Grad: b.ones(c)})
	if complete != 0 {
		t.Error("complete before the other tape has run backward")
	}
	first.Backward(autograd.Root{Var: a, Grad: b.ones(a)})
	if complete != 1 {
		t.Errorf("complete %d times", complete)
	}
	panics(t, "after its gradient was complete", func() { run() })
}

// TestCutTape: a pass over two tapes, where an input of the second is a result of the first, has the
// gradients of one pass. The first tape runs backward from two roots, because it passes on two values. An
// input on which nothing depends has the gradient 0.
func TestCutTape(t *testing.T) {
	b := newBench(t)
	set := autograd.AllHere(rows)
	x, start, v, w := b.matrix(rows, cols), b.matrix(rows, cols), b.leaf(cols, cols), b.leaf(cols, cols)
	front := func(in *autograd.Var) (h, along *autograd.Var) {
		h = autograd.Activate(autograd.Linear(in, in.Tape().Parameter(v.Value(), nil)), kernel.Tanh)
		return h, autograd.Scale(2, in)
	}
	back := func(h, along *autograd.Var) *autograd.Var {
		return autograd.Multiply(autograd.Linear(h, h.Tape().Parameter(w.Value(), nil)), along)
	}
	g := b.matrix(rows, cols)
	whole := autograd.NewTrainingTape(b.team, autograd.Random{})
	in := whole.Input(x, set)
	out := back(front(in))
	whole.Backward(autograd.Root{Var: out, Grad: g.Retain()})
	want := in.TakeGrad()

	first, second := autograd.NewTrainingTape(b.team, autograd.Random{}),
		autograd.NewTrainingTape(b.team, autograd.Random{})
	in = first.Input(x, set)
	h, along := front(in)
	h2, along2, idle := second.Input(h.Value(), set), second.Input(along.Value(), set),
		second.Input(start, set)
	cut := back(h2, along2)
	second.Backward(autograd.Root{Var: cut, Grad: g})
	first.Backward(autograd.Root{Var: h, Grad: h2.TakeGrad()},
		autograd.Root{Var: along, Grad: along2.TakeGrad()})
	if got := in.TakeGrad(); !slices.Equal(got.Floats(), want.Floats()) {
		t.Errorf("gradient %v, want %v", got.Floats(), want.Floats())
	}
	for _, x := range idle.TakeGrad().Floats() {
		if x != 0 {
			t.Fatalf("an input that nothing depends on has the gradient %v", x)
		}
	}
}

// TestRowsAreInherited: a result has the rows of its inputs. If these differ, the operation must give Rows.
func TestRowsAreInherited(t *testing.T) {
	b := newBench(t)
	set, other := autograd.AllHere(rows), autograd.AllHere(rows)
	x, y := b.tape.Constant(b.matrix(rows, cols), set), b.tape.Constant(b.matrix(rows, cols), other)
	w := b.leaf(cols, cols)
	if w.RowSet() != nil || autograd.Linear(x, w).RowSet() != set ||
		autograd.Detach(autograd.Linear(y, w)).RowSet() != other {
		t.Error("rows were not inherited")
	}
	panics(t, "different rows", func() { autograd.Multiply(x, y) })
	z := b.tape.Record(autograd.Op{Value: b.matrix(rows, cols), Inputs: []*autograd.Var{x, y}, Rows: other})
	if z.RowSet() != other {
		t.Error("the rows that an operation names were not taken")
	}
}

// TestGradientOfBlocks: a gradient in BFloat16 that is added up over several blocks is rounded once, together
// with the gradient that was there, and a matrix that other gradients share keeps its elements. The numbers
// are computed by hand: BFloat16 has steps of 1/128 above 1, so that 1 + 1/256 would be rounded to 1.
func TestGradientOfBlocks(t *testing.T) {
	for _, c := range []struct {
		element tensor.Element
		before  float32 // the gradient before; 0: none
		want    float32
	}{
		{tensor.BFloat16, 1, 1 + 2./128}, // 1 + 3/256, halfway
		{tensor.BFloat16, 0, 3. / 256},
		{tensor.Float32, 1, 1 + 3./256},
		{tensor.Float32, 0, 3. / 256},
	} {
		b := newBench(t)
		filled := func(e tensor.Element, value float32) *tensor.Matrix {
			m, wide := b.team.Memory.NewElement(tensor.Gradients, e, rows, cols),
				b.team.Memory.New(tensor.Gradients, rows, cols)
			b.team.Fill(wide, value)
			b.team.Convert(m, wide)
			wide.Release()
			return m
		}
		x, block := b.tape.Input(filled(c.element, 5), nil), filled(tensor.Float32, 1./256)
		shared := filled(c.element, c.before)
		if c.before != 0 {
			x.AddGrad(shared.Retain())
		}
		sum := x.BlockGradSum(3)
		for range 3 {
			b.team.Axpy(sum, 1, block)
		}
		x.AddBlockGrad(sum)
		got, wide := x.TakeGrad(), filled(tensor.Float32, 0)
		for m, want := range map[*tensor.Matrix]float32{got: c.want, shared: c.before} {
			b.team.Convert(wide, m)
			if m.Element != c.element || wide.Floats()[0] != want || wide.Floats()[rows*cols-1] != want {
				t.Errorf("%+v: element type %d, %v, want %v", c, m.Element, wide.Floats()[0], want)
			}
		}
	}
}

// TestOnLayer: the tape tells the layer of its operations, forward and backward, only when it changes.
func TestOnLayer(t *testing.T) {
	b := newBench(t)
	var told []string
	b.tape.OnLayer = func(layer int, backward bool) { told = append(told, fmt.Sprint(layer, backward)) }
	x := b.leaf(rows, cols)
	for layer := range 2 {
		b.tape.BeginLayer(layer)
		b.tape.BeginLayer(layer)
		x = autograd.Scale(3, autograd.Scale(2, x))
		b.tape.BeginLayer(autograd.NoLayer)
	}
	x = autograd.Scale(5, x)
	b.tape.Backward(autograd.Root{Var: x, Grad: b.matrix(rows, cols)})
	want := []string{"0 false", "-1 false", "1 false", "-1 false", "1 true", "0 true", "-1 true"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
