package setting

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/gnn"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/nn"
	"weft/optim"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
	"weft/train/metric"
	"weft/train/task"
)

// Group says what a setting is about; help texts list the settings by group.
type Group int

// The groups, in the order in which help texts list them.
const (
	ModelGroup        Group = iota // what is computed: needed again to predict
	TrainingGroup                  // how the weights are found
	MachineGroup                   // how the work is done, without changing the result
	GraphAxisGroup                 // how it is done by workers that divide the graph
	TensorAxisGroup                // how it is done by workers that divide the columns
	PipelineAxisGroup              // how the layers are divided, which changes the result
)

// Setting describes one field of Options: its name is the flag, the key of a configuration file and the
// field's yaml tag. The table of settings is the only place that knows a setting's help text and the values
// it accepts.
type Setting struct {
	Name    string
	Group   Group
	Meaning string   // one line of help, without choices and default; backquotes mark what the value is
	Choices []string // the accepted words, nil: not a choice among words

	number string // the setting that takes the numbers which this one once accepted; "": none
	// was are the words for false and true, where the setting was once one of these; nil: it was not
	was  map[bool]string
	task string // the one that it is for, "": any
	// needs is the other setting, and its values, that it is for; zero: any
	needs  need
	some   bool   // only some models use it, decoupled or not: those of gnn.ModelKind
	axis   string // the axis of the mesh that it is for, "": any mesh
	beside string // an axis of the mesh beside which it has no effect, "": none
	shared bool   // it is for a mesh of more than one worker
	// changes: a run that continues from a checkpoint may have another value
	changes bool
	// isFile reports whether a value is a file, which a run that continues may find elsewhere; nil: none is
	isFile func(string) bool
	limits bounds // of a number
	field  []int  // its index in Options
}

// need is the values of which another setting must have one.
type need struct {
	setting string
	values  []string
}

var settings = withFields([][]Setting{
	ModelGroup: {
		{Name: "task", Choices: task.Names(), Meaning: "what to learn, the classes or values of vertices " +
			"or, for link prediction, which vertices an edge joins"},
		{Name: "model", Choices: gnn.Names(), Meaning: "model to train (edge weights count in " +
			WeightedModels() + "; edge features in " + modelsWith(usesFeatures) + ")"},
		{Name: "layers", some: true, limits: between(1, 1000), Meaning: "number of layers"},
		{Name: "hidden", some: true, limits: between(1, 1<<20), Meaning: "width of the hidden layers, the " +
			"total over heads"},
		{Name: "heads", some: true, limits: between(1, 1<<10), Meaning: "attention heads of the hidden " +
			"layers"},
		{Name: "output-heads", some: true, limits: between(1, 1<<10), Meaning: "attention heads of the " +
			"last layer, averaged; PyG's GAT has as many there as in the others"},
		{Name: "dropout", some: true, limits: fraction, Meaning: "dropout between layers"},
		{Name: "input-dropout", limits: fraction, Meaning: "dropout on the input features"},
		{Name: "transform-dropout", some: true, limits: fraction, Meaning: "dropout on each layer's " +
			"transformed features"},
		{Name: "attention-dropout", some: true, limits: fraction, Meaning: "dropout on the attention " +
			"coefficients"},
		{Name: "use-edge-features", some: true, Meaning: "use the features of the edges, as PyG's edge_dim " +
			"does"},
		{Name: "normalize-features", Choices: normalizations, Meaning: "how features are scaled, row " +
			"divides each vertex's by their sum, standard subtracts each column's mean over all vertices " +
			"and divides by its standard deviation, auto does so with numbers and dates of tables, " +
			"and leaves other features as they are"},
		{Name: "norm", some: true, Choices: gnn.Norms, Meaning: "normalisation after each hidden layer, or " +
			"first in each residual block, auto takes layer in residual blocks and none elsewhere"},
		{Name: "residual", some: true, Meaning: "add each layer's input to its output"},
		{Name: "activation", some: true, Choices: activations(), Meaning: "activation of the hidden layers"},
		{
			Name: "blocks", some: true, Choices: gnn.BlockForms, number: "num-blocks",
			Meaning: "blocks of the model, plain for convolutions alone, residual for residual blocks of " +
				"norm, convolution and feed-forward between a linear encoder and a linear decoder",
		},
		{Name: "num-blocks", some: true, limits: atLeast(0), Meaning: "number of diagonal blocks of each " +
			"relation's weight (block-diagonal decomposition), 0: a whole weight"},
		{Name: "bases", some: true, limits: atLeast(0), Meaning: "number of bases of the relations' " +
			"weights (basis decomposition), 0: a weight for each relation"},
		{Name: "node-embedding", limits: between(0, 1<<20), Meaning: "columns of a learned embedding for " +
			"each vertex of a type without features, 0: none"},
		{Name: "jk", some: true, Choices: gnn.Jumps, Meaning: "jumping knowledge: a linear layer reads the " +
			"outputs of all layers, cat for side by side, max for the largest of each column, none for the " +
			"last layer's logits"},
		{Name: "aggregation", some: true, Choices: gnn.Aggregations, Meaning: "how a layer aggregates the " +
			"in-neighbours"},
		{
			Name: "direction", some: true, Choices: []string{"in", "out", "both"},
			Meaning: "use edges as stored, reversed, or in both directions, each with its own weights",
		},
		{Name: "decoupled", some: true, Meaning: "a model that transforms in all layers first and then " +
			"aggregates in rounds, as APPNP"},
		{Name: "teleport", some: true, limits: fraction, Meaning: "share of a decoupled model's " +
			"transformed features in each aggregation, as alpha of APPNP"},
		{Name: "rounds", some: true, limits: between(0, 1000), Meaning: "number of aggregations after the " +
			"layers of a decoupled model or of appnp, or in sgc, 0: 10 in appnp, 2 in sgc, and as many as " +
			"layers in other models"},
		{
			Name: "attention-gradient", some: true, Choices: gnn.AttentionGradients,
			Meaning: "stop sends no gradient through a decoupled model's attention coefficients, so that " +
				"attention vectors keep their initial values",
		},
		{Name: "alpha", some: true, limits: fraction, Meaning: "share of the initial residual in each " +
			"layer of gcnii, and teleport probability of appnp"},
		{Name: "theta", some: true, limits: atLeast(0), Meaning: "strength of the layers' weights, " +
			"ln(theta/l + 1) in layer l"},
		{Name: "shared-weights", some: true, Meaning: "one weight for the initial residual and the " +
			"aggregated rows, false for GCNII*"},
		{Name: "link-relation", task: task.Link, Meaning: "`relation` to learn, SOURCE,NAME,TARGET as in " +
			"author,writes,paper, several with ; between them (default: those that a stored split divides, " +
			"else all from the first vertex type to itself)"},
		{Name: "out-features", task: task.Link, limits: between(0, 1<<20), Meaning: "width of the last " +
			"layer, which gives the vertices' embeddings, 0: the hidden width"},
		{Name: "decoder", task: task.Link, Choices: task.Decoders, Meaning: "how an edge is scored from " +
			"the embeddings of its ends, distmult has a weight for each relation and column"},
	},
	TrainingGroup: {
		{Name: "lr", limits: above(0), Meaning: "learning rate"},
		{Name: "weight-decay", limits: atLeast(0), Meaning: "weight decay of all parameters but biases and " +
			"norms"},
		{Name: "conv-weight-decay", some: true, limits: atLeast(0), Meaning: "weight decay of the " +
			"convolutions; weight-decay is then for the linear layers before and after them"},
		{Name: "decay-first-layer-only", some: true, Meaning: "weight decay on the first layer's weights " +
			"only"},
		{Name: "drop-edge", some: true, limits: fraction, Meaning: "probability with which an epoch leaves " +
			"out an edge, the same edges for all layers and on any mesh (DropEdge)"},
		{Name: "label-input", task: task.Vertex, limits: fraction, Meaning: "probability with which an " +
			"epoch has the label of a training vertex as input beside the features, the loss is of the " +
			"others; prediction has all (masked label prediction), 0: labels are no input"},
		{Name: "optimizer", Choices: optim.Names, Meaning: "optimizer"},
		{
			Name: "momentum", needs: need{"optimizer", []string{optim.SGD}}, limits: fraction,
			Meaning: "momentum of sgd, the share of the step before that each step repeats",
		},
		{
			Name: "adam-beta2", needs: need{"optimizer", []string{optim.Adam, optim.AdamW}},
			limits: bounds{low: 0, high: 1, openLow: true, openHigh: true},
			Meaning: "β₂ of adam and adamw, the share of the mean of squared gradients that each step keeps; .9 " +
				"often needs fewer epochs",
		},
		{Name: "schedule", Choices: optim.Schedules, Meaning: "how the learning rate changes, plateau " +
			"lowers it where the validation metric, or loss, that select takes stops improving"},
		{
			Name: "plateau-factor", needs: need{"schedule", []string{optim.PlateauSchedule}},
			limits:  bounds{low: 0, high: 1, openLow: true, openHigh: true},
			Meaning: "what schedule plateau multiplies the learning rate by",
		},
		{
			Name: "plateau-patience", needs: need{"schedule", []string{optim.PlateauSchedule}},
			limits: between(0, 1e9),
			Meaning: "evaluations in a row without progress after which the next one lowers the learning " +
				"rate, with schedule plateau",
		},
		{Name: "warmup", limits: between(0, 1e9), Meaning: "epochs in which the learning rate rises " +
			"linearly to lr, before the schedule begins"},
		{Name: "loss", task: task.Vertex, Choices: task.Losses, Meaning: "loss of the training vertices, " +
			"auto takes cross-entropy for classes and mse for values; those of values are of standard " +
			"scores"},
		{
			Name: "focal-gamma", task: task.Vertex, needs: need{"loss", []string{task.Focal}}, limits: above(0),
			Meaning: "how much less the focal loss counts vertices whose class is likely, γ of −(1−p)^γ·ln " +
				"p; for loss focal",
		},
		{
			Name: "class-weights", task: task.Vertex,
			isFile: func(text string) bool { return text != task.NoClassWeights && text != task.Balanced },
			Meaning: "weights of the classes in the loss: none, balanced for the same weight of all " +
				"training vertices of each class together, or a text `file` with a number for each " +
				"class in order",
		},
		{Name: "label-smoothing", task: task.Vertex, limits: fraction, Meaning: "share of a vertex's " +
			"target that all classes have evenly, as in PyTorch's CrossEntropyLoss"},
		{Name: "clip", limits: atLeast(0), Meaning: "largest norm of the gradient, a longer one is scaled " +
			"down to it, 0: no limit"},
		{Name: "epochs", changes: true, limits: between(1, 1e9), Meaning: "passes over the graph"},
		{Name: "patience", changes: true, limits: atLeast(0), Meaning: "stop after so many epochs without " +
			"a lower validation loss or (select metric) a better validation metric, 0: never"},
		{Name: "eval-every", limits: between(0, 1e9), Meaning: "`number` of epochs from one evaluation to " +
			"the next; auto takes 1, and reads the metrics of an epoch's weights from the forward pass of the " +
			"next one where that has them"},
		{
			Name: "metric",
			Choices: slices.Compact(slices.Concat([]string{metric.Auto}, metric.VertexNames, metric.LinkNames,
				metric.ValueNames)),
			Meaning: "metric of the results, auto takes the one that the graph names, rmse for values, and " +
				"mrr or, with negative edges that all share, hits@50 for link prediction",
		},
		{Name: "select", Choices: []string{SelectMetric, SelectLoss}, Meaning: "how the best epoch is " +
			"found: by the best validation metric or the lowest validation loss"},
		{Name: "seed", Meaning: "seed of all randomness"},
		{Name: "split", task: task.Vertex, Meaning: "`number` of a stored split, from 0, or a rule that " +
			"draws one for this run, as random:60/20/20 or per-class=20,30"},
		{Name: "split-seed", task: task.Vertex, Meaning: "seed of a split that a rule draws"},
		{Name: "validate", task: task.Vertex, changes: true, Meaning: "`store` whose validation and test " +
			"vertices select and measure the model, in place of those of the graph that it is trained on"},
		{Name: "link-split", task: task.Link, Meaning: "`shares` of training, validation and test edges; " +
			"only training edges pass messages"},
		{Name: "negatives", task: task.Link, limits: between(1, 1<<10), Meaning: "negative edges drawn in " +
			"each epoch for each training edge, by another source or target, between two vertex types by " +
			"another target"},
		{
			Name: "eval-negatives", task: task.Link, limits: between(0, math.MaxInt32),
			Meaning: "vertices of the target's type, drawn once, among which the target of a validation or " +
				"test edge is ranked, 0: all",
		},
		{Name: "require-edge-features", Meaning: "refuse a model that does not use edge features"},
		{Name: "init-scheme", Choices: nn.InitSchemes, Meaning: "initial weights of linear layers, auto " +
			"for each model's as in PyG, glorot for ±√(6/(in+out)), torch for ±1/√in as torch.nn.Linear"},
		{Name: "init", Meaning: "safetensors `file` with the weights to start from"},
	},
	MachineGroup: {
		{Name: "checkpoint-every", changes: true, Meaning: "number of epochs, or `time` as in 30m, from " +
			"one checkpoint to the next, 0: none, not even after a signal"},
		{Name: "max-time", changes: true, Meaning: "`time` as in 3h50m, or 3:50:00 as in Slurm, after " +
			"which the command stops with a checkpoint, over all its runs, 0: no limit"},
		{Name: "threads", changes: true, limits: between(0, 1<<12), Meaning: "threads of each worker, 0: " +
			"an equal share of all cores"},
		{Name: "memory-limit", changes: true, Meaning: "refuse a run in which a worker would need more " +
			"memory, as in 4GiB"},
		{
			Name: "recompute", changes: true,
			Choices: []string{RecomputeAuto, RecomputeNone, RecomputeBlocks},
			was:     map[bool]string{false: RecomputeNone, true: RecomputeBlocks},
			Meaning: "what the backward pass computes again instead of keeping it, blocks for the values " +
				"within each block of the model, auto for these in a pipeline and where memory-limit needs " +
				"it",
		},
		{Name: "precision", Choices: precisions, Meaning: "number format in which features, activations, " +
			"their gradients and messages are stored, bf16 takes half the bytes of f32"},
		{Name: "wire", shared: true, Choices: axis.Wires, Meaning: "number format in which workers send " +
			"each other values of vertices and their gradients in training, int8 and int4 for stochastic " +
			"rounding within the range of each row, auto for that of precision"},
		{Name: "parallel", changes: true, Meaning: "number of workers along each axis, AXIS=N[,AXIS=N…], " +
			"as in graph=4; auto takes the fastest exact mesh, as weft plan predicts it"},
		{Name: "aggregation-order", some: true, Choices: order.Names, Meaning: "whether a layer transforms " +
			"or aggregates first where both give the same, auto takes the cheaper; with halo-delay 1 they " +
			"do not, as what is aggregated is late, and auto takes PipeGCN's aggregate-first; sparse " +
			"features are always transformed first"},
		{Name: "comm-timeout", changes: true, shared: true, Meaning: "longest wait for another worker, as " +
			"in 60s or 5m"},
	},
	GraphAxisGroup: {
		{
			Name: "partitions", changes: true, limits: between(0, mesh.MaxWorkers),
			Meaning: "number of partitions, of which a worker may hold several that take turns, 0: one for " +
				"each worker along the graph axis",
		},
		{Name: "offload", changes: true, Meaning: "`folder` on a disk of each machine where matrices rest " +
			"of partitions that are not at work, as far as the memory limit needs it"},
		{
			Name: "partition", changes: true, axis: "graph",
			Choices: append([]string{autoPartition}, partition.StoredMethods()...),
			Meaning: "how vertices are divided, auto takes the partition stored last; if there is none, " +
				"metis, or stream for more than 20 million edges or too little memory for metis",
		},
		{
			Name: "balance", changes: true, axis: "graph", Choices: partition.Balances(),
			Meaning: "what each partition gets an equal share of, edges and train in addition to vertices, " +
				"auto for edges where that leaves less work to the busiest worker",
		},
		{
			Name: "prefetch", changes: true, axis: "graph", beside: "pipeline", limits: between(0, 1<<10),
			Meaning: "messages with other workers' rows that are received ahead",
		},
		{
			Name: "keep-halo", changes: true, axis: "graph", beside: "pipeline",
			Meaning: "receive all of the halo at once and keep it for the backward pass, to show what that " +
				"costs",
		},
		{
			Name: "halo", changes: true, axis: "graph", beside: "pipeline", Choices: edges.HaloNames,
			Meaning: "what travels between partitions in sums and means, cover for rows and partial sums " +
				"by a minimum vertex cover, auto for these where they are at least a tenth fewer",
		},
		{Name: "wire-schedule", axis: "graph", beside: "pipeline", Meaning: "which share of the columns of " +
			"halo rows is sent in an epoch of training, none for all, varco for one that grows to all: of " +
			"d columns d/c, where c falls from C to 1 in 1/A of the epochs, as in varco:slope=5,from=128; " +
			"slope=0 keeps C"},
		{
			Name: "halo-delay", axis: "graph", beside: "pipeline", limits: between(0, 1),
			Meaning: "epochs by which other workers' rows and gradients are late in training, which hides " +
				"a slow link behind computation and makes training approximate (PipeGCN)",
		},
		{
			Name: "halo-smoothing", axis: "graph", beside: "pipeline", Choices: axis.Smoothings,
			Meaning: "what moving averages over epochs replace with halo-delay 1, rows of features, their " +
				"gradients, or both",
		},
	},
	TensorAxisGroup: {
		{
			Name: "aggregation-chunks", changes: true, axis: "tensor", some: true,
			Meaning: "`number` of aggregation chunks in which rows are received and results sent while it " +
				"computes, or auto",
		},
	},
	PipelineAxisGroup: {
		{Name: "chunks", axis: "pipeline", Meaning: "`number` of chunks of vertices that pass through the " +
			"stages one after another, of all partitions together, auto for four times the workers"},
		{
			Name: "chunk-method", axis: "pipeline", Choices: partition.ChunkMethods(),
			Meaning: "how vertices are divided into chunks, merged joins four parts of metis, chosen at " +
				"random",
		},
		{Name: "history-period", axis: "pipeline", limits: between(1, 1e9), Meaning: "epochs between two " +
			"renewals of the history, the embeddings of earlier epochs"},
		{
			Name: "history-start", axis: "pipeline", Choices: axis.HistoryStarts,
			Meaning: "first content of the history, zeros, or warm for the embeddings of an exact forward " +
				"pass",
		},
		{Name: "chunk-order", axis: "pipeline", Choices: axis.ChunkOrders, Meaning: "order of the chunks, " +
			"shuffle draws another one in each epoch"},
		{
			Name: "stale-gradients", axis: "pipeline", Choices: axis.StaleNames,
			Meaning: "what to do with gradients to chunks that are already done, drop-scale drops them and " +
				"doubles the others",
		},
	},
})

// All lists every setting, in the order of help texts and of run.yaml.
func All() []Setting { return slices.Clone(settings) }

// settingNamed finds a setting by its name.
func settingNamed(name string) (Setting, bool) {
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return settings[i], true
}

// renamed are the settings that had another name before, by that.
var renamed = map[string]string{
	"embed": "node-embedding", "embedding": "out-features", "edge-features": "use-edge-features",
}

// Renamed is the name that a setting has now, by one that it had before; "": none had that.
func Renamed(name string) string { return renamed[name] }

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

func usesWeights(k gnn.ModelKind) bool  { return k.EdgeWeights }
func usesFeatures(k gnn.ModelKind) bool { return k.EdgeFeatures || k.Uses("use-edge-features") }

// WeightedModels lists the models that use the edges' weights.
func WeightedModels() string { return modelsWith(usesWeights) }

// modelsWith lists the models that use something of the edges.
func modelsWith(uses func(gnn.ModelKind) bool) string {
	return strings.Join(slices.DeleteFunc(gnn.Names(), func(name string) bool {
		kind, _ := gnn.KindOf(name)
		return !uses(kind)
	}), ", ")
}

// settingNames are the names of all settings.
func settingNames() (names []string) {
	for _, s := range settings {
		names = append(names, s.Name)
	}
	return names
}

// activations are the names of the activations, in the order of the kernels' own list.
func activations() []string {
	return slices.SortedFunc(maps.Keys(gnn.Activations), func(a, b string) int {
		return cmp.Compare(gnn.Activations[a], gnn.Activations[b])
	})
}

// withFields lists the settings of a table by group, each tied to the field of Options whose yaml tag is its
// name.
func withFields(table [][]Setting) (all []Setting) {
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		fields[f.Tag.Get("yaml")] = f.Index
	}
	for group, list := range table {
		for _, s := range list {
			s.Group, s.field = Group(group), fields[s.Name]
			if s.field == nil {
				panic("Options has no field for the setting " + s.Name)
			}
			all = append(all, s)
		}
	}
	return all
}

// Task is the only one that the setting is for, "" where it is for any.
func (s Setting) Task() string { return s.task }

// UsedBy reports whether a model uses a setting, decoupled or not. A model that is not known uses all.
func UsedBy(model, name string) bool {
	kind, known := gnn.KindOf(model)
	return !known || kind.Uses(name) || !slices.ContainsFunc(settings, func(s Setting) bool {
		return s.some && s.Name == name
	})
}

// Models are those that use the setting, decoupled or not.
func (s Setting) Models() []string {
	return slices.DeleteFunc(gnn.Names(), func(model string) bool {
		kind, _ := gnn.KindOf(model)
		return s.some && !kind.Uses(s.Name)
	})
}

// Applies reports whether the setting changes anything for the model that o describes.
func (s Setting) Applies(o *Options) bool {
	return (s.task == "" || s.task == o.Task) && (!s.some || o.Uses(s.Name))
}

// appliesTo reports whether the setting means anything on a mesh.
func (s Setting) appliesTo(m mesh.Mesh) bool {
	return (s.axis == "" || *along(&m, s.axis) > 1) && (s.beside == "" || *along(&m, s.beside) == 1) &&
		(!s.shared || m.Workers() > 1)
}

// turnsOff reports whether a value asks for nothing, which is so on any mesh.
func turnsOff(text string) bool { return text == "0" || text == "none" || text == "false" }

// OfSomeMeshes reports whether there are meshes on which the setting means nothing.
func (s Setting) OfSomeMeshes() bool { return s.axis != "" || s.shared }

// ResetOtherAxes gives the settings of axes that the mesh lacks their defaults, but for those that keep
// names.
func (o *Options) ResetOtherAxes(keep func(name string) bool) {
	mesh, err := o.mesh()
	if err != nil {
		return // Resolve says why
	}
	mesh.Partitions = max(mesh.Partitions, o.Partitions)
	defaults := Defaults()
	for _, s := range settings {
		if !s.appliesTo(mesh) && !keep(s.Name) {
			reflect.ValueOf(o).Elem().FieldByIndex(s.field).
				Set(reflect.ValueOf(&defaults).Elem().FieldByIndex(s.field))
		}
	}
}

// refuse is a refusal of the setting's value in o. message says why, in the form of refusal.Errorf.
func (s Setting) refuse(o *Options, message string, args ...any) error {
	return refusal.Errorf("{"+s.Name+"} %s: "+message, append([]any{s.Text(o)}, args...)...)
}

// refuseOn says why the setting means nothing on a mesh.
func (s Setting) refuseOn(m mesh.Mesh, o *Options) error {
	switch {
	case s.axis == "":
		return s.refuse(o, "belongs to a mesh of more than one worker; give {parallel} graph=N, or leave it "+
			"out")
	case *along(&m, s.axis) > 1:
		return s.refuse(o, "the %s axis of the mesh %s does without it; leave it out, or take "+
			"{parallel} %s=%d", s.beside, Axes(m), s.axis, m.Workers())
	}
	return s.refuse(o, "belongs to the %s axis of a mesh; give {parallel} %s=N with more than one worker, "+
		"or leave it out", s.axis, s.axis)
}

// Kind names what the setting's text is: "int", "float", "bool", "size", "duration", "interval" or "string".
func (s Setting) Kind() string {
	switch s.pointer(new(Options)).(type) {
	case *int, *uint64:
		return "int"
	case *float64:
		return "float"
	case *bool:
		return "bool"
	case *Bytes:
		return "size"
	case *time.Duration:
		return "duration"
	case *Interval:
		return "interval"
	default:
		return "string"
	}
}

func (s Setting) pointer(o *Options) any {
	return reflect.ValueOf(o).Elem().FieldByIndex(s.field).Addr().Interface()
}

// Value is the setting's value in o: a number, a bool, a string, or a type that reads its text itself.
func (s Setting) Value(o *Options) any {
	return reflect.ValueOf(o).Elem().FieldByIndex(s.field).Interface()
}

// Text is the setting's value in o, as Set reads it.
func (s Setting) Text(o *Options) string { return fmt.Sprint(s.Value(o)) }

// Set reads a value as a flag or a configuration file gives it. Whether the value makes sense is
// Options.Resolve's to say.
func (s Setting) Set(o *Options, text string) (err error) {
	if _, word := s.pointer(o).(*bool); !word && s.limits.low == 0 && (text == "off" || text == "none") &&
		s.Choices == nil && s.Kind() != "string" {
		text = "0"
	}
	// Names are written in any case.
	i := slices.IndexFunc(s.Choices, func(name string) bool { return strings.EqualFold(name, text) })
	switch p := s.pointer(o).(type) {
	case *string:
		*p = text
		if i >= 0 {
			*p = s.Choices[i]
		}
		if b, err := parseBool(text); err == nil && s.was != nil {
			*p = s.was[b]
		}
	case encoding.TextUnmarshaler:
		if s.Choices != nil && i < 0 {
			return errors.New(s.unknown(text))
		}
		err = p.UnmarshalText([]byte(text))
	case *time.Duration:
		if *p, err = ParseTime(text); err == nil && *p == 0 && s.Name != "max-time" {
			err = errTime
		}
	case *int:
		if n, wrong := Count(text); wrong == nil && !strings.Contains(text, ",") {
			text = strconv.Itoa(n)
		}
		if *p, err = strconv.Atoi(text); err != nil { // which may be negative
			err = errors.New(ErrCount.Error() + s.several(text))
		}
	case *uint64:
		if *p, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = errors.New("must be a whole number, 0 or more")
		}
	case *float64:
		if *p, err = strconv.ParseFloat(text, 64); err != nil {
			err = errors.New("must be a number" + s.several(text))
		}
	case *bool:
		*p, err = parseBool(text)
	}
	return err
}

// several says what there is for a list of values where the setting takes one.
func (s Setting) several(text string) string {
	switch {
	case !strings.ContainsAny(text, ", "):
		return ""
	case s.Name == "hidden":
		return refusal.Sprintf(": all hidden layers have one width, and {layers} says how many layers there are")
	}
	return "; weft sweep trains with several values"
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "on", "yes":
		return true, nil
	case "false", "off", "no":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// reject says why o's value is not accepted; empty when it is.
func (s Setting) reject(o *Options) string {
	switch v := s.Value(o).(type) {
	case string:
		if s.Choices == nil || slices.Contains(s.Choices, v) {
			return ""
		}
		if s.number != "" && isNumber(v) {
			return fmt.Sprintf("a number is for %s now; here %s", refusal.Setting(s.number),
				suggest.OneOf(v, s.Choices))
		}
		return s.unknown(v)
	case int:
		return s.limits.reject(float64(v))
	case Every:
		return s.limits.reject(float64(v))
	case float64:
		return s.limits.reject(v)
	}
	return ""
}

// unknown says that a word is none of the choices.
func (s Setting) unknown(word string) string {
	return "unknown " + s.Name + "; " + suggest.OneOf(word, s.Choices)
}

// bounds are the accepted values of a number. Infinities and NaN are never accepted.
type bounds struct {
	low, high         float64
	openLow, openHigh bool // the bound itself is not accepted
}

func between(low, high float64) bounds { return bounds{low: low, high: high} }
func atLeast(low float64) bounds       { return bounds{low: low, high: math.MaxFloat64} }
func above(low float64) bounds         { return bounds{low: low, high: math.MaxFloat64, openLow: true} }

// fraction is what a probability of dropping may be: 1 would drop everything.
var fraction = bounds{low: 0, high: 1, openHigh: true}

func (b bounds) reject(x float64) string {
	if x >= b.low && x <= b.high && !(b.openLow && x == b.low) && !(b.openHigh && x == b.high) {
		return ""
	}
	low, high := "at least", "at most"
	if b.openLow {
		low = "above"
	}
	if b.openHigh {
		high = "below"
	}
	kind := ""
	if math.IsInf(x, 0) || math.IsNaN(x) {
		kind = "a finite number "
	}
	reason := fmt.Sprintf("must be %s%s %.10g", kind, low, b.low)
	if b.high != math.MaxFloat64 {
		reason += fmt.Sprintf(" and %s %.10g", high, b.high)
	}
	return reason
}
