package gnn

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/autograd"
	"weft/internal/refusal"
	"weft/nn"
)

// Models of heterogeneous graphs have a convolution for each relation in each layer, and sum the results by
// target type, as PyG's to_hetero(…, aggr="sum") does. R-GCN's layers differ: their relations share weights.
// A layer computes only values that the outputs depend on: the last layer computes the relations into the
// types that Schema.Outputs names.

// Typed reports whether the graph has several types of vertices or edges.
func (s Schema) Typed() bool { return len(s.Types) > 1 || len(s.Relations) > 1 }

// computed says what each layer of a model computes.
type computed struct {
	relations [][]int  // by layer: indices of the relations, in the schema's order
	rows      [][]bool // before each layer and after the last: the types whose rows are read
}

// sourceOnly says whether later layers keep the rows of a vertex type without incoming relations.
type sourceOnly bool

// Later layers lack the rows, or keep them: with a root weight they have a value without any relation.
const (
	dropped sourceOnly = false
	stay    sourceOnly = true
)

// computed returns the relations and rows of so many layers. It goes forward over the layers to find the
// types that have rows, and backward to find the types whose rows are read.
func (s Schema) computed(layers int, sources sourceOnly) computed {
	there := make([][]bool, layers+1)
	for i := range there {
		there[i] = slices.Repeat([]bool{i == 0 || bool(sources)}, len(s.Types))
		if i > 0 {
			for _, r := range s.Relations {
				there[i][r.Target] = there[i][r.Target] || there[i-1][r.Source] && there[i-1][r.Target]
			}
		}
	}
	c := computed{make([][]int, layers), make([][]bool, layers+1)}
	c.rows[layers] = make([]bool, len(s.Types))
	for _, i := range s.outputs() {
		c.rows[layers][i] = there[layers][i]
	}
	for i := layers - 1; i >= 0; i-- {
		c.rows[i] = make([]bool, len(s.Types))
		if sources == stay {
			copy(c.rows[i], c.rows[i+1])
		}
		for k, r := range s.Relations {
			if c.rows[i+1][r.Target] && there[i][r.Source] && there[i][r.Target] {
				c.relations[i] = append(c.relations[i], k)
				c.rows[i][r.Source], c.rows[i][r.Target] = true, true
			}
		}
	}
	return c
}

// decoupled turns c, the relations and rows of a decoupled model's rounds, into those of its layers. The last
// layer computes the relations of the first round, and the other layers compute none.
func (c computed) decoupled() computed {
	n := len(c.relations)
	d := computed{make([][]int, n), slices.Repeat([][]bool{c.rows[0]}, n+1)}
	d.relations[n-1], d.rows[n] = c.relations[0], c.rows[1]
	return d
}

// names returns the names of the relations that a layer computes. Later layers compute no others.
func (c computed) names(schema Schema, layer int) []string {
	names := []string{}
	for _, k := range c.relations[layer] {
		names = append(names, schema.Relations[k].Name)
	}
	return names
}

// Relational has a convolution for each relation: z_t = Σ_{r into t} conv_r(x_s, x_t).
type Relational struct {
	types int
	convs []relational
}

// relational is the convolution of one relation.
type relational struct {
	Bipartite
	source, target int
}

// Forward computes all relations.
func (c *Relational) Forward(x []*autograd.Var) (z, bias []*autograd.Var) {
	z, bias = make([]*autograd.Var, c.types), make([]*autograd.Var, c.types)
	for _, r := range c.convs {
		var b *nn.Param
		t := x[r.source].Tape()
		y := t.Scope(func() (y *autograd.Var) {
			y, b = r.Between(x[r.source], x[r.target])
			return y
		})
		z[r.target] = plus(z[r.target], y)
		if b != nil {
			bias[r.target] = plus(bias[r.target], b.On(t))
		}
	}
	return z, bias
}

// plus returns sum + y; sum may be nil. It may reuse the memory of both.
func plus(sum, y *autograd.Var) *autograd.Var {
	if sum == nil {
		return y
	}
	z := autograd.Add(sum, y)
	sum.Drop()
	return z
}

// typed describes the blocks of a model for a heterogeneous graph.
func (s Spec) typed(kind ModelKind, schema Schema, classes int) (specs []BlockSpec, err error) {
	sources := dropped
	if kind.relations != nil {
		sources = stay
	}
	layers := schema.computed(s.Layers, sources)
	for _, i := range schema.outputs() {
		if !layers.rows[s.Layers][i] {
			return nil, refusal.Errorf("--model %s: it leaves a type of vertices out after a layer in "+
				"which no relation leads to it, and so nothing would be left of %q after %d layers; import "+
				"the graph with --reverse-relations, or take --model rgcn", s.Model, schema.Types[i].Name,
				s.Layers)
		}
	}
	if outputs := schema.outputs(); s.Decoupled && !slices.Equal(outputs, []int{0}) {
		return nil, refusal.Errorf("--decoupled: its rounds end in the rows of the first vertex type, %q, "+
			"and those of %q are asked for; leave it out", schema.Types[0].Name,
			schema.Types[outputs[len(outputs)-1]].Name)
	}
	if err := s.checkTyped(kind, schema, layers, classes); err != nil {
		return nil, err
	}
	rounds := layers
	if s.Decoupled {
		layers = layers.decoupled()
	}
	t := &typed{
		spec: &s, kind: kind, schema: schema, computed: layers,
		widths: make([]int, len(schema.Types)),
	}
	for i, v := range schema.Types {
		t.widths[i] = s.read(v.Columns)
	}
	in := schema.Types[0].Columns
	for i := range s.Layers {
		l := &typedLayer{typed: t, i: i, in: t.widths, out: s.Hidden}
		if i > 0 {
			l.in = slices.Repeat([]int{s.Hidden}, len(t.widths))
		}
		if i == s.Layers-1 {
			l.out = classes
		}
		specs = append(specs, BlockSpec{
			In: in, Out: l.out, Made: l.made(), Cost: l.cost(), EdgeFeatures: s.readsEdges(kind),
			Relations: layers.names(schema, i), OwnPass: s.ownPassOf(kind, i, i == s.Layers-1),
			Build: func(e Env) Block { return l.build(e) },
		})
		in = l.out
	}
	if more := s.Layers - 1; s.Decoupled && more > 0 {
		rounds = computed{rounds.relations[1:], rounds.rows[1:]}
		specs = append(specs, BlockSpec{
			In: classes, Out: classes, Cost: Cost{Edge: more * classes},
			Rounds: more, Relations: rounds.names(schema, 0), Build: func(e Env) Block {
				return newRelationalPropagation(rounds, schema, s.Teleport, e)
			},
		})
	}
	return specs, nil
}

// checkTyped refuses a model or settings that a heterogeneous graph does not allow.
func (s *Spec) checkTyped(kind ModelKind, schema Schema, computed computed, classes int) error {
	if s.Direction != "in" && kind.Uses("direction") {
		return refusal.Errorf("--direction %s: on a graph with several types of vertices or edges edges "+
			"are used as stored; import it with --reverse-relations, which adds the other direction as "+
			"relations, and leave --direction out", s.Direction)
	}
	if s.NodeEmbedding == 0 && kind.relations == nil {
		for i, t := range schema.Types {
			if computed.rows[0][i] && t.Columns == 0 {
				return refusal.Errorf("--model %s: vertices of type %q have no features; learn some for "+
					"them with --node-embedding N, or take --model %s, which does without", s.Model, t.Name,
					strings.Join(Featureless(), " or "))
			}
		}
	}
	reads := func(t VertexType) bool { return s.read(t.Columns) > 0 }
	if s.InputDropout > 0 && !slices.ContainsFunc(schema.Types, reads) {
		return refusal.Errorf("--input-dropout %v: the vertices have no features; leave it out, or learn "+
			"some with --node-embedding N", s.InputDropout)
	}
	width := func(i int) int { return s.read(schema.Types[i].Columns) }
	for i, relations := range computed.relations {
		for _, k := range relations {
			r := schema.Relations[k]
			switch a, b := width(r.Source), width(r.Target); {
			case kind.oneType && r.Source != r.Target:
				return refusal.Errorf("--model %s: it needs both ends of a relation to be of one type, "+
					"and %q has two; take --model %s", s.Model, r.Name, ofAnyTypes())
			case kind.sameWidth && i == 0 && a != b:
				return refusal.Errorf("--model %s: it adds the features of both ends of an edge, and those "+
					"of %q have %d and %d columns; take --model %s", s.Model, r.Name, a, b, ofAnyTypes())
			case s.readsEdges(kind) && r.Columns == 0:
				return s.noEdgeFeatures(fmt.Sprintf("the edges of %q", r.Name))
			}
		}
	}
	if s.NumBlocks == 0 {
		return nil
	}
	divides := func(n int, subject string) error {
		if n%s.NumBlocks == 0 {
			return nil
		}
		return refusal.Errorf("--num-blocks %d does not divide %s, %d: blocks are of equal size; take "+
			"another number, or --bases N", s.NumBlocks, subject, n)
	}
	for i, t := range schema.Types {
		if !computed.rows[0][i] {
			continue
		}
		if width(i) == 0 {
			return refusal.Errorf("--num-blocks %d: vertices of type %q have no features whose weights "+
				"could have blocks; learn some with --node-embedding N, or take --bases N", s.NumBlocks,
				t.Name)
		}
		if err := divides(width(i), fmt.Sprintf("the number of features of %q", t.Name)); err != nil {
			return err
		}
	}
	return divides(classes, "the number of classes")
}

// typed is a model for a schema.
type typed struct {
	spec     *Spec
	kind     ModelKind
	schema   Schema
	computed computed
	widths   []int // columns of the first layer's input, by type; 0: no features, the vertices are one-hot
}

// typedLayer is layer i of a typed model.
type typedLayer struct {
	*typed
	i   int
	in  []int // by vertex type
	out int
}

// path returns the module path of the layer, or of its part for a type or relation.
func (l *typedLayer) path(parts ...string) string {
	return strings.Join(append([]string{l.kind.path(l.i)}, parts...), ".")
}

// ofType returns a module path that ends in the vertex type, if the graph has several.
func (l *typedLayer) ofType(path string, i int) string {
	if l.kind.relations != nil && len(l.schema.Types) == 1 {
		return path
	}
	return path + "." + l.schema.Types[i].Name
}

// made returns how many columns the layer computes for each type.
func (l *typedLayer) made() (columns []int) {
	columns = make([]int, len(l.schema.Types))
	for i, read := range l.computed.rows[l.i+1] {
		if read {
			columns[i] = l.out
		}
	}
	return columns
}

// build builds the layer.
func (l *typedLayer) build(e Env) *Layer {
	s, last := l.spec, l.i == l.spec.Layers-1
	b := &Layer{Types: make([]TypeLayer, len(l.schema.Types))}
	for i := range l.schema.Types {
		t := &b.Types[i]
		if l.i == 0 && l.computed.rows[0][i] {
			t.Input = nn.Dropout{Path: l.inputPath(i), P: s.InputDropout}
			t.Embedding = s.embedding(i, e)
		}
		norm := l.ofType(fmt.Sprintf("norms.%d", l.i), i)
		switch {
		case last:
		case l.computed.rows[l.i+1][i]:
			s.hidden(t, l.i, norm, l.ofType(l.path(), i), l.out, e)
		default:
			e.Params.Allow(norm + ".")
		}
	}
	if l.kind.relations != nil {
		b.Graph = l.kind.relations(l, b, e)
	} else {
		b.Graph = l.relational(b, e)
	}
	return b
}

// inputPath returns the path that keys the dropout mask of a type's features.
func (l *typedLayer) inputPath(i int) string {
	if i == 0 {
		return "input"
	}
	return "input." + l.schema.Types[i].Name
}

// relational makes a convolution for each relation that is computed. Files may hold weights of other
// relations.
func (l *typedLayer) relational(b *Layer, e Env) *Relational {
	s := l.spec
	c := &Relational{types: len(l.schema.Types)}
	for k, r := range l.schema.Relations {
		at := Module{
			Path: l.path(r.Name), In: l.in[r.Source], InTarget: l.in[r.Target], Out: l.out,
			EdgeColumns: r.Columns, Params: e.Params, Activation: Activations[s.Activation],
			Norm: b.Types[r.Target].Norm, Inner: s.norms(e),
		}
		if !slices.Contains(l.computed.relations[l.i], k) {
			e.Params.Allow(at.Path + ".")
			continue
		}
		at.Propagator = e.Propagators(at.Path, Along{Relation: r.Name})
		conv := l.kind.convolution(s, at, l.i == s.Layers-1)
		c.convs = append(c.convs, relational{conv.(Bipartite), r.Source, r.Target})
	}
	return c
}

// cost returns the layer's cost. The cost of a vertex is the mean over all vertices, of all types; the cost
// of an edge is the largest of all relations.
func (l *typedLayer) cost() (c Cost) {
	work, vertices := 0.0, 0.0
	count := func(i int) float64 { return max(1, float64(l.schema.Types[i].Vertices)) }
	for i := range l.schema.Types {
		vertices += count(i)
	}
	root := func(i int) {
		if l.in[i] > 0 {
			work += float64(l.in[i]*l.out) * count(i)
		}
	}
	for _, k := range l.computed.relations[l.i] {
		r := l.schema.Relations[k]
		cost := l.kind.cost(l.in[r.Source], l.columns(), r.Columns)
		if l.in[r.Source] == 0 { // rows are looked up in tables
			cost = Cost{l.spec.Bases * l.out, l.out}
		}
		work += float64(cost.Vertex) * count(r.Source)
		c.Edge = max(c.Edge, cost.Edge)
		if l.kind.root && l.kind.relations == nil {
			root(r.Target)
		}
	}
	for i, read := range l.computed.rows[l.i+1] {
		if read && l.kind.relations != nil {
			root(i)
		}
	}
	c.Vertex = int(math.Ceil(work / vertices))
	return c
}

// columns returns the width of the layer's results, with all heads.
func (l *typedLayer) columns() int {
	if l.kind.Uses("heads") {
		return l.spec.attention(l.i == l.spec.Layers-1).columns(l.out)
	}
	return l.out
}
