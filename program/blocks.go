package program

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// block is consecutive operations of a program, as a block of a model.
type block struct {
	program     *Program
	code        *code         // what it computes in any mode
	codes       [inBoth]*code // what it computes in one
	given, made []*value      // the rows of a gnn.State: what it reads, and what later blocks read of it
	unread      unread        // of what it makes
	types       []*autograd.RowSet
	typeOf      func(of string) int // the number of a vertex type
	params      map[string]*nn.Param
	frozen      map[string]*nn.Buffer
	norms       map[*value]*nn.BatchNorm
	propagators map[*value]gnn.Propagator
	maps        map[columnKey]*kernel.ColumnMap
	broadcasts  map[string][]int32
	kept        map[*autograd.Sparse]*tensor.Matrix // the dense form of features
	by          cutting
	explain     func(path, what string)
	explained   map[*value]bool
}

// cutting says where a program is cut into blocks.
type cutting struct {
	stages int  // of a pipeline
	apart  bool // what follows an aggregation is in the block after it
	beside bool // more values of vertices pass in State.Beside
}

// Blocks describes the program for a graph, as blocks that a pipeline of so many stages can be cut between.
// It refuses what the graph does not allow.
func (p *Program) Blocks(schema gnn.Schema, outputs, stages int) ([]gnn.BlockSpec, error) {
	if err := p.fits(schema, outputs); err != nil {
		return nil, err
	}
	p = p.forFeatures(schema)
	return p.blocks(schema, inStages(stages, schema), p.built, ofVertices), nil
}

// EdgeBlocks is Blocks where rows of the edges of a relation are the only output. What the program computes
// for its outputs of vertices alone is left out. scored is another relation between the same vertices, of
// whose edges the rows are: then it refuses rows that depend on those of other edges. "": there is none.
func (p *Program) EdgeBlocks(
	schema gnn.Schema, relation, scored string, outputs, stages int,
) ([]gnn.BlockSpec, error) {
	if err := p.checkEdgeOutput(relation); err != nil {
		return nil, err
	}
	if n := p.OutputsByRelation()[0].Columns; outputs > 0 && n != outputs {
		return nil, p.refuseOutputs(n, outputs)
	}
	if err := p.fitsRows(schema); err != nil {
		return nil, err
	}
	p = p.forFeatures(schema)
	if scored != "" {
		of := *p
		of.scored = scored
		of.keep(0)
		p = &of
		if err := p.refuseEdgeRows(edgesOf(p.built)[0].regions[inBoth]); err != nil {
			return nil, err
		}
	}
	specs := p.blocks(schema, inStages(stages, schema), edgesOf(p.built), ofVertices)
	if specs[len(specs)-1].EdgeOutputs[0].Along.Reversed {
		return nil, refusal.Errorf("the model %s has rows of edges where the edges' sources are, and their labels are "+
			"where the targets are; aggregate at the targets, as PyG does", p.Class)
	}
	return specs, nil
}

// checkEdgeOutput refuses a program that does not return rows of the edges of a relation, and of no others.
func (p *Program) checkEdgeOutput(relation string) error {
	all := p.OutputsByRelation()
	if len(all) != 1 || all[0].Of != "" && all[0].Of != relation {
		return refusal.Errorf("the model %s does not return one row for each edge whose label is learned; return "+
			"these rows alone, edges × outputs", p.Class)
	}
	return nil
}

// inStages is where a program is cut for a pipeline of so many stages.
func inStages(stages int, schema gnn.Schema) cutting {
	return cutting{stages: stages, beside: stages > 1 && len(schema.Types) > 1}
}

// BlocksApart is Blocks for a pass that computes some vertices alone. Each block ends with its aggregations:
// what follows them is computed in the next one, of the rows alone that are read. With states of edges a
// block may have several aggregations still.
func (p *Program) BlocksApart(schema gnn.Schema, outputs int) ([]gnn.BlockSpec, error) {
	if err := p.fits(schema, outputs); err != nil {
		return nil, err
	}
	p = p.forFeatures(schema)
	return p.blocks(schema, cutting{stages: 1, apart: true, beside: true}, p.built, ofVertices), nil
}

// ofVertices is the storage of values outside of message functions.
func ofVertices(of mode) func(*value) *value { return storage(false, of) }

// blocks cuts what computes some of the program's outputs, in both modes at the same places.
func (p *Program) blocks(
	schema gnn.Schema, by cutting, outputs []*value, storage func(of mode) func(*value) *value,
) (specs []gnn.BlockSpec) {
	first := p.built[0].Of
	values := newCode(inBoth, outputs, storage(inBoth), func(*value) bool { return false })
	results := make([]*value, len(outputs))
	for k, v := range outputs {
		results[k] = values.alias(v)
	}
	level, levels := levelsOf(values, by.apart)
	if by.stages > 1 {
		raise(values, level)
	}
	given := []*value{}
	for _, v := range values.steps {
		if v.op == "features" {
			given = append(given, v.value)
		}
	}
	crossing, aggregates, parts := map[*value]bool{}, false, []section{}
	for last, at := range cutsOf(values, level, levels, results) {
		aggregates = aggregates || at.aggregates
		for _, v := range at.from {
			crossing[v] = true
		}
		for _, v := range at.until {
			delete(crossing, v)
		}
		made := results
		if last+1 < levels {
			if !aggregates || !by.mayCross(crossing, first) {
				continue
			}
			made = slices.SortedFunc(maps.Keys(crossing),
				func(x, y *value) int { return x.number - y.number })
		}
		parts = append(parts, section{given, made})
		given, aggregates = made, false
	}
	specs = make([]gnn.BlockSpec, len(parts))
	var unread unread
	for i, of := range slices.Backward(parts) {
		specs[i], unread = p.spec(schema, by, storage, of, unread)
	}
	specs[len(specs)-1].EdgeOutputs = p.edgeStates(schema, results)
	return specs
}

// refuseOutputs refuses labels that need so many outputs, of a program that has n.
func (p *Program) refuseOutputs(n, outputs int) error {
	return refusal.Errorf("the model %s has %d outputs, and the graph's labels need %d; change its last layer",
		p.Class, n, outputs)
}

// fits refuses a graph that lacks what the program reads, or has other outputs.
func (p *Program) fits(schema gnn.Schema, outputs int) error {
	if err := p.fitsRows(schema); err != nil {
		return err
	}
	wanted := schema.Outputs
	if wanted == nil {
		wanted = []int{0}
	}
	var kinds []int
	for _, v := range p.built {
		if v.Rows == Vertices {
			kinds = append(kinds, schema.TypeOf(v.Of))
		}
	}
	if slices.Sort(kinds); !slices.Equal(kinds, wanted) {
		return refusal.Errorf("the model %s has outputs for the vertices of type %q alone, and others are to be "+
			"learned; return the logits of these", p.Class, p.OutputType())
	}
	if n := p.Outputs(); outputs > 0 && n != outputs {
		return p.refuseOutputs(n, outputs)
	}
	return nil
}

// fitsOperation refuses a graph that lacks what an operation reads.
func (p *Program) fitsOperation(schema gnn.Schema, o *Operation, t Type) error {
	refuse := func(format string, args ...any) error {
		return refusal.Errorf("the model %s %s; trace it for this graph", p.Class, fmt.Sprintf(format, args...))
	}
	fits := func(of string, there, wanted int) error {
		if there == wanted {
			return nil
		}
		if t.Of != "" {
			of += fmt.Sprintf(" of %q", t.Of)
		}
		return refuse("reads %d %s, and the graph has %d", wanted, of, there)
	}
	switch t.Rows {
	case Vertices:
		i := schema.TypeOf(t.Of)
		switch {
		case i < 0:
			return refuse("reads vertices of type %q, and the graph has none", t.Of)
		case o.Op == "features":
			return fits("features of vertices", schema.Types[i].Columns, o.Shape[0])
		case o.Op == "table":
			return fits("vertices", schema.Types[i].Vertices, p.Parameter(o.Name).Shape[0])
		}
	case Edges:
		if len(schema.Relations) == 0 { // the edges are not read yet
			return nil
		}
		r, of := schema.RelationOf(t.Of), p.relation(t.Of)
		switch {
		case r == nil || schema.TypeOf(of.Source) != r.Source || schema.TypeOf(of.Target) != r.Target:
			return refuse("reads the relation %q from %q to %q, and the graph has none", t.Of, of.Source, of.Target)
		case o.Op == "edge_features":
			return fits("features of edges", r.Columns, o.Shape[0])
		case o.Op == "edge_weight" && r.Unweighted:
			return refusal.Errorf("the model %s reads the weights of edges, and the graph has none; store "+
				"weights, or trace the model without", p.Class)
		}
	}
	return nil
}

// fitsRows refuses a graph that lacks what the program reads.
func (p *Program) fitsRows(schema gnn.Schema) error {
	if len(p.Relations) == 0 && schema.Typed() {
		return refusal.Errorf("the model %s is for one type of vertices and of edges, and the graph has more; take "+
			"a graph of one type, or trace it for this graph", p.Class)
	}
	for i := range p.Operations {
		if err := p.fitsOperation(schema, &p.Operations[i], p.types[i]); err != nil {
			return err
		}
	}
	for _, v := range reachable(p.built...) {
		if isNormOfEdges(v) && v.o.End == "" {
			return refusal.Errorf("the model %s has a %s of edges that are aggregated at their sources and at "+
				"their targets; take a norm of each row, as torch.nn.LayerNorm, or one model for each end",
				p.Class, v.describe())
		}
	}
	return nil
}

// Outputs returns the number of columns of all outputs of vertices.
func (p *Program) Outputs() (columns int) {
	for _, of := range p.OutputsByType() {
		columns += of.Columns
	}
	return columns
}

// Output is what a program gives for the vertices of a type, or the edges of a relation.
type Output struct {
	Of      string // the vertex type or the relation; empty: there is one
	Columns int
}

// OutputsByType returns the program's outputs of vertices.
func (p *Program) OutputsByType() []Output { return p.outputsAt(p.outputs()) }

// OutputsByRelation returns the program's outputs of edges; their Of is the relation, empty if there is one.
func (p *Program) OutputsByRelation() []Output { return p.outputsAt(p.EdgeOutputs) }

func (p *Program) outputsAt(values []int) (all []Output) {
	for _, at := range values {
		all = append(all, Output{p.types[at].Of, p.types[at].size()})
	}
	return all
}

// OutputType returns the vertex type of the first output's rows; empty: there is one.
func (p *Program) OutputType() string { return p.types[p.Output].Of }

// ReadsWeights reports whether the program reads the weights of edges.
func (p *Program) ReadsWeights() bool {
	return slices.ContainsFunc(p.Operations, func(o Operation) bool { return o.Op == "edge_weight" })
}

// AtSources reports whether values of edges are aggregated at the edges' sources.
func (p *Program) AtSources() bool {
	return slices.ContainsFunc(p.Operations, func(o Operation) bool {
		return o.Op != "gather" && o.End == "source"
	})
}

// aggregates reports whether rows of the result depend on other vertices' rows along edges.
func (v *value) aggregates() bool {
	return v.op == "scatter" || v.op == opAggregate || v.op == opAttend
}

// along reports whether rows of the result are computed along edges.
func (v *value) along() bool { return v.aggregates() || v.op == opApply }

// operations are those of a step.
func (s *step) operations() []*value {
	if s.fused == nil {
		return []*value{s.value}
	}
	return append([]*value{s.value}, s.fused.parts()...)
}

// along are the operations of a step that are computed along edges.
func (s *step) along() (all []*value) {
	for _, v := range s.operations() {
		if v.along() {
			all = append(all, v)
		}
	}
	return all
}

// aggregates reports whether an operation of a step aggregates.
func (s *step) aggregates() bool { return slices.ContainsFunc(s.operations(), (*value).aggregates) }

// levelsOf returns how many aggregations each value depends on, one after the other, at least 1, and the most
// of all. apart: what depends on aggregations without being one is in the level after them.
func levelsOf(c *code, apart bool) (level map[*value]int, levels int) {
	level = map[*value]int{}
	depth := map[*value]int{}
	for _, s := range c.steps {
		for _, x := range s.reads {
			depth[s.value] = max(depth[s.value], depth[c.alias(x)])
		}
		if s.aggregates() {
			depth[s.value]++
		}
		level[s.value] = max(1, depth[s.value])
		if apart && !s.aggregates() {
			level[s.value] = depth[s.value] + 1
		}
		levels = max(levels, level[s.value])
	}
	return level, levels
}

// cut is where the program may be cut, after the steps of a level.
type cut struct {
	aggregates bool // a step of the level
	// rows of vertices that cross this cut and not the one before, and the other way round
	from, until []*value
}

// cutsOf returns the cuts after all levels. What later levels read crosses a cut, and results do.
func cutsOf(c *code, level map[*value]int, levels int, results []*value) []cut {
	cuts := make([]cut, levels)
	before := map[*value]int{} // the last level that reads it
	for _, x := range results {
		before[x] = levels
	}
	for _, s := range c.steps {
		at := level[s.value]
		if s.aggregates() {
			cuts[at-1].aggregates = true
		}
		for _, x := range s.reads {
			if x = c.alias(x); x.Rows != None || x.ofRows {
				before[x] = max(before[x], at)
			}
		}
	}
	for x, last := range before {
		if first := level[x]; first < last {
			cuts[first-1].from = append(cuts[first-1].from, x)
			cuts[last-1].until = append(cuts[last-1].until, x)
		}
	}
	return cuts
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

// mayCross reports whether values may be what later blocks read. Tensors without rows do not cross; and in
// one stage only as many rows of vertices as a gnn.State holds without a copy: two of the first type, one of
// the others. Rows of edges cross beside rows of vertices.
func (by cutting) mayCross(values map[*value]bool, first string) bool {
	of := map[string]int{} // by vertex type
	for v := range values {
		if v.Rows == Edges && by.stages > 1 {
			continue
		}
		of[v.Of]++
		few := by.stages == 1 && !by.apart
		if n := of[v.Of]; v.Rows != Vertices || few && (n > 2 || n > 1 && v.Of != first) {
			return false
		}
	}
	return len(of) > 0
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
	if r := s.regions[inBoth]; r != nil {
		names = append(names, r.parameters...)
	}
	for _, v := range s.operations() {
		if v.op == "batch_norm" {
			names = append(names, v.o.Weight, v.o.Bias, v.o.Mean)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// section is the block between values that are given and values that it makes.
type section struct{ given, made []*value }

// unread are those of the values that pass between two blocks that no later block reads in a mode.
type unread [inBoth]map[*value]bool

// spec describes a block. after are the values that it makes and that are unread, before those that it is
// given.
func (p *Program) spec(schema gnn.Schema, by cutting, storage func(of mode) func(*value) *value, of section,
	after unread,
) (s gnn.BlockSpec, before unread) {
	given, made, isGiven := of.given, of.made, map[*value]bool{}
	for _, v := range given {
		isGiven[v] = true
	}
	codeOf := func(m mode, results []*value) *code {
		return newCode(m, results, storage(m), func(v *value) bool { return isGiven[v] })
	}
	c := codeOf(inBoth, made)
	var codes [inBoth]*code
	for m := range codes {
		codes[m] = codeOf(mode(m), slices.DeleteFunc(slices.Clone(made), func(v *value) bool {
			return after[m][v] && v.Rows != Edges
		}))
		before[m] = map[*value]bool{}
		for _, v := range given {
			before[m][v] = codes[m].uses[v] == 0
		}
	}
	_, rounds := levelsOf(c, false)
	in, out := ofType(given, p.built[0].Of), ofType(made, p.built[0].Of)
	s = gnn.BlockSpec{In: width(in[:min(1, len(in))]), Out: width(out[:min(1, len(out))]), Rounds: rounds}
	if s.H0 = width(in[min(1, len(in)):]); by.beside {
		s.H0, s.Made = 0, make([]int, len(schema.Types))
		for _, v := range made {
			switch kind := schema.TypeOf(v.Of); {
			case v.Rows == Edges:
			case s.Made[kind] == 0:
				s.Made[kind] = v.size()
			default:
				s.Beside = append(s.Beside, gnn.VertexState{Type: kind, Columns: v.size()})
			}
		}
	}
	s.Edges = p.edgeStates(schema, given)
	if schema.Typed() {
		s.Relations = []string{}
	}
	for _, st := range codes[inTraining].steps {
		s.Cost.Vertex += st.cost()
		if r := st.regions[inTraining]; r != nil {
			for _, inner := range r.edges.steps {
				s.Cost.Edge += inner.cost()
			}
		}
		for _, v := range st.along() {
			s.Cost.Edge += v.size()
		}
	}
	for _, st := range c.steps {
		if r := st.regions[inBoth]; r != nil {
			s.EdgeFeatures = s.EdgeFeatures || r.edgeFeatures
		}
		for _, v := range st.along() {
			if name := p.relationOf(v); schema.Typed() && !slices.Contains(s.Relations, name) {
				s.Relations = append(s.Relations, name)
			}
		}
	}
	s.Build = func(e gnn.Env) gnn.Block {
		b := p.newBlock(e, c, given, made)
		b.codes, b.unread, b.by = codes, after, by
		return b
	}
	return s, before
}

// edgeStates describes those values that are rows of edges.
func (p *Program) edgeStates(schema gnn.Schema, values []*value) (all []gnn.EdgeState) {
	for _, v := range edgesOf(values) {
		along := gnn.Along{Relation: cmp.Or(p.scored, v.Of), Reversed: v.o.End == "source"}
		if along.Relation == "" && len(schema.Relations) == 1 {
			along.Relation = schema.Only()
		}
		all = append(all, gnn.EdgeState{
			Along: along, Loops: loopsOf(v.Loops), Columns: v.size(), Counted: v.counted,
		})
	}
	return all
}

// ofType are the values that are rows of a vertex type.
func ofType(values []*value, of string) (all []*value) {
	for _, v := range values {
		if v.Of == of && v.Rows != Edges {
			all = append(all, v)
		}
	}
	return all
}

// edgesOf are the values that are rows of edges.
func edgesOf(values []*value) (all []*value) {
	for _, v := range values {
		if v.Rows == Edges {
			all = append(all, v)
		}
	}
	return all
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
func pathsOf(outputs []*value) map[*value]string {
	paths, known := map[*value]string{}, map[string]int{}
	for _, v := range reachable(outputs...) {
		if !v.along() {
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
		program: p, code: c, given: given, made: made, types: e.Rows, typeOf: e.TypeOf,
		params: map[string]*nn.Param{},
		frozen: map[string]*nn.Buffer{}, norms: map[*value]*nn.BatchNorm{},
		propagators: map[*value]gnn.Propagator{},
		maps:        map[columnKey]*kernel.ColumnMap{}, broadcasts: map[string][]int32{},
		kept:    map[*autograd.Sparse]*tensor.Matrix{},
		explain: e.Explain, explained: map[*value]bool{},
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
			name, rows := s.o.Name, e.Rows[e.TypeOf(s.Of)]
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

// makeParameter makes a parameter or a buffer of the program, unless another block has.
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
	for i, v := range edgesOf(b.given) {
		p.vars[v] = s.Edges[i]
	}
	given := s.Beside
	for _, v := range b.given {
		if v.Rows == Edges {
			continue
		}
		switch all := ofType(b.given, v.Of); {
		case v == all[0]:
			p.vars[v] = s.Rows[b.typeOf(v.Of)]
		case b.by.beside:
			p.vars[v], given = given[0], given[1:]
		default:
			p.vars[v] = part(s.H0, all[1:], v)
		}
	}
	p.run()
	out := gnn.State{Rows: make([]*autograd.Var, len(b.types))}
	var beside []*autograd.Var
	for _, v := range b.made {
		x := p.passed(v)
		switch {
		case v.Rows == Edges:
			out.Edges = append(out.Edges, x)
		case v == ofType(b.made, v.Of)[0]:
			out.Rows[b.typeOf(v.Of)] = x
		default:
			beside = append(beside, x)
		}
	}
	if b.by.beside {
		out.Beside = beside
	} else {
		out.H0 = sideBySide(beside)
	}
	return out
}

// passed is what later blocks read of a value that the block makes. Where none does in this mode, there are
// no columns, or zeros in a pipeline, which sends as many columns in both modes. Rows of edges are computed
// there, without a gradient.
func (p *pass) passed(v *value) *autograd.Var {
	p.step = p.code.alias(v)
	switch {
	case !p.unread[p.code.mode][v]:
		x := p.of(v)
		if p.handed[x] {
			return autograd.Copy(x)
		}
		p.handed[x] = true
		return x
	case v.Rows == Edges:
		return autograd.Detach(p.of(v))
	}
	like, columns := p.rowsOf(v.Of), 0
	if p.by.stages > 1 {
		columns = v.size()
	}
	return p.tape.Record(autograd.Op{
		Value: p.tape.Team.Zeros(tensor.Activations, like.Rows(), columns), Rows: like.RowSet(),
	})
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

// rowsOf returns any rows of the vertices of a type, or of the edges in a message function.
func (p *pass) rowsOf(of string) *autograd.Var {
	if p.rows != nil {
		return p.rows
	}
	i := p.typeOf(of)
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
	if v.regions[inBoth] != nil && !loopsOf(v.o.Loops).Only() {
		return v.in[0].Loops
	}
	return v.o.Loops
}

// relation is the relation that a value aggregates along.
func (v *value) relation() string {
	if v.regions[inBoth] != nil {
		return v.in[0].Of
	}
	return v.o.Of
}

// relationOf is the relation that a value of the program aggregates along, or of whose edges it has rows.
func (p *Program) relationOf(v *value) string {
	if p.scored != "" && v.Rows == Edges { // the output alone, as no rows of edges are kept
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
