package program

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kind describes the operations of one name: the number of their operands, their attributes, and the type of
// the result.
type kind struct {
	least, most int    // operands
	attributes  string // separated by spaces
	infer       func(p *Program, o *Operation, in []Type) (Type, error)
}

// operands says how many operands there are.
func (k kind) operands() string {
	switch {
	case k.least == k.most:
		return strconv.Itoa(k.least)
	case k.most == mostParts:
		return fmt.Sprintf("%d or more", k.least)
	}
	return fmt.Sprintf("%d to %d", k.least, k.most)
}

// mostParts bounds the values that an operation puts side by side.
const mostParts = 1 << 16

// kinds are the operations by name. docs/program.md defines each of them.
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

// unary are the pointwise operations of one operand, with their attributes.
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

// checkAttributes refuses attributes that an operation does not have, and words that are no value of an
// attribute.
func (o *Operation) checkAttributes(allowed []string) error {
	has := map[string]bool{
		"name": o.Name != "", "of": o.TypeName != "", "shape": o.Shape != nil, "values": o.Values != nil,
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
	for name, present := range has {
		if present && !slices.Contains(allowed, name) {
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
