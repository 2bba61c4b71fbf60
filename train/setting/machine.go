package setting

import (
	"slices"

	"weft/internal/refusal"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/order"
	"weft/partition"
	"weft/tensor"
	"weft/train/task"
)

var machineSettings = []Setting{
	{Name: "checkpoint-every", byDefault: "10m", changes: true, Meaning: "number of epochs, or `time` " +
		"as in 30m, from one checkpoint to the next; 0: none, not even after a signal"},
	{Name: "max-time", changes: true, Meaning: "`time` as in 3h50m, or 3:50:00 as in Slurm, after " +
		"which the command stops with a checkpoint, over all its runs, 0: no limit"},
	{
		Name: "device", byDefault: string(CPU), changes: true, Choices: devices, others: true,
		Meaning: "what workers compute on; cuda is all of NVIDIA's cards, each worker on the next one, cuda:N card N " +
			"from 0, cuda:N,M several, and auto cuda, or the CPU if there is no card",
		check: func(_ Setting, r *Resolved) error { return r.CheckCard() },
	},
	{Name: "threads", changes: true, limits: between(0, 1<<12), Meaning: "threads of each worker, 0: " +
		"an equal share of all cores"},
	{Name: "memory-limit", changes: true, Meaning: "memory that a worker may take, as in 4GiB, and with " +
		"cards the workers of a card together of its memory; to keep to it a run computes values again, with " +
		"offload has matrices rest, and is refused where it would take more all the same"},
	{
		Name: "host-memory-limit", changes: true, needs: need{"offload", []string{RAM}},
		Meaning: "refuse a run of which more would rest in the memory of a machine, of all its workers",
	},
	{
		Name: "device-messages", changes: true, shared: true, Meaning: "have MPI send from and receive into the " +
			"memory of cards, where its library says that it does",
		check: func(s Setting, r *Resolved) error {
			switch {
			case !r.DeviceMessages:
			case !r.OnCard():
				return s.refuse(&r.Options, "the CPU computes; take --device %s, or leave it out", AllCards)
			case r.Offload != "":
				return s.refuse(&r.Options, "with --offload %s what is sent may be in the host's memory; leave one out",
					r.Offload)
			case r.TakesTurns():
				return s.refuse(&r.Options, "partitions that take turns send from the host's memory; take as many "+
					"workers as partitions, or leave it out")
			}
			return nil
		},
	},
	{
		Name: "recompute", changes: true,
		Choices: []string{RecomputeAuto, RecomputeNone, RecomputeBlocks},
		Meaning: "what the backward pass computes again instead of keeping it: the values within each " +
			"block of the model; auto: in a pipeline, and where memory-limit needs it",
	},
	{
		Name: "keep-edge-states", byDefault: Auto, changes: true,
		Meaning: "of states of edges that pass through the layers of a program it keeps every `N`-th, or none, and " +
			"layers compute those between again; auto: all, or as many as memory-limit has room for",
		check: func(s Setting, r *Resolved) error {
			if p := r.Program.Program; r.KeepEdgeStates == AutoEdgeStates || p != nil && p.States() > 0 {
				return nil
			}
			return s.refuse(&r.Options, "the model %s has no states of edges that pass through layers; leave it out",
				r.Model)
		},
	},
	{
		Name: "precision", Choices: precisions, Meaning: "number format of features, activations, their " +
			"gradients and messages; bf16 takes half the bytes of f32. tf32x3: f32, which cards multiply by tensor " +
			"cores",
		check: func(s Setting, r *Resolved) error {
			if !r.TF32 || r.Device != CPU {
				return nil
			}
			return s.refuse(&r.Options, "the CPU computes; take --device %s, or --precision %s", AllCards, f32)
		},
	},
	{
		Name: "wire", shared: true, Choices: axis.Wires, Meaning: "number format in which workers send " +
			"values of vertices and their gradients in training; int8 and int4 round at random within " +
			"the range of each row; auto: that of precision",
		ownPass: encodes,
		inexact: encodes,
		check: func(s Setting, r *Resolved) error {
			if r.Wire == axis.Float32 && r.Storage == tensor.BFloat16 {
				return s.refuse(&r.Options, "with --precision %s values are stored in %[2]s, and more bits "+
					"would tell nothing more; leave it out, or take int8 or int4", r.Precision)
			}
			return nil
		},
	},
	{
		Name: "parallel", changes: true, Meaning: "number of workers along each axis, AXIS=N[,AXIS=N…], " +
			"as in graph=4; auto: the fastest exact mesh, as weft plan predicts it",
		check: func(s Setting, r *Resolved) error {
			if r.Task == task.Link && r.Mesh.Stages > 1 {
				return s.refuse(&r.Options, "link prediction needs workers that have all layers of a vertex; "+
					"take --parallel graph=%d or tensor=%[2]d", r.Workers)
			}
			return nil
		},
		checkGraph: func(s Setting, r *Resolved, whole *partition.Whole, _ int) error {
			bare := func(t partition.WholeType) bool { return t.FeatureColumns == 0 }
			switch {
			case r.Mesh.Stages == 1:
			case r.NodeEmbedding == 0 && r.Program.Program == nil && slices.ContainsFunc(whole.Types, bare):
				return s.refuse(&r.Options, "vertices have no features, and a pipeline does not divide the weights "+
					"of R-GCN that have a row for each of them; take --node-embedding N, or --parallel graph=%d or "+
					"tensor=%[2]d", r.Workers)
			case len(whole.Types) > 1 && r.Chunks > 0 && inChunks(r):
				return refusal.Errorf("--chunks %d: the rows of several vertex types are one chunk for each "+
					"partition; leave it out, or take --chunks %d", r.Chunks, r.Mesh.Partitions)
			}
			return nil
		},
	},
	{
		Name: "aggregation-order", some: true, Choices: order.Names, Meaning: "whether a layer " +
			"transforms or aggregates first where both give the same; auto: the cheaper. Sparse features " +
			"are always transformed first",
		// In a pipeline slices aggregate the features in each pass, and in training a backward pass may make
		// the other order the cheaper one.
		ownPass: func(r *Resolved) bool {
			return r.AggregationOrder == order.Auto && r.Mesh.Stages > 1 && r.Mesh.Slices > 1
		},
		check: func(s Setting, r *Resolved) error {
			if r.AggregationOrder != order.Auto && r.Mesh.Stages > 1 && inChunks(r) {
				return s.refuseOnMesh(r, "the order is given, as history holds what a layer aggregates; leave "+
					"it out, or take --chunks %d: a chunk for each partition", r.Mesh.Partitions)
			}
			return nil
		},
	},
	{Name: "comm-timeout", byDefault: "1m", changes: true, shared: true, Meaning: "longest wait for another worker, as " +
		"in 60s or 5m"},
}

// encodes reports whether workers send values in fewer bits than they store.
func encodes(r *Resolved) bool { return r.Wire.Format(r.Storage) != kernel.AsStored }
