package train

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/nn"
	"weft/parallel/chunked"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
)

// Options is everything that a run can be told. A field's yaml tag is its name as a flag of the command and
// as a key of a configuration file; Settings describes each. The zero value is not useful: start from
// Defaults.
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
	NormalizeFeatures string  `yaml:"normalize-features"`
	Norm              string  `yaml:"norm"`
	Residual          bool    `yaml:"residual"`
	Activation        string  `yaml:"activation"`
	Blocks            string  `yaml:"blocks"` // one of gnn.BlockForms, or of rgcn the number of blocks of a weight
	Bases             int     `yaml:"bases"`  // of rgcn, 0: none
	Embed             int     `yaml:"embed"`  // columns learned for vertices without features, 0: none
	Direction         string  `yaml:"direction"`
	Decoupled         bool    `yaml:"decoupled"`
	Teleport          float64 `yaml:"teleport"`           // of a decoupled model
	AttentionGradient string  `yaml:"attention-gradient"` // of a decoupled model: "full" or "stop"
	Alpha             float64 `yaml:"alpha"`              // of gcnii, as Theta and SharedWeights
	Theta             float64 `yaml:"theta"`
	SharedWeights     bool    `yaml:"shared-weights"`
	Embedding         int     `yaml:"embedding"` // columns of the last layer where edges are learned, 0: Hidden
	Decoder           string  `yaml:"decoder"`   // of edges: "dot" or "distmult"

	LR                  float64 `yaml:"lr"`
	WeightDecay         float64 `yaml:"weight-decay"`
	ConvWeightDecay     float64 `yaml:"conv-weight-decay"` // of gcnii's convolutions, which WeightDecay leaves out
	DecayFirstLayerOnly bool    `yaml:"decay-first-layer-only"`
	Optimizer           string  `yaml:"optimizer"`
	Schedule            string  `yaml:"schedule"`
	Clip                float64 `yaml:"clip"` // largest 2-norm of all gradients together, 0: no limit
	Epochs              int     `yaml:"epochs"`
	// Patience: epochs without progress on the validation vertices after which the run stops, 0: never
	Patience  int    `yaml:"patience"`
	EvalEvery int    `yaml:"eval-every"` // epochs from one evaluation to the next
	Metric    string `yaml:"metric"`     // "auto" takes the measure that the graph names
	// Select: what finds the best epoch on the validation vertices: "metric" or "loss"
	Select string `yaml:"select"`
	Seed   uint64 `yaml:"seed"`
	Split  int    `yaml:"split"` // which stored split, from 0
	// LinkSplit: shares of the edges that train, validate and test where edges are learned
	LinkSplit LinkSplit `yaml:"link-split"`
	Negatives int       `yaml:"negatives"` // edges drawn for each that trains
	// EvalNegatives: vertices that edges are ranked among, 0: all
	EvalNegatives int    `yaml:"eval-negatives"`
	Init          string `yaml:"init"` // safetensors file with the weights to start from, empty: none

	Threads     int    `yaml:"threads"`      // per worker, 0: all cores shared among the local workers
	MemoryLimit Bytes  `yaml:"memory-limit"` // per worker, tensors and graph, 0: none
	Precision   string `yaml:"precision"`
	Parallel    string `yaml:"parallel"` // the mesh, "AXIS=N[,AXIS=N…]", empty: one worker

	// AggregationOrder: one of order.Names
	AggregationOrder string `yaml:"aggregation-order"`

	// The graph axis.
	Partition string `yaml:"partition"` // a method, or "auto": what is stored, or else metis
	Prefetch  int    `yaml:"prefetch"`  // pieces of remote rows received ahead
	// KeepHalo: receive all remote rows at once and keep them until the backward pass
	KeepHalo    bool          `yaml:"keep-halo"`
	CommTimeout time.Duration `yaml:"comm-timeout"` // of every wait for another worker

	// The tensor axis.
	AggregationChunks Chunks `yaml:"aggregation-chunks"` // of rows, 0: as many as suit

	// The pipeline axis.
	Chunks         Chunks `yaml:"chunks"`          // of the vertices, those of all partitions together, 0: as many as suit
	ChunkMethod    string `yaml:"chunk-method"`    // one of partition.ChunkMethods
	HistoryPeriod  int    `yaml:"history-period"`  // epochs for which history stays the same
	HistoryStart   string `yaml:"history-start"`   // "zeros" or "warm"
	ChunkOrder     string `yaml:"chunk-order"`     // "shuffle" or "fixed"
	StaleGradients string `yaml:"stale-gradients"` // one of chunked.StaleNames
	Recompute      bool   `yaml:"recompute"`       // a chunk's forward pass in its backward pass
}

// Defaults are the options of a run that was told nothing.
func Defaults() Options {
	return Options{
		Task: tasks[0], Model: "sage", Layers: 2, Hidden: 64, Heads: 1, OutputHeads: 1, Dropout: 0.5,
		NormalizeFeatures: "none", Norm: gnn.Norms[0], Activation: "relu", Blocks: gnn.BlockForms[0], Direction: "in",
		AttentionGradient: gnn.AttentionGradients[0], Alpha: 0.1, Theta: 0.5, SharedWeights: true, Decoder: decoders[0],
		LR: 0.01, Optimizer: "adam", Schedule: "constant", Epochs: 200, EvalEvery: 1, Metric: autoMetric, Select: selectMetric,
		LinkSplit: LinkSplit{85, 5, 10}, Negatives: 1,
		Precision: "f32", AggregationOrder: order.Names[order.Auto], Partition: autoPartition, Prefetch: 1, CommTimeout: time.Minute,
		ChunkMethod: partition.ChunkMethods()[0], HistoryPeriod: 23, HistoryStart: historyStarts[0], ChunkOrder: chunkOrders[0],
		StaleGradients: chunked.StaleNames[chunked.DropScale], Recompute: true,
	}
}

// Validate refuses options that make no sense, naming the setting and what would be accepted.
func (o *Options) Validate() error {
	if err := o.check(); err != nil {
		return err
	}
	m, err := o.Mesh()
	if err != nil {
		return err
	}
	if err := o.checkMesh(m); err != nil || m.Stages == 1 {
		return err
	}
	spec := o.model()
	spec.DiagonalBlocks, spec.Embed = 0, 0 // the graph has a part in whether they can be
	blocks, err := spec.Blocks(gnn.OneType(1), 1)
	if err != nil {
		return err
	}
	return checkStages(m, blocks)
}

// check refuses what makes no sense on any mesh.
func (o *Options) check() error {
	for _, s := range settings {
		if reason := s.reject(o); reason != "" {
			return refusal.Errorf("%s %s: %s", refusal.Setting(s.Name), s.Text(o), reason)
		}
	}
	if err := o.checkTask(); err != nil {
		return err
	}
	if err := o.checkModel(); err != nil {
		return err
	}
	if o.model().Uses("heads") && o.Hidden%o.Heads != 0 {
		return refusal.Errorf("%s %d does not divide %s %d: each head of %s gets an equal share of the hidden width",
			refusal.Setting("heads"), o.Heads, refusal.Setting("hidden"), o.Hidden, o.Model)
	}
	return nil
}

// checkMesh refuses what makes no sense on a mesh.
func (o *Options) checkMesh(m mesh.Mesh) error {
	defaults := Defaults()
	for _, s := range settings {
		if !s.appliesTo(m) && s.Text(o) != s.Text(&defaults) {
			return s.refuse(o, m)
		}
	}
	if m.Partitions > 1 && o.AggregationChunks > 1 {
		return refusal.Errorf("%s %s on the mesh %s: a partition is aggregated in one chunk, as rows of others come in pieces of their own; "+
			"leave it out, or take %s tensor=%d", refusal.Setting("aggregation-chunks"), o.AggregationChunks, axes(m),
			refusal.Setting("parallel"), m.Workers())
	}
	if o.Task == LinkTask && (m.Slices > 1 || m.Stages > 1) {
		return refusal.Errorf("%s %s: edges are learned by workers that have all layers and columns of a vertex; take %s graph=%d",
			refusal.Setting("parallel"), o.Parallel, refusal.Setting("parallel"), m.Workers())
	}
	return o.checkPipeline(m)
}

// checkTask refuses what belongs to another task than the one that is learned.
func (o *Options) checkTask() error {
	defaults := Defaults()
	for _, s := range settings {
		if s.task != "" && s.task != o.Task && s.Text(o) != s.Text(&defaults) {
			return refusal.Errorf("%s %s: belongs to %s %s; give that, or leave it out",
				refusal.Setting(s.Name), s.Text(o), refusal.Setting("task"), s.task)
		}
	}
	if known := o.task().metrics(); o.Metric != autoMetric && !slices.Contains(known, o.Metric) {
		return refusal.Errorf("%s %s: no measure of %s %s; %s", refusal.Setting("metric"), o.Metric, refusal.Setting("task"), o.Task,
			suggest.OneOf(o.Metric, known))
	}
	return nil
}

// checkModel refuses what a model cannot do, and what only its decoupled form can.
func (o *Options) checkModel() error {
	decoupled, direction := refusal.Setting("decoupled"), refusal.Setting("direction")
	kind, _ := gnn.KindOf(o.Model)
	if kind.OneWay && o.Direction == "both" {
		return refusal.Errorf("%s both: %s aggregates along one direction; take %s in or out", direction, o.Model, direction)
	}
	if o.Decoupled {
		if err := gnn.CheckDecoupled(o.Model); err != nil {
			return refusal.Errorf("%s: %w", decoupled, err)
		}
		if o.Direction == "both" {
			return refusal.Errorf("%s both: a decoupled model aggregates along one direction; take %s in or out",
				direction, direction)
		}
	}
	if err := o.checkBlocks(); err != nil {
		return err
	}
	defaults := Defaults()
	for _, s := range settings {
		switch {
		case s.Applies(o) || s.task != "" || !kind.Uses(s.Name) || s.Text(o) == s.Text(&defaults):
		case o.Decoupled:
			return refusal.Errorf("%s %s: belongs to the layers of %s that aggregate, which it lacks with %s; leave it out",
				refusal.Setting(s.Name), s.Text(o), o.Model, decoupled)
		case slices.Contains(kind.Settings, s.Name): // of its plain form alone
			return refusal.Errorf("%s %s: residual blocks do without it; leave it out, or take %s plain", refusal.Setting(s.Name), s.Text(o), refusal.Setting("blocks"))
		default:
			return refusal.Errorf("%s %s: belongs to a decoupled model; give %s, or leave it out", refusal.Setting(s.Name), s.Text(o), decoupled)
		}
	}
	return nil
}

// diagonalBlocks is the number that Blocks is, 0 where it is a word.
func (o *Options) diagonalBlocks() int {
	n, err := strconv.Atoi(o.Blocks)
	if err != nil {
		return 0
	}
	return n
}

// checkBlocks refuses blocks that the model does not consist of. What the graph has a part in is the model's
// to refuse.
func (o *Options) checkBlocks() error {
	n, blocks, bases := o.diagonalBlocks(), refusal.Setting("blocks"), refusal.Setting("bases")
	switch relational := o.Model == "rgcn"; {
	case n > 0 && !relational:
		return refusal.Errorf("%s %d: a number of blocks is for the relations' weights of rgcn; take %s rgcn, or %s %s",
			blocks, n, refusal.Setting("model"), blocks, strings.Join(gnn.BlockForms, " or "))
	case n == 0 && relational && o.Blocks != gnn.BlockForms[0]:
		return refusal.Errorf("%s %s: rgcn has no such blocks; give the number of blocks that a relation's weight consists of, or leave it out", blocks, o.Blocks)
	case n > 0 && o.Bases > 0:
		return refusal.Errorf("%s %d and %s %d: relations share weights in one of the two ways; leave one out", bases, o.Bases, blocks, n)
	case n > 0 && o.Layers > 1 && o.Hidden%n != 0:
		return refusal.Errorf("%s %d does not divide %s %d: blocks are of equal size; take another number, or %s N",
			blocks, n, refusal.Setting("hidden"), o.Hidden, bases)
	}
	return nil
}

// Unused lists the settings ("heads") that differ from their default although the model does not use them.
func (o *Options) Unused() []string {
	defaults := Defaults()
	var names []string
	for _, s := range settings {
		if !s.Applies(o) && s.Text(o) != s.Text(&defaults) {
			names = append(names, s.Name)
		}
	}
	return names
}

// CheckGraph refuses what cannot be trained on with these options, before any work.
func (o *Options) CheckGraph(g *graph.Graph) error {
	whole := partition.WholeOf(g)
	if err := checkWhole(&whole, o.task().outputs(o, &whole)); err != nil {
		return err
	}
	grid, err := o.Mesh()
	if err != nil {
		return err
	}
	if err := o.checkFeatures(grid, &whole); err != nil {
		return err
	}
	if err := o.checkTypes(grid, &whole); err != nil {
		return err
	}
	if _, err := o.model().Blocks(sar.SchemaOf(partition.All(g)), o.task().outputs(o, &whole)); err != nil {
		return err
	}
	if err := o.task().check(o, &whole, &g.Labels); err != nil {
		return err
	}
	if grid.Partitions > whole.Vertices {
		return refusal.Errorf("%s %s: the graph has only %d vertices to divide",
			refusal.Setting("parallel"), o.Parallel, whole.Vertices)
	}
	return nil
}

// checkFeatures refuses a graph whose first vertex type has no features where the model needs some, or the
// mesh does.
func (o *Options) checkFeatures(grid mesh.Mesh, whole *partition.Whole) error {
	switch {
	case whole.FeatureColumns > 0:
		return nil
	case o.Model != "rgcn" && o.Embed == 0:
		return refusal.Graph.Errorf("the graph has no features; import it with %s N, or with features of its own; "+
			"or have some learned with %s N; or take %s rgcn, which needs none",
			refusal.Setting("random-features"), refusal.Setting("embed"), refusal.Setting("model"))
	case grid.Slices > 1 || grid.Stages > 1:
		return refusal.Errorf("%s %s: the graph has no features, and what is learned of each vertex is held by partitions alone; take %s graph=%d",
			refusal.Setting("parallel"), o.Parallel, refusal.Setting("parallel"), grid.Workers())
	}
	return nil
}

// checkTypes refuses a mesh whose workers cannot divide the rows of several vertex types: slices and chunks
// are of one type's.
func (o *Options) checkTypes(grid mesh.Mesh, whole *partition.Whole) error {
	if len(whole.Others) == 0 || grid.Slices == 1 && grid.Stages == 1 {
		return nil
	}
	axis := "tensor axis slices"
	if grid.Stages > 1 {
		axis = "pipeline divides into chunks"
	}
	return refusal.Errorf("%s %s: the %s the rows of one vertex type, and the graph has %d; take %s graph=%d, which divides all types",
		refusal.Setting("parallel"), o.Parallel, axis, 1+len(whole.Others), refusal.Setting("parallel"), grid.Workers())
}

// checkSplit refuses a split that is not there, or has nothing to train on.
func (o *Options) checkSplit(whole *partition.Whole) error {
	switch splits := whole.Splits; {
	case len(splits) == 0:
		return refusal.Graph.Errorf("the graph has no split into training, validation and test vertices; import it with %s",
			refusal.Setting("split"))
	case o.Split >= len(splits):
		return refusal.Errorf("%s %d: the number of splits that the graph has is %d, and they count from 0",
			refusal.Setting("split"), o.Split, len(splits))
	case splits[o.Split].Train == 0:
		return refusal.Errorf("%s %d has no training vertices", refusal.Setting("split"), o.Split)
	}
	return nil
}

// model is the named model.
func (o *Options) model() gnn.Spec {
	return gnn.Spec{
		Model: o.Model, Layers: o.Layers, Hidden: o.Hidden, Heads: o.Heads, OutputHeads: o.OutputHeads, Norm: o.Norm,
		Activation: o.Activation, Residual: o.Residual, Direction: o.Direction, Dropout: o.Dropout, InputDropout: o.InputDropout,
		TransformDropout: o.TransformDropout, AttentionDropout: o.AttentionDropout,
		Decoupled: o.Decoupled, Teleport: o.Teleport, AttentionGradient: o.AttentionGradient, BlockForm: o.Blocks,
		Bases: o.Bases, DiagonalBlocks: o.diagonalBlocks(), Embed: o.Embed,
		Alpha: o.Alpha, Theta: o.Theta, SharedWeights: o.SharedWeights,
	}
}

// Widths are the numbers of features and classes of the model that the weights are of, as in gnn.Spec.
func (o *Options) Widths(weights nn.State) (features, classes int) { return o.model().Widths(weights) }

// axisNames are those of a mesh in Parallel.
var axisNames = []string{"graph", "tensor", "pipeline"}

// axis is the number of workers along the axis of a mesh that has that name in Parallel, nil for another
// name.
func axis(m *mesh.Mesh, name string) *int {
	switch name {
	case "graph":
		return &m.Partitions
	case "tensor":
		return &m.Slices
	case "pipeline":
		return &m.Stages
	}
	return nil
}

// axes writes a mesh as Parallel has it.
func axes(m mesh.Mesh) string {
	var parts []string
	for _, name := range axisNames {
		if n := *axis(&m, name); n > 1 {
			parts = append(parts, fmt.Sprintf("%s=%d", name, n))
		}
	}
	return cmp.Or(strings.Join(parts, ","), "graph=1")
}

// Workers is the size of the mesh.
func (o *Options) Workers() (int, error) {
	m, err := o.Mesh()
	return m.Workers(), err
}

// Mesh is what Parallel asks for, or a refusal. Every axis may have one worker, which divides nothing.
func (o *Options) Mesh() (mesh.Mesh, error) {
	m := mesh.One
	if o.Parallel == "" {
		return m, nil
	}
	refuse := func(format string, args ...any) (mesh.Mesh, error) {
		return mesh.One, refusal.Errorf("%s %s: "+format, append([]any{refusal.Setting("parallel"), o.Parallel}, args...)...)
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(o.Parallel, ",") {
		name, count, found := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		switch size := axis(&m, name); {
		case !found:
			return refuse("a mesh is written AXIS=N[,AXIS=N…], as in graph=4")
		case size == nil:
			return refuse("the mesh has no axis %q; %s", name, suggest.OneOf(name, axisNames))
		case seen[name]:
			return refuse("the axis %s stands twice in the mesh", name)
		case err != nil || n < 1:
			return refuse("a mesh axis has a whole number of workers, at least 1, not %q", count)
		case n > mesh.MaxWorkers:
			return refuse("a mesh axis has at most %d workers", mesh.MaxWorkers)
		default:
			*size = n
		}
		seen[name] = true
	}
	if m.Workers() > mesh.MaxWorkers {
		return refuse("a mesh has at most %d workers, and this one %d", mesh.MaxWorkers, m.Workers())
	}
	return m, nil
}

// What finds the best epoch: the highest validation metric, or the lowest validation loss.
const (
	selectMetric = "metric"
	selectLoss   = "loss"
)

// autoPartition takes the partition that was stored last, or else makes one by METIS.
const autoPartition = "auto"
