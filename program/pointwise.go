package program

import "weft/kernel"

// ofTwo returns the expression of an operation on two inputs.
func ofTwo(o kernel.Operation) *kernel.Expression {
	e := &kernel.Expression{Inputs: 2}
	e.Results = []int{e.Op(o, 0, 1)}
	return e
}

// emit appends the instructions of the operation v, whose operands are in the registers args. It returns the
// result's register.
func emit(e *kernel.Expression, v *value, args []int) int {
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
			return e.Op(kernel.OpGELUTanh, args...)
		}
	case "leaky_relu":
		return e.OpOf(kernel.OpLeakyReLU, number(x.Slope, .01), args...)
	case "elu":
		return e.OpOf(kernel.OpELU, number(x.Alpha, 1), args...)
	case "celu": // α·elu(x/α)
		alpha := e.Constant(number(x.Alpha, 1))
		return e.Op(kernel.OpMul, alpha, e.OpOf(kernel.OpELU, 1, e.Op(kernel.OpDiv, args[0], alpha)))
	case "softplus": // ln(1 + exp(β·x))/β, and x where β·x is above the threshold
		beta, most := e.Constant(number(x.Beta, 1)), e.Constant(number(x.Threshold, 20))
		bx := e.Op(kernel.OpMul, beta, args[0])
		soft := e.Op(kernel.OpDiv, e.Op(kernel.OpSoftplus, bx), beta)
		return e.Op(kernel.OpWhere, e.Op(kernel.OpGt, bx, most), args[0], soft)
	case "softsign":
		return e.Op(kernel.OpDiv, args[0], e.Op(kernel.OpAdd, e.Constant(1), e.Op(kernel.OpAbs, args[0])))
	case "clamp":
		return e.Clamp(args[0], kernel.Bounds{Least: x.Min.float(), Most: x.Max.float(), Strict: x.Strict})
	}
	o, known := kernel.Operations[v.op]
	if !known {
		panic("program: no instruction of " + v.op)
	}
	return e.Op(o, args...)
}
