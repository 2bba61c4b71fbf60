package kernel_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// special are numbers at which functions have kinks and ends.
var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, .5, -.5, 1.5, 2.5, -2.5, 1e-3, -1e-3, 1e-30, -1e-30, 1e-41,
	20, 21,
	-20, 87, -87, 88.5, 89, -90, 200, -200, 1e10, -1e10, 3e38, float32(math.Inf(1)), float32(math.Inf(-1)),
	float32(math.NaN()),
}

// units is, by operation, how many units in the last place a result may be off; 0: it is exact. An operation
// whose terms cancel may be off by more: GELU's 1 + erf x, and SELU's factors.
var units = map[string]float64{
	"exp": 2, "log": 2, "log1p": 4, "expm1": 3, "sin": 2, "cos": 2, "atan": 2, "atan2": 2, "tanh": 4, "sigmoid": 4, "elu": 4,
	"selu": 4, "leaky_relu": 1, "silu": 4, "softplus": 4, "erf": 3, "logsigmoid": 4, "rsqrt": 2, "sqrt": 1,
	"reciprocal": 1,
	"square":     1, "add": 1, "sub": 1, "mul": 1, "div": 1, "pow": 2,
}

// near reports whether a number is within so many units of the exact one. A denormal result may be off by the
// smallest normal number, and GELU's by the rounding of 1 + erf.
func near(got float32, want float64, name string, x float64) bool {
	least := 0.0
	if units[name] > 0 {
		least = 2e-45
	}
	if name == "sigmoid" || name == "silu" { // where e^−x is infinite
		least = 1e-38 * math.Max(1, math.Abs(x))
	}
	if name == "gelu" || name == "gelu_tanh" {
		least = 4 * u * math.Min(math.Abs(x), 8)
	}
	if math.IsNaN(want) || math.Abs(want) > math.MaxFloat32 || math.IsInf(float64(got), 0) {
		const large = .999999 * math.MaxFloat32
		g := float64(got)
		return got == float32(want) || got != got && want != want ||
			math.Abs(want) > large && math.Abs(g) > large && want*g > 0
	}
	return math.Abs(float64(got)-want) <= units[name]*ulp(want)+least
}

func conformPointwise(s *suite) {
	for name, op := range kernel.Operations {
		s.conformOperation(name, op)
	}
	s.conformOperands()
}

// conformOperation compares an operation with its function for all pairs of special and other numbers.
func (s *suite) conformOperation(name string, op kernel.Operation) {
	withStorage(s.t, s.storage, func(s *suite) {
		numbersOf := slices.Clone(special)
		for range 70 {
			numbersOf = append(numbersOf, float32(s.r.NormFloat64()), float32(10*s.r.NormFloat64()))
		}
		n := len(numbersOf)
		var x [3]*tensor.Matrix
		for k := range x {
			m := s.blank(n, n)
			for i := range m.Floats() {
				m.Floats()[i] = numbersOf[[]int{i % n, i / n, (i + i/n) % n}[k]]
			}
			x[k] = s.as(s.storage, m)
		}
		const value = .3
		e := &kernel.Expression{Inputs: 3}
		e.Results = []int{e.OpOf(op, value, 0, 1, 2)}
		z := s.unwritten(n, n)
		s.team.Pointwise([]*tensor.Matrix{z}, e, []kernel.Operand{{X: x[0]}, {X: x[1]}, {X: x[2]}})
		got, inputs := numbers(z), [3][]float32{numbers(x[0]), numbers(x[1]), numbers(x[2])}
		for i, v := range got {
			a, b, c := float64(inputs[0][i]), float64(inputs[1][i]), float64(inputs[2][i])
			want := reference.Operations[name](float64(float32(value)), a, b, c)
			if s.storage == tensor.BFloat16 {
				rounded := tensor.FromBFloat16(tensor.RoundBFloat16(float32(want)))
				d := math.Abs(float64(v) - want)
				if d > math.Abs(want)/200+1e-6 && v != rounded || (v != v) != (rounded != rounded) {
					s.t.Errorf("%s of %v, %v, %v is %v, want %v", name, a, b, c, v, want)
					return
				}
			} else if !near(v, want, name, a) {
				s.t.Errorf("%s of %v, %v, %v is %v, want %v", name, a, b, c, v, want)
				return
			}
		}
	})
}

// conformOperands tests operands of every kind: of one row, with listed columns, of each type. Results are
// inputs, constants, or written over an input.
func (s *suite) conformOperands() {
	s.shapes(func(s *suite, rows, cols int) {
		what := case_("rows", rows, "columns", cols)
		x, row, heads, head := s.stored(rows, cols), s.normal(1, cols), s.stored(rows, 3), s.normal(1, 3)
		other := s.normal(rows+1, cols).RowRange(0, rows)
		list := make([]int32, cols)
		for c := range list {
			list[c] = int32(c * 3 / cols)
		}
		slices.Reverse(list[:cols/2])
		columns := s.ints(list)
		e := &kernel.Expression{Inputs: 6}
		sum := e.Op(kernel.OpAdd, e.Op(kernel.OpMul, 0, 1), e.Op(kernel.OpMul, 2, 3))
		e.Results = []int{e.Op(kernel.OpSub, sum, e.Op(kernel.OpMul, 4, e.Constant(.5))), 0, e.Constant(7)}
		z, copied, sevens := s.unwritten(rows, cols), s.unwritten(rows, cols), s.blank(rows, cols)
		operands := []kernel.Operand{{X: x}, {X: row}, {heads, columns}, {head, columns}, {X: other}, {}}
		s.team.Pointwise([]*tensor.Matrix{z, copied, sevens}, e, operands)
		want, terms := reference.New(rows, cols), reference.New(rows, cols)
		ofX, ofHeads := numbers(x), numbers(heads)
		for i := range rows {
			for c := range cols {
				a := float64(ofX[i*cols+c]) * float64(row.Floats()[c])
				b := float64(ofHeads[i*3+int(list[c])]) * float64(head.Floats()[list[c]])
				d := float64(other.Floats()[i*cols+c]) / 2
				want.Set(i, c, a+b-d)
				terms.Set(i, c, math.Abs(a)+math.Abs(b)+math.Abs(d))
			}
		}
		s.sums(what, z, want.Data, terms.Data, 1)
		other7 := func(v float32) bool { return v != 7 }
		if !same(copied, x) || slices.ContainsFunc(sevens.Floats(), other7) {
			s.t.Fatalf("%s: an input or a constant is no result", what)
		}
		over := s.copy(x)
		operands[0].X = over
		s.team.Pointwise([]*tensor.Matrix{over, copied, sevens}, e, operands)
		if !same(over, z) {
			s.t.Fatalf("%s: in place gives other numbers", what)
		}
	})
	s.each([]int{0, 1, 2, 511, 512, 513, 70_001}, (*suite).manyOperands)
}

func (s *suite) allOperands() { s.manyOperands(1000) }

// manyOperands adds up as many operands as there are.
func (s *suite) manyOperands(n int) {
	e := &kernel.Expression{Inputs: kernel.MaxInputs}
	operands, want := make([]kernel.Operand, e.Inputs), make([]float64, n)
	sum := e.Constant(0)
	for k := range operands {
		operands[k].X = s.stored(1, n)
		sum = e.Op(kernel.OpAdd, sum, k)
		for i, v := range numbers(operands[k].X) {
			want[i] += float64(v)
		}
	}
	e.Results = []int{sum, 0}
	z, copied := s.unwritten(1, n), s.unwritten(1, n)
	s.team.Pointwise([]*tensor.Matrix{z, copied}, e, operands)
	s.elements(case_(n), z, want, 200)
	if !same(copied, operands[0].X) {
		s.t.Fatalf("%d: an input is no result", n)
	}
}

// TestAdjoint compares the gradient of each operation with differences of its function in float64 away from
// kinks, and with PyTorch's at kinks.
func TestAdjoint(t *testing.T) {
	const value, h = .3, 1e-5
	with(t, func(s *suite) {
		for _, name := range slices.Sorted(maps.Keys(kernel.Operations)) { // the same numbers in each run
			op := kernel.Operations[name]
			if op.Operands() == 0 || name == "detach" {
				continue
			}
			e := &kernel.Expression{Inputs: op.Operands()}
			e.Results = []int{e.OpOf(op, value, []int{0, 1, 2}[:op.Operands()]...)}
			const n = 400
			x, wanted := make([]*tensor.Matrix, e.Inputs), make([]bool, e.Inputs)
			for k := range x {
				x[k], wanted[k] = s.normal(1, n), true
				for i, v := range x[k].Floats() {
					if slices.Contains([]string{"log", "log1p", "sqrt", "rsqrt", "pow"}, name) {
						v = float32(math.Abs(float64(v)))
					}
					x[k].Floats()[i] = v + float32(math.Copysign(.1, float64(v)))
				}
			}
			f := func(i, k int, d float64) float64 {
				var at [3]float64
				for j := range x {
					at[j] = float64(x[j].Floats()[i])
				}
				at[k] += d
				return reference.Operations[name](float64(float32(value)), at[:]...)
			}
			for k, dx := range s.adjoint(e, wanted, x) {
				for i, got := range dx {
					up, down, v := f(i, k, h), f(i, k, -h), float64(x[k].Floats()[i])
					if name == "fmod" && math.Abs(up-down) > .01 {
						continue // the function jumps between the two points
					}
					want := 3 * (up - down) / (2 * h)
					if math.Abs(float64(got)-want) > 1e-5*(1+math.Abs(want)) {
						if op == kernel.OpFloor || op == kernel.OpCeil || op == kernel.OpRound || up == down {
							want = 0
						}
						if float64(got) != want {
							t.Fatalf("%s, operand %d, at %v: gradient %v, want %v", name, k, v, got, want)
						}
					}
				}
			}
		}
		inf := float32(math.Inf(1))
		for _, c := range []struct {
			op   kernel.Operation
			x    []float32
			want []float32 // for a gradient of 3
		}{
			{kernel.OpReLU, []float32{0}, []float32{0}},
			{kernel.OpAbs, []float32{0}, []float32{0}},
			{kernel.OpSqrt, []float32{0}, []float32{inf}},
			{kernel.OpLog, []float32{0}, []float32{inf}},
			{kernel.OpELU, []float32{0}, []float32{.9}},
			{kernel.OpLeakyReLU, []float32{0}, []float32{.9}},
			{kernel.OpSELU, []float32{0}, []float32{3 * 1.75809934}},
			{kernel.OpReLU, []float32{inf}, []float32{3}},
			{kernel.OpELU, []float32{inf}, []float32{3}},
			{kernel.OpSoftplus, []float32{inf}, []float32{3}},
			{kernel.OpMaximum, []float32{2, 2}, []float32{1.5, 1.5}},
			{kernel.OpMaximum, []float32{1, 2}, []float32{0, 3}},
			{kernel.OpMinimum, []float32{2, 2}, []float32{1.5, 1.5}},
			{kernel.OpMinimum, []float32{1, 2}, []float32{3, 0}},
			{kernel.OpWhere, []float32{1, 5, inf}, []float32{0, 3, 0}},
			{kernel.OpWhere, []float32{0, inf, 5}, []float32{0, 0, 3}},
			{kernel.OpPow, []float32{0, 0}, []float32{0, 0}},
			{kernel.OpPow, []float32{-2, 3}, []float32{36, float32(math.NaN())}},
			{kernel.OpPow, []float32{0, 2}, []float32{0, 0}},
			{kernel.OpDetach, []float32{2}, []float32{0}},
			{kernel.OpGt, []float32{2, 1}, []float32{0, 0}},
			{kernel.OpDiv, []float32{1, 0}, []float32{inf, -inf}},
		} {
			e := &kernel.Expression{Inputs: c.op.Operands()}
			e.Results = []int{e.OpOf(c.op, value, []int{0, 1, 2}[:c.op.Operands()]...)}
			s.gradientsAre(e, c.x, c.want)
		}
		clamp := &kernel.Expression{Inputs: 1}
		least, most := float32(-1), float32(2)
		clamp.Results = []int{clamp.Clamp(0, kernel.Bounds{Least: &least, Most: &most})}
		strict := &kernel.Expression{Inputs: 1}
		strict.Results = []int{strict.Clamp(0, kernel.Bounds{Least: &least, Most: &most, Strict: true})}
		for x, want := range map[float32]float32{-1: 3, 2: 3, 0: 3, -1.5: 0, 2.5: 0} {
			s.gradientsAre(clamp, []float32{x}, []float32{want})
			if x == -1 || x == 2 {
				want = 0
			}
			s.gradientsAre(strict, []float32{x}, []float32{want})
		}
		// for a base of −2
		for exponent, want := range map[float32]float32{0: 0, 1: 3, 2: -12, 3: 36, -1: -.75} {
			e := &kernel.Expression{Inputs: 1}
			e.Results = []int{e.Op(kernel.OpPow, 0, e.Constant(exponent))}
			s.gradientsAre(e, []float32{-2}, []float32{want})
		}
		// An input that is read twice gets the sum. An input that does not matter is none of the adjoint's.
		e := &kernel.Expression{Inputs: 3}
		e.Results = []int{e.Op(kernel.OpMul, e.Op(kernel.OpAdd, 0, 1), 0)}
		s.gradientsAre(e, []float32{2, 5, 1}, []float32{27, 6, 0})
		a := e.Adjoint([]bool{false, true, false})
		for k, reads := range []bool{true, false, false, true} {
			assert.Equal(t, reads, a.Reads(k), "input %d", k)
		}
	})
}

// adjoint returns the gradients of the wanted inputs, for a gradient of 3 of the result.
func (s *suite) adjoint(e *kernel.Expression, wanted []bool, x []*tensor.Matrix) (all [][]float32) {
	a := e.Adjoint(wanted)
	g := s.blank(1, x[0].Cols)
	s.team.Fill(g, 3)
	var operands []kernel.Operand
	for _, m := range append(slices.Clone(x), g) {
		operands = append(operands, kernel.Operand{X: m})
	}
	z := make([]*tensor.Matrix, len(a.Results))
	for k := range z {
		z[k] = s.blank(1, g.Cols)
	}
	s.team.Pointwise(z, a, operands)
	for _, m := range z {
		all = append(all, m.Floats())
	}
	return all
}

func (s *suite) gradientsAre(e *kernel.Expression, at, want []float32) {
	s.t.Helper()
	x, wanted := make([]*tensor.Matrix, len(at)), make([]bool, len(at))
	for k, v := range at {
		x[k], wanted[k] = s.row(v), true
	}
	for k, dx := range s.adjoint(e, wanted, x) {
		got, want := dx[0], want[k]
		if !(math.Abs(float64(got-want)) <= 1e-5 || got == want || got != got && want != want) {
			s.t.Errorf("%v at %v: gradient %d is %v, want %v", e.Code, at, k, got, want)
		}
	}
}
