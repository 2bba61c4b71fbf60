package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"weft/tensor"
)

// Operation is an element-wise function of up to three numbers, with PyTorch's values, also at infinities and
// NaN.
type Operation int32

// The operations. A comparison is 1 or 0, and a number other than 0 is true.
const (
	OpConstant   Operation = C.weft_op_constant // Value; it reads no register
	OpNeg        Operation = C.weft_op_neg
	OpAbs        Operation = C.weft_op_abs
	OpSign       Operation = C.weft_op_sign
	OpExp        Operation = C.weft_op_exp
	OpLog        Operation = C.weft_op_log
	OpLog1p      Operation = C.weft_op_log1p
	OpExpm1      Operation = C.weft_op_expm1
	OpSqrt       Operation = C.weft_op_sqrt
	OpRsqrt      Operation = C.weft_op_rsqrt
	OpReciprocal Operation = C.weft_op_reciprocal
	OpSquare     Operation = C.weft_op_square
	OpSin        Operation = C.weft_op_sin
	OpCos        Operation = C.weft_op_cos
	OpAtan       Operation = C.weft_op_atan
	OpTanh       Operation = C.weft_op_tanh
	OpSigmoid    Operation = C.weft_op_sigmoid
	OpReLU       Operation = C.weft_op_relu
	OpELU        Operation = C.weft_op_elu // Value is alpha
	OpSELU       Operation = C.weft_op_selu
	OpLeakyReLU  Operation = C.weft_op_leaky_relu // Value is the slope
	OpGELU       Operation = C.weft_op_gelu
	OpGELUTanh   Operation = C.weft_op_gelu_tanh // GELU's approximation by tanh
	OpSiLU       Operation = C.weft_op_silu
	OpSoftplus   Operation = C.weft_op_softplus // x above 20
	OpErf        Operation = C.weft_op_erf
	OpFloor      Operation = C.weft_op_floor
	OpCeil       Operation = C.weft_op_ceil
	OpRound      Operation = C.weft_op_round // ties to even
	OpLogSigmoid Operation = C.weft_op_logsigmoid
	OpNot        Operation = C.weft_op_logical_not
	OpDetach     Operation = C.weft_op_detach // x, without a gradient
	OpAdd        Operation = C.weft_op_add
	OpSub        Operation = C.weft_op_sub
	OpMul        Operation = C.weft_op_mul
	OpDiv        Operation = C.weft_op_div
	OpPow        Operation = C.weft_op_pow
	OpFmod       Operation = C.weft_op_fmod // the remainder, with the sign of the first operand
	OpAtan2      Operation = C.weft_op_atan2
	OpMaximum    Operation = C.weft_op_maximum
	OpMinimum    Operation = C.weft_op_minimum
	OpGt         Operation = C.weft_op_gt
	OpGe         Operation = C.weft_op_ge
	OpLt         Operation = C.weft_op_lt
	OpLe         Operation = C.weft_op_le
	OpEq         Operation = C.weft_op_eq
	OpNe         Operation = C.weft_op_ne
	OpAnd        Operation = C.weft_op_logical_and
	OpOr         Operation = C.weft_op_logical_or
	OpWhere      Operation = C.weft_op_where // the second operand where the first is true, else the third
)

// Operations has all operations by name: names of package torch, and constant, detach, gelu_tanh, not, and,
// or.
var Operations = func() map[string]Operation {
	all := map[string]Operation{}
	for o := OpConstant; o <= OpWhere; o++ {
		all[strings.TrimPrefix(C.GoString(C.weft_operation_name(C.int(o))), "logical_")] = o
	}
	return all
}()

// Operands returns the number of registers that the operation reads.
func (o Operation) Operands() int {
	switch {
	case o == OpConstant:
		return 0
	case o < OpAdd:
		return 1
	case o < OpWhere:
		return 2
	}
	return 3
}

// MaxInputs bounds the inputs of an expression. The expression of its gradients has one more.
const MaxInputs = C.WEFT_OPERANDS - 1

// Instruction is an operation on registers A, B and C, as many as it reads.
type Instruction struct {
	Op      Operation
	A, B, C int
	Value   float32
}

// Expression computes results from inputs, element by element. The first registers are the inputs, and each
// instruction sets the next register. An Expression must not change after its first use.
type Expression struct {
	Inputs  int
	Code    []Instruction
	Results []int // registers

	once     sync.Once
	compiled compiledExpression
	mu       sync.Mutex
	adjoints map[string]*Expression
}

// Op appends an instruction and returns its register.
func (e *Expression) Op(o Operation, registers ...int) int {
	i := Instruction{Op: o}
	for k, to := range []*int{&i.A, &i.B, &i.C}[:o.Operands()] {
		*to = registers[k]
	}
	return e.append(i)
}

// OpOf is Op for an operation that has a Value.
func (e *Expression) OpOf(o Operation, value float32, registers ...int) int {
	r := e.Op(o, registers...)
	e.Code[len(e.Code)-1].Value = value
	return r
}

// Constant appends a constant and returns its register.
func (e *Expression) Constant(value float32) int { return e.OpOf(OpConstant, value) }

// Bounds are the bounds of a clamp; either may be nil. x has no gradient beyond a bound, and with Strict none
// at a bound.
type Bounds struct {
	Least, Most *float32
	Strict      bool
}

// Clamp appends the instructions that clamp register x. If the lower bound is above the upper one, the result
// is the upper one. It returns the result's register.
func (e *Expression) Clamp(x int, bounds Bounds) int {
	atLeast, atMost := OpGe, OpLe
	if bounds.Strict {
		atLeast, atMost = OpGt, OpLt
	}
	z := x
	var inside []int
	if bounds.Least != nil {
		lo := e.Constant(*bounds.Least)
		z = e.Op(OpWhere, e.Op(OpLt, z, lo), lo, z)
		inside = append(inside, e.Op(atLeast, x, lo))
	}
	if bounds.Most != nil {
		hi := e.Constant(*bounds.Most)
		z = e.Op(OpWhere, e.Op(OpGt, z, hi), hi, z)
		inside = append(inside, e.Op(atMost, x, hi))
	}
	switch len(inside) {
	case 0:
		return x
	case 2:
		inside[0] = e.Op(OpAnd, inside[0], inside[1])
	}
	return e.Op(OpWhere, inside[0], x, e.Op(OpDetach, z))
}

func (e *Expression) append(i Instruction) int {
	e.Code = append(e.Code, i)
	return e.Inputs + len(e.Code) - 1
}

// operands returns the registers that an instruction reads.
func (i *Instruction) operands() []*int { return []*int{&i.A, &i.B, &i.C}[:i.Op.Operands()] }

// Reads reports whether a result depends on an input.
func (e *Expression) Reads(input int) bool { return e.compile().reads[input] }

// compiledExpression has the instructions that results need, each once. Registers are reused.
type compiledExpression struct {
	code      []C.weft_instruction
	constants int // number of constants, which come first in the code
	registers int
	results   []C.int32_t
	reads     []bool // by input: a result depends on it
}

// powers are the operations that replace powers with these constant exponents, as in PyTorch.
var powers = map[float32]Operation{1: OpDetach, .5: OpSqrt, -.5: OpRsqrt, -1: OpReciprocal, 2: OpSquare}

func (e *Expression) compile() *compiledExpression {
	e.once.Do(func() {
		all := make([]Instruction, e.Inputs, e.Inputs+len(e.Code)) // by register; an input is its own operand
		same := make([]int, e.Inputs, cap(all))                    // the register of the same value
		for k := range all {
			all[k], same[k] = Instruction{Op: OpDetach, A: k}, k
		}
		known := map[Instruction]int{}
		for _, i := range e.Code {
			for _, r := range i.operands() {
				*r = same[*r]
			}
			if i.Op == OpPow && all[i.B].Op == OpConstant {
				if o, is := powers[all[i.B].Value]; is {
					i = Instruction{Op: o, A: i.A}
				}
			}
			key, r := i, len(all)
			if i.Op == OpConstant {
				key.A = int(math.Float32bits(i.Value)) // −0 differs from 0
			}
			if before, is := known[key]; is {
				r = before
			} else if i.Op == OpDetach {
				r = i.A
			}
			known[key] = r
			all, same = append(all, i), append(same, r)
		}
		last := make([]int, len(all)) // by register: the last instruction that reads it; 0: none
		for _, r := range e.Results {
			last[same[r]] = len(all)
		}
		for k := len(all) - 1; k >= e.Inputs; k-- {
			if last[k] > 0 {
				for _, r := range all[k].operands() {
					last[*r] = max(last[*r], k)
				}
			}
		}
		c := &e.compiled
		place := make([]int, len(all))
		for k := range e.Inputs {
			place[k], c.reads = k, append(c.reads, last[k] > 0)
		}
		c.registers = e.Inputs
		var free []int
		for _, constants := range []bool{true, false} {
			for k := e.Inputs; k < len(all); k++ {
				i := all[k]
				if last[k] == 0 || (i.Op == OpConstant) != constants {
					continue
				}
				var from [3]C.int32_t
				for n, r := range i.operands() {
					from[n] = C.int32_t(place[*r])
					ends := last[*r] == k && *r >= e.Inputs && all[*r].Op != OpConstant
					if ends && !slices.Contains(free, place[*r]) { // once, also for x·x
						free = append(free, place[*r])
					}
				}
				if n := len(free); n > 0 {
					place[k], free = free[n-1], free[:n-1]
				} else {
					place[k] = c.registers
					c.registers++
				}
				c.code = append(c.code, C.weft_instruction{
					operation: C.int32_t(i.Op), z: C.int32_t(place[k]), a: from[0], b: from[1], c: from[2],
					value: C.float(i.Value),
				})
			}
			if constants {
				c.constants = len(c.code)
			}
		}
		for _, r := range e.Results {
			c.results = append(c.results, C.int32_t(place[same[r]]))
		}
	})
	return &e.compiled
}

// Operand is an input of an expression: Float32 or BFloat16, with as many rows as the results, or one row for
// all of them. Column c of the results reads column Columns_c of X (Columns is Int32, 1 × the results'
// columns); nil: column c. X may be nil if no result reads it.
type Operand struct{ X, Columns *tensor.Matrix }

// Pointwise sets each z_k to result k of the expression. The z have one shape, and are Float32 or BFloat16. A
// z may be an X without Columns that has its shape and element type.
func (t *Team) Pointwise(z []*tensor.Matrix, e *Expression, x []Operand) {
	if len(z) != len(e.Results) || len(x) != e.Inputs || max(len(x), len(z)) > C.WEFT_OPERANDS {
		panic(fmt.Sprintf("kernel: %d results of %d and %d inputs of %d", len(z), len(e.Results), len(x),
			e.Inputs))
	}
	if len(z) == 0 {
		return
	}
	c, rows, cols := e.compile(), z[0].Rows, z[0].Cols
	args := &C.weft_pointwise_args{
		rows: C.int64_t(rows), cols: C.int64_t(cols), inputs: C.int32_t(len(x)), outputs: C.int32_t(len(z)),
		constants: C.int32_t(c.constants), instructions: C.int32_t(len(c.code)),
		registers: C.int32_t(c.registers),
	}
	r := on(C.weft_pointwise)
	for k, m := range z {
		check("result", m, rows, cols)
		args.z[k], args.z_types[k], args.results[k] = either(m), C.int32_t(typeOf(m)), c.results[k]
		r = r.streams(m)
	}
	alike := true // all inputs are read element by element
	for k, o := range x {
		if !c.reads[k] {
			continue
		}
		to := &args.x[k]
		to.x, to._type, to.columns = either(o.X), C.int32_t(typeOf(o.X)), ints(o.Columns)
		if o.X.Rows != 1 || rows == 1 {
			check("operand", o.X, rows, o.X.Cols)
			to.stride = C.int64_t(o.X.Cols)
		}
		if o.Columns != nil {
			check("columns of an operand", o.Columns, 1, cols)
		} else {
			check("operand", o.X, o.X.Rows, cols)
		}
		alike = alike && o.Columns == nil && o.X.Rows == rows
		r = r.streams(o.X)
	}
	if alike { // taken as one column, so that vectors are full
		rows, cols = rows*cols, 1
		args.rows, args.cols = C.int64_t(rows), 1
		for k := range x {
			args.x[k].stride = 1
		}
	}
	code := t.scratch(tensor.Int32, 1, len(c.code)*int(unsafe.Sizeof(C.weft_instruction{}))/4)
	if to := code.WriteInt32s(); len(to) > 0 {
		copy(unsafe.Slice((*C.weft_instruction)(unsafe.Pointer(&to[0])), len(c.code)), c.code)
	}
	args.code = (*C.weft_instruction)(code.Pointer())
	w := t.workspaces(C.weft_pointwise_workspace(args.registers, args.inputs))
	args.workspaces = w.c()
	t.rows(r, unsafe.Pointer(args), rows, cols*max(1, len(c.code)/4))
	w.release()
	code.Release()
}
