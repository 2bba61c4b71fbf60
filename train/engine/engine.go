// Package engine computes a model on one worker of a mesh: the training pass of an epoch, and exact
// inference. It is the only package that runs the model on a tape, forward and backward. The training loop
// knows neither tapes nor edges.
//
// There are two engines. A Whole holds all layers, for a partition or a slice of it. A Pipeline holds the
// layers of a stage, which the chunks of the graph pass one after the other. New chooses by the mesh. An MFG
// is a Whole that computes some vertices, and only the rows on which they depend.
//
// Each worker has one engine. Package worker makes it and calls it.
package engine

import (
	"weft/autograd"
	"weft/checkpoint"
	"weft/gnn"
	"weft/graph"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/partition"
	"weft/tensor"
	"weft/train/setting"
)

// Inference computes a model's results on one worker. All workers of the mesh call the same methods in the
// same order. A method that cannot go on because of another worker panics with an exchange.Failure.
type Inference interface {
	// Infer computes the model exactly and without dropout, but leaves out its last blocks, whose number is
	// without. It returns this worker's rows of the result, in the order of Vertices, dense. The caller drops
	// them.
	Infer(without int) *autograd.Var
	// Params are the parameters that this worker holds: the parameters of its stage.
	Params() *nn.Params
	// Vertices lists the vertices of this worker's rows of the result, ascending. They are original ids, or
	// numbers of a partition.Numbering if the result has several vertex types. An MFG gives positions in its
	// list instead. nil is all vertices. The list is empty if another stage has the last block. Each vertex
	// has its row on one worker.
	Vertices() []int32
	// All is the number of result rows of all workers.
	All() int
	// EdgeNumbers are for a model whose outputs are rows of the edges of one relation. They are the
	// numbers, in the graph's store, of the edges whose rows this worker has. A plan has them in another
	// order.
	EdgeNumbers(relation *graph.Relation) []int64
}

// Engine is a worker's part in training a model, and in inference for all vertices.
type Engine interface {
	Inference
	// Forward runs the model forward. The Pass holds what the backward pass reads.
	Forward(c Call) Pass
	// Inputs are the rows of the features that this worker reads, by vertex type, as Call.Features has them.
	// A worker of another stage than the first reads none.
	Inputs() []*autograd.RowSet
	// Arrays lists what the engine holds from one epoch to the next, besides Params.
	Arrays() []checkpoint.Array
	// Restore loads these arrays from a checkpoint, before the first epoch.
	Restore(from *checkpoint.Checkpoint) error
}

// Call says how a model is called.
type Call struct {
	Epoch     int             // counted from 1
	Random    autograd.Random // keys of dropout masks
	Training  bool            // dropout is active, batch norm uses the batch's statistics
	Recording bool            // there may be a backward pass
	// Features replace the features of the vertices, by type: the rows of Inputs × columns. nil: the graph's
	// are used for all.
	Features []InputMatrix
	// Edges replace the graph's edges; nil: the graph's are used. The caller owns them, and keeps them until
	// the Pass ends.
	Edges *edges.Inputs
}

// Release releases what the call gives, once the Pass has ended.
func (c *Call) Release() {
	for _, input := range c.Features {
		input.Values.Release()
	}
	c.Edges.Release()
}

// InputMatrix has values in place of the graph's.
type InputMatrix struct {
	// Values belong to the caller, who keeps them until the Pass ends. nil: the graph's are used.
	Values *tensor.Matrix
	// Differentiable has a backward pass compute their gradients.
	Differentiable bool
}

// Training is the call of the training pass of an epoch, counted from 1.
func Training(seed uint64, epoch int) Call {
	return Call{
		Epoch: epoch, Random: autograd.Random{Seed: seed, Epoch: epoch}, Training: true, Recording: true,
	}
}

// tape is a tape for the call.
func (c *Call) tape(team *kernel.Team) *autograd.Tape {
	t := autograd.NewTape(team)
	t.Training, t.Recording, t.Random = c.Training, c.Recording, c.Random
	c.giveEdges(t)
	return t
}

// giveEdges has the pass on a tape aggregate along the edges that the call gives.
func (c *Call) giveEdges(t *autograd.Tape) {
	if c.Edges != nil {
		t.Edges = c.Edges
	}
}

// Pass is a pass whose forward pass is done. It ends with Backward or Discard.
type Pass interface {
	// Outputs are this worker's rows of the model's outputs, by the vertex types of Config.Outputs: its
	// vertices × columns, in Float32. The outputs of BlockSpec.EdgeOutputs follow, edges × columns. A worker
	// of another stage than the last has no rows. The Pass owns them until it ends.
	Outputs() []*autograd.Var
	// EdgeNumbers are the numbers of this worker's rows of an output of edges.
	EdgeNumbers(output int, numbering *edges.Numbering) []int64
	// Backward runs the model backward, if the call records. roots are the Outputs, or one value that was
	// computed from them on their tape, with their gradients. Backward owns both. It adds to the gradients of
	// Params, and sums what it adds over the replicas. It returns the gradients of Call.Features, which the
	// caller owns: nil for features that are not differentiable.
	Backward(roots ...autograd.Root) (features []*tensor.Matrix)
	// Discard releases what the pass holds without a backward pass.
	Discard()
}

// Loss takes this worker's output of a training pass, with several vertex types below each other. It returns
// the gradient of the output, and a function that returns this worker's part of the mesh's loss. All workers
// call it.
type Loss func(output *autograd.Var) (part func() float64, grad *tensor.Matrix)

// Train runs a training pass. It adds the gradients of the whole mesh's loss to the gradients of Params. The
// function that it returns gives this worker's part of that loss: the sum of all parts is the loss.
func Train(e Engine, c Call, loss Loss) (part func() float64) {
	pass := e.Forward(c)
	output := gnn.Below(pass.Outputs())
	part, grad := loss(output)
	pass.Backward(autograd.Root{Var: output, Grad: grad})
	return part
}

// Config is what a worker builds its engine from.
type Config struct {
	axis.Env
	*setting.Resolved
	Blocks []gnn.BlockSpec // of the whole model
	// Outputs are the vertex types whose rows are the model's outputs, ascending; nil: the first. An engine
	// for some vertices computes the first type alone.
	Outputs []int
	// Standard standardises the columns of dense features, by the number of the vertex type. nil, and a nil
	// entry: they stay as they are.
	Standard []*Standard
	// LabelColumns is how many columns the labels take in the input, with the setting label-input. They come
	// behind the features: 1 for a label that is shown, else 0. It is 0 on a mesh of several stages.
	LabelColumns int
	// Training says that gradients are needed.
	Training bool
	// Recompute computes values again in the backward pass instead of keeping them. With one stage these are
	// the values between aggregations (autograd.Tape.Recompute); in a pipeline they are a chunk's whole
	// forward pass. The bits are the same. Workers may differ in it.
	Recompute bool
	// AnyOrder has a pipeline's training pass take as much memory as the order of the chunks that needs most.
	// A plan sets it.
	AnyOrder bool
	// Trace takes spans of the worker's main work. It may be nil. A goroutine beside that work has the track
	// of its comm.Comm. Messages, waits and kernel calls are recorded elsewhere.
	Trace *trace.Track
	// OnLayer is told of each layer before work of it is done, and of trace.NoLayer after it. It may be nil.
	OnLayer func(layer int, part trace.Part)
	// Degrees are the vertices' degrees in the direction in which the model aggregates, for blocks that read
	// them.
	Degrees gnn.Degrees
	// Stage has the options of the pipeline axis.
	Stage StageOptions
}

// variesInput reports whether the model's input varies between epochs, so that nothing computed from it is
// cached. A pipeline caches nothing either: its history treats what is computed from the features as any
// other state.
func (c *Config) variesInput() bool {
	return c.InputDropout > 0 || c.DropEdge > 0 || c.LabelInput > 0 || c.Groups.Mesh.Stages > 1
}

// observe tells Trace and OnLayer in which layers the operations on a tape are. forward is the part as which
// the forward pass counts: trace.Backward, if the backward pass repeats it.
func (c *Config) observe(t *autograd.Tape, forward trace.Part) {
	t.OnLayer = func(layer int, backward bool) {
		part := forward
		switch {
		case layer == autograd.NoLayer:
			layer, part = trace.NoLayer, trace.Other
		case backward:
			part = trace.Backward
		}
		c.Trace.Layer(layer, part)
		if c.OnLayer != nil {
			c.OnLayer(layer, part)
		}
	}
}

// All is the number of vertices of the output.
func (c *Config) All() int {
	n := c.numbering()
	return n.Vertices()
}

// numbering numbers the vertices of the output.
func (c *Config) numbering() partition.Numbering { return c.Share.Whole.Number(c.Outputs) }

// env describes the worker for an axis.
func (c *Config) env() axis.Env {
	e := c.Env
	e.EdgeData = edges.WithoutFeatures
	if gnn.ReadEdgeFeatures(c.Blocks) {
		e.EdgeData = edges.WithFeatures
	}
	return e
}

// Axis divides vertices and columns among workers. It gives a worker the Propagators by which its model
// aggregates.
type Axis interface {
	// Vertices lists the vertices whose values this worker computes, by their original ids, ascending. nil is
	// all.
	Vertices() []int32
	// Rows is the set of these vertices.
	Rows() *autograd.RowSet
	// Types are the sets of this worker's vertices of each type. The first is Rows.
	Types() []*autograd.RowSet
	// Places lists this worker's rows of a vertex type among those of its share, ascending. nil is all.
	Places(kind int) []int32
	// Schema is the schema of the graph.
	Schema() gnn.Schema
	// Propagator is the gnn.Propagator of the module at a path. It panics if the graph lacks the relation.
	Propagator(path string, along gnn.Along) gnn.Propagator
	// EdgeNumbers are the numbers of this worker's rows of edges on a tape.
	EdgeNumbers(t *autograd.Tape, s gnn.EdgeState, numbering *edges.Numbering) ([]int64, error)
	// BeginEpoch begins an epoch. Later errors name the epoch.
	BeginEpoch(epoch int)
}
