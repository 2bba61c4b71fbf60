package program

import (
	"errors"
	"fmt"
	"slices"
)

// The types of operations that keep the rows of their operands, and of sums over all rows.

func inferSame(_ *Program, o *Operation, in []Type) (Type, error) {
	return in[0], checkDims(o.Dims, in[0].Shape)
}

func inferUniform(_ *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows == None {
		return Type{}, errors.New("draws a number for each element of rows, and this is a tensor without rows")
	}
	return in[0], nil
}

func inferDropout(_ *Program, o *Operation, in []Type) (Type, error) {
	switch {
	case in[0].Rows == None:
		return Type{}, errors.New("drops elements of rows, and this is a tensor without rows")
	case !(o.P >= 0 && o.P <= 1):
		return Type{}, fmt.Errorf("p: %v is no probability", o.P)
	}
	return in[0], nil
}

// inferPointwise returns the type of an operation that broadcasts.
func inferPointwise(_ *Program, _ *Operation, in []Type) (Type, error) { return broadcastTypes(in) }

// broadcastTypes returns the rows and the broadcast shape of operands that an operation combines row by row.
func broadcastTypes(in []Type) (t Type, err error) {
	for i, x := range in {
		if err := t.unifyRows(x); err != nil {
			return t, err
		}
		if i == 0 {
			t.Shape = x.Shape
		} else if t.Shape, err = broadcast(t.Shape, x.Shape); err != nil {
			return t, err
		}
	}
	return t, nil
}

// unifyRows gives t the rows of x, if t has none. It is an error if both have rows that differ.
func (t *Type) unifyRows(x Type) error {
	switch {
	case x.Rows == None:
	case t.Rows == None:
		t.Rows, t.TypeName, t.Loops = x.Rows, x.TypeName, x.Loops
	case !t.sameRows(x):
		return fmt.Errorf("combines %s and %s", t, x)
	}
	return nil
}

// broadcast returns the shape to which both shapes are broadcast, by NumPy's rules.
func broadcast(a, b []int) ([]int, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	shape := slices.Clone(a)
	for i, d := range b {
		at := len(a) - len(b) + i
		switch {
		case shape[at] == 1:
			shape[at] = d
		case d != 1 && d != shape[at]:
			return nil, fmt.Errorf("shapes %v and %v do not fit each other", a, b)
		}
	}
	return shape, nil
}

func inferReshape(_ *Program, o *Operation, in []Type) (Type, error) {
	if slices.ContainsFunc(o.Shape, negative) || size(o.Shape) != in[0].size() {
		return Type{}, fmt.Errorf("%s cannot have the shape %v", in[0], o.Shape)
	}
	return in[0].with(o.Shape...), nil
}

func negative(n int) bool { return n < 0 }

// checkDims refuses numbers that are not different dimensions of a shape.
func checkDims(dims, shape []int) error {
	for i, d := range dims {
		if d < 0 || d >= len(shape) || slices.Contains(dims[:i], d) {
			return fmt.Errorf("dims %v are not different ones of the shape %v", dims, shape)
		}
	}
	return nil
}

func inferPermute(_ *Program, o *Operation, in []Type) (Type, error) {
	if len(o.Dims) != len(in[0].Shape) {
		return Type{}, fmt.Errorf("dims %v are not those of the shape %v", o.Dims, in[0].Shape)
	}
	shape := []int{}
	if err := checkDims(o.Dims, in[0].Shape); err != nil {
		return Type{}, err
	}
	for _, d := range o.Dims {
		shape = append(shape, in[0].Shape[d])
	}
	return in[0].with(shape...), nil
}

func inferExpand(_ *Program, o *Operation, in []Type) (Type, error) {
	shape, err := broadcast(o.Shape, in[0].Shape)
	if slices.ContainsFunc(o.Shape, negative) || err != nil || !slices.Equal(shape, o.Shape) {
		return Type{}, fmt.Errorf("%s cannot be expanded to %v", in[0], o.Shape)
	}
	return in[0].with(o.Shape...), nil
}

func inferSlice(_ *Program, o *Operation, in []Type) (Type, error) {
	if err := checkDims([]int{o.Dim}, in[0].Shape); err != nil {
		return Type{}, err
	}
	shape := slices.Clone(in[0].Shape)
	step := max(1, o.Step)
	if o.Step < 0 || o.Start < 0 || o.Start >= o.Stop || o.Stop > shape[o.Dim] {
		return Type{}, fmt.Errorf("takes %d to %d by %d of the shape %v", o.Start, o.Stop, step, shape)
	}
	shape[o.Dim] = 1 + (o.Stop-o.Start-1)/step
	return in[0].with(shape...), nil
}

func inferCat(_ *Program, o *Operation, in []Type) (Type, error) {
	t := in[0]
	if err := checkDims([]int{o.Dim}, t.Shape); err != nil {
		return Type{}, err
	}
	shape := slices.Clone(t.Shape)
	for _, x := range in[1:] {
		if err := t.unifyRows(x); err != nil {
			return t, err
		}
		if len(x.Shape) != len(shape) {
			return t, fmt.Errorf("shapes %v and %v do not fit each other", t.Shape, x.Shape)
		}
		for d := range shape {
			if d != o.Dim && shape[d] != x.Shape[d] {
				return t, fmt.Errorf("shapes %v and %v do not fit each other", t.Shape, x.Shape)
			}
		}
		shape[o.Dim] += x.Shape[o.Dim]
	}
	return t.with(shape...), nil
}

func inferReduction(_ *Program, o *Operation, in []Type) (Type, error) {
	if err := checkDims(o.Dims, in[0].Shape); err != nil {
		return Type{}, err
	}
	if o.First && len(o.Dims) != 1 {
		return Type{}, fmt.Errorf("the first of several dims %v", o.Dims)
	}
	if in[0].size() == 0 {
		return Type{}, fmt.Errorf("of no numbers: the shape is %v", in[0].Shape)
	}
	shape := []int{}
	for d, n := range in[0].Shape {
		switch reduced := len(o.Dims) == 0 || slices.Contains(o.Dims, d); {
		case !reduced:
			shape = append(shape, n)
		case o.Keep:
			shape = append(shape, 1)
		}
	}
	return in[0].with(shape...), nil
}

func inferAlong(_ *Program, o *Operation, in []Type) (Type, error) {
	return in[0], checkDims([]int{o.Dim}, in[0].Shape)
}

func inferRowSum(_ *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows != Vertices {
		return Type{}, fmt.Errorf("reads %s, and it takes rows of vertices", in[0])
	}
	return Type{Shape: in[0].Shape}, nil
}

func inferRowMax(_ *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows == None {
		return Type{}, fmt.Errorf("reads %s, and it takes rows of vertices or edges", in[0])
	}
	return Type{Shape: in[0].Shape}, nil
}

func inferLinear(_ *Program, _ *Operation, in []Type) (Type, error) {
	x, w := in[0], in[1]
	n := len(x.Shape)
	if n == 0 || w.Rows != None || len(w.Shape) != 2 || w.Shape[1] != x.Shape[n-1] {
		return Type{}, fmt.Errorf("multiplies %s by %s", x, w)
	}
	if len(in) == 3 && (in[2].Rows != None || !slices.Equal(in[2].Shape, w.Shape[:1])) {
		return Type{}, fmt.Errorf("has a weight of shape %v and adds %s", w.Shape, in[2])
	}
	return x.with(append(slices.Clone(x.Shape[:n-1]), w.Shape[0])...), nil
}

// inferMatmul returns the type of a product over the last two dimensions. A first operand of one dimension is
// a vector.
func inferMatmul(_ *Program, _ *Operation, in []Type) (Type, error) {
	x, y := in[0].Shape, in[1].Shape
	vector := len(x) == 1
	if vector {
		x = []int{1, x[0]}
	}
	n, m := len(x), len(y)
	t, err := broadcastTypes([]Type{in[0].with(), in[1].with()})
	if err != nil || n < 2 || m < 2 || x[n-1] != y[m-2] {
		return t, fmt.Errorf("multiplies %s by %s", in[0], in[1])
	}
	shape, err := broadcast(x[:n-2], y[:m-2])
	if err != nil {
		return t, err
	}
	if !vector {
		shape = append(shape, x[n-2])
	}
	return t.with(append(shape, y[m-1])...), nil
}

func inferBatchNorm(p *Program, o *Operation, in []Type) (Type, error) {
	t := in[0]
	if t.Rows == None || len(t.Shape) != 1 {
		return t, fmt.Errorf("reads %s, and it takes rows of vertices or edges of one size", t)
	}
	for i, name := range []string{o.Weight, o.Bias, o.Mean, o.Variance} {
		switch q := p.Parameter(name); {
		case name == "":
		case q == nil || !slices.Equal(q.Shape, t.Shape):
			return t, fmt.Errorf("there is no parameter %q of shape %v", name, t.Shape)
		case i >= 2 && q.Trained:
			return t, fmt.Errorf("%q is trained, and running statistics are not", name)
		}
	}
	if q := p.Parameter(o.Batches); o.Batches != "" && (q == nil || len(q.Shape) > 0) {
		return t, fmt.Errorf("there is no parameter %q that is a number", o.Batches)
	}
	switch {
	case (o.Mean == "") != (o.Variance == ""):
		return t, errors.New("has a running mean and a running variance, or neither")
	case o.Mean != "" && o.Momentum == nil && o.Batches == "":
		return t, errors.New("has running statistics with neither a momentum nor a number of batches")
	case !(o.Eps > 0):
		return t, fmt.Errorf("eps: %v is not above 0", o.Eps)
	case o.Times < 0 || o.Times > maxTimes:
		return t, fmt.Errorf("times: %d, and statistics move at most %d times in a step", o.Times, maxTimes)
	case o.Momentum != nil && !(*o.Momentum >= 0 && *o.Momentum <= 1):
		return t, fmt.Errorf("momentum: %v is not between 0 and 1", *o.Momentum)
	}
	return t, nil
}

func inferLayerNorm(_ *Program, o *Operation, in []Type) (Type, error) {
	t := in[0]
	first := len(t.Shape) - len(o.Dims)
	for i, d := range o.Dims {
		if first < 0 || d != first+i {
			return t, fmt.Errorf("dims %v are not the last of the shape %v", o.Dims, t.Shape)
		}
	}
	switch {
	case len(o.Dims) == 0:
		return t, errors.New("lacks the dims that it normalises")
	case !(o.Eps >= 0):
		return t, fmt.Errorf("eps: %v is below 0", o.Eps)
	}
	for _, w := range in[1:] {
		if w.Rows != None || !slices.Equal(w.Shape, t.Shape[first:]) {
			return t, fmt.Errorf("normalises %s with a weight that is %s", t, w)
		}
	}
	return t, nil
}
