package program

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"weft/gnn"
	"weft/internal/refusal"
)

// cutting says where a program is cut into blocks.
type cutting struct {
	stages   int  // the number of stages of a pipeline
	apart    bool // operations after an aggregation are in the next block
	separate bool // further values of vertices pass in State.Beside, not side by side in State.H0
}

// Blocks describes the program for a graph, as blocks that a pipeline of so many stages can be cut between.
// It returns a refusal if the graph does not fit the program. outputs is the number of outputs that the
// labels need.
func (p *Program) Blocks(schema gnn.Schema, outputs, stages int) ([]gnn.BlockSpec, error) {
	if err := p.fits(schema, outputs); err != nil {
		return nil, err
	}
	p = p.forFeatures(schema)
	return p.blocks(schema, inStages(stages, schema), p.built, ofVertices), nil
}

// EdgeBlocks is Blocks for a program whose only output counts that is rows of the edges of a relation. Values
// that only outputs of vertices need are left out. scored may name another relation between the same
// vertices: the output then has the rows of its edges, and EdgeBlocks refuses rows that depend on other
// edges' rows. "": there is no other relation.
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
		scorer := *p
		scorer.scored = scored
		scorer.rebuild(0)
		p = &scorer
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

// inStages says where a program is cut for a pipeline of so many stages.
func inStages(stages int, schema gnn.Schema) cutting {
	return cutting{stages: stages, separate: stages > 1 && len(schema.Types) > 1}
}

// BlocksApart is Blocks for a pass that computes only some vertices. Each block ends with its aggregations.
// The operations after them are in the next block, which computes them only for the rows that are read. With
// states of edges, a block may still have several aggregations.
func (p *Program) BlocksApart(schema gnn.Schema, outputs int) ([]gnn.BlockSpec, error) {
	if err := p.fits(schema, outputs); err != nil {
		return nil, err
	}
	p = p.forFeatures(schema)
	return p.blocks(schema, cutting{stages: 1, apart: true, separate: true}, p.built, ofVertices), nil
}

// ofVertices is storage for values outside of message functions.
func ofVertices(m mode) func(*value) *value { return storage(false, m) }

// blocks cuts the steps that compute some of the program's outputs into blocks, at the same places in both
// modes.
func (p *Program) blocks(
	schema gnn.Schema, by cutting, outputs []*value, storage func(m mode) func(*value) *value,
) (specs []gnn.BlockSpec) {
	first := p.built[0].TypeName
	values := newCode(inBoth, outputs, storage(inBoth), func(*value) bool { return false })
	results := make([]*value, len(outputs))
	for k, v := range outputs {
		results[k] = values.alias(v)
	}
	level, levels := levelsOf(values, by.apart)
	if by.stages > 1 {
		raise(values, level)
	}
	inputs := []*value{}
	for _, v := range values.steps {
		if v.op == "features" {
			inputs = append(inputs, v.value)
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
		parts = append(parts, section{inputs, made})
		inputs, aggregates = made, false
	}
	specs = make([]gnn.BlockSpec, len(parts))
	var unread unread
	for i, part := range slices.Backward(parts) {
		specs[i], unread = p.spec(schema, by, storage, part, unread)
	}
	specs[len(specs)-1].EdgeOutputs = p.edgeStates(schema, results)
	return specs
}

// section is a block as its input values, and the values that it makes.
type section struct{ inputs, made []*value }

// unread are the values that pass between two blocks although no later block reads them in that mode.
type unread [inBoth]map[*value]bool

// spec describes a block. after are the unread values among those that it makes. before are the unread values
// among those that it is given.
func (p *Program) spec(schema gnn.Schema, by cutting, storage func(m mode) func(*value) *value, part section,
	after unread,
) (s gnn.BlockSpec, before unread) {
	inputs, made, isGiven := part.inputs, part.made, map[*value]bool{}
	for _, v := range inputs {
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
		for _, v := range inputs {
			before[m][v] = codes[m].uses[v] == 0
		}
	}
	_, rounds := levelsOf(c, false)
	in, out := ofType(inputs, p.built[0].TypeName), ofType(made, p.built[0].TypeName)
	s = gnn.BlockSpec{In: width(in[:min(1, len(in))]), Out: width(out[:min(1, len(out))]), Rounds: rounds}
	if slices.ContainsFunc(p.Operations, func(o Operation) bool {
		return slices.Contains([]string{"dropout", "batch_norm", "uniform", "training"}, o.Op)
	}) {
		s.OwnPass = []string{"program"}
	}
	if s.H0 = width(in[min(1, len(in)):]); by.separate {
		s.H0, s.Made = 0, make([]int, len(schema.Types))
		for _, v := range made {
			switch kind := schema.TypeOf(v.TypeName); {
			case v.Rows == Edges:
			case s.Made[kind] == 0:
				s.Made[kind] = v.size()
			default:
				s.Beside = append(s.Beside, gnn.VertexState{Type: kind, Columns: v.size()})
			}
		}
	}
	s.Edges = p.edgeStates(schema, inputs)
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
		b := p.newBlock(e, c, inputs, made)
		b.codes, b.unread, b.by = codes, after, by
		return b
	}
	return s, before
}

// edgeStates describes the values that are rows of edges.
func (p *Program) edgeStates(schema gnn.Schema, values []*value) (all []gnn.EdgeState) {
	for _, v := range edgesOf(values) {
		along := gnn.Along{Relation: cmp.Or(p.scored, v.TypeName), Reversed: v.o.End == "source"}
		if along.Relation == "" && len(schema.Relations) == 1 {
			along.Relation = schema.Only()
		}
		all = append(all, gnn.EdgeState{
			Along: along, Loops: loopsOf(v.Loops), Columns: v.size(), Counted: v.counted,
		})
	}
	return all
}

// ofType returns the values that are rows of a vertex type.
func ofType(values []*value, vertexType string) (all []*value) {
	for _, v := range values {
		if v.TypeName == vertexType && v.Rows != Edges {
			all = append(all, v)
		}
	}
	return all
}

// edgesOf returns the values that are rows of edges.
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

// cost returns the multiply-adds of a step for one row.
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

// pathsOf names the values of a program that aggregate, for gnn.Propagators: each has caches, masks and
// history of its own.
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
