package gnn

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// State is what one block hands to the next.
type State struct {
	// Rows holds the rows of each vertex type, rows × the width of the next block; nil for a type that no
	// later block reads. Before the first block, a type without features has rows of no columns. After the
	// last block, the last types may be missing.
	Rows []*autograd.Var
	// H0 is a value that later blocks read besides Rows: GCNII's initial residual, or the outputs of all
	// layers so far in a jumping knowledge network. nil: no later block reads one.
	H0 *autograd.Var
	// Edges are rows of edges that later blocks read; BlockSpec.Edges of the next block describes them. After
	// the last block they are outputs, which its BlockSpec.EdgeOutputs describes.
	Edges []*autograd.Var
	// Beside are more rows of vertices, of any types. The blocks of a pass for some vertices have them.
	Beside []*autograd.Var
}

// StateOf returns the state with these rows, by vertex type.
func StateOf(rows ...*autograd.Var) State { return State{Rows: rows} }

// with returns the state with other rows of its only vertex type.
func (s State) with(h *autograd.Var) State { return State{Rows: []*autograd.Var{h}, H0: s.H0} }

// Vars returns the values of the state that are not nil.
func (s State) Vars() (vars []*autograd.Var) {
	for _, v := range slices.Concat(s.Rows, []*autograd.Var{s.H0}, s.Edges, s.Beside) {
		if v != nil {
			vars = append(vars, v)
		}
	}
	return vars
}

// tape returns the tape of the state's values.
func (s State) tape() *autograd.Tape { return s.Vars()[0].Tape() }

// Outputs returns the rows of some vertex types, and after them the rows of edges. It drops all other values
// of the state. Without kinds it returns the rows of the first type. It returns nothing for a type whose rows
// the last block leaves out.
func (s State) Outputs(kinds ...int) (outputs []*autograd.Var) {
	if len(kinds) == 0 {
		kinds = []int{0}
	}
	for _, kind := range kinds {
		if rows := s.Rows[kind]; rows != nil {
			outputs = append(outputs, rows)
		}
	}
	outputs = append(outputs, s.Edges...)
	for _, v := range s.Vars() {
		if !slices.Contains(outputs, v) {
			v.Drop()
		}
	}
	return outputs
}

// Output returns Outputs below each other, as one value.
func (s State) Output(kinds ...int) *autograd.Var { return Below(s.Outputs(kinds...)) }

// Below stacks the rows of values below each other, and drops the values. A single value is returned as it
// is.
func Below(values []*autograd.Var) *autograd.Var {
	if len(values) == 1 {
		return values[0]
	}
	all := autograd.Stack(values...)
	for _, v := range values {
		v.Drop()
	}
	return all
}

// Block is one step of a model.
type Block interface {
	// Forward computes the block. The state that it returns may hold values that it made, and values that it
	// was given. All other values are dropped.
	Forward(s State) State
}

// BlockSpec describes a block without building it. A model is a list of specs. A worker of a pipeline builds
// only the consecutive blocks that it computes.
type BlockSpec struct {
	In, Out int         // widths of the first vertex type's rows, before the block and after it
	H0      int         // width of State.H0 before the block; 0: there is no H0
	Edges   []EdgeState // describes State.Edges before the block
	// EdgeOutputs describe State.Edges after the last block, which are outputs of the model.
	EdgeOutputs []EdgeState
	// Made and Beside are for a pipeline of several vertex types. Made has the columns of State.Rows after
	// the block by vertex type, 0 for a type without rows. Beside describes State.Beside after it. nil: the
	// first type alone has rows, of Out columns.
	Made   []int
	Beside []VertexState
	Cost   Cost
	// Rounds is the number of aggregations of the block that depend on each other; 0: at most one.
	Rounds int
	// EdgeFeatures says that the block's message functions read the features of the edges. Workers load them
	// only if a block reads them.
	EdgeFeatures bool
	// Degrees says that the block reads Env.Degrees.
	Degrees bool
	// OwnPass names the settings, as in "dropout", by which a training pass of the block computes something
	// else than an evaluation: it drops values at random, or takes the statistics of a batch. nil: both have
	// the same bits.
	OwnPass []string
	// Relations names the relations that the block aggregates along, in a model for several types of vertices
	// or edges. Blocks of other models name none.
	Relations []string
	// Build makes the block. Initial values are drawn from the parameters' names, so that they do not depend
	// on which part of a model is built.
	Build func(e Env) Block
}

// Widths are the columns of State.Rows after the block, by vertex type.
func (b *BlockSpec) Widths() []int {
	if b.Made == nil {
		return []int{b.Out}
	}
	return b.Made
}

// VertexState describes rows of vertices that one block passes to the next.
type VertexState struct {
	Type    int // the number of the vertex type
	Columns int
}

// EdgeState describes rows of edges that one block passes to the next.
type EdgeState struct {
	Along   Along
	Loops   Loops
	Columns int
	Counted bool // Message.Counted of the message that made them
}

// ReadEdgeFeatures reports whether one of the blocks reads the features of the edges.
func ReadEdgeFeatures(blocks []BlockSpec) bool {
	return slices.ContainsFunc(blocks, func(b BlockSpec) bool { return b.EdgeFeatures })
}

// ReadRelation reports whether one of the blocks aggregates along a relation. A model that is not for several
// types of vertices or edges leaves no relation out.
func ReadRelation(blocks []BlockSpec, name string) bool {
	typed := false
	for _, b := range blocks {
		if slices.Contains(b.Relations, name) {
			return true
		}
		typed = typed || b.Relations != nil
	}
	return !typed
}

// ReadDegrees reports whether one of the blocks reads Env.Degrees.
func ReadDegrees(blocks []BlockSpec) bool {
	return slices.ContainsFunc(blocks, func(b BlockSpec) bool { return b.Degrees })
}

// Cost is the work of a block's forward pass: the multiply-adds of its products and aggregations. It is used
// to balance pipeline stages.
type Cost struct {
	Vertex, Edge int // for each vertex, and for each edge
}

// MultiplyAdds returns the multiply-adds on a graph.
func (c Cost) MultiplyAdds(vertices int, edges int64) float64 {
	return float64(c.Vertex)*float64(vertices) + float64(c.Edge)*float64(edges)
}

// Env is the environment in which one worker builds blocks: its parameters, rows and Propagators.
type Env struct {
	Params *nn.Params
	Schema
	Rows        []*autograd.RowSet // this worker's rows, by vertex type
	Propagators Propagators
	Slicer      Slicer // nil: rows are not sliced
	// Degrees are mean degrees along the direction in which the model aggregates, for blocks that read them.
	// Loaded weights bring their own.
	Degrees Degrees
	// Explain is called for each operation of a program that reads the dense form of sparse features, with
	// the features' name and a description of the operation. It may be nil.
	Explain func(path, what string)
}

// Schema describes a graph to a model: the vertex types and the relations.
type Schema struct {
	Types     []VertexType // at least one
	Relations []Relation   // at least one
	// Outputs are the types whose rows the last block computes, as indices into Types; nil: the first.
	Outputs []int
}

// VertexType is one type of vertices.
type VertexType struct {
	Name     string
	Vertices int  // their number in the whole graph
	Columns  int  // columns of the features; 0: the type has none
	Sparse   bool // the features are stored in sparse rows
}

// Relation is one type of edges, from vertices of one type to vertices of one type.
type Relation struct {
	Name           string // a unique name, which Along.Relation uses
	Source, Target int    // indices into Types
	Columns        int    // columns of the edges' features; 0: they have none
	Unweighted     bool   // the edges are known to have no weights
	Silent         bool   // only an EdgeDecoder reads the edges, and no messages pass along them
}

// Passing returns the schema without silent relations.
func (s Schema) Passing() Schema {
	s.Relations = slices.DeleteFunc(slices.Clone(s.Relations), func(r Relation) bool { return r.Silent })
	return s
}

// TypeOf returns the number of the vertex type of that name, or of the only type if the name is empty; −1:
// there is none.
func (s Schema) TypeOf(name string) int {
	return slices.IndexFunc(s.Types, func(t VertexType) bool {
		return name == t.Name && name != "" || name == "" && len(s.Types) == 1
	})
}

// RelationOf returns the relation of that name, or the only relation if the name is empty; nil: there is
// none.
func (s Schema) RelationOf(name string) *Relation {
	for i := range s.Relations {
		if r := &s.Relations[i]; name == r.Name || name == "" && len(s.Relations) == 1 {
			return r
		}
	}
	return nil
}

// outputs returns Outputs, or the first type for nil.
func (s Schema) outputs() []int {
	if s.Outputs == nil {
		return []int{0}
	}
	return s.Outputs
}

// OneType returns the schema of a graph of one vertex type and one relation. features and edgeFeatures are
// the numbers of columns of the features.
func OneType(features, edgeFeatures int) Schema {
	return Schema{
		Types:     []VertexType{{Name: "vertex", Columns: features}},
		Relations: []Relation{{Name: "edge", Columns: edgeFeatures}},
	}
}

// Only returns the relation of a graph with one relation. It panics if there are several.
func (s Schema) Only() string {
	if len(s.Relations) != 1 {
		panic(fmt.Sprintf("gnn: a model for one relation, and a graph with %q", s.Names()))
	}
	return s.Relations[0].Name
}

// Names returns the names of the relations.
func (s Schema) Names() (names []string) {
	for _, r := range s.Relations {
		names = append(names, r.Name)
	}
	return names
}

// edgeColumns returns the number of columns of edge features in a graph with one relation.
func (s Schema) edgeColumns() int {
	if len(s.Relations) == 0 { // the schema is of a graph whose edges are not read yet
		return 0
	}
	return s.Relations[0].Columns
}

// Layer is a block of a model: a convolution along all relations, then norm, activation and dropout for each
// vertex type.
type Layer struct {
	Graph GraphConvolution
	Types []TypeLayer // by vertex type
}

// TypeLayer is the part of a layer that belongs to one vertex type. With a residual connection, the layer's
// input is added.
type TypeLayer struct {
	// Embedding is read instead of features if the type has none; nil: it has features.
	Embedding  *nn.Param
	Input      nn.Dropout // on the layer's input
	Norm       nn.Norm    // nil for none
	Activation kernel.Activation
	Dropout    nn.Dropout
	Residual   bool
	Detached   bool // the next layer computes the bias's gradient (Module.Offset)
}

// GraphConvolution aggregates along all relations. Forward returns, by vertex type, the output without the
// bias, and the bias to add; nil if there is none.
type GraphConvolution interface {
	Forward(x []*autograd.Var) (z, bias []*autograd.Var)
}

// NewLayer makes a layer for a graph of one vertex type.
func NewLayer(conv Convolution, layer TypeLayer) *Layer {
	return &Layer{Graph: single{conv}, Types: []TypeLayer{layer}}
}

// single is the convolution of a graph of one vertex type and one relation.
type single struct{ Convolution }

// Forward implements GraphConvolution.
func (c single) Forward(x []*autograd.Var) (z, bias []*autograd.Var) {
	y, b := c.Convolution.Forward(x[0])
	return []*autograd.Var{y}, []*autograd.Var{b.On(y.Tape())}
}

// Forward computes the layer for the rows of all types.
func (l *Layer) Forward(s State) State {
	x := slices.Clone(s.Rows)
	tape := s.tape()
	for i, t := range l.Types {
		if t.Embedding != nil {
			x[i] = autograd.Stored(t.Embedding.RowsOn(tape, x[i].RowSet()))
		}
		if x[i] != nil && x[i].Cols() > 0 {
			x[i] = autograd.Dropout(x[i], t.Input.Mask(x[i]))
		}
	}
	z, bias := l.Graph.Forward(x)
	for i, t := range l.Types {
		if z[i] == nil {
			continue
		}
		if t.Detached && tape.Training {
			bias[i] = autograd.Detach(bias[i])
		}
		z[i] = finish(z[i], bias[i], t.Norm, t.Activation, t.Dropout.Mask(z[i]))
		if t.Residual {
			z[i] = autograd.Add(x[i], z[i])
		}
	}
	return State{Rows: z, H0: s.H0}
}

// finish returns mask(act(norm(z + bias))). It may reuse the memory of z; bias may be nil.
func finish(z, bias *autograd.Var, norm nn.Norm, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	switch norm := norm.(type) {
	case nil:
	case *nn.GraphNorm:
		return norm.Biased(z, bias, nn.InPlace, act, mask)
	default:
		return norm.Forward(autograd.Finish(z, bias, kernel.Identity, kernel.Mask{}), nn.InPlace, act, mask)
	}
	return autograd.Finish(z, bias, act, mask)
}
