package program

import (
	"cmp"
	"fmt"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
)

// block is consecutive operations of a program, as a block of a model.
type block struct {
	program     *Program
	code        *code
	given, made []*value // the rows of a gnn.State: what it reads, and what later blocks read of it
	params      map[string]*nn.Param
	frozen      map[string]*nn.Buffer
	norms       map[*value]*nn.BatchNorm
	propagators map[*value]gnn.Propagator
	maps        map[columnKey]*kernel.ColumnMap
	broadcasts  map[string][]int32
}

// Blocks describes the program for a graph, as blocks that a pipeline of so many stages can be cut between.
// It refuses what the graph does not allow.
func (p *Program) Blocks(schema gnn.Schema, outputs, stages int) ([]gnn.BlockSpec, error) {
	if err := p.fits(schema, outputs); err != nil {
		return nil, err
	}
	output := p.built
	values := newCode([]*value{output}, storage(false), func(*value) bool { return false })
	level, levels := levelsOf(values)
	if stages > 1 {
		raise(values, level)
	}
	var specs []gnn.BlockSpec
	first, given := 0, []*value{}
	for _, v := range values.steps {
		if v.op == "features" {
			given = []*value{v.value}
		}
	}
	for last := 1; last <= levels; last++ {
		made := []*value{storage(false)(output)}
		if last < levels {
			made = crossing(values, level, last)
			if !aggregates(values, level, first, last) || !mayCross(made, stages) {
				continue
			}
		}
		specs = append(specs, p.spec(given, made))
		first, given = last, made
	}
	return specs, nil
}

// fits refuses a graph that lacks what the program reads, or has other outputs.
func (p *Program) fits(schema gnn.Schema, outputs int) error {
	if len(schema.Types) != 1 || len(schema.Relations) > 1 {
		return refusal.Errorf("the model %s is for one type of vertices and of edges, and the graph has more; take "+
			"a graph of one type, or a model known by name", p.Class)
	}
	for _, o := range p.Operations {
		var columns int
		var of string
		switch o.Op {
		case "features":
			columns, of = schema.Types[0].Columns, "features of vertices"
		case "edge_features":
			if len(schema.Relations) == 0 { // the edges are not read yet
				continue
			}
			columns, of = schema.Relations[0].Columns, "features of edges"
		case "edge_weight":
			if len(schema.Relations) > 0 && schema.Relations[0].Unweighted {
				return refusal.Errorf("the model %s reads the weights of edges, and the graph has none; store "+
					"weights, or trace the model without", p.Class)
			}
			continue
		default:
			continue
		}
		if columns != o.Shape[0] {
			return refusal.Errorf("the model %s reads %d %s, and the graph has %d; trace it for this graph",
				p.Class, o.Shape[0], of, columns)
		}
	}
	if n := p.types[p.Output].size(); outputs > 0 && n != outputs {
		return refusal.Errorf("the model %s has %d outputs, and the graph's labels need %d; change its last layer",
			p.Class, n, outputs)
	}
	return nil
}

// Outputs returns the number of columns of the output.
func (p *Program) Outputs() int { return p.types[p.Output].size() }

// ReadsWeights reports whether the program reads the weights of edges.
func (p *Program) ReadsWeights() bool {
	return slices.ContainsFunc(p.Operations, func(o Operation) bool { return o.Op == "edge_weight" })
}

// aggregates reports whether rows of the result depend on other vertices' rows along edges.
func (v *value) aggregates() bool {
	return v.op == "scatter" || v.op == opAggregate || v.op == opAttend
}

// operations are those of a step.
func (s *step) operations() []*value {
	if s.fused == nil {
		return []*value{s.value}
	}
	return append([]*value{s.value}, s.fused.parts()...)
}

// aggregations are the operations of a step that aggregate.
func (s *step) aggregations() (all []*value) {
	for _, v := range s.operations() {
		if v.aggregates() {
			all = append(all, v)
		}
	}
	return all
}

// levelsOf returns how many aggregations each value depends on, one after the other, at least 1, and the most
// of all.
func levelsOf(c *code) (level map[*value]int, levels int) {
	level = map[*value]int{}
	depth := map[*value]int{}
	for _, s := range c.steps {
		for _, x := range s.reads {
			depth[s.value] = max(depth[s.value], depth[c.alias(x)])
		}
		if len(s.aggregations()) > 0 {
			depth[s.value]++
		}
		level[s.value] = max(1, depth[s.value])
		levels = max(levels, level[s.value])
	}
	return level, levels
}

// crossing are the rows of vertices of the first levels that later ones read.
func crossing(c *code, level map[*value]int, last int) (values []*value) {
	for _, s := range c.steps {
		if level[s.value] <= last {
			continue
		}
		for _, x := range s.reads {
			x = c.alias(x)
			if level[x] <= last && (x.Rows != None || x.ofRows) && !slices.Contains(values, x) {
				values = append(values, x)
			}
		}
	}
	slices.SortFunc(values, func(x, y *value) int { return x.number - y.number })
	return values
}

// raise has all that reads a parameter in one level, that of the last reader, as parameters do not cross the
// stages of a pipeline. What depends on it comes no earlier.
func raise(c *code, level map[*value]int) {
	of := map[string]int{} // by parameter
	parameters := map[*value][]string{}
	for _, s := range c.steps {
		if s.Rows != None || s.ofRows { // others are computed by each block for itself
			parameters[s.value] = parametersOf(s)
		}
	}
	for again := true; again; {
		again = false
		for _, s := range c.steps {
			names, known := parameters[s.value]
			if !known {
				continue
			}
			at := level[s.value]
			for _, x := range s.reads {
				at = max(at, level[c.alias(x)])
			}
			for _, name := range names {
				at = max(at, of[name])
			}
			for _, name := range names {
				again = again || of[name] < at
				of[name] = at
			}
			again = again || level[s.value] < at
			level[s.value] = at
		}
	}
}

// aggregates reports whether a step of the levels after first, up to last, aggregates.
func aggregates(c *code, level map[*value]int, first, last int) bool {
	return slices.ContainsFunc(c.steps, func(s step) bool {
		return level[s.value] > first && level[s.value] <= last && len(s.aggregations()) > 0
	})
}

// mayCross reports whether values may be what later blocks read. Tensors without rows do not cross; and in
// one stage only as many rows as a gnn.State holds without a copy.
func mayCross(made []*value, stages int) bool {
	return len(made) > 0 && (stages > 1 || len(made) <= 2) &&
		!slices.ContainsFunc(made, func(v *value) bool { return v.Rows == None })
}

// parametersOf are the names of the parameters that a step reads, other than through steps before it.
func parametersOf(s step) (names []string) {
	seen := map[*value]bool{}
	var visit func(v *value)
	visit = func(v *value) {
		if seen[v] {
			return
		}
		seen[v] = true
		if v.op == "parameter" {
			names = append(names, v.o.Name)
		}
		if v.Rows == None && !v.ofRows {
			for _, x := range v.in {
				visit(x)
			}
		}
	}
	for _, x := range s.reads {
		visit(x)
	}
	if s.op == "scatter" {
		names = append(names, s.region.parameters...)
	}
	for _, v := range s.operations() {
		if v.op == "batch_norm" {
			names = append(names, v.o.Weight, v.o.Bias, v.o.Mean)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// spec describes the block between values that are given and values that it makes.
func (p *Program) spec(given, made []*value) gnn.BlockSpec {
	c := newCode(made, storage(false), func(v *value) bool { return slices.Contains(given, v) })
	_, rounds := levelsOf(c)
	s := gnn.BlockSpec{Out: width(made[:1]), H0: width(given[min(1, len(given)):]), Rounds: rounds}
	s.In = width(given[:min(1, len(given))])
	for _, st := range c.steps {
		s.Cost.Vertex += st.cost()
		if st.op == "scatter" {
			s.EdgeFeatures = s.EdgeFeatures || st.region.edgeFeatures
			for _, inner := range st.region.edges.steps {
				s.Cost.Edge += inner.cost()
			}
		}
		for _, v := range st.aggregations() {
			s.Cost.Edge += v.size()
		}
	}
	s.Build = func(e gnn.Env) gnn.Block { return p.newBlock(e, c, given, made) }
	return s
}

func width(values []*value) (n int) {
	for _, v := range values {
		n += v.size()
	}
	return n
}

// cost is the multiply-adds of a step for one row.
func (s *step) cost() (n int) {
	for _, v := range s.operations() {
		switch {
		case v.Rows == None:
		case v.op == "linear":
			n += v.size() * v.in[1].Shape[1]
		case v.op == "matmul":
			n += v.size() * v.in[1].Shape[len(v.in[1].Shape)-2]
		default:
			n += v.size()
		}
	}
	return n
}

// pathsOf names the layers of a program that aggregate: each has caches, masks and history of its own.
func pathsOf(output *value) map[*value]string {
	paths, known := map[*value]string{}, map[string]int{}
	for _, v := range reachable(output) {
		if !v.aggregates() {
			continue
		}
		path := cmp.Or(v.o.Path, "propagate")
		if known[path]++; known[path] > 1 {
			path = fmt.Sprintf("%s#%d", path, known[path])
		}
		paths[v] = path
	}
	return paths
}

// newBlock builds a block of code that nobody changes, as workers share it.
func (p *Program) newBlock(e gnn.Env, c *code, given, made []*value) *block {
	b := &block{
		program: p, code: c, given: given, made: made, params: map[string]*nn.Param{},
		frozen: map[string]*nn.Buffer{}, norms: map[*value]*nn.BatchNorm{},
		propagators: map[*value]gnn.Propagator{},
		maps:        map[columnKey]*kernel.ColumnMap{}, broadcasts: map[string][]int32{},
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
		for _, v := range s.aggregations() {
			along := gnn.Along{Relation: e.Only(), Reversed: v.o.End == "source"}
			b.propagators[v] = e.Propagators(p.paths[v], along)
		}
	}
	return b
}

// makeParameter makes a parameter or a buffer of the program, unless another block has.
func (b *block) makeParameter(ps *nn.Params, name string) {
	q := b.program.parameter(name)
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
		Epsilon: v.o.Eps,
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
	x := s.Rows[0]
	p := &pass{block: b, code: b.code, rows: x, tape: x.Tape(), vars: map[*value]*autograd.Var{}}
	for i, v := range b.given {
		if i == 0 {
			p.vars[v] = autograd.Dense(x)
		} else {
			p.vars[v] = part(s.H0, b.given[1:], v)
		}
	}
	p.run()
	out := gnn.StateOf(p.of(b.made[0]))
	if len(b.made) > 1 {
		out.H0 = p.joined(b.made[1:])
	}
	return out
}

// part is the columns of a value in a row of several.
func part(row *autograd.Var, of []*value, v *value) *autograd.Var {
	if len(of) == 1 {
		return row
	}
	at := 0
	for _, x := range of {
		if x == v {
			break
		}
		at += x.size()
	}
	return autograd.Columns(row, at, v.size())
}

// reduceOf is the aggregation of a scatter, or of rows of vertices.
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

// setOfEdges is the set of edges that a value aggregates along.
func (v *value) setOfEdges() string {
	if v.op == "scatter" && !loopsOf(v.o.Loops).Only() {
		return v.in[0].Loops
	}
	return v.o.Loops
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
