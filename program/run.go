package program

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// pass computes the values of a block once, or in a message function those of some edges.
type pass struct {
	*block
	code *code
	tape *autograd.Tape
	all  []*autograd.Var // the rows of a block's gnn.State
	// any value with the rows of the edges in a message function, or of the vertices in a loss
	rows   *autograd.Var
	edges  *gnn.Edges // the edges of a message function; nil: the rows are vertices
	vars   map[*value]*autograd.Var
	dense  map[*value]*autograd.Var // the dense form of sparse values
	left   map[*value]int           // how many readers are still to come
	step   *value                   // the value that is being computed
	handed map[*autograd.Var]bool   // passed to later blocks
}

// value returns a computed value in dense form: rows × the size of its shape, or one row for a tensor
// without rows.
func (p *pass) value(v *value) *autograd.Var {
	v = p.code.alias(v)
	x := p.vars[v]
	if x.Sparse() == nil {
		return x
	}
	if p.dense[v] == nil {
		p.dense[v] = p.madeDense(x)
	}
	p.explainDense(v)
	return p.dense[v]
}

// madeDense returns the dense form of sparse features. In training it is kept for features that are the same
// in every epoch.
func (p *pass) madeDense(x *autograd.Var) *autograd.Var {
	s := x.Sparse()
	if p.keptDense[s] == nil {
		if !x.Fixed() || !p.tape.Training {
			return autograd.Dense(x)
		}
		m := p.tape.Memory().NewElement(tensor.Features, p.tape.Storage, x.Rows(), x.Cols())
		p.tape.Team.Densify(m, s.Rows)
		m.SetReadOnly()
		p.keptDense[s] = m
	}
	return p.tape.Constant(p.keptDense[s], x.RowSet())
}

// explainDense calls Env.Explain: the present step reads the dense form of sparse features, or the block
// passes it on.
func (p *pass) explainDense(features *value) {
	if p.explain == nil || p.explained[p.step] {
		return
	}
	p.explained[p.step] = true
	name, reader := "features", p.step.describe()
	if features.TypeName != "" {
		name += " of " + features.TypeName
	}
	if p.step == features {
		reader = "later layers"
	}
	p.explain(name, "are sparse, and dense for "+reader)
}

// factor returns the first operand of a product with a weight; features may stay sparse.
func (p *pass) factor(v *value) *autograd.Var {
	if x := p.vars[p.code.alias(v)]; x.Cols() == v.Shape[len(v.Shape)-1] {
		return x
	}
	return p.value(v) // each row of v becomes several
}

// result computes all values and returns one.
func (p *pass) result(v *value) *autograd.Var {
	p.run()
	return p.value(v)
}

// run computes all values of the code, and drops each after its last reader.
func (p *pass) run() {
	p.left, p.dense = map[*value]int{}, map[*value]*autograd.Var{}
	for v, n := range p.code.uses {
		p.left[v] = n
	}
	made := map[*value]bool{}
	for _, s := range p.code.steps {
		var z *autograd.Var
		p.step = s.value
		tensor.Within(s.describe(), func() { z = p.compute(s) }) // so that a Mismatch names the operation
		p.vars[s.value], made[s.value] = z, s.op != "parameter"
		for _, x := range s.reads {
			x = p.code.alias(x)
			p.left[x]--
			last := p.left[x] == 0
			switch {
			case p.vars[x] == z: // dropout without a mask returns its operand
				made[s.value] = made[x]
			case last && made[x]:
				p.vars[x].Drop()
			}
			if dense := p.dense[x]; last && dense != nil {
				dense.Drop()
			}
		}
	}
}

// own returns x for an operation that may reuse its memory: a copy if somebody reads x later.
func (p *pass) own(x *value) *autograd.Var {
	v := p.value(x)
	if p.left[p.code.alias(x)] > 1 {
		return autograd.Copy(v)
	}
	return v
}

// compute computes a step from values that are there.
func (p *pass) compute(s step) *autograd.Var {
	v := s.value
	if s.fused != nil {
		return s.fused.compute(p)
	}
	switch v.op {
	case "edge_features":
		return p.edges.Features
	case "edge_weight":
		return p.edges.Weight
	case "without_loops", "with_loops", "reshape":
		panic("program: " + v.op + " has the elements of another value")
	case "vertices":
		return p.row([]float32{float32(p.rowsOf(v.o.TypeName).RowSet().Total)})
	case "training":
		if p.tape.Training {
			return p.row([]float32{1})
		}
		return p.row([]float32{0})
	case "constant":
		return p.row(v.numbers())
	case "parameter":
		return p.parameter(v.o.Name)
	case "ones":
		return autograd.Ones(p.rowsOf(v.TypeName))
	case "table":
		return autograd.Stored(p.params[v.o.Name].RowsOn(p.tape, p.rowsOf(v.TypeName).RowSet()))
	case opAggregate:
		if p.leavesMasks(v) {
			return p.propagators[v].Message(p.unmasked(v))
		}
		return p.propagators[v].Propagate(p.value(v.in[0]), reduceOf(v), gnn.Once)
	case opAttend:
		return p.attend(v)
	case opEnds:
		return p.ends(v)
	case "scatter":
		return p.propagators[v].Message(p.message(v))
	case opApply:
		return p.propagators[v].ApplyEdges(p.message(v))
	case "dropout":
		x := p.vars[p.code.alias(v.in[0])]
		if x.Sparse() == nil {
			x = p.own(v.in[0])
		}
		return autograd.Dropout(x, nn.Dropout{Path: v.o.Path, P: v.o.P}.Mask(x))
	case "uniform":
		return autograd.Uniform(p.value(v.in[0]), v.o.Path)
	case "linear":
		return p.linear(v)
	case "matmul":
		return p.matmul(v)
	case "row_sum":
		return autograd.SumRows(p.value(v.in[0]))
	case opLargest:
		return autograd.LargestOfRows(p.value(v.in[0]))
	case "row_mean":
		x := p.value(v.in[0])
		return autograd.Scale(1/float32(x.RowSet().Total), autograd.SumRows(x))
	case "max", "min", "softmax", "log_softmax", "logsumexp":
		return p.grouped(v)
	}
	return p.columns(v)
}

// row returns the numbers as a tensor without rows.
func (p *pass) row(numbers []float32) *autograd.Var {
	m := p.tape.Memory().New(tensor.Activations, 1, len(numbers))
	p.tape.Team.Serial(func() { copy(m.WriteFloats(), numbers) })
	return p.tape.Record(autograd.Op{Value: m})
}

// numbers returns the elements of a constant.
func (v *value) numbers() []float32 {
	numbers := make([]float32, v.size())
	for i := range numbers {
		numbers[i] = float32(v.o.Values[min(i, len(v.o.Values)-1)])
	}
	return numbers
}

// parameter returns a parameter or buffer as one row.
func (p *pass) parameter(name string) *autograd.Var {
	if b := p.frozen[name]; b != nil {
		return p.row(b.Read())
	}
	q := p.params[name].On(p.tape)
	z := autograd.Reshape(q, 1, q.Rows()*q.Cols())
	if p.rows != nil || !p.program.weights[name] {
		return z
	}
	// a weight lies in × out
	return autograd.MapColumns(z, p.mapOf(columnKey{name, 0}, func() *kernel.ColumnMap {
		return permuted([]int{q.Rows(), q.Cols()}, []int{1, 0})
	}))
}

// linear computes a product with a weight, and adds its bias.
func (p *pass) linear(v *value) *autograd.Var {
	x, w := p.factor(v.in[0]), p.weight(v.in[1])
	n := v.in[0].Shape[len(v.in[0].Shape)-1]
	z := autograd.Linear(inGroups(x, n), w)
	if len(v.in) == 3 {
		z = autograd.Finish(z, p.value(v.in[2]), kernel.Identity, kernel.Mask{})
	}
	return outOfGroups(z, x, v.size())
}

// inGroups reshapes x to a row for each n of its columns.
func inGroups(x *autograd.Var, n int) *autograd.Var {
	if x.Cols() == n {
		return x
	}
	return autograd.Reshape(x, x.Rows()*(x.Cols()/n), n)
}

// outOfGroups reshapes z, which has a row for each group, to the rows of x and so many columns.
func outOfGroups(z, x *autograd.Var, cols int) *autograd.Var {
	if z.Rows() == x.Rows() && z.Cols() == cols {
		return z
	}
	return autograd.ReshapeLike(z, x, cols)
}

// weight returns a tensor [out, in] as a matrix in × out.
func (p *pass) weight(w *value) *autograd.Var {
	if q := p.params[w.o.Name]; w.op == "parameter" && q != nil && p.program.weights[w.o.Name] {
		return q.On(p.tape)
	}
	m := autograd.MapColumns(p.value(w), p.mapOf(columnKey{"transpose", w.number}, func() *kernel.ColumnMap {
		return permuted(w.Shape, []int{1, 0})
	}))
	return autograd.Reshape(m, w.Shape[1], w.Shape[0])
}

// leavesMasks reports whether a pass has masks of edges that must not change this aggregation of rows of
// vertices: a softmax divides by it, or it depends on the edges alone, like a degree.
func (p *pass) leavesMasks(v *value) bool {
	masker, ok := p.tape.Edges.(interface{ Masks() bool })
	return ok && masker.Masks() && !v.masked() && reduceOf(v).Kind <= gnn.KindMin
}

// unmasked returns an aggregation of rows of vertices as a message function, which masks do not change.
func (p *pass) unmasked(v *value) gnn.Message {
	x, r := autograd.Dense(p.value(v.in[0])), reduceOf(v)
	return gnn.Message{
		Source: x, Columns: x.Cols(), Reduce: r.Kind, Loops: r.Loops, Unmasked: true,
		Function: func(e gnn.Edges) *autograd.Var {
			if r.Weighted && e.Weight != nil {
				return autograd.HeadScale(e.Source, e.Weight)
			}
			return e.Source
		},
	}
}

// attentionOf returns softmax attention without its scores.
func (p *pass) attentionOf(v *value) gnn.Attention {
	heads := v.size()
	if v.attention.form != softmaxSum {
		heads /= v.Shape[len(v.Shape)-1]
	}
	return gnn.Attention{
		Source: p.value(v.in[0]), Slope: v.attention.slope, Dropout: v.attention.dropout, Heads: heads,
		Loops: loopsOf(v.o.Loops),
	}
}

// attend computes softmax attention, if the step does not compute its scores.
func (p *pass) attend(v *value) *autograd.Var {
	a := p.attentionOf(v)
	input := func(i int) *autograd.Var { return p.value(v.in[i]) }
	switch v.attention.form {
	case additive:
		a.SourceScore, a.TargetScore = input(1), input(2)
	case combined:
		a.Target, a.ASource = input(1), input(2)
	case products:
		a.Target, a.Key = input(1), input(2)
	case softmaxSum:
		a.InverseTemperature = input(1)
	}
	return p.propagators[v].Attend(a, gnn.Once)
}

// message returns the message function of a scatter or an opApply.
func (p *pass) message(v *value) gnn.Message {
	r, target := v.regions[p.code.mode], p.program.relation(v.in[0].TypeName).end(v.o.End)
	m := gnn.Message{
		Source: p.joined(r.sources, ""), SourceParts: widths(r.sources), Target: p.joined(r.targets, target),
		TargetParts: widths(r.targets), Function: r.function(p.block, v),
		Columns: v.size(), Counted: v.counted, Columnwise: r.columnwise, Reduce: reduceOf(v).Kind,
		Loops: loopsOf(v.setOfEdges()), Unmasked: !v.masked(),
	}
	if m.Source == nil && m.Target == nil { // the messages depend on the edges alone
		m.Target = autograd.Ones(p.rowsOf(target))
	}
	for _, name := range r.parameters {
		if q := p.params[name]; q != nil {
			m.Parameters = append(m.Parameters, q)
		}
	}
	for _, x := range r.edgeRows {
		m.EdgeRows = append(m.EdgeRows, gnn.EdgeRows{Var: p.value(x), Loops: loopsOf(x.Loops)})
	}
	return m
}

// widths returns the numbers of columns of several values; nil for one value, or none.
func widths(values []*value) (columns []int) {
	if len(values) < 2 {
		return nil
	}
	for _, v := range values {
		columns = append(columns, v.size())
	}
	return columns
}

// joined returns values side by side, on rows of a vertex type; nil: there are no values.
func (p *pass) joined(values []*value, vertexType string) *autograd.Var {
	var xs []*autograd.Var
	for _, v := range values {
		x := p.value(v)
		if v.Rows == None {
			x = p.spread(x, vertexType)
		}
		xs = append(xs, x)
	}
	return sideBySide(xs)
}

// sideBySide returns the values' columns side by side in one; nil: there are no values.
func sideBySide(xs []*autograd.Var) *autograd.Var {
	switch len(xs) {
	case 0:
		return nil
	case 1:
		return xs[0]
	}
	return autograd.Join(xs...)
}

// spread repeats a tensor without rows for each vertex of a type, or for each edge.
func (p *pass) spread(x *autograd.Var, vertexType string) *autograd.Var {
	ones := autograd.Operand{
		Var: autograd.Ones(p.rowsOf(vertexType)), Columns: p.broadcast([]int{}, []int{x.Cols()}),
	}
	return autograd.Pointwise(ofTwo(kernel.OpMul), ones, autograd.Operand{Var: x})
}

// matmul computes a product over the last dimensions.
func (p *pass) matmul(v *value) *autograd.Var {
	x, y := v.in[0], v.in[1]
	n := len(y.Shape)
	lead, k, out := size(y.Shape[:n-2]), y.Shape[n-2], y.Shape[n-1]
	if y.Rows != None {
		rows := 1
		if m := len(x.Shape); m > 1 {
			rows = x.Shape[m-2]
		}
		shape := kernel.RowProduct{Groups: lead, Rows: rows, Inner: k, Cols: out}
		return autograd.RowProduct(p.value(x), p.value(y), shape)
	}
	w := autograd.Reshape(p.value(y), lead*k, out)
	if lead > 1 {
		w = autograd.BlockDiagonal(w, lead)
	}
	rows := p.factor(x)
	return outOfGroups(autograd.Linear(inGroups(rows, lead*k), w), rows, v.size())
}

// grouped computes an operation along dimensions of a row.
func (p *pass) grouped(v *value) *autograd.Var {
	x, dims := v.in[0], v.o.Dims
	if v.op == "softmax" || v.op == "log_softmax" {
		dims = []int{v.o.Dim}
	}
	if len(dims) == 0 {
		for d := range x.Shape {
			dims = append(dims, d)
		}
	}
	var order []int
	width := 1
	for d, n := range x.Shape {
		if !slices.Contains(dims, d) {
			order = append(order, d)
		} else {
			width *= n
		}
	}
	order = append(order, slices.Sorted(slices.Values(dims))...)
	in := p.value(x)
	sorted := slices.IsSorted(order)
	if !sorted { // the reduced dimensions must come last
		in = autograd.MapColumns(in, p.mapOf(columnKey{"last", v.number}, func() *kernel.ColumnMap {
			return permuted(x.Shape, order)
		}))
	}
	name := v.op
	if v.o.First {
		name = "first " + name
	}
	z := autograd.Groups(in, in.Cols()/width, groups[name])
	if !sorted && z.Cols() == in.Cols() {
		var shape, back []int
		for _, d := range order {
			shape = append(shape, x.Shape[d])
		}
		for d := range order {
			back = append(back, slices.Index(order, d))
		}
		z = autograd.MapColumns(z, p.mapOf(columnKey{"back", v.number}, func() *kernel.ColumnMap {
			return permuted(shape, back)
		}))
	}
	return z
}

// groups are the operations on groups of columns.
var groups = map[string]kernel.GroupFunction{
	"max": kernel.GroupMax, "min": kernel.GroupMin, "first max": kernel.GroupFirstMax,
	"first min": kernel.GroupFirstMin, "softmax": kernel.GroupSoftmax,
	"log_softmax": kernel.GroupLogSoftmax, "logsumexp": kernel.GroupLogSumExp,
}
