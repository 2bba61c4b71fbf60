package setting

import (
	"slices"
	"strings"

	"weft/gnn"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/task"
)

// ofDecoder refuses a setting of the decoder together with a program, which has its own decoder.
func ofDecoder(s Setting, r *Resolved) error {
	if r.Program.Program != nil && s.differs(&r.Options) {
		return s.refuse(&r.Options, "is of models that weft knows by name, and not of --program %s, which returns "+
			"rows of edges itself; leave it out", r.Program)
	}
	return nil
}

// decodesInLayers reports whether an MLP of several layers scores edges.
func decodesInLayers(text func(setting string) string) bool {
	return text("task") == task.Edge && text("decoder-layers") != "1"
}

var modelSettings = []Setting{
	{Name: "task", Choices: task.Names(), Meaning: "what to learn: classes or values of vertices, for link " +
		"prediction which vertices an edge joins, or classes or values of edges (edge-label)"},
	{
		Name: "edge-label", tasks: []string{task.Edge}, Meaning: "`column` of labels of the edges to learn, which " +
			"the store has or, of a list of edges that is trained on, the list",
	},
	{
		Name: "pass-messages", byDefault: task.PassAuto, Choices: task.PassesMessages,
		tasks: []string{task.Edge},
		Meaning: "which edges pass messages: all, also new ones of a prediction, or earlier, those of the training " +
			"period to training and validation edges, and those before the test period to test edges; auto: " +
			"earlier with a split by time, else all of the store",
	},
	{
		Name: "decoder-layers", byDefault: "2", tasks: []string{task.Edge}, limits: between(1, 100),
		check: ofDecoder,
		Meaning: "linear layers of the MLP that scores an edge by the rows of its ends, their product and the " +
			"edge's features",
	},
	{
		Name: "decoder-hidden", tasks: []string{task.Edge}, limits: between(0, 1<<20), check: ofDecoder,
		Meaning: "width of the MLP's hidden layers, 0: the hidden width",
	},
	{Name: "model", byDefault: "sage", some: true, Choices: gnn.Names(), Meaning: "model to train (edge weights count in " +
		WeightedModels() + "; edge features in " + modelsWith(usesFeatures) + ")"},
	programSetting,
	{Name: "layers", byDefault: "2", some: true, limits: between(1, 1000), Meaning: "number of layers"},
	{
		Name: "hidden", byDefault: "64", some: true, limits: between(1, 1<<20), Meaning: "width of the hidden layers, the " +
			"total over heads",
		// It is the width of what the model computes, and of the decoder, that have none of their own.
		behind: behind{[]string{task.Link, task.Edge}, func(text func(string) string) bool {
			return text("out-features") == "0" || decodesInLayers(text) && text("decoder-hidden") == "0"
		}},
	},
	{
		Name: "heads", byDefault: "1", some: true, limits: between(1, 1<<10), Meaning: "attention heads of the hidden " +
			"layers",
		check: func(_ Setting, r *Resolved) error {
			if r.Hidden%r.Heads != 0 {
				return refusal.Errorf("--heads %d does not divide --hidden %d: each head of %s gets an "+
					"equal share of the hidden width", r.Heads, r.Hidden, r.Model)
			}
			return nil
		},
	},
	{Name: "output-heads", byDefault: "1", some: true, limits: between(1, 1<<10), Meaning: "attention " +
		"heads of the last layer, averaged; PyG's GAT has as many there as in the others"},
	{
		Name: "dropout", byDefault: "0.5", some: true, limits: fraction, Meaning: "dropout between layers",
		behind: behind{[]string{task.Edge}, decodesInLayers},
	},
	{
		Name: "input-dropout", some: true, limits: fraction, Meaning: "dropout on the input features",
	},
	{
		Name: "transform-dropout", some: true, limits: fraction, Meaning: "dropout on each layer's " +
			"transformed features",
	},
	{
		Name: "attention-dropout", some: true, limits: fraction, Meaning: "dropout on the attention " +
			"coefficients",
	},
	{Name: "use-edge-features", some: true, Meaning: "use the features of the edges, as PyG's edge_dim " +
		"does"},
	{
		Name: "normalize-features", Choices: normalizations, Meaning: "how features are scaled: row " +
			"divides each vertex's by their sum; standard subtracts each column's mean and divides by " +
			"its standard deviation; auto does so with numbers and dates of tables alone",
		checkGraph: func(s Setting, r *Resolved, whole *partition.Whole, _ int) error {
			if r.NormalizeFeatures == Standard && slices.ContainsFunc(whole.Types, isSparse) {
				return s.refuse(&r.Options, "would make sparse features dense; take row, or import them again "+
					"with --dense-features")
			}
			return nil
		},
	},
	{
		Name: "norm", some: true, Choices: gnn.Norms, Meaning: "normalisation after each hidden layer, " +
			"or first in each residual block; auto: layer in residual blocks, else none",
		check: func(s Setting, r *Resolved) error {
			if r.Mesh.Stages > 1 && gnn.OverVertices(r.Norm) && inChunks(r) {
				return s.refuseOnMesh(r, "its mean is over all vertices, of which a stage has one chunk at a "+
					"time; take --norm layer, or --chunks %d: a chunk for each partition", r.Mesh.Partitions)
			}
			return nil
		},
		// Each graph would have its own statistics, as in PyG's batch.
		checkGraph: func(s Setting, r *Resolved, whole *partition.Whole, _ int) error {
			if whole.Graphs > 1 && gnn.OverAll(r.Norm) {
				return s.refuse(&r.Options, "its statistics are those of one graph, and the store has %d "+
					"graphs; take batch or layer, or give one graph", whole.Graphs)
			}
			return nil
		},
	},
	{Name: "residual", some: true, Meaning: "add each layer's input to its output"},
	{Name: "activation", byDefault: "relu", some: true, Choices: activations(), Meaning: "activation of the hidden layers"},
	{
		Name: "blocks", some: true, Choices: gnn.BlockForms,
		Meaning: "blocks of the model: convolutions alone, or residual blocks of norm, convolution and " +
			"feed-forward between a linear encoder and a linear decoder",
	},
	{
		Name: "num-blocks", some: true, limits: atLeast(0), Meaning: "diagonal blocks of each " +
			"relation's weight (block-diagonal decomposition), 0: a whole weight",
		check: func(_ Setting, r *Resolved) error {
			switch n := r.NumBlocks; {
			case n > 0 && r.Bases > 0:
				return refusal.Errorf("--bases %d and --num-blocks %d: relations share weights in one of "+
					"the two ways; leave one out", r.Bases, n)
			case n > 0 && r.Layers > 1 && r.Hidden%n != 0:
				return refusal.Errorf("--num-blocks %d does not divide --hidden %d: blocks are of equal "+
					"size; take another number, or --bases N", n, r.Hidden)
			}
			return nil
		},
	},
	{Name: "bases", some: true, limits: between(0, 1000), Meaning: "bases of the relations' weights (basis " +
		"decomposition), 0: a weight for each relation"},
	{Name: "node-embedding", some: true, limits: between(0, 1<<20), Meaning: "columns of a learned embedding for " +
		"each vertex of a type without features, 0: none"},
	{Name: "jk", some: true, Choices: gnn.Jumps, Meaning: "jumping knowledge: a linear layer reads the " +
		"outputs of all layers, side by side (cat) or the largest of each column (max)"},
	{Name: "aggregation", some: true, Choices: gnn.Aggregations, Meaning: "how a layer aggregates the " +
		"in-neighbours"},
	{
		Name: "direction", some: true, Choices: []string{"in", "out", "both"},
		Meaning: "use edges as stored, reversed, or in both directions, each with its own weights",
		check: func(s Setting, r *Resolved) error {
			kind, _ := gnn.KindOf(r.Model)
			switch {
			case r.Direction == "both" && (kind.OneDirection || r.Decoupled):
				model := r.Model
				if r.Decoupled {
					model = "a decoupled model"
				}
				return s.refuse(&r.Options, "%s aggregates along one direction; take --direction in or out",
					model)
			case r.Direction != "in" && r.UsesEdgeFeatures():
				return s.refuse(&r.Options, "%s uses edge features, which are stored for the edges as they "+
					"are, and not for reversed ones; import the graph with --symmetrize or "+
					"--reverse-relations, which give reversed edges the same features, and take --direction "+
					"in",
					r.Model)
			}
			return nil
		},
	},
	{Name: "decoupled", some: true, Meaning: "transform in all layers first, then aggregate in rounds, " +
		"as APPNP does"},
	{Name: "teleport", some: true, limits: fraction, Meaning: "share of the transformed features in " +
		"each aggregation of a decoupled model, as alpha of APPNP"},
	{Name: "rounds", some: true, limits: between(0, 1000), Meaning: "aggregations of a decoupled model, " +
		"of appnp or of sgc; 0: 10 in appnp, 2 in sgc, else as many as layers"},
	{Name: "alpha", byDefault: "0.1", some: true, limits: fraction, Meaning: "share of the initial residual in each " +
		"layer of gcnii, and teleport probability of appnp"},
	{Name: "theta", byDefault: "0.5", some: true, limits: atLeast(0), Meaning: "strength of the layers' weights, " +
		"ln(theta/l + 1) in layer l"},
	{Name: "shared-weights", byDefault: "true", some: true, Meaning: "one weight for the initial " +
		"residual and the aggregated rows; false: GCNII*"},
	{Name: "link-relation", tasks: []string{task.Link}, Meaning: "`relation` to learn, SOURCE,NAME,TARGET as in " +
		"author,writes,paper; several with ; between them (default: those of a stored split, else all " +
		"from the first vertex type to itself)"},
	{Name: "out-features", tasks: []string{task.Link, task.Edge}, limits: between(0, 1<<20), Meaning: "" +
		"columns of the vertices' embeddings, 0: the hidden width"},
	{
		Name: "decoder", tasks: []string{task.Link, task.Edge},
		Choices: append(slices.Clip(task.Decoders), task.MLP),
		Meaning: "how an edge is scored from the embeddings of its ends; distmult has a weight for each relation " +
			"and column, and mlp is that of --task edge, there the default",
		check: func(s Setting, r *Resolved) error {
			switch {
			case r.Task == task.Edge && r.Decoder != task.MLP:
				return s.refuse(&r.Options, "belongs to --task %s; take --decoder %s, or leave it out", task.Link,
					task.MLP)
			case r.Task == task.Link && r.Decoder == task.MLP:
				return s.refuse(&r.Options, "belongs to --task %s; take --decoder %s", task.Edge,
					strings.Join(task.Decoders, " or "))
			case r.Decoder != task.DistMult:
			case r.Program.Parameter("decoder.weight") != nil:
				return s.refuse(&r.Options, "its weights have the name of a parameter of the program, "+
					"decoder.weight; take --decoder dot, or call the parameter otherwise")
			case r.BlockForm != gnn.BlockForms[0]:
				return s.refuse(&r.Options, "its weights have the name of the linear decoder of --blocks "+
					"%s, decoder.weight; take --decoder dot, or --blocks plain", r.BlockForm)
			}
			return nil
		},
	},
}
