package kernel

import (
	"fmt"
	"math"
)

// Adjoint returns the expression of gradients for an expression of one result: one for each wanted input, in
// their order. Its inputs are those of the expression, and then the gradient of the result. It computes the
// registers again. Where a derivative does not exist, it has PyTorch's value.
func (e *Expression) Adjoint(wanted []bool) *Expression {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := fmt.Sprint(wanted)
	if known := e.adjoints[key]; known != nil {
		return known
	}
	a := &Expression{Inputs: e.Inputs + 1}
	moved := func(r int) int { // the adjoint's register for a register of the expression
		if r >= e.Inputs {
			r++
		}
		return r
	}
	depends := append([]bool(nil), wanted...) // by register: it depends on a wanted input
	for _, i := range e.Code {
		some := false
		for _, r := range i.operands() {
			some = some || depends[*r]
			*r = moved(*r)
		}
		depends = append(depends, some && i.Op != OpDetach)
		a.append(i)
	}
	gradients := map[int]int{e.Results[0]: e.Inputs} // by register
	for k := len(e.Code) - 1; k >= 0; k-- {
		r := e.Inputs + k
		g, reached := gradients[r]
		if !reached || !depends[r] {
			continue
		}
		b := adjointBuilder{Expression: a, Instruction: a.Code[k], y: moved(r), g: g}
		for n, operand := range e.Code[k].operands() {
			if !depends[*operand] {
				continue
			}
			term, some := b.term(n)
			if !some {
				continue
			}
			if before, others := gradients[*operand]; others {
				term = a.Op(OpAdd, before, term)
			}
			gradients[*operand] = term
		}
	}
	for k, wants := range wanted {
		if wants {
			g, reached := gradients[k]
			if !reached {
				g = a.Constant(0)
			}
			a.Results = append(a.Results, g)
		}
	}
	if e.adjoints == nil {
		e.adjoints = map[string]*Expression{}
	}
	e.adjoints[key] = a
	return a
}

// adjointBuilder appends the derivatives of an instruction to the adjoint, in whose registers it counts. The
// instruction's result is y, with the gradient g.
type adjointBuilder struct {
	*Expression
	Instruction
	y, g int
}

func (b *adjointBuilder) times(x, y int) int           { return b.Expression.Op(OpMul, x, y) }
func (b *adjointBuilder) scaled(x int, by float64) int { return b.times(x, b.Constant(float32(by))) }

func (b *adjointBuilder) plus(x int, more float64) int {
	return b.Expression.Op(OpAdd, x, b.Constant(float32(more)))
}

func (b *adjointBuilder) minus(from float64, x int) int {
	return b.Expression.Op(OpSub, b.Constant(float32(from)), x)
}
func (b *adjointBuilder) op(o Operation, x ...int) int { return b.Expression.Op(o, x...) }

// where returns x where the condition is true, else y.
func (b *adjointBuilder) where(condition, x, y int) int { return b.op(OpWhere, condition, x, y) }

// above returns g where the operand is above a number, else other.
func (b *adjointBuilder) above(than float32, g, other int) int {
	return b.where(b.op(OpGt, b.A, b.Constant(than)), g, other)
}

// unless returns other where the operand is 0 or less, and otherwise, also for NaN, g.
func (b *adjointBuilder) unless(g, other int) int {
	return b.where(b.op(OpLe, b.A, b.Constant(0)), other, g)
}

// term returns the register of the gradient that the instruction gives its operand n; ok says that it is
// not 0 everywhere.
func (b *adjointBuilder) term(n int) (gradient int, ok bool) {
	g, x, y := b.g, b.A, b.y
	switch b.Instruction.Op {
	case OpNeg:
		return b.op(OpNeg, g), true
	case OpAbs:
		return b.times(g, b.op(OpSign, x)), true
	case OpExp:
		return b.times(g, y), true
	case OpLog:
		return b.op(OpDiv, g, x), true
	case OpLog1p:
		return b.op(OpDiv, g, b.plus(x, 1)), true
	case OpExpm1:
		return b.times(g, b.plus(y, 1)), true
	case OpSqrt:
		return b.op(OpDiv, g, b.scaled(y, 2)), true
	case OpRsqrt:
		return b.times(b.scaled(g, -.5), b.times(b.op(OpSquare, y), y)), true
	case OpReciprocal:
		return b.times(b.op(OpNeg, g), b.op(OpSquare, y)), true
	case OpSquare:
		return b.times(g, b.scaled(x, 2)), true
	case OpSin:
		return b.times(g, b.op(OpCos, x)), true
	case OpCos:
		return b.times(g, b.op(OpNeg, b.op(OpSin, x))), true
	case OpAtan:
		return b.op(OpDiv, g, b.plus(b.op(OpSquare, x), 1)), true
	case OpTanh:
		return b.times(g, b.minus(1, b.op(OpSquare, y))), true
	case OpSigmoid:
		return b.times(g, b.times(y, b.minus(1, y))), true
	case OpReLU:
		return b.unless(g, b.Constant(0)), true
	case OpELU:
		return b.unless(g, b.times(g, b.scaled(b.op(OpExp, x), float64(b.Value)))), true
	case OpSELU:
		const scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
		below := b.times(g, b.scaled(b.op(OpExp, x), scale*alpha))
		return b.unless(b.scaled(g, scale), below), true
	case OpLeakyReLU:
		return b.above(0, g, b.scaled(g, float64(b.Value))), true
	case OpGELU:
		area := b.scaled(b.plus(b.op(OpErf, b.scaled(x, math.Sqrt2/2)), 1), .5)
		density := b.scaled(b.op(OpExp, b.scaled(b.op(OpSquare, x), -.5)), 1/math.Sqrt(2*math.Pi))
		return b.times(g, b.op(OpAdd, area, b.times(x, density))), true
	case OpGELUTanh: // d/dx x·σ(2u), u = √(2/π)·(x + 0.044715·x³)
		const scale = 2 * math.Sqrt2 / 1.7724538509055160272981674833411 // √π
		// beyond 20 the cube may be infinite
		far, zero := b.op(OpGt, b.op(OpAbs, x), b.Constant(20)), b.Constant(0)
		step := b.where(b.op(OpGt, x, zero), g, zero)
		x = b.where(far, zero, x)
		square := b.op(OpSquare, x)
		s := b.op(OpSigmoid, b.times(x, b.plus(b.scaled(square, scale*.044715), scale)))
		slope := b.plus(b.scaled(square, 3*scale*.044715), scale)
		near := b.times(g, b.times(s, b.plus(b.times(b.times(x, slope), b.minus(1, s)), 1)))
		return b.where(far, step, near), true
	case OpSiLU:
		s := b.op(OpSigmoid, x)
		return b.times(g, b.times(s, b.plus(b.times(x, b.minus(1, s)), 1))), true
	case OpSoftplus:
		return b.above(20, g, b.times(g, b.op(OpSigmoid, x))), true
	case OpErf:
		return b.times(g, b.scaled(b.op(OpExp, b.op(OpNeg, b.op(OpSquare, x))), 2/math.Sqrt(math.Pi))), true
	case OpLogSigmoid:
		return b.times(g, b.op(OpSigmoid, b.op(OpNeg, x))), true
	case OpAdd:
		return g, true
	case OpSub:
		if n == 1 {
			g = b.op(OpNeg, g)
		}
		return g, true
	case OpMul:
		return b.times(g, []int{b.B, b.A}[n]), true
	case OpDiv:
		if n == 1 {
			return b.op(OpNeg, b.times(g, b.op(OpDiv, y, b.B))), true
		}
		return b.op(OpDiv, g, b.B), true
	case OpPow:
		zero := b.Constant(0)
		if n == 1 { // 0 for a base of 0, unless the exponent is negative: the logarithm there is infinite
			none := b.op(OpAnd, b.op(OpEq, x, zero), b.op(OpGe, b.B, zero))
			return b.times(g, b.where(none, zero, b.times(y, b.op(OpLog, x)))), true
		}
		slope := b.times(b.B, b.op(OpPow, x, b.plus(b.B, -1)))
		if constant := b.constant(b.B); constant != nil {
			if slope = zero; constant.Value != 0 {
				slope = b.scaled(b.op(OpPow, x, b.Constant(constant.Value-1)), float64(constant.Value))
			}
			return b.times(g, slope), true
		}
		return b.where(b.op(OpEq, b.B, zero), zero, b.times(g, slope)), true
	case OpFmod:
		if n == 1 { // −g times the quotient, rounded towards 0
			q := b.op(OpDiv, x, b.B)
			return b.op(OpNeg, b.times(g, b.times(b.op(OpSign, q), b.op(OpFloor, b.op(OpAbs, q))))), true
		}
		return g, true
	case OpAtan2: // 0 where both operands are 0
		squares := b.op(OpAdd, b.op(OpSquare, b.A), b.op(OpSquare, b.B))
		inverse := b.where(b.op(OpEq, squares, b.Constant(0)), squares, b.op(OpReciprocal, squares))
		other := b.B
		if n == 1 {
			other = b.op(OpNeg, b.A)
		}
		return b.times(b.times(g, other), inverse), true
	case OpMaximum, OpMinimum: // in a tie, each gets half
		less := OpLt
		if b.Instruction.Op == OpMinimum {
			less = OpGt
		}
		x, other := b.A, b.B
		if n == 1 {
			x, other = other, x
		}
		tied := b.where(b.op(OpEq, x, other), b.scaled(g, .5), g)
		return b.where(b.op(less, x, other), b.Constant(0), tied), true
	case OpWhere:
		switch zero := b.Constant(0); n {
		case 1:
			return b.where(b.A, g, zero), true
		case 2:
			return b.where(b.A, zero, g), true
		}
	}
	return 0, false // a step function, or a comparison
}

// constant returns the instruction of a register that is a constant.
func (b *adjointBuilder) constant(r int) *Instruction {
	if r < b.Inputs || b.Code[r-b.Inputs].Op != OpConstant {
		return nil
	}
	return &b.Code[r-b.Inputs]
}
