package program

import (
	"weft/autograd"
	"weft/gnn"
	"weft/nn"
	"weft/tensor"
)

// block is a part of a program, consecutive operations, on a worker.
type block struct {
	program      *Program
	code         *code         // the steps of both modes
	codes        [inBoth]*code // the steps of each mode
	inputs, made []*value      // the values in the gnn.State before and after the block
	unread       unread        // of made: the values that no later block reads, by mode
	types        []*autograd.RowSet
	typeOf       func(vertexType string) int // the number of a vertex type
	params       map[string]*nn.Param
	frozen       map[string]*nn.Buffer
	norms        map[*value]*nn.BatchNorm
	propagators  map[*value]gnn.Propagator
	broadcasts   map[string][]int32
	keptDense    map[*autograd.Sparse]*tensor.Matrix // the dense form of features
	by           cutting
	explain      func(path, what string)
	explained    map[*value]bool
}

// newBlock builds a block. Workers share the code, so nobody may change it.
func (p *Program) newBlock(e gnn.Env, c *code, inputs, made []*value) *block {
	b := &block{
		program: p, code: c, inputs: inputs, made: made, types: e.Rows, typeOf: e.TypeOf,
		params: map[string]*nn.Param{},
		frozen: map[string]*nn.Buffer{}, norms: map[*value]*nn.BatchNorm{},
		propagators: map[*value]gnn.Propagator{},
		broadcasts:  map[string][]int32{},
		keptDense:   map[*autograd.Sparse]*tensor.Matrix{},
		explain:     e.Explain, explained: map[*value]bool{},
	}
	for _, s := range b.code.steps {
		for _, name := range parametersOf(s) {
			b.makeParameter(e.Params, name)
		}
		for _, v := range s.operations() {
			if v.op == "batch_norm" {
				b.norms[v] = p.newNorm(e.Params, v)
			}
		}
		if s.op == "table" {
			name, rows := s.o.Name, e.Rows[e.TypeOf(s.TypeName)]
			if b.params[name] = e.Params.Named(name); b.params[name] == nil {
				b.params[name] = e.Params.Table(name, rows, 0, s.size(), nn.Constant(0))
			}
		}
		for _, v := range s.along() {
			along := gnn.Along{Relation: p.relationOf(v), Reversed: v.o.End == "source"}
			if along.Relation == "" {
				along.Relation = e.Only()
			}
			b.propagators[v] = e.Propagators(p.paths[v], along)
		}
	}
	p.moveBuffers(e.Params)
	return b
}

// makeParameter makes a parameter or a buffer of the program, unless another block has made it.
func (b *block) makeParameter(ps *nn.Params, name string) {
	q := b.program.Parameter(name)
	if !q.Trained {
		b.frozen[name] = ps.Frozen(name, q.Shape)
		return
	}
	if b.params[name] = ps.Named(name); b.params[name] == nil {
		b.params[name] = ps.Any(name, q.Shape, b.program.weights[name])
	}
}

// newNorm makes a batch norm.
func (p *Program) newNorm(ps *nn.Params, v *value) *nn.BatchNorm {
	o := nn.BatchNormOptions{
		Weight: v.o.Weight, Bias: v.o.Bias, Mean: v.o.Mean, Variance: v.o.Variance, Batches: v.o.Batches,
		Epsilon: v.o.Eps, Times: v.o.Times,
	}
	if v.o.Momentum != nil {
		o.Momentum = *v.o.Momentum
	} else {
		o.Cumulative = true
	}
	return nn.NewBatchNormOf(ps, o, v.size())
}

// Forward implements gnn.Block.
func (b *block) Forward(s gnn.State) gnn.State {
	tape, m := s.Vars()[0].Tape(), inEvaluation
	if tape.Training {
		m = inTraining
	}
	p := &pass{block: b, code: b.codes[m], all: s.Rows, tape: tape, vars: map[*value]*autograd.Var{}}
	p.handed = map[*autograd.Var]bool{}
	for i, v := range edgesOf(b.inputs) {
		p.vars[v] = s.Edges[i]
	}
	remaining := s.Beside
	for _, v := range b.inputs {
		if v.Rows == Edges {
			continue
		}
		switch all := ofType(b.inputs, v.TypeName); {
		case v == all[0]:
			p.vars[v] = s.Rows[b.typeOf(v.TypeName)]
		case b.by.separate:
			p.vars[v], remaining = remaining[0], remaining[1:]
		default:
			p.vars[v] = part(s.H0, all[1:], v)
		}
	}
	p.run()
	out := gnn.State{Rows: make([]*autograd.Var, len(b.types))}
	var others []*autograd.Var
	for _, v := range b.made {
		x := p.passed(v)
		switch {
		case v.Rows == Edges:
			out.Edges = append(out.Edges, x)
		case v == ofType(b.made, v.TypeName)[0]:
			out.Rows[b.typeOf(v.TypeName)] = x
		default:
			others = append(others, x)
		}
	}
	if b.by.separate {
		out.Beside = others
	} else {
		out.H0 = sideBySide(others)
	}
	return out
}

// passed returns a value for later blocks. If none of them reads it in this mode, it returns rows without
// columns; in a pipeline, which sends the same columns in both modes, it returns zeros. Rows of edges are
// computed in any case, but then without a gradient.
func (p *pass) passed(v *value) *autograd.Var {
	p.step = p.code.alias(v)
	switch {
	case !p.unread[p.code.mode][v]:
		x := p.value(v)
		if p.handed[x] {
			return autograd.Copy(x)
		}
		p.handed[x] = true
		return x
	case v.Rows == Edges:
		return autograd.Detach(p.value(v))
	}
	like, columns := p.rowsOf(v.TypeName), 0
	if p.by.stages > 1 {
		columns = v.size()
	}
	return p.tape.Record(autograd.Op{
		Value: p.tape.Team.Zeros(tensor.Activations, like.Rows(), columns), Rows: like.RowSet(),
	})
}

// part returns the columns of v in a row that has the columns of several values.
func part(row *autograd.Var, values []*value, v *value) *autograd.Var {
	if len(values) == 1 {
		return row
	}
	at := 0
	for _, x := range values {
		if x == v {
			break
		}
		at += x.size()
	}
	return autograd.Columns(row, at, v.size())
}

// rowsOf returns a value, of any columns, that has the rows of a vertex type, or in a message function those
// of the edges.
func (p *pass) rowsOf(vertexType string) *autograd.Var {
	if p.rows != nil {
		return p.rows
	}
	i := p.typeOf(vertexType)
	if x := p.all[i]; x != nil {
		return x
	}
	set := p.types[i]
	if p.tape.Rows != nil {
		set = p.tape.Rows[i]
	}
	none := p.tape.Memory().New(tensor.Activations, set.Here, 0)
	return p.tape.Record(autograd.Op{Value: none, Rows: set})
}

// reduceOf returns the aggregation of a scatter or an opAggregate.
func reduceOf(v *value) gnn.Reduce {
	r := gnn.Reduce{Loops: loopsOf(v.setOfEdges()), Weighted: v.o.Weighted}
	switch v.o.Reduce {
	case "sum":
		r.Kind = gnn.KindSum
	case "mean":
		r.Kind = gnn.KindMean
	case "max":
		r.Kind = gnn.KindMax
	case "min":
		r.Kind = gnn.KindMin
	case "merged":
		r = gnn.Symmetric
	case "symmetric":
		r.Kind, r.Weighted, r.Unweighted = gnn.KindSymmetricNoLoops, false, !v.o.Weighted
	}
	return r
}

// setOfEdges returns the set of edges that a value aggregates along.
func (v *value) setOfEdges() string {
	if v.regions[inBoth] != nil && !loopsOf(v.o.Loops).Only() {
		return v.in[0].Loops
	}
	return v.o.Loops
}

// relation returns the relation that a value aggregates along.
func (v *value) relation() string {
	if v.regions[inBoth] != nil {
		return v.in[0].TypeName
	}
	return v.o.TypeName
}

// relationOf returns the relation along which a value aggregates, or whose edges the value has rows for.
func (p *Program) relationOf(v *value) string {
	if p.scored != "" && v.Rows == Edges { // only the output, because no other rows of edges are kept then
		return p.scored
	}
	return v.relation()
}

// loopsOf returns the loops of a set of edges.
func loopsOf(set string) gnn.Loops {
	return map[string]gnn.Loops{
		stored: gnn.StoredLoops, removed: gnn.RemovedLoops, one: gnn.OneLoop, added: gnn.AddedLoops,
		onlyLoops: gnn.OnlyLoops, lastLoops: gnn.LastLoops,
	}[set]
}

// describe names a value in errors.
func (v *value) describe() string {
	text := v.op
	if v.o.Path != "" {
		text += " of " + v.o.Path
	}
	if v.o.Line != "" {
		text += " (" + v.o.Line + ")"
	}
	return text
}
