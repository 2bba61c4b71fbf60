// Package setting has the settings of a run: Options, the table of their names, texts and meanings, and
// Resolved, the checked options with the meaning of their words. The commands make Options of flags and
// files; plans, engines and workers read Resolved.
package setting

import (
	"time"

	"weft/gnn"
	"weft/graph"
	"weft/optim"
	"weft/parallel/axis"
	"weft/partition"
	"weft/train/task"
)

// Options are all settings of a run. A field's yaml tag is its name as a flag of the command and as a key of
// a configuration file; All describes each. Start from Defaults: the zero value is refused.
type Options struct {
	loop bool // of passes in a loop of one's own: ForLoop

	task.Goal
	gnn.Spec
	optim.Settings
	axis.Options

	// Program: the model in the place of that of the Spec, empty: none. It starts from Init
	Program           Program `yaml:"program"`
	NormalizeFeatures string  `yaml:"normalize-features"` // one of normalizations
	// of the weights of linear layers, one of nn.InitSchemes
	InitScheme      string  `yaml:"init-scheme"`
	Schedule        string  `yaml:"schedule"`
	PlateauFactor   float64 `yaml:"plateau-factor"` // of the schedule plateau, as PlateauPatience
	PlateauPatience int     `yaml:"plateau-patience"`
	Warmup          int     `yaml:"warmup"` // epochs
	Epochs          int     `yaml:"epochs"`
	// Patience: epochs without progress on the validation set after which the run stops, 0: never
	Patience int `yaml:"patience"`
	// EvalEvery: from one evaluation to the next
	EvalEvery Every `yaml:"eval-every"`
	// Select: what finds the best epoch on the validation set: "metric" or "loss"
	Select string `yaml:"select"`
	// Validate: the graph whose validation and test vertices select and measure the model, empty: the same
	Validate string `yaml:"validate"`
	// RequireEdgeFeatures: refuse a model that does not use edge features
	RequireEdgeFeatures bool `yaml:"require-edge-features"`
	// Init: safetensors file with the weights to start from, or the folder of a run, empty: none
	Init string `yaml:"init"`

	// CheckpointEvery: from one checkpoint to the next
	CheckpointEvery Interval `yaml:"checkpoint-every"`
	// MaxTime: of the whole run, 0: no limit
	MaxTime time.Duration `yaml:"max-time"`

	Device      Device `yaml:"device"`
	Threads     int    `yaml:"threads"`      // per worker, 0: all cores shared among the local workers
	MemoryLimit Bytes  `yaml:"memory-limit"` // per worker, tensors and graph, 0: none
	Precision   string `yaml:"precision"`
	Parallel    string `yaml:"parallel"` // the mesh, "AXIS=N[,AXIS=N…]", empty: one worker

	// Recompute: what the backward pass computes again, RecomputeAuto, RecomputeNone or RecomputeBlocks
	Recompute string `yaml:"recompute"`
	// KeepEdgeStates: which states of edges a program keeps, and does not compute again
	KeepEdgeStates EdgeStates `yaml:"keep-edge-states"`

	// Partitions: of the graph, at least as many as workers, 0: as many
	Partitions Partitions `yaml:"partitions"`
	// HostMemoryLimit: of a machine, what rests there of all its workers with Offload RAM, 0: none
	HostMemoryLimit Bytes `yaml:"host-memory-limit"`
	// DeviceMessages: MPI sends from and receives into the memory of cards
	DeviceMessages bool `yaml:"device-messages"`
	// Offload: the folder where what is not at work rests, or RAM, empty: none
	Offload string `yaml:"offload"`
	// a method, or "auto": what is stored, or else metis or stream
	Partition string `yaml:"partition"`
	// of partitions that are not stored yet, one of partition.Balances
	Balance     string        `yaml:"balance"`
	CommTimeout time.Duration `yaml:"comm-timeout"` // of every wait for another worker

	ChunkMethod string `yaml:"chunk-method"` // one of partition.ChunkMethods

	lossFile     lossFile     // that Loss names
	scheduleFile scheduleFile // that Schedule names
}

// What finds the best epoch: the best validation metric, or the lowest validation loss.
const (
	SelectMetric = "metric"
	SelectLoss   = "loss"
)

// Words of NormalizeFeatures: Standard is for columns with a mean of 0 and a deviation of 1, and AutoFeatures
// for that of the columns of tables that have a unit.
const (
	AutoFeatures = "auto"
	Standard     = "standard"
)

var normalizations = []string{AutoFeatures, "none", "row", Standard}

// bf16 stores the values of vertices in tensor.BFloat16; tf32x3 has cards multiply those of f32 by tensor
// cores.
const (
	f32    = "f32"
	bf16   = "bf16"
	tf32x3 = "tf32x3"
)

var precisions = []string{f32, bf16, tf32x3}

// What the backward pass computes again instead of keeping it: nothing, or the values within each block of
// the model. RecomputeAuto is RecomputeBlocks in a pipeline, and elsewhere where the memory limit needs it.
const (
	RecomputeAuto   = "auto"
	RecomputeNone   = "none"
	RecomputeBlocks = "blocks"
)

// Recomputes lists whether values are computed again. From several a run takes the first that meets its
// memory limit.
func (r *Resolved) Recomputes() []bool {
	switch {
	case r.Recompute == RecomputeNone:
		return []bool{false}
	case r.Recompute == RecomputeBlocks || r.Mesh.Stages > 1:
		return []bool{true}
	}
	return []bool{false, true}
}

// Divide gives the graph the split that the options have a rule for, in the place of its splits in memory.
// A rule that the graph's labels do not allow is refused.
func (o *Options) Divide(g *graph.Graph) error {
	switch {
	case o.Task == task.Edge && o.EdgeLabel == "": // the kind of task says what is missing
		return nil
	case o.EdgeLabel != "":
		return o.Split.MakeOfEdges(g, o.EdgeLabel, o.SplitSeed)
	}
	return o.Split.Make(g, o.SplitSeed)
}

// autoPartition takes the last stored partition, or else makes one by the method that partition.Auto names.
const autoPartition = "auto"

// Assignment says how to divide a graph into k partitions if none are stored.
func (o *Options) Assignment(g *graph.Graph, k int) partition.Options {
	method := o.Partition
	if method == autoPartition {
		method, _ = partition.Auto(g)
	}
	return partition.Options{
		K: k, Method: method, Balance: o.Balance, Seed: o.Seed, Split: o.Split.Number,
		Timeout: o.CommTimeout,
	}
}
