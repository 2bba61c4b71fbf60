package program

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// value is a value of a rewritten program: an operation on other values.
type value struct {
	op string
	o  Operation
	Type
	in        []*value
	number    int        // the order of creation, in which operands come first
	attention *attention // of an opAttend
	// regions are the message functions of a scatter or an opApply of the built program, by mode.
	regions [modes]*region

	counted      bool // of an opApply: gnn.Message.Counted
	ofRows       bool // a tensor that depends on sums over all vertices
	infinite     bool // finite rows of vertices can make it infinite or NaN
	requiresGrad bool // it has a gradient
	// infiniteInTraining is infinite without what evaluation alone computes.
	infiniteInTraining bool
	featured           bool // rows of edges that depend on the features of edges
	ofSparse           ofSparse
	// infiniteWhere is 0 for rows that are finite although others may be infinite; nil: none is known.
	infiniteWhere *value
}

// Operations that only rewriting makes.
const (
	opAggregate = "aggregate" // a linear aggregation, or a maximum, of rows of vertices
	opAttend    = "attend"    // softmax attention
	opLargest   = "largest"   // the largest elements of all rows, without a gradient
	opChoose    = "choose"    // the first value in training, and the second in evaluation
)

// builder makes values. It makes equal values once.
type builder struct {
	program *Program
	made    int // number of values made
	known   map[string]*value
	rules   []rule // the rules that it tries
}

// build returns the results of some operations as values. It first keeps each softmax over edges as one
// operation, by which attention is found. Then lowering replaces it by the operations that it stands for.
// every is the number of Keeping.
func (p *Program) build(every int, operations ...int) (outputs []*value) {
	b := &builder{program: p, known: map[string]*value{}, rules: rules}
	made := make([]*value, len(p.Operations))
	for i, o := range p.Operations {
		var in []*value
		for _, v := range o.In {
			in = append(in, made[v])
		}
		made[i] = b.make(o, in...)
	}
	lower := &builder{program: p, known: map[string]*value{}, rules: slices.Concat(rules, lowering)}
	again := map[*value]*value{}
	for _, at := range operations {
		outputs = append(outputs, made[at])
	}
	for _, v := range reachable(outputs...) {
		again[v] = lower.again(v, again)
	}
	for k, v := range outputs {
		outputs[k] = again[v]
	}
	all := reachable(outputs...)
	for i, v := range all {
		v.number = i
	}
	keep(outputs, every)
	for _, v := range reachable(outputs...) {
		if v.op == "scatter" || v.op == opApply {
			v.regions = newRegions(v)
		}
	}
	return outputs
}

// again makes a value anew, from operands that were made anew.
func (b *builder) again(v *value, made map[*value]*value) *value {
	in := make([]*value, len(v.in))
	for i, x := range v.in {
		in[i] = made[x]
	}
	if v.attention != nil {
		return b.attend(v.attention, v.o, in)
	}
	return b.make(v.o, in...)
}

// reachable returns the values that outputs depend on, operands first.
func reachable(outputs ...*value) (all []*value) {
	seen := map[*value]bool{}
	var visit func(v *value)
	visit = func(v *value) {
		if seen[v] {
			return
		}
		seen[v] = true
		for _, x := range v.in {
			visit(x)
		}
		all = append(all, v)
	}
	for _, v := range outputs {
		visit(v)
	}
	slices.SortFunc(all, func(x, y *value) int { return x.number - y.number })
	return all
}

// make makes the value of an operation, or an equal value that costs less.
func (b *builder) make(o Operation, in ...*value) *value {
	o.Loops = o.loops()
	if o.End == "" && (o.Op == "scatter" || o.Op == "edge_softmax") {
		o.End = "target"
	}
	if v := b.rewritten(o, in); v != nil {
		return v
	}
	return b.plain(o, in...)
}

// plain makes the value of an operation without rules.
func (b *builder) plain(o Operation, in ...*value) *value {
	var types []Type
	for _, x := range in {
		types = append(types, x.Type)
	}
	t, err := b.typeOf(&o, types)
	if err != nil {
		panic(fmt.Sprintf("program: %s made of %v: %v", o.Op, types, err))
	}
	return b.add(&value{op: o.Op, o: o, Type: t, in: in})
}

func (b *builder) typeOf(o *Operation, in []Type) (Type, error) {
	switch o.Op {
	case opAggregate:
		return b.program.aggregated(o.TypeName, o.End, in[0].Shape), nil
	case opLargest:
		return inferRowSum(b.program, o, in)
	case opChoose:
		return in[0], nil
	}
	return kinds[o.Op].infer(b.program, o, in)
}

// add returns the value, or an equal one that was made before.
func (b *builder) add(v *value) *value {
	v.requiresGrad = b.needsGrad(v)
	v.o.Masked = v.o.Masked && !v.requiresGrad
	o := v.o
	o.In, o.Line = nil, ""
	if o.Op != "dropout" && o.Op != "uniform" {
		o.Path = "" // what is drawn differs by the path
	}
	key, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	key = fmt.Appendf(key, " %v %v %+v", o.Weighted, o.Masked, v.attention)
	for _, x := range v.in {
		key = fmt.Appendf(key, " %d", x.number)
	}
	text := string(key)
	if same, known := b.known[text]; known {
		return same
	}
	v.number, v.ofRows, v.featured = b.made, isOfRows(v), isFeatured(v)
	v.infinite = mayBeInfinite(v, func(x *value) bool { return x.infinite })
	v.infiniteInTraining = v.op == opChoose && v.in[0].infiniteInTraining ||
		v.op != opChoose && mayBeInfinite(v, func(x *value) bool { return x.infiniteInTraining })
	v.infiniteWhere, v.ofSparse = infiniteWhere(v), b.ofSparse(v)
	b.known[text] = v
	b.made++
	return v
}

// needsGrad reports whether a value with known operands depends on features of vertices, on trained
// parameters, or on differentiable weights or features of edges.
func (b *builder) needsGrad(v *value) bool {
	switch v.op {
	case "features":
		return true
	case "parameter", "table":
		return b.trained(v.o.Name)
	case "edge_features", "edge_weight":
		return v.o.Differentiable
	case "detach", "uniform", opLargest:
		return false
	}
	return slices.ContainsFunc(v.in, func(x *value) bool { return x.requiresGrad })
}

// isFeatured reports whether a value with known operands is rows of edges that depend on the features of
// edges.
func isFeatured(v *value) bool {
	return v.op == "edge_features" ||
		v.Rows == Edges && slices.ContainsFunc(v.in, func(x *value) bool { return x.featured })
}

// masked reports whether masks of edges multiply the rows that an aggregation reads. They multiply messages,
// but not the sums of a degree or of a softmax's divisor.
func (v *value) masked() bool {
	return !v.o.Divisor && (v.requiresGrad || v.o.Masked || v.in[0].featured)
}

// op returns an operation without attributes, with the module path and line of o.
func (o Operation) op(name string) Operation { return Operation{Op: name, Path: o.Path, Line: o.Line} }

// constant makes a constant of one number.
func (b *builder) constant(x float64) *value {
	return b.plain(Operation{Op: "constant", Values: []number{number(x)}})
}

// isConstant reports whether the value is a constant of one number, and returns the number.
func (v *value) isConstant() (float64, bool) {
	if v.op != "constant" || len(v.o.Values) != 1 {
		return 0, false
	}
	return float64(v.o.Values[0]), true
}

// isOne reports whether the value is 1 everywhere.
func (v *value) isOne() bool {
	c, is := v.isConstant()
	return is && c == 1 || v.op == "ones"
}

// product makes the product of values.
func (b *builder) product(o Operation, xs ...*value) *value {
	z := xs[0]
	for _, x := range xs[1:] {
		z = b.make(o.op("mul"), z, x)
	}
	return z
}

// isOfRows reports whether a value with known operands is a tensor that depends on sums over all vertices.
func isOfRows(v *value) bool {
	switch v.op {
	case "row_sum", "row_mean", opLargest:
		return true
	}
	return v.Rows == None && slices.ContainsFunc(v.in, func(x *value) bool { return x.ofRows })
}

// mayBeInfinite reports whether finite rows of vertices can make a value with known operands infinite or NaN,
// and not in all rows alike. is reports this of an operand.
func mayBeInfinite(v *value, is func(*value) bool) bool {
	if v.Rows == None || !isRowLocal(v.op) && v.op != "dropout" {
		return false
	}
	if v.op == "where" && v.in[0].op == "eq" {
		if x, constant := v.in[0].in[1].isConstant(); constant && math.IsInf(x, 1) {
			return false
		}
	}
	if k := singular(v.op); k >= 0 && (v.in[k].Rows != None || v.op == "pow") && !isRegular(v) {
		return true
	}
	return slices.ContainsFunc(v.in, is)
}

// isRegular reports whether finite rows have finite results of a singular operation.
func isRegular(v *value) bool {
	switch v.op {
	case "div", "fmod":
		return isPositive(v.in[1])
	case "reciprocal", "rsqrt", "log":
		return isPositive(v.in[0])
	case "sqrt", "log1p":
		return isNonNegative(v.in[0])
	case "pow":
		power, is := v.in[1].isConstant()
		return is && (power >= 0 && power == math.Trunc(power) || isPositive(v.in[0]))
	}
	return false
}

// isPositive reports whether finite rows have results above a positive number.
func isPositive(v *value) bool {
	switch v.op {
	case "constant":
		return !slices.ContainsFunc(v.o.Values, func(x number) bool { return !(x > 0) })
	case "ones":
		return true
	case "clamp":
		return v.o.Min != nil && *v.o.Min > 0 && (v.o.Max == nil || *v.o.Max > 0)
	case "reshape", "expand", "sqrt":
		return isPositive(v.in[0])
	case "add":
		x, y := v.in[0], v.in[1]
		return isPositive(x) && isNonNegative(y) || isPositive(y) && isNonNegative(x)
	}
	return false
}

// isNonNegative reports whether finite rows have no negative results.
func isNonNegative(v *value) bool {
	switch v.op {
	case "abs", "square", "relu", "sqrt", "exp", "sigmoid", "softplus":
		return true
	case "mul":
		return v.in[0] == v.in[1]
	case opAggregate:
		return v.in[0].op == "ones" && !v.o.Weighted
	case "reshape", "expand", "sum", "mean":
		return isNonNegative(v.in[0])
	}
	return isPositive(v)
}

// infiniteWhere returns a value that is 0 for rows of v that are finite; nil: none is known. It reads the
// operands of v.
func infiniteWhere(v *value) (condition *value) {
	if v.op == opChoose {
		return v.in[0].infiniteWhere
	}
	if v.op == "where" && !v.in[2].infinite {
		return v.in[0]
	}
	if !isRowLocal(v.op) {
		return nil
	}
	k := singular(v.op)
	for i, x := range v.in {
		if i != k && !x.infinite {
			continue
		}
		c := x.infiniteWhere
		if c == nil || condition != nil && c != condition {
			return nil
		}
		if i == k && (x.op != "where" || !x.in[2].isOne()) {
			return nil
		}
		condition = c
	}
	return condition
}
