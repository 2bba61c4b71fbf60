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
	H *autograd.Var // rows × the width of the next block; nil if no later block reads the first vertex type
	// H0 is what blocks read besides H: GCNII's initial residual, or the outputs of all layers so far in a
	// jumping knowledge network; nil if no later block reads it.
	H0 *autograd.Var
	// Others holds the rows of each further vertex type, as H holds those of the first; nil in models for one
	// vertex type. Before the first block, a type without features has rows of no columns. A type that no
	// later block reads is nil.
	Others []*autograd.Var
}

// Vars returns the values of the state: those that are set of H, H0 and Others.
func (s State) Vars() (vars []*autograd.Var) {
	for _, v := range append([]*autograd.Var{s.H, s.H0}, s.Others...) {
		if v != nil {
			vars = append(vars, v)
		}
	}
	return vars
}

// tape returns the tape of the state's values.
func (s State) tape() *autograd.Tape { return s.Vars()[0].Tape() }

// Of returns the rows of a vertex type, by its number in the schema.
func (s State) Of(kind int) *autograd.Var {
	if kind == 0 {
		return s.H
	}
	return s.Others[kind-1]
}

// Output returns the rows of some vertex types, below each other, and drops the rest of the state. Without
// types it returns those of the first.
func (s State) Output(kinds ...int) *autograd.Var {
	if len(kinds) == 0 {
		kinds = []int{0}
	}
	var read []*autograd.Var
	for _, kind := range kinds {
		read = append(read, s.Of(kind))
	}
	output := read[0]
	if len(read) > 1 {
		output = autograd.Stack(read...)
	}
	for _, v := range s.Vars() {
		if v != output {
			v.Drop()
		}
	}
	return output
}

// Block is one step of a model.
type Block interface {
	// Forward computes the block. The state that it returns may hold values that it made and values that it
	// was given. All others are dropped.
	Forward(s State) State
}

// BlockSpec describes a block without building it. A model is a list of them. A worker of a pipeline builds
// the consecutive part that it computes; a plan builds none.
type BlockSpec struct {
	In, Out int // widths of State.H before and after it
	H0      int // width of State.H0 before it; 0: there is no H0
	Cost    Cost
	// Rounds is the number of aggregations of the block that depend on each other; 0: at most one.
	Rounds int
	// EdgeFeatures says that the block's message functions read the features of the edges. Workers have them
	// only if a block reads them.
	EdgeFeatures bool
	// Degrees says that the block reads Env.Degrees.
	Degrees bool
	// Relations names the relations that a block for several types of vertices or edges aggregates along.
	// Other blocks have none.
	Relations []string
	// Build makes the block. Initial values are drawn from the parameters' names, so that they do not depend
	// on which part of a model is built.
	Build func(e Env) Block
}

// ReadEdgeFeatures reports whether one of the blocks reads the features of the edges.
func ReadEdgeFeatures(blocks []BlockSpec) bool {
	return slices.ContainsFunc(blocks, func(b BlockSpec) bool { return b.EdgeFeatures })
}

// ReadRelation reports whether one of the blocks aggregates along a relation, of those of a model for several
// types of vertices or edges. Other models leave none out.
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

// Cost is the work of a block's forward pass, in multiply-adds of its products and aggregations. Pipeline
// stages are balanced by it.
type Cost struct {
	Vertex, Edge int // for each vertex, and for each edge
}

// Of returns the multiply-adds on a graph.
func (c Cost) Of(vertices int, edges int64) float64 {
	return float64(c.Vertex)*float64(vertices) + float64(c.Edge)*float64(edges)
}

// Env is what blocks are built with: one worker's parameters, rows and Propagators.
type Env struct {
	Params *nn.Params
	Schema
	Rows        []*autograd.RowSet // by vertex type: this worker's rows
	Propagators Propagators
	Slicer      Slicer // nil: rows are not sliced
	// Degrees are those along the direction in which the model aggregates, for blocks that read them. Weights
	// that are loaded have their own.
	Degrees Degrees
}

// Schema is what a model knows of its graph: the vertex types and the relations.
type Schema struct {
	Types     []VertexType // at least one
	Relations []Relation   // at least one
	// the types whose rows the last block computes, as indices into Types; nil: the first
	Outputs []int
}

// VertexType is one type of vertices.
type VertexType struct {
	Name     string
	Vertices int // of the whole graph
	Columns  int // of features; 0: the type has none
}

// Relation is one type of edges, from vertices of one type to vertices of one type.
type Relation struct {
	Name           string // as in Along; unique
	Source, Target int    // indices into Types
	Columns        int    // of the edges' features; 0: they have none
}

// outputs returns Outputs, or what nil stands for.
func (s Schema) outputs() []int {
	if s.Outputs == nil {
		return []int{0}
	}
	return s.Outputs
}

// OneType returns the schema of a graph of one vertex type and one relation, with so many columns of features
// of vertices and of edges.
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
	if len(s.Relations) == 0 { // the edges are not read yet
		return 0
	}
	return s.Relations[0].Columns
}

// Layer is a convolution, then norm, activation and dropout. With a residual connection, the layer's input is
// added.
type Layer struct {
	Input      nn.Dropout // on the convolution's input
	Conv       Convolution
	Norm       nn.Norm // nil for none
	Activation kernel.Activation
	Dropout    nn.Dropout
	Residual   bool
	// Embedding is read instead of State.H if the vertices have no features; nil: they have features.
	Embedding *nn.Param
	Detached  bool // the bias has its gradient from the next layer's Offset
}

// Forward computes the layer for State.H, rows × its input width.
func (l *Layer) Forward(s State) State {
	h := s.H
	if l.Embedding != nil {
		h = autograd.Stored(l.Embedding.On(h.Tape()))
	}
	x := autograd.Dropout(h, l.Input.Mask(h))
	z, b := l.Conv.Forward(x)
	bias := b.On(z.Tape())
	if l.Detached && h.Tape().Training {
		bias = autograd.Detach(bias)
	}
	z = finish(z, bias, l.Norm, l.Activation, l.Dropout.Mask(z))
	if l.Residual {
		z = autograd.Add(x, z)
	}
	return State{H: z, H0: s.H0}
}

// finish returns mask(act(norm(z + bias))). It may reuse the memory of z; bias may be nil.
func finish(z, bias *autograd.Var, norm nn.Norm, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	switch norm := norm.(type) {
	case nil:
	case *nn.GraphNorm:
		return norm.Biased(z, bias, nn.GiveAway, act, mask)
	default:
		return norm.Forward(autograd.Finish(z, bias, kernel.Identity, kernel.Mask{}), nn.GiveAway, act, mask)
	}
	return autograd.Finish(z, bias, act, mask)
}
