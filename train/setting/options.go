// Package setting has the settings of a run: Options, the table of their names, texts and meanings, and
// Resolved, the checked options with the meaning of their words. The commands make Options of flags and
// files. Plans, engines and workers read Resolved.
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
	loop bool // ForLoop was called: passes of a caller's loop

	task.Goal
	gnn.Spec
	optim.Settings
	axis.Options

	// Program is the model in place of the one of the Spec; empty: none. It starts from Init.
	Program           Program `yaml:"program"`
	NormalizeFeatures string  `yaml:"normalize-features"` // one of normalizations
	// InitScheme is one of nn.InitSchemes, for the weights of linear layers.
	InitScheme      string  `yaml:"init-scheme"`
	Schedule        string  `yaml:"schedule"`
	PlateauFactor   float64 `yaml:"plateau-factor"` // of the schedule plateau, like PlateauPatience
	PlateauPatience int     `yaml:"plateau-patience"`
	Warmup          int     `yaml:"warmup"` // epochs
	Epochs          int     `yaml:"epochs"`
	// Patience is the number of epochs without progress on the validation set after which the run stops; 0:
	// never.
	Patience int `yaml:"patience"`
	// EvalEvery is the number of epochs from one evaluation to the next.
	EvalEvery Every `yaml:"eval-every"`
	// Select is what selects the best epoch on the validation set: "metric" or "loss".
	Select string `yaml:"select"`
	// Validate is the graph whose validation and test vertices select and measure the model; empty: the same
	// graph.
	Validate string `yaml:"validate"`
	// RequireEdgeFeatures refuses a model that does not use edge features.
	RequireEdgeFeatures bool `yaml:"require-edge-features"`
	// Init is a safetensors file with the weights to start from, or the folder of a run; empty: none.
	Init string `yaml:"init"`

	// CheckpointEvery is the interval from one checkpoint to the next.
	CheckpointEvery Interval `yaml:"checkpoint-every"`
	// MaxTime is the time of the whole run; 0: no limit.
	MaxTime time.Duration `yaml:"max-time"`

	Device      Device `yaml:"device"`
	Threads     int    `yaml:"threads"`      // per worker, 0: all cores shared among the local workers
	MemoryLimit Bytes  `yaml:"memory-limit"` // per worker, tensors and graph, 0: none
	Precision   string `yaml:"precision"`
	Parallel    string `yaml:"parallel"` // the mesh, "AXIS=N[,AXIS=N…]", empty: one worker

	// Recompute says what the backward pass computes again: RecomputeAuto, RecomputeNone or RecomputeBlocks.
	Recompute string `yaml:"recompute"`
	// KeepEdgeStates says which states of edges a program keeps, and does not compute again.
	KeepEdgeStates EdgeStates `yaml:"keep-edge-states"`

	// Partitions is the number of partitions of the graph, at least as many as workers; 0: as many.
	Partitions Partitions `yaml:"partitions"`
	// HostMemoryLimit is the memory of a machine in which matrices of all its workers may rest, with Offload
	// RAM; 0: none.
	HostMemoryLimit Bytes `yaml:"host-memory-limit"`
	// DeviceMessages has MPI send from and receive into the memory of cards.
	DeviceMessages bool `yaml:"device-messages"`
	// Offload is the folder where matrices that are not at work rest, or RAM; empty: none.
	Offload string `yaml:"offload"`
	// Partition is a method, or "auto": the stored partition, or else metis or stream.
	Partition string `yaml:"partition"`
	// Balance is what new partitions balance, one of partition.Balances.
	Balance     string        `yaml:"balance"`
	CommTimeout time.Duration `yaml:"comm-timeout"` // of every wait for another worker

	ChunkMethod string `yaml:"chunk-method"` // one of partition.ChunkMethods

	lossFile     lossFile     // the file that Loss names
	scheduleFile scheduleFile // the file that Schedule names
}

// What selects the best epoch: the best validation metric, or the lowest validation loss.
const (
	SelectMetric = "metric"
	SelectLoss   = "loss"
)

// Words of NormalizeFeatures. Standard gives columns a mean of 0 and a deviation of 1. AutoFeatures does so
// for columns of tables that have a unit.
const (
	AutoFeatures = "auto"
	Standard     = "standard"
)

var normalizations = []string{AutoFeatures, "none", "row", Standard}

// Words of Precision. bf16 stores the values of vertices in tensor.BFloat16. tf32x3 is f32 whose products
// cards make on tensor cores.
const (
	f32    = "f32"
	bf16   = "bf16"
	tf32x3 = "tf32x3"
)

var precisions = []string{f32, bf16, tf32x3}

// What the backward pass computes again instead of keeping it: nothing, or the values within each block of
// the model. RecomputeAuto is RecomputeBlocks in a pipeline. Elsewhere it is RecomputeBlocks if the memory
// limit needs it.
const (
	RecomputeAuto   = "auto"
	RecomputeNone   = "none"
	RecomputeBlocks = "blocks"
)

// Recomputes lists whether values are computed again. A run takes the first entry that meets its memory
// limit.
func (r *Resolved) Recomputes() []bool {
	switch {
	case r.Recompute == RecomputeNone:
		return []bool{false}
	case r.Recompute == RecomputeBlocks || r.Mesh.Stages > 1:
		return []bool{true}
	}
	return []bool{false, true}
}

// Divide gives the graph the split for which the options have a rule, in place of its splits in memory. It
// refuses a rule that the graph's labels do not allow.
func (o *Options) Divide(g *graph.Graph) error {
	switch {
	case o.Task == task.Edge && o.EdgeLabel == "": // the kind of task says what is missing
		return nil
	case o.EdgeLabel != "":
		return o.Split.MakeOfEdges(g, o.EdgeLabel, o.SplitSeed)
	}
	return o.Split.Make(g, o.SplitSeed)
}

// autoPartition takes the last stored partition. Without one it makes one by the method that partition.Auto
// names.
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
