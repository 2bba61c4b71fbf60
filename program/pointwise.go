package program

import (
	"math"

	"weft/kernel"
)

// instructions are the pointwise operations that are one instruction.
var instructions = map[string]kernel.Operation{
	"neg": kernel.OpNeg, "abs": kernel.OpAbs, "sign": kernel.OpSign, "exp": kernel.OpExp, "log": kernel.OpLog,
	"log1p": kernel.OpLog1p, "expm1": kernel.OpExpm1, "sqrt": kernel.OpSqrt, "rsqrt": kernel.OpRsqrt,
	"reciprocal": kernel.OpReciprocal, "square": kernel.OpSquare, "sin": kernel.OpSin, "cos": kernel.OpCos,
	"tanh": kernel.OpTanh, "sigmoid": kernel.OpSigmoid, "relu": kernel.OpReLU, "selu": kernel.OpSELU,
	"silu": kernel.OpSiLU, "erf": kernel.OpErf, "floor": kernel.OpFloor, "ceil": kernel.OpCeil,
	"round": kernel.OpRound, "logsigmoid": kernel.OpLogSigmoid, "not": kernel.OpNot,
	"detach": kernel.OpDetach,

	"add": kernel.OpAdd, "sub": kernel.OpSub, "mul": kernel.OpMul, "div": kernel.OpDiv, "pow": kernel.OpPow,
	"maximum": kernel.OpMaximum, "minimum": kernel.OpMinimum, "gt": kernel.OpGt, "ge": kernel.OpGe,
	"lt": kernel.OpLt, "le": kernel.OpLe, "eq": kernel.OpEq, "ne": kernel.OpNe, "and": kernel.OpAnd,
	"or": kernel.OpOr, "where": kernel.OpWhere,
}

// emit appends the instructions of an operation on registers to an expression, and returns the result's
// register.
func emit(e *kernel.Expression, v *value, of []int) int {
	if o, known := instructions[v.op]; known {
		return e.Op(o, of...)
	}
	number := func(x *float64, byDefault float64) float32 {
		if x == nil {
			return float32(byDefault)
		}
		return float32(*x)
	}
	switch x := v.o; v.op {
	case "constant":
		return e.Constant(float32(x.Values[0]))
	case "gelu":
		if x.Approximate == "tanh" {
			return e.Op(kernel.OpGELUTanh, of...)
		}
		return e.Op(kernel.OpGELU, of...)
	case "leaky_relu":
		return e.OpOf(kernel.OpLeakyReLU, number(x.Slope, .01), of...)
	case "elu":
		return e.OpOf(kernel.OpELU, number(x.Alpha, 1), of...)
	case "celu": // α·elu(x/α)
		alpha := e.Constant(number(x.Alpha, 1))
		return e.Op(kernel.OpMul, alpha, e.OpOf(kernel.OpELU, 1, e.Op(kernel.OpDiv, of[0], alpha)))
	case "softplus": // ln(1 + exp(β·x))/β, and x where β·x is above the threshold
		beta, most := e.Constant(number(x.Beta, 1)), e.Constant(number(x.Threshold, 20))
		bx := e.Op(kernel.OpMul, beta, of[0])
		soft := e.Op(kernel.OpDiv, e.Op(kernel.OpSoftplus, bx), beta)
		return e.Op(kernel.OpWhere, e.Op(kernel.OpGt, bx, most), of[0], soft)
	case "softsign":
		return e.Op(kernel.OpDiv, of[0], e.Op(kernel.OpAdd, e.Constant(1), e.Op(kernel.OpAbs, of[0])))
	case "clamp":
		least, most := math.Inf(-1), math.Inf(1)
		if x.Min != nil {
			least = float64(*x.Min)
		}
		if x.Max != nil {
			most = float64(*x.Max)
		}
		return e.Clamp(of[0], float32(least), float32(most))
	}
	panic("program: no instruction of " + v.op)
}
