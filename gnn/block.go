package gnn

import (
	"fmt"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// State is what passes from block to block.
type State struct {
	H *autograd.Var // rows × the width of the next block
	// H0 travels along for blocks that read it, as GCNII's first embeddings do; nil where no block does.
	H0 *autograd.Var
	// Others are the rows of each further vertex type, as H are those of the first, in models for graphs with
	// several types; nil in others. Before the first block, a type without features has rows of no columns. A
	// type that no later block reads has nil.
	Others []*autograd.Var
}

// Vars are the values that pass: H, H0 where it travels along, and Others.
func (s State) Vars() []*autograd.Var {
	vars := []*autograd.Var{s.H}
	for _, v := range append([]*autograd.Var{s.H0}, s.Others...) {
		if v != nil {
			vars = append(vars, v)
		}
	}
	return vars
}

// Output is H; what travelled along with it is dropped.
func (s State) Output() *autograd.Var {
	for _, v := range s.Vars() {
		if v != s.H {
			v.Drop()
		}
	}
	return s.H
}

// Block is one step of a model.
type Block interface {
	// Forward computes the block. The state it returns may hold what it made and what it was given; all else
	// is dropped.
	Forward(s State) State
}

// BlockSpec says what a block is without building it. A model is a list of them, of which any consecutive
// part can be built: by a worker that computes some layers only, or not at all, to reckon with.
type BlockSpec struct {
	In, Out int // widths of State.H before and after it
	H0      int // width of State.H0 before it; 0: none comes
	Cost    Cost
	// Rounds is how many aggregations of the block follow from each other, 0: one at most.
	Rounds int
	// Build makes the block. Parameters are drawn from their names, so that a part of a model begins like the
	// whole.
	Build func(e Env) Block
}

// Cost is how much work a forward pass of a block is, in multiply-adds of its products and aggregations: what
// the layers of a model are weighed by.
type Cost struct {
	Vertex, Edge int // for each vertex, and for each edge
}

// Of is the multiply-adds on a graph.
func (c Cost) Of(vertices int, edges int64) float64 {
	return float64(c.Vertex)*float64(vertices) + float64(c.Edge)*float64(edges)
}

// Env is where blocks are built: one worker's parameters, rows and ways along the edges.
type Env struct {
	Params *nn.Params
	Schema
	Rows        []*autograd.RowSet // by vertex type: those of this worker's values
	Propagators Propagators
}

// Schema is what a model knows of the graph that it is for.
type Schema struct {
	Types     []VertexType // at least one; the first is the type that logits are computed for
	Relations []Relation   // at least one
}

// VertexType is one type of vertices.
type VertexType struct {
	Name     string
	Vertices int // of the whole graph
	Columns  int // of features; 0: it has none
}

// Relation is one type of edges, from vertices of one type to those of another.
type Relation struct {
	Name           string // as in Along: it tells the relation from the others
	Source, Target int    // which of the types
}

// OneType is the schema of a graph of one vertex type and one relation.
func OneType(features int) Schema {
	return Schema{Types: []VertexType{{Name: "vertex", Columns: features}}, Relations: []Relation{{Name: "edge"}}}
}

// Only is the relation of a graph that has one, which is what a model for one relation asks for. It panics
// where there are several.
func (s Schema) Only() string {
	if len(s.Relations) != 1 {
		panic(fmt.Sprintf("gnn: a model for one relation, and a graph with %q", s.Names()))
	}
	return s.Relations[0].Name
}

// Names are those of the relations.
func (s Schema) Names() (names []string) {
	for _, r := range s.Relations {
		names = append(names, r.Name)
	}
	return names
}

// Layer is a block of a convolution, then norm, activation and dropout, and the input added where it has a
// residual connection.
type Layer struct {
	Input      nn.Dropout // on what the convolution reads
	Conv       Convolution
	Norm       nn.Norm // nil for none
	Activation kernel.Activation
	Dropout    nn.Dropout
	Residual   bool
	// Embedding is read in place of State.H: what is learned of vertices without features; nil: not.
	Embedding *nn.Param
}

// Forward computes the layer for State.H, rows × its input width.
func (l *Layer) Forward(s State) State {
	h := s.H
	if l.Embedding != nil {
		h = l.Embedding.On(h.Tape())
	}
	x := autograd.Dropout(h, l.Input.Mask(h))
	z, bias := l.Conv.Forward(x)
	z = finish(z, bias.On(z.Tape()), l.Norm, l.Activation, l.Dropout.Mask(z))
	if l.Residual {
		z = autograd.Add(x, z)
	}
	return State{H: z, H0: s.H0}
}

// finish is mask(act(norm(z + bias))); z is given away, and bias may be nil.
func finish(z, bias *autograd.Var, norm nn.Norm, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	if norm != nil {
		return norm.Forward(autograd.Finish(z, bias, kernel.Identity, kernel.Mask{}), nn.GiveAway, act, mask)
	}
	return autograd.Finish(z, bias, act, mask)
}
