// Package setting has the settings of a run: Options, the table of their names, texts and meanings, and
// Resolved, the checked options with the meaning of their words.
package setting

import (
	"time"

	"weft/gnn"
	"weft/graph"
	"weft/nn"
	"weft/parallel/axis"
	"weft/partition"
	"weft/train/metric"
	"weft/train/task"
)

// Options are all settings of a run. A field's yaml tag is its name as a flag of the command and as a key of
// a configuration file; All describes each. Start from Defaults: the zero value is refused.
type Options struct {
	Task              string  `yaml:"task"`
	Model             string  `yaml:"model"`
	Layers            int     `yaml:"layers"`
	Hidden            int     `yaml:"hidden"` // width of a hidden layer, over all heads together
	Heads             int     `yaml:"heads"`
	OutputHeads       int     `yaml:"output-heads"` // heads of the last layer, averaged
	Dropout           float64 `yaml:"dropout"`
	InputDropout      float64 `yaml:"input-dropout"`
	TransformDropout  float64 `yaml:"transform-dropout"`
	AttentionDropout  float64 `yaml:"attention-dropout"`
	EdgeFeatures      bool    `yaml:"edge-features"`      // of graph attention: scores use them
	NormalizeFeatures string  `yaml:"normalize-features"` // one of normalizations
	Norm              string  `yaml:"norm"`
	Residual          bool    `yaml:"residual"`
	Activation        string  `yaml:"activation"`
	Blocks            string  `yaml:"blocks"`         // one of gnn.BlockForms
	NumBlocks         int     `yaml:"num-blocks"`     // diagonal blocks of a relation's weight, 0: it is whole
	Bases             int     `yaml:"bases"`          // of the relations' weights, 0: none
	NodeEmbedding     int     `yaml:"node-embedding"` // columns learned for vertices without features, 0: none
	Aggregation       string  `yaml:"aggregation"`    // of sage
	Jump              string  `yaml:"jk"`             // one of gnn.Jumps
	Direction         string  `yaml:"direction"`
	Decoupled         bool    `yaml:"decoupled"`
	Teleport          float64 `yaml:"teleport"`           // of a decoupled model
	Rounds            int     `yaml:"rounds"`             // of aggregation, 0: gnn.Spec's
	AttentionGradient string  `yaml:"attention-gradient"` // of a decoupled model: "full" or "stop"
	Alpha             float64 `yaml:"alpha"`              // of gcnii, as Theta and SharedWeights, and of appnp
	Theta             float64 `yaml:"theta"`
	SharedWeights     bool    `yaml:"shared-weights"`
	OutFeatures       int     `yaml:"out-features"` // columns of the last layer in link prediction, 0: Hidden
	Decoder           string  `yaml:"decoder"`      // of edges: "dot" or "distmult"

	Loss                string  `yaml:"loss"`            // of vertices, one of task.Losses
	FocalGamma          float64 `yaml:"focal-gamma"`     // γ of the focal loss
	ClassWeights        string  `yaml:"class-weights"`   // in the loss, "none", "balanced" or a file
	LabelSmoothing      float64 `yaml:"label-smoothing"` // of the loss of vertex classes
	InitScheme          string  `yaml:"init-scheme"`     // of the weights of linear layers, one of nn.InitSchemes
	LabelInput          float64 `yaml:"label-input"`     // nn.LabelInput's share
	LR                  float64 `yaml:"lr"`
	WeightDecay         float64 `yaml:"weight-decay"`
	ConvWeightDecay     float64 `yaml:"conv-weight-decay"` // of gcnii's convolutions, which WeightDecay leaves out
	DecayFirstLayerOnly bool    `yaml:"decay-first-layer-only"`
	Optimizer           string  `yaml:"optimizer"`
	Momentum            float64 `yaml:"momentum"` // of sgd
	Schedule            string  `yaml:"schedule"`
	PlateauFactor       float64 `yaml:"plateau-factor"` // of the schedule plateau, as PlateauPatience
	PlateauPatience     int     `yaml:"plateau-patience"`
	Warmup              int     `yaml:"warmup"` // epochs
	Clip                float64 `yaml:"clip"`   // largest 2-norm of all gradients together, 0: no limit
	Epochs              int     `yaml:"epochs"`
	// Patience: epochs without progress on the validation set after which the run stops, 0: never
	Patience  int    `yaml:"patience"`
	EvalEvery int    `yaml:"eval-every"` // epochs from one evaluation to the next
	Metric    string `yaml:"metric"`     // "auto" takes the metric that the graph names
	// Select: what finds the best epoch on the validation set: "metric" or "loss"
	Select string `yaml:"select"`
	Seed   uint64 `yaml:"seed"`
	Split  int    `yaml:"split"` // which stored split, from 0
	// Validate: the graph whose validation and test vertices select and measure the model, empty: the same
	Validate string `yaml:"validate"`
	// LinkSplit is the shares of training, validation and test edges in link prediction
	LinkSplit task.Shares `yaml:"link-split"`
	// LinkRelation: the relations to learn, empty: those of a stored split, or of the first vertex type
	LinkRelation task.Relations `yaml:"link-relation"`
	Negatives    int            `yaml:"negatives"` // negative edges drawn for each training edge
	// EvalNegatives is the number of vertices that edges are ranked among, 0: all
	EvalNegatives int `yaml:"eval-negatives"`
	// RequireEdgeFeatures: refuse a model that does not use edge features
	RequireEdgeFeatures bool   `yaml:"require-edge-features"`
	Init                string `yaml:"init"` // safetensors file with the weights to start from, empty: none

	// CheckpointEvery: from one checkpoint to the next
	CheckpointEvery Interval `yaml:"checkpoint-every"`
	// MaxTime: of the whole run, 0: no limit
	MaxTime time.Duration `yaml:"max-time"`

	Threads     int    `yaml:"threads"`      // per worker, 0: all cores shared among the local workers
	MemoryLimit Bytes  `yaml:"memory-limit"` // per worker, tensors and graph, 0: none
	Precision   string `yaml:"precision"`
	Parallel    string `yaml:"parallel"` // the mesh, "AXIS=N[,AXIS=N…]", empty: one worker

	// Recompute: what the backward pass computes again, RecomputeAuto, RecomputeNone or RecomputeBlocks
	Recompute string `yaml:"recompute"`

	axis.Options

	// The graph axis.
	// Partitions: of the graph, at least as many as workers, 0: as many
	Partitions int `yaml:"partitions"`
	// Offload: the folder where what is not at work rests, empty: none
	Offload     string        `yaml:"offload"`
	Partition   string        `yaml:"partition"`    // a method, or "auto": what is stored, or else metis or stream
	Balance     string        `yaml:"balance"`      // of partitions that are not stored yet, one of partition.Balances
	CommTimeout time.Duration `yaml:"comm-timeout"` // of every wait for another worker

	ChunkMethod string `yaml:"chunk-method"` // one of partition.ChunkMethods
}

// Defaults are the default options.
func Defaults() Options {
	return Options{
		Task: task.Names()[0], Model: "sage", Layers: 2, Hidden: 64, Heads: 1, OutputHeads: 1, Dropout: 0.5,
		NormalizeFeatures: normalizations[0], Norm: gnn.Norms[0], Activation: "relu", Blocks: gnn.BlockForms[0], Direction: "in",
		AttentionGradient: gnn.AttentionGradients[0], Aggregation: gnn.Aggregations[0], Jump: gnn.Jumps[0], Alpha: 0.1, Theta: 0.5, SharedWeights: true, Decoder: task.Decoders[0],
		Loss: task.Losses[0], FocalGamma: 2, ClassWeights: task.NoClassWeights, InitScheme: nn.InitSchemes[0], LR: 0.01, Optimizer: "adam", Schedule: "constant", PlateauFactor: 0.1, PlateauPatience: 10, Epochs: 200, EvalEvery: 1, Metric: metric.Auto, Select: SelectMetric,
		LinkSplit: task.DefaultShares, Negatives: 1, CheckpointEvery: Interval{Time: 10 * time.Minute},
		Precision: precisions[0], Options: axis.Options{Prefetch: 1, HistoryPeriod: 23}, Recompute: RecomputeAuto,
		Partition: autoPartition, Balance: partition.AutoBalance, CommTimeout: time.Minute,
		ChunkMethod: partition.ChunkMethods()[0],
	}
}

// What finds the best epoch: the best validation metric, or the lowest validation loss.
const (
	SelectMetric = "metric"
	SelectLoss   = "loss"
)

// Standard is the word of NormalizeFeatures for columns with a mean of 0 and a deviation of 1.
const Standard = "standard"

var normalizations = []string{"none", "row", Standard}

// bf16 stores the values of vertices in tensor.BFloat16.
const bf16 = "bf16"

var precisions = []string{"f32", bf16}

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

// autoPartition takes the last stored partition, or else makes one by the method that partition.Auto names.
const autoPartition = "auto"

// Assignment says how to divide a graph into k partitions if none are stored.
func (o *Options) Assignment(g *graph.Graph, k int) partition.Options {
	method := o.Partition
	if method == autoPartition {
		method = partition.Auto(g)
	}
	return partition.Options{K: k, Method: method, Balance: o.Balance, Seed: o.Seed, Split: o.Split, Timeout: o.CommTimeout}
}
