// Package axis has what all axes of parallelism share: the settings of an aggregation, and what an axis knows
// of its worker. The packages of the axes (sar, tp, chunked, mfg) read each setting where it acts, and pass
// it to the axis below if it acts there, too.
package axis

import (
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
)

// Options are the settings that say how a model aggregates on a mesh. A field's yaml tag is its name as a
// flag and as a key of a configuration file. The types of the fields parse the words.
type Options struct {
	// Wire is the format in which workers send each other values of vertices and their gradients in training.
	Wire Wire `yaml:"wire"`
	// AggregationOrder says whether a layer transforms or aggregates first.
	AggregationOrder order.Choice `yaml:"aggregation-order"`
	// DropEdge is the probability with which an epoch of training leaves out an edge. It needs HaloRows.
	DropEdge float64 `yaml:"drop-edge"`

	// The graph axis.
	// Prefetch is how many messages of other workers' rows are received ahead of the one that is aggregated.
	Prefetch int `yaml:"prefetch"`
	// KeepHalo receives all halo rows at once, and keeps them until the layer's backward pass. Without it, as
	// in SAR, a worker holds a few messages at a time. The backward pass of attention and of message
	// functions (case 2 of package sar) then fetches the rows again. The backward pass of sums and maxima
	// needs no rows. The option shows how much memory SAR saves.
	KeepHalo bool `yaml:"keep-halo"`
	// Halo says what travels between partitions in a linear aggregation. Other aggregations need rows.
	Halo edges.Halo `yaml:"halo"`
	// WireSchedule says how many columns of rows and gradients are sent in each epoch of training.
	WireSchedule WireSchedule `yaml:"wire-schedule"`

	// The tensor axis.
	// AggregationChunks is the number of aggregation chunks; 0 chooses it for each aggregation. It changes no
	// bits.
	AggregationChunks Chunks `yaml:"aggregation-chunks"`

	// The pipeline axis.
	// Chunks is the number of chunks of vertices in all partitions together; 0: as many as suit.
	Chunks Chunks `yaml:"chunks"`
	// HistoryPeriod is the number of epochs between two snapshots of the history, at least 1.
	HistoryPeriod int `yaml:"history-period"`
	// HistoryStart says what the history contains in the first epochs.
	HistoryStart HistoryStart `yaml:"history-start"`
	// ChunkOrder is the order of the chunks in an epoch.
	ChunkOrder ChunkOrder `yaml:"chunk-order"`
	// StaleGradients says what to do with gradients to chunks that are already done.
	StaleGradients Stale `yaml:"stale-gradients"`
}

// Env is what an axis knows of its worker.
type Env struct {
	Team   *kernel.Team // if the team only plans, Groups are made by comm.Plan
	Groups mesh.Groups
	Share  *partition.Share // of the worker's partition
	// Epochs is the number of epochs of the run. A WireSchedule spreads over them.
	Epochs int
	// EdgeData says whether message functions get the features of the edges.
	EdgeData edges.EdgeData
	// Own lists, for each vertex type, the rows of the share for which this worker computes messages of
	// complete rows, ascending; nil: all rows. Other workers of Groups.Slices have the other rows.
	Own [][]int32
	// Tile is how many columns of a BFloat16 sum over several partitions are Float32 at a time; 0 chooses it
	// for each aggregation. It changes no bits.
	Tile int

	// LargerBy is how many times larger the graph is than the one that a plan takes in its place; 0: as
	// large. In a pipeline it is about a chunk, and may be below 1. Buffers whose size has a bound are then
	// as large as for the larger graph.
	LargerBy float64

	// Explain is called once for each layer, in its first forward pass, with its module path and what it
	// does. It may be nil.
	Explain func(path, what string)
	// Aggregated is called for each pass of a module over the edges, forward and backward, with the edges ×
	// columns. It may be nil. Self loops do not count, as they are a factor of each row.
	Aggregated func(path string, edgeColumns int64)
	// Redistributed is called for each all-to-all between layouts that a module makes, with the bytes that
	// this worker sends. All workers of the stage make it together. It may be nil.
	Redistributed func(path string, bytes int64)
}

// Costs makes the worker's table of the cost of each order of work. moved returns the bytes that all workers
// send to redistribute so many columns; nil: nothing is redistributed.
func (e *Env) Costs(o *Options, moved func(columns int) int64) *order.Costs {
	return order.NewCosts(order.Options{Choice: o.AggregationOrder, Explain: e.Explain}, moved)
}
