package setting

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/nn"
	"weft/optim"
	"weft/parallel/edges"
	"weft/partition"
	"weft/train/calibrate"
	"weft/train/metric"
	"weft/train/task"
)

var trainingSettings = []Setting{
	{Name: "lr", byDefault: "0.01", limits: above(0), Meaning: "learning rate"},
	{Name: "weight-decay", limits: atLeast(0), Meaning: "weight decay of all parameters but biases and " +
		"norms; of a program of all"},
	{Name: "conv-weight-decay", some: true, limits: atLeast(0), Meaning: "weight decay of the " +
		"convolutions; weight-decay is then that of the linear layers around them"},
	{Name: "decay-first-layer-only", some: true, Meaning: "weight decay on the first layer's weights " +
		"only"},
	{
		Name: "drop-edge", some: true, limits: fraction, Meaning: "probability with which an epoch " +
			"leaves out an edge, in all layers (DropEdge)",
		ownPass: func(r *Resolved) bool { return r.DropEdge > 0 },
		check: func(s Setting, r *Resolved) error {
			switch m := r.Mesh; {
			case r.DropEdge == 0:
			case r.Task == task.Edge:
				return s.refuse(&r.Options, "an epoch learns the labels of all edges, also of those that it would "+
					"leave out; leave it out, or take --dropout")
			case m.Stages > 1:
				return s.refuseOnMesh(r, "the edges of a stage's chunks are those of all epochs; leave it out, "+
					"or take --parallel graph=%d", r.Workers)
			case m.Partitions > 1 && r.Halo != edges.HaloRows:
				return refusal.Errorf("--drop-edge %v with --halo %s: partial sums are of the same edges in "+
					"all epochs; take --halo %s, or leave --drop-edge out", r.DropEdge, r.Halo,
					edges.HaloRows)
			}
			return nil
		},
	},
	{
		Name: "label-input", tasks: []string{task.Vertex}, limits: fraction, Meaning: "probability with " +
			"which an epoch shows a training vertex's label as input; its loss is of the others, and prediction " +
			"shows all (masked label prediction)",
		ownPass: func(r *Resolved) bool { return r.LabelInput > 0 },
		check: func(s Setting, r *Resolved) error {
			if r.LabelInput > 0 && r.Mesh.Stages > 1 {
				return s.refuseOnMesh(r, "the input of a stage's chunks is that of all epochs; leave it out, "+
					"or take --parallel graph=%d", r.Workers)
			}
			return nil
		},
		checkGraph: checkLabelInput,
	},
	{Name: "optimizer", Choices: optim.Names, Meaning: "optimizer"},
	{
		Name: "momentum", needs: need{"optimizer", []string{optim.SGD}}, limits: fraction,
		Meaning: "momentum of sgd",
	},
	{
		Name: "adam-beta2", byDefault: "0.999", needs: need{"optimizer", []string{optim.Adam, optim.AdamW}},
		limits:  bounds{low: 0, high: 1, openLow: true, openHigh: true},
		Meaning: "β₂ of adam and adamw; .9 often needs fewer epochs",
	},
	{
		Name: "schedule", Choices: optim.Schedules, keeps: scheduleKept, Meaning: "how the learning rate " +
			"changes: a name, or a text `file` with a factor for each epoch; plateau lowers it where the " +
			"validation metric, or loss, that select takes stops improving",
		check: func(s Setting, r *Resolved) error {
			if r.Factors() != nil && r.Warmup > 0 {
				return s.refuse(&r.Options, "it has a factor for each epoch, and --warmup others; leave one of them out")
			}
			return nil
		},
	},
	{
		Name: "plateau-factor", byDefault: "0.1", needs: need{"schedule", []string{optim.PlateauSchedule}},
		limits:  bounds{low: 0, high: 1, openLow: true, openHigh: true},
		Meaning: "what schedule plateau multiplies the learning rate by",
	},
	{
		Name: "plateau-patience", byDefault: "10", needs: need{"schedule", []string{optim.PlateauSchedule}},
		limits: between(0, 1e9),
		Meaning: "evaluations in a row without progress after which the next one lowers the learning " +
			"rate, with schedule plateau",
	},
	{Name: "warmup", limits: between(0, 1e9), Meaning: "epochs in which the learning rate rises " +
		"linearly to lr, before the schedule begins"},
	{
		Name: "loss", tasks: ofLabels, Choices: task.LossNames(), keeps: lossKept, Meaning: "loss of the " +
			"labels, or a `file` with one of your own, which the Python package writes; auto: " +
			"cross-entropy for classes, mse for values. Losses of values are of standard scores",
		check: func(s Setting, r *Resolved) error {
			if r.LossFile() != nil && r.ClassWeights != task.NoClassWeights {
				return s.refuse(&r.Options, "it has weights of its own, and --class-weights are for losses known by "+
					"name; leave one of them out")
			}
			return nil
		},
	},
	{
		Name: "focal-gamma", byDefault: "2", tasks: ofLabels, needs: need{"loss", []string{task.Focal}},
		limits:  above(0),
		Meaning: "γ of loss focal, −(1−p)^γ·ln p: how much less vertices count whose class is likely",
	},
	{
		Name: "class-weights", byDefault: task.NoClassWeights, tasks: ofLabels,
		isFile: func(text string) bool { return text != task.NoClassWeights && text != task.Balanced },
		Meaning: "weights of the classes in the loss: none, balanced (the same for all training " +
			"vertices of each class together), or a text `file` with a number for each class in order",
	},
	{
		Name: "label-smoothing", tasks: ofLabels,
		needs: need{"loss", task.SmoothedLosses()}, limits: fraction, Meaning: "share " +
			"of a vertex's target that all classes have evenly, as in PyTorch's CrossEntropyLoss",
	},
	{
		Name: "calibrate", tasks: ofLabels, Choices: calibrate.Methods, Meaning: "how the run's " +
			"probabilities are made to come true as often as they say, on validation vertices or edges, " +
			"once it is trained: " +
			"temperature divides logits by a number, isotonic is a step function of the probability",
		check: func(s Setting, r *Resolved) error {
			if r.Calibrate != calibrate.None && r.Validate != "" {
				return s.refuse(&r.Options, "the vertices that validate are of another graph (--validate); leave "+
					"one of them out")
			}
			return nil
		},
		checkGraph: func(s Setting, r *Resolved, whole *partition.Whole, _ int) error {
			if r.Calibrate == calibrate.None {
				return nil
			}
			frame := task.FrameOf(r.Kind, whole)
			switch n := r.Split.Number; {
			case frame.ValueColumns > 0:
				return s.refuse(&r.Options, "the labels are values, which have no probabilities; leave it out")
			case n < len(frame.Splits) && frame.Splits[n].Val == 0:
				return s.refuse(&r.Options, "nothing is held out for validation; give another split, or leave it out")
			}
			return nil
		},
	},
	{Name: "clip", limits: atLeast(0), Meaning: "largest norm of the gradient; a longer one is scaled " +
		"down to it. 0: no limit"},
	{
		Name: "epochs", byDefault: "200", changes: true, limits: between(1, 1e9),
		Meaning: "passes over the graph",
	},
	{Name: "patience", changes: true, limits: atLeast(0), Meaning: "stop after so many epochs without " +
		"a lower validation loss or (select metric) a better validation metric, 0: never"},
	{Name: "eval-every", limits: between(0, 1e9), Meaning: "`number` of epochs from one evaluation to " +
		"the next; auto: 1, by the forward pass of the next epoch where that has the metrics"},
	{
		Name: "metric",
		Choices: slices.Compact(slices.Concat([]string{metric.Auto}, metric.ClassNames, metric.LinkNames,
			metric.ValueNames)),
		completes: metric.HasArgument, forms: metric.Forms(),
		Meaning: "metric of the results; auto: the one that the graph names, rmse for values, mrr for " +
			"link prediction, or hits@50 where all edges share the negative ones. Of classes also " +
			strings.Join(metric.Forms(), ", "),
		check: func(s Setting, r *Resolved) error {
			known := r.Kind.Metrics()
			if name := r.Metric; name != metric.Auto && !slices.Contains(known, name) &&
				(r.Task == task.Link || !metric.HasArgument(name)) {
				return s.refuse(&r.Options, "no measure of --task %s; %s", r.Task,
					suggest.OneOf(r.Metric, known))
			}
			return nil
		},
	},
	{Name: "select", Choices: []string{SelectMetric, SelectLoss}, Meaning: "how the best epoch is " +
		"found: by the best validation metric or the lowest validation loss"},
	{Name: "seed", Meaning: "seed of all randomness"},
	{Name: "split", tasks: ofLabels, Meaning: "`number` of a stored split, from 0, or a rule that " +
		"draws one for this run, as random:60/20/20, stratified:60/20/20, " +
		"per-class=20,30 or, of edges with labels, " +
		"time:COLUMN=2024-01-01,2024-02-01"},
	{Name: "split-seed", tasks: ofLabels, Meaning: "seed of a split that a rule draws"},
	{
		Name: "validate", tasks: []string{task.Vertex}, changes: true, isFile: isGiven, Meaning: "`store` whose validation and test " +
			"vertices select and measure the model, in place of the graph's own",
		ownPass: func(r *Resolved) bool { return r.Validate != "" },
	},
	{Name: "link-split", byDefault: task.DefaultShares.String(), tasks: []string{task.Link}, Meaning: "`shares` of training, validation and test edges; " +
		"only training edges pass messages"},
	{Name: "negatives", byDefault: "1", tasks: []string{task.Link}, limits: between(1, 1<<10), Meaning: "" +
		"negative edges drawn in each epoch for each training edge, by another source or target (between two " +
		"vertex types: target)"},
	{
		Name: "eval-negatives", tasks: []string{task.Link}, limits: between(0, math.MaxInt32),
		Meaning: "vertices, drawn once, among which the target of a validation or test edge is ranked, " +
			"0: all of its type",
	},
	{Name: "require-edge-features", Meaning: "refuse a model that does not use edge features"},
	{Name: "init-scheme", some: true, Choices: nn.InitSchemes, Meaning: "initial weights of linear layers; auto: " +
		"each model's as in PyG, glorot: ±√(6/(in+out)), torch: ±1/√in as torch.nn.Linear"},
	{Name: "init", isFile: isGiven, Meaning: "safetensors `file` with the weights to start from, or the folder of a run"},
}

func isGiven(text string) bool { return text != "" }

// checkLabelInput refuses a graph whose labels cannot be input of the model.
func checkLabelInput(s Setting, r *Resolved, whole *partition.Whole, outputs int) error {
	no := ""
	switch {
	case r.LabelInput == 0:
		return nil
	case whole.ValueColumns > 0:
		no = "the labels of the graph are values"
	case whole.Classes == 0:
		no = "the graph has no labels"
	case r.Split.Number >= len(whole.Splits):
		no = fmt.Sprintf("the graph has no split %v into training, validation and test vertices", r.Split)
	case whole.Classes > outputs:
		no = fmt.Sprintf("the graph has %d classes, and the model computes %d", whole.Classes, outputs)
	case len(whole.Types) > 1:
		no = fmt.Sprintf("the graph has %d vertex types", len(whole.Types))
	case whole.Types[0].FeatureColumns == 0:
		no = "the graph has no features beside which the labels stand"
	}
	if no == "" {
		return nil
	}
	return s.refuse(&r.Options, "the input are classes of training vertices beside the features, of one "+
		"vertex type, and %s; train without it, or give such a graph", no)
}
