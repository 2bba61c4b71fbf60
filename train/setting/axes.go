package setting

import (
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/partition"
)

var graphAxisSettings = []Setting{
	{
		Name: "partitions", byDefault: "0", changes: true,
		Meaning: "`number` of partitions, of which a worker may hold several that take turns, 0: one for " +
			"each worker along the graph axis; auto: the fewest that memory has room for",
	},
	{
		Name: "offload", changes: true, Meaning: "`folder` on a disk of each machine for matrices of " +
			"partitions that are not at work, as far as the memory limit needs it; with a card " + RAM +
			", the host's memory, also for a pipeline's chunks",
		check: func(s Setting, r *Resolved) error {
			if r.Offload == RAM && !r.OnCard() {
				return s.refuse(&r.Options, "without a card all matrices are in the host's memory; take --device "+
					"%s, or name a folder, as ./%s for one of that name, or '' for none", AllCards, RAM)
			}
			return nil
		},
	},
	{
		Name: "partition", changes: true, axis: "graph",
		Choices: append([]string{autoPartition}, partition.StoredMethods()...),
		Meaning: "how vertices are divided; auto: the partition stored last, else metis, or stream for " +
			"more than 20 million edges or too little memory for metis",
	},
	{
		Name: "balance", byDefault: partition.AutoBalance, changes: true, axis: "graph",
		Choices: partition.Balances(),
		Meaning: "what each partition gets an equal share of: vertices, or edges or train in addition; " +
			"auto: edges where that leaves less work to the busiest worker",
	},
	{
		Name: "prefetch", byDefault: "1", changes: true, axis: "graph", excludedAxis: "pipeline",
		limits:  between(0, 1<<10),
		Meaning: "messages with other workers' rows that are received ahead",
	},
	{
		Name: "keep-halo", changes: true, axis: "graph", excludedAxis: "pipeline",
		Meaning: "receive all of the halo at once and keep it for the backward pass, to show what that " +
			"costs",
	},
	{
		Name: "halo", changes: true, axis: "graph", excludedAxis: "pipeline", Choices: edges.HaloNames,
		Meaning: "what travels between partitions in sums and means: rows, or rows and partial sums by " +
			"a minimum vertex cover; auto: cover where it sends at least a tenth less",
	},
	{
		Name: "wire-schedule", axis: "graph", excludedAxis: "pipeline",
		Meaning: "which columns of halo rows are sent in an epoch of training: all (none), or a share that grows to all, as in " +
			"varco:slope=5,from=128",
		ownPass: sendsSome,
		inexact: sendsSome,
	},
}

var tensorAxisSettings = []Setting{
	{
		Name: "aggregation-chunks", changes: true, axis: "tensor", some: true,
		Meaning: "`number` of chunks in which an aggregation receives rows and sends results while it " +
			"computes, or auto",
		check: func(s Setting, r *Resolved) error {
			switch m := r.Mesh; {
			case r.AggregationChunks <= 1:
			case m.Partitions > 1:
				return s.refuseOnMesh(r, "each of the %d partitions is aggregated in one chunk, as rows of "+
					"others come in messages of their own; leave it out, or take one partition, as in "+
					"--parallel tensor=%d", m.Partitions, r.Workers)
			case m.Stages > 1:
				return s.refuseOnMesh(r, "a chunk of the pipeline is aggregated at once; leave it out, or take "+
					"more chunks with --chunks N")
			}
			return nil
		},
	},
}

var pipelineAxisSettings = []Setting{
	{
		Name: "chunks", axis: "pipeline", Meaning: "`number` of chunks of vertices that pass through " +
			"the stages, of all partitions together; auto: four times the workers",
		ownPass: inChunks,
		inexact: inChunks,
		check: func(s Setting, r *Resolved) error {
			k, m := int(r.Chunks), r.Mesh
			switch {
			case k > 0 && k < m.Partitions:
				return s.refuseOnMesh(r, "each of the %d partitions has a chunk at least; take --chunks "+
					"%[3]d or more", m.Partitions)
			case k%m.Partitions > 0:
				return s.refuseOnMesh(r, "the %d partitions have equally many chunks; take --chunks %d or %d",
					m.Partitions, k/m.Partitions*m.Partitions, (k/m.Partitions+1)*m.Partitions)
			}
			return nil
		},
	},
	{
		Name: "chunk-method", axis: "pipeline", Choices: partition.ChunkMethods(),
		Meaning: "how vertices are divided into chunks; merged joins four parts of metis, chosen at " +
			"random",
	},
	{
		Name: "history-period", byDefault: "23", axis: "pipeline", limits: between(1, 1e9),
		Meaning: "epochs between two renewals of the history, the embeddings of earlier epochs",
	},
	{
		Name: "history-start", axis: "pipeline", Choices: axis.HistoryStarts,
		Meaning: "first content of the history: zeros, or the embeddings of an exact forward pass (warm)",
	},
	{
		Name: "chunk-order", axis: "pipeline", Choices: axis.ChunkOrders,
		Meaning: "order of the chunks; shuffle draws another one in each epoch",
		check: func(s Setting, r *Resolved) error {
			if r.Offload != "" && r.ChunkOrder != axis.Fixed {
				return s.refuse(&r.Options, "--offload %s copies other bytes for each order, and plans one; take "+
					"--chunk-order %s", r.Offload, axis.Fixed)
			}
			return nil
		},
	},
	{
		Name: "stale-gradients", axis: "pipeline", Choices: axis.StaleNames,
		Meaning: "what to do with gradients to chunks that are already done; drop-scale drops them and " +
			"doubles the others",
	},
}

// sendsSome reports whether workers send only some columns of halo rows.
func sendsSome(r *Resolved) bool { return r.WireSchedule != axis.WireSchedule{} }

// inChunks reports whether partitions are divided into chunks, which read each other's rows of earlier
// epochs.
func inChunks(r *Resolved) bool { return int(r.Chunks) != r.Mesh.Partitions }
