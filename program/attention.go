package program

import "slices"

// attention says how an opAttend computes its scores from its operands. The first operand has the rows that
// are summed.
type attention struct {
	form    form
	slope   float64 // of LeakyReLU
	dropout float64 // of the coefficients
	path    string  // of the dropout
}

// form is one of the forms of scores of gnn.Attention.
type form uint8

const (
	additive form = iota // GATv1: LeakyReLU(a_j + b_i); operands: source, a, b
	combined             // GATv2: a·LeakyReLU(source_j + target_i); operands: source, target, a
	products             // q_i·k_j; operands: source, q, k
	// softmaxSum is DeeperGCN's softmax aggregation: t_c·source_jc, of each column c; operands: source, t
	softmaxSum
)

// attends returns a sum over the edges into targets as softmax attention in one of gnn's forms; nil: the sum
// is not attention.
func (b *builder) attends(o Operation, x *value) *value {
	if o.Reduce != "sum" || o.End != "target" || x.Loops != stored && x.Loops != one {
		return nil
	}
	var source, soft, shaped *value
	var after []*value
	var a attention
	for _, f := range b.factors(x) {
		switch e := b.coefficients(f, &a); {
		case e != nil && soft == nil:
			soft, shaped = e, f
		case f.op == "gather" && f.o.End == "source" && source == nil:
			source = f.in[0]
		case f.Rows == None:
			after = append(after, f)
		case f.op == "gather" && f.o.End == "target":
			after = append(after, b.finite(f.in[0], x.Type, o))
		default:
			return nil
		}
	}
	if source == nil || soft == nil || !slices.Equal(source.Shape, x.Shape) {
		return nil
	}
	var in []*value
	if perHead(shaped, source) {
		in = b.scores(soft.in[0], source, &a)
	}
	if in == nil {
		in = b.columnScores(o, soft.in[0], source, &a)
	}
	if in == nil {
		return nil
	}
	along := Operation{Path: o.Path, TypeName: x.TypeName, Loops: x.Loops}
	z := b.attend(&a, along, append([]*value{source}, in...))
	return b.product(o, append([]*value{z}, after...)...)
}

// attend makes the value of attention along a set of edges.
func (b *builder) attend(a *attention, o Operation, in []*value) *value {
	o.Op = opAttend
	t := b.program.aggregated(o.TypeName, o.End, in[0].Shape)
	return b.add(&value{op: opAttend, o: o, Type: t, in: in, attention: a})
}

// coefficients returns the softmax over edges whose elements a factor has, perhaps after dropout, which it
// notes in a; nil: the factor is not such a softmax.
func (b *builder) coefficients(f *value, a *attention) *value {
	switch f.op {
	case "edge_softmax":
		if f.o.End != "source" {
			return f
		}
	case "reshape":
		return b.coefficients(f.in[0], a)
	case "dropout":
		if e := b.coefficients(f.in[0], a); e != nil && a.dropout == 0 {
			a.dropout, a.path = f.o.P, f.o.Path
			return e
		}
	}
	return nil
}

// perHead reports whether a factor has a number for each head of the source.
func perHead(f, source *value) bool {
	n := len(source.Shape)
	return n > 0 && sameColumns(f.Shape, append(slices.Clone(source.Shape[:n-1]), 1))
}

// columnScores returns the operands of scores that are t·source_j, in the form that it notes in a, where t is
// a number for each column; nil: they are others.
func (b *builder) columnScores(o Operation, s, source *value, a *attention) []*value {
	if s.op != "gather" || s.o.End != "source" || a.dropout > 0 {
		return nil
	}
	expand, row, t := o.op("expand"), o.op("reshape"), b.constant(1)
	row.Shape = []int{source.size()}
	for s = unshaped(s.in[0]); s != unshaped(source); s = unshaped(s) {
		var factor *value
		expand.Shape = s.Shape
		switch i := slices.IndexFunc(s.in, func(x *value) bool { return x.Rows == None }); {
		case s.op == "mul" && i >= 0:
			s, factor = s.in[1-i], s.in[i]
		case s.op == "div" && i == 1:
			s, factor = s.in[0], b.make(o.op("reciprocal"), s.in[1])
		case s.op == "neg":
			s, factor = s.in[0], b.constant(-1)
		default:
			return nil
		}
		t = b.product(o, t, b.make(row, b.make(expand, factor)))
	}
	a.form, expand.Shape = softmaxSum, row.Shape
	return []*value{b.make(expand, t)}
}

// scores returns the operands of the scores, in the form that it notes in a; nil: gnn has no such form.
func (b *builder) scores(s, source *value, a *attention) []*value {
	s = unshaped(s)
	if s.op == "leaky_relu" && s.in[0].op == "add" {
		from, to := ends(s.in[0])
		if from == nil || from.size() != s.size() || to.size() != s.size() {
			return nil
		}
		a.form, a.slope = additive, slope(s)
		return []*value{from, to}
	}
	s, scale := unscaled(s)
	last := len(source.Shape) - 1
	if s.op != "sum" || !slices.Equal(s.o.Dims, []int{last}) || s.in[0].op != "mul" ||
		scale != 1 && scale <= 0 || !slices.Equal(s.in[0].Shape, source.Shape) {
		return nil
	}
	x, y := s.in[0].in[0], s.in[0].in[1]
	if x.op == "leaky_relu" {
		x, y = y, x
	}
	if y.op == "leaky_relu" && y.in[0].op == "add" && x.Rows == None && x.size() == source.size() &&
		scale == 1 {
		from, to := ends(y.in[0])
		if from != source || to == source || !slices.Equal(to.Shape, source.Shape) {
			return nil
		}
		a.form, a.slope = combined, slope(y)
		return []*value{to, x}
	}
	key, query := x, y
	if key.op == "gather" && key.o.End == "target" {
		key, query = query, key
	}
	if key.op != "gather" || query.op != "gather" || key.o.End != "source" || query.o.End != "target" ||
		!slices.Equal(key.Shape, source.Shape) || !slices.Equal(query.Shape, source.Shape) {
		return nil
	}
	k, q := key.in[0], b.product(s.o, query.in[0], b.constant(scale))
	if k == source || q == source || k == q {
		return nil
	}
	a.form = products
	return []*value{q, k}
}

// unshaped returns the value that v has the elements of, in another shape; v itself, if it is not reshaped.
func unshaped(v *value) *value {
	for v.op == "reshape" {
		v = v.in[0]
	}
	return v
}

// unscaled returns x and scale, where s = scale·x.
func unscaled(s *value) (x *value, scale float64) {
	scale = 1
	for s.op == "mul" || s.op == "div" {
		c, is := s.in[1].isConstant()
		if !is {
			break
		}
		if s.op == "div" {
			c = 1 / c
		}
		scale, s = scale*c, s.in[0]
	}
	return s, scale
}

// ends returns the two values of vertices that a sum adds for each edge: the source's rows and the target's.
// nil: the sum adds other rows.
func ends(sum *value) (source, target *value) {
	x, y := sum.in[0], sum.in[1]
	if x.op == "gather" && x.o.End == "target" {
		x, y = y, x
	}
	if x.op != "gather" || y.op != "gather" || x.o.End != "source" || y.o.End != "target" {
		return nil, nil
	}
	return x.in[0], y.in[0]
}

func slope(v *value) float64 {
	if v.o.Slope == nil {
		return .01
	}
	return *v.o.Slope
}
