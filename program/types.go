package program

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rows says what a value has rows for.
type Rows uint8

// What a value has rows for.
const (
	None     Rows = iota // parameters, constants, what depends on them alone, and sums over all vertices
	Vertices             // every vertex
	Edges                // every edge of a set
)

// Type is what is known of a value before the program runs.
type Type struct {
	Rows  Rows
	Of    string // the vertex type, or the relation; empty: there is one
	Loops string // of the set of edges; empty: stored
	Shape []int  // of one row; empty: a number
}

// String describes the type in messages.
func (t Type) String() string {
	of := []string{"a tensor", "rows of vertices", "rows of edges"}[t.Rows]
	if t.Of != "" {
		of += fmt.Sprintf(" of %q", t.Of)
	}
	if t.Rows == Edges {
		loops := map[string]string{removed: " (no loops)", one: " (one loop each)", added: " (added loops)"}
		of += loops[t.Loops]
	}
	return fmt.Sprintf("%s of shape %v", of, t.Shape)
}

// along reports whether both have the same rows.
func (t Type) along(x Type) bool { return t.Rows == x.Rows && t.Of == x.Of && t.Loops == x.Loops }

// equals reports whether the values have the same rows and shapes.
func (t Type) equals(x Type) bool { return t.along(x) && slices.Equal(t.Shape, x.Shape) }

func (t Type) with(shape ...int) Type {
	t.Shape = shape
	return t
}

func (t Type) size() int { return size(t.Shape) }

// The sets of edges: what is done with self loops.
const (
	stored  = ""        // as the graph has them
	removed = "removed" // left out
	one     = "one"     // left out, and one for each vertex
	added   = "added"   // stored, and one more for each vertex
	// Sets that no file has.
	onlyLoops = "only" // those that the graph has, and no other edges
	lastLoops = "last" // the last one of each vertex, and no other edges
)

// withLoops are the sets of edges that get a loop for each vertex, and what they become.
var withLoops = map[string]string{stored: added, removed: one}

// kind describes operations of one name: how many operands they have, which attributes, and the type of the
// result.
type kind struct {
	least, most int    // operands
	attributes  string // separated by spaces
	infer       func(p *Program, o *Operation, in []Type) (Type, error)
}

// operands says how many there are.
func (k kind) operands() string {
	switch {
	case k.least == k.most:
		return strconv.Itoa(k.least)
	case k.most == mostParts:
		return fmt.Sprintf("%d or more", k.least)
	}
	return fmt.Sprintf("%d to %d", k.least, k.most)
}

// mostParts is how many values can be put side by side.
const mostParts = 1 << 16

// kinds are the operations by name. docs/program.md says what each gives.
var kinds = map[string]kind{
	"features":      {0, 0, "shape of", inferFeatures(Vertices)},
	"edge_features": {0, 0, "shape of differentiable", inferFeatures(Edges)},
	"edge_weight":   {0, 0, "of differentiable", inferWeight},
	opLogits:        {0, 0, "shape", inferOfLoss},
	opLabels:        {0, 0, "shape", inferOfLoss},
	"vertices":      {0, 0, "of", inferVertices},
	"training":      {0, 0, "", inferVertices},
	"parameter":     {0, 0, "name", inferParameter},
	"table":         {0, 0, "name of", inferTable},
	"constant":      {0, 0, "shape values", inferConstant},
	"ones":          {0, 0, "rows loops of", inferOnes},
	"gather":        {1, 1, "end loops of", inferGather},
	"scatter":       {1, 1, "end reduce", inferScatter},
	"edge_softmax":  {1, 1, "end", inferEdgeSoftmax},
	"without_loops": {1, 1, "", inferWithoutLoops},
	"with_loops":    {2, 2, "", inferWithLoops},
	"loop_values":   {2, 2, "", inferLoopValues},
	"where":         {3, 3, "", inferPointwise},
	"dropout":       {1, 1, "p", inferDropout},
	"uniform":       {1, 1, "", inferUniform},
	"reshape":       {1, 1, "shape", inferReshape},
	"permute":       {1, 1, "dims", inferPermute},
	"expand":        {1, 1, "shape", inferExpand},
	"slice":         {1, 1, "dim start stop step", inferSlice},
	"cat":           {1, mostParts, "dim", inferCat},
	"flip":          {1, 1, "dims", inferSame},
	"sum":           {1, 1, "dims keep", inferReduction},
	"mean":          {1, 1, "dims keep", inferReduction},
	"max":           {1, 1, "dims keep first", inferReduction},
	"min":           {1, 1, "dims keep first", inferReduction},
	"logsumexp":     {1, 1, "dims keep", inferReduction},
	"softmax":       {1, 1, "dim", inferAlong},
	"log_softmax":   {1, 1, "dim", inferAlong},
	"row_sum":       {1, 1, "", inferRowSum},
	"row_mean":      {1, 1, "", inferRowSum},
	"row_max":       {1, 1, "", inferRowMax},
	"row_min":       {1, 1, "", inferRowMax},
	"linear":        {2, 3, "", inferLinear},
	"matmul":        {2, 2, "", inferMatmul},
	"batch_norm":    {1, 1, "weight bias mean variance batches eps momentum times", inferBatchNorm},
	"layer_norm":    {1, 3, "dims eps", inferLayerNorm},
}

// unary are the pointwise operations of one operand, and their attributes.
var unary = map[string]string{
	"neg": "", "abs": "", "sign": "", "exp": "", "log": "", "log1p": "", "expm1": "", "sqrt": "", "rsqrt": "",
	"reciprocal": "", "square": "", "sin": "", "cos": "", "atan": "", "tanh": "", "sigmoid": "",
	"relu": "", "selu": "", "silu": "", "softplus": "beta threshold",
	"softsign": "", "erf": "", "floor": "", "ceil": "", "round": "",
	"logsigmoid": "", "not": "", "gelu": "approximate", "elu": "alpha", "celu": "alpha",
	"leaky_relu": "slope", "clamp": "min max strict", "detach": "",
}

// binary are the pointwise operations of two operands.
var binary = []string{
	"add", "sub", "mul", "div", "pow", "fmod", "atan2", "maximum", "minimum",
	"gt", "ge", "lt", "le", "eq", "ne", "and", "or",
}

func init() {
	for name, attributes := range unary {
		kinds[name] = kind{1, 1, attributes, inferPointwise}
	}
	for _, name := range binary {
		kinds[name] = kind{2, 2, "", inferPointwise}
	}
}

// infer returns the type of operation i, whose operands' types are known.
func (p *Program) infer(i int) (Type, error) {
	o := &p.Operations[i]
	k, known := kinds[o.Op]
	if !known {
		return Type{}, errors.New("no operation has this name")
	}
	if n := len(o.In); n < k.least || n > k.most {
		return Type{}, fmt.Errorf("reads %d values, and it takes %s", n, k.operands())
	}
	var in []Type
	for _, v := range o.In {
		if v < 0 || v >= i {
			return Type{}, fmt.Errorf("reads value %d, which is none before it", v)
		}
		in = append(in, p.types[v])
	}
	if err := o.checkAttributes(strings.Fields(k.attributes)); err != nil {
		return Type{}, err
	}
	return k.infer(p, o, in)
}

// checkAttributes refuses attributes that an operation does not have, and words that are none.
func (o *Operation) checkAttributes(allowed []string) error {
	has := map[string]bool{
		"name": o.Name != "", "of": o.Of != "", "shape": o.Shape != nil, "values": o.Values != nil,
		"rows": o.Rows != "",
		"end":  o.End != "", "loops": o.Loops != "", "reduce": o.Reduce != "", "dim": o.Dim != 0,
		"dims": o.Dims != nil, "keep": o.Keep, "start": o.Start != 0, "stop": o.Stop != 0,
		"step": o.Step != 0, "p": o.P != 0, "alpha": o.Alpha != nil,
		"slope": o.Slope != nil, "beta": o.Beta != nil,
		"threshold": o.Threshold != nil, "min": o.Min != nil, "max": o.Max != nil,
		"strict": o.Strict, "first": o.First,
		"approximate": o.Approximate != "", "eps": o.Eps != 0, "momentum": o.Momentum != nil,
		"times":  o.Times != 0,
		"weight": o.Weight != "", "bias": o.Bias != "", "mean": o.Mean != "", "variance": o.Variance != "",
		"batches": o.Batches != "", "differentiable": o.Differentiable,
	}
	for name, given := range has {
		if given && !slices.Contains(allowed, name) {
			return fmt.Errorf("has no attribute %s", name)
		}
	}
	words := []struct {
		name, value string
		choices     []string
	}{
		{"end", o.End, []string{"", "source", "target"}},
		{"loops", o.Loops, []string{"", "stored", removed, one, added}},
		{"reduce", o.Reduce, []string{"", "sum", "mean", "max", "min", "mul"}},
		{"approximate", o.Approximate, []string{"", "none", "tanh"}},
		{"rows", o.Rows, []string{"", "vertices", "edges"}},
	}
	for _, w := range words {
		if !slices.Contains(w.choices, w.value) {
			return fmt.Errorf("%s: no %q; it is one of %s", w.name, w.value,
				strings.Join(w.choices[1:], ", "))
		}
	}
	return nil
}

// loops returns the set of edges of an operation.
func (o *Operation) loops() string {
	if o.Loops == "stored" {
		return stored
	}
	return o.Loops
}

func inferFeatures(rows Rows) func(*Program, *Operation, []Type) (Type, error) {
	return func(p *Program, o *Operation, _ []Type) (Type, error) {
		if len(o.Shape) != 1 || o.Shape[0] < 1 {
			return Type{}, fmt.Errorf("a shape of %v, and rows of features have one size", o.Shape)
		}
		return p.rows(rows, o, o.Shape...)
	}
}

// rows is the type of rows of the vertex type or the relation that an operation names.
func (p *Program) rows(rows Rows, o *Operation, shape ...int) (Type, error) {
	t := Type{Rows: rows, Of: o.Of, Shape: shape}
	if rows != Edges {
		return t, nil
	}
	r := p.relation(o.Of)
	switch t.Loops = o.loops(); {
	case r == nil:
		return t, fmt.Errorf("there is no relation %q", o.Of)
	case r.Source != r.Target && t.Loops != stored:
		return t, fmt.Errorf("edges of %q have no loops: their ends are of two types", o.Of)
	}
	return t, nil
}

func inferWeight(p *Program, o *Operation, _ []Type) (Type, error) { return p.rows(Edges, o) }

func inferVertices(*Program, *Operation, []Type) (Type, error) { return Type{}, nil }

func inferTable(p *Program, o *Operation, _ []Type) (Type, error) {
	q := p.Parameter(o.Name)
	if q == nil || len(q.Shape) != 2 {
		return Type{}, fmt.Errorf("there is no parameter %q that is a table", o.Name)
	}
	if !q.Trained {
		return Type{}, fmt.Errorf("the table %q is not trained; give its rows as features", o.Name)
	}
	return Type{Rows: Vertices, Of: o.Of, Shape: q.Shape[1:]}, nil
}

func inferParameter(p *Program, o *Operation, _ []Type) (Type, error) {
	q := p.Parameter(o.Name)
	if q == nil {
		return Type{}, fmt.Errorf("there is no parameter %q", o.Name)
	}
	return Type{Shape: q.Shape}, nil
}

func inferConstant(_ *Program, o *Operation, _ []Type) (Type, error) {
	if slices.ContainsFunc(o.Shape, notPositive) || len(o.Values) != 1 && len(o.Values) != size(o.Shape) {
		return Type{}, fmt.Errorf("%d values for a shape of %v", len(o.Values), o.Shape)
	}
	return Type{Shape: o.Shape}, nil
}

func inferOnes(p *Program, o *Operation, _ []Type) (Type, error) {
	switch o.Rows {
	case "":
		return Type{}, errors.New("lacks rows: vertices or edges")
	case "vertices":
		return p.rows(Vertices, o)
	}
	return p.rows(Edges, o)
}

func inferGather(p *Program, o *Operation, in []Type) (Type, error) {
	t, err := p.rows(Edges, o, in[0].Shape...)
	switch {
	case err != nil:
		return t, err
	case in[0].Rows != Vertices:
		return t, fmt.Errorf("reads %s, and it takes rows of vertices", in[0])
	case o.End == "":
		return t, errors.New("lacks an end: source or target")
	case in[0].Of != p.relation(o.Of).end(o.End):
		return t, fmt.Errorf("reads %s, and the %ss of %q are of another type", in[0], o.End, o.Of)
	}
	return t, nil
}

func inferScatter(p *Program, o *Operation, in []Type) (Type, error) {
	switch {
	case in[0].Rows != Edges:
		return Type{}, fmt.Errorf("reads %s, and it takes rows of edges", in[0])
	case o.Reduce == "":
		return Type{}, errors.New("lacks what it reduces by: sum, mean, max, min or mul")
	}
	return p.aggregated(in[0].Of, o.End, in[0].Shape), nil
}

// aggregated is the type of what is aggregated at an end of a relation.
func (p *Program) aggregated(relation, end string, shape []int) Type {
	return Type{Rows: Vertices, Of: p.relation(relation).end(end), Shape: shape}
}

func inferEdgeSoftmax(_ *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows != Edges {
		return Type{}, fmt.Errorf("reads %s, and it takes rows of edges", in[0])
	}
	return in[0], nil
}

func inferWithoutLoops(p *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows != Edges || in[0].Loops != stored || !p.mayLoop(in[0]) {
		return Type{}, fmt.Errorf("reads %s, and it takes rows of stored edges", in[0])
	}
	t := in[0]
	t.Loops = removed
	return t, nil
}

// mayLoop reports whether both ends of the edges are of one type.
func (p *Program) mayLoop(t Type) bool {
	r := p.relation(t.Of)
	return r.Source == r.Target
}

// atLoops reports whether a value has numbers for the loops of edges: a row for each vertex, or one for all.
func (p *Program) atLoops(x, edges Type) bool {
	return p.mayLoop(edges) && slices.Equal(x.Shape, edges.Shape) &&
		(x.Rows == None || x.along(p.aggregated(edges.Of, "", nil)))
}

func inferWithLoops(p *Program, _ *Operation, in []Type) (Type, error) {
	t := in[0]
	to := withLoops[t.Loops]
	switch {
	case t.Rows != Edges || to == "":
		return Type{}, fmt.Errorf("reads %s, and it takes rows of edges without added loops", t)
	case !p.atLoops(in[1], t):
		return Type{}, fmt.Errorf("the loops have %s, and the edges rows of shape %v", in[1], t.Shape)
	}
	t.Loops = to
	return t, nil
}

func inferLoopValues(p *Program, _ *Operation, in []Type) (Type, error) {
	if in[0].Rows != Edges || in[0].Loops != stored || !p.atLoops(in[1], in[0]) {
		return Type{}, fmt.Errorf("reads %s and %s, and it takes rows of stored edges and of vertices", in[0], in[1])
	}
	return p.aggregated(in[0].Of, "", in[0].Shape), nil
}

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

// inferPointwise is the type of operations that broadcast.
func inferPointwise(_ *Program, _ *Operation, in []Type) (Type, error) { return together(in) }

// together returns the rows and the broadcast shape of operands that an operation combines row by row.
func together(in []Type) (t Type, err error) {
	for i, x := range in {
		if err := t.meet(x); err != nil {
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

// meet gives t the rows of x, if it has none, for an operation that combines both row by row.
func (t *Type) meet(x Type) error {
	switch {
	case x.Rows == None:
	case t.Rows == None:
		t.Rows, t.Of, t.Loops = x.Rows, x.Of, x.Loops
	case !t.along(x):
		return fmt.Errorf("combines %s and %s", t, x)
	}
	return nil
}

// broadcast returns the shape to which both shapes are broadcast, as NumPy does.
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

// checkDims refuses numbers that are no different dimensions of a shape.
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
		if err := t.meet(x); err != nil {
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

// inferMatmul is the type of products of the last two dimensions; a first operand of one is a vector.
func inferMatmul(_ *Program, _ *Operation, in []Type) (Type, error) {
	x, y := in[0].Shape, in[1].Shape
	vector := len(x) == 1
	if vector {
		x = []int{1, x[0]}
	}
	n, m := len(x), len(y)
	t, err := together([]Type{in[0].with(), in[1].with()})
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
