// Package engine computes a model on one worker of a mesh: the training pass of an epoch, and exact
// inference. What a pass consists of is known here alone: the loop of epochs runs no tape, and knows no
// edges.
package engine

import (
	"weft/autograd"
	"weft/gnn"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
	"weft/tensor"
)

// Inference computes a model's results on one worker. All workers of the mesh call the same methods in the
// same order. A method that cannot go on because of another worker panics with an exchange.Failure.
type Inference interface {
	// Infer computes the model without its last blocks, so many, exactly and without dropout. It returns this
	// worker's rows of the result, those of Vertices and dense, which the caller drops.
	Infer(without int) *autograd.Var
	// Params are the parameters that this worker holds: those of its stage.
	Params() *nn.Params
	// Vertices are those whose rows come to this worker, ascending: by their original ids, or of a MFG by
	// their places in its list; nil: all. There are none where another stage has the last block. A vertex's
	// row comes to one worker.
	Vertices() []int32
	// All is how many rows come to all workers together.
	All() int
}

// Engine is a worker's part in training a model, and in inference for all vertices.
type Engine interface {
	Inference
	// Train runs the training pass of an epoch, counted from 1. It adds to the gradients of Params what they
	// are in the loss of the whole mesh, and returns this worker's part of that loss: the parts of all add up
	// to it.
	Train(epoch int) (loss float64)
}

// Config is what an engine is made of: all that is this worker's, and nothing of the loop.
type Config struct {
	Team   *kernel.Team
	Groups mesh.Groups
	Share  *partition.Share // of the worker's partition
	Blocks []gnn.BlockSpec  // of the whole model
	// Loss takes this worker's logits, a row for each of Vertices × classes. It returns their part of the
	// mesh's loss, and its gradient.
	Loss func(logits *autograd.Var) (loss float64, grad *tensor.Matrix)
	Seed uint64 // of initial parameters and dropout
	// NormalizeRows divides each vertex's features by their sum.
	NormalizeRows bool
	// VaryingInput says that the model reads the features differently in every epoch, as after input dropout:
	// nothing that follows from them is kept.
	VaryingInput bool
	// Training says that gradients will be asked for.
	Training bool
	// Aggregated takes edges × columns of each pass of a site along edges, forward and backward; nil: nobody
	// asks.
	Aggregated func(site string, edgeColumns int64)
	// Redistributed is called each time a layer redistributes rows between layouts, which all workers of the
	// stage do together, with the layer's module path and the bytes that this worker sends. It may be nil.
	Redistributed func(path string, bytes int64)
	// Trace takes spans of the worker's main work; nil: nobody asks. A goroutine beside it has the track of
	// its comm.Comm. Messages, waits and kernel calls are recorded without the engine.
	Trace *trace.Track
	// Order is how each place that aggregates finds the order of its work, and says what it does.
	Order order.Options
	// AggregationChunks is the tensor axis's, as in tensor.Options.
	AggregationChunks int
	// Prefetch and KeepHalo are the graph axis's, as in sar.Options.
	Prefetch int
	KeepHalo bool
	// Stage is the pipeline axis's.
	Stage StageOptions
}

// All is the number of vertices of the first type.
func (c *Config) All() int { return c.Share.Whole.Own() }

// Axis is what a model aggregates along on this worker: one way of dividing vertices and columns.
type Axis interface {
	// Vertices are those whose values this worker computes on, by their original ids, ascending; nil: all.
	Vertices() []int32
	// Rows are these vertices, as rows of values.
	Rows() *autograd.RowSet
	// Types are the same of each vertex type, the first one's among them.
	Types() []*autograd.RowSet
	// Schema is the graph's.
	Schema() gnn.Schema
	// Propagator is the gnn.Propagator of a site. A relation that the graph does not have panics.
	Propagator(site string, along gnn.Along) gnn.Propagator
	// BeginEpoch says which epoch the work belongs to from now on; errors name it.
	BeginEpoch(epoch int)
}
