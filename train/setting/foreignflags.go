package setting

import (
	"maps"
	"slices"
	"strings"

	"weft/internal/suggest"
)

// former are settings of earlier versions, with the value for which this version trains the same.
var former = map[string]string{
	"halo-delay": "0", "halo-smoothing": "none", "attention-gradient": "full",
}

// elsewhere says, for flags of training scripts of DGL, PyG and OGB and for those of former, what weft has in
// their place.
var elsewhere = meant([][3]string{
	{"layers", "is the number of layers", "num-layers n-layers nlayers num-conv-layers depth"},
	{"hidden", "is the width of hidden layers", "hidden-channels hidden-dim hidden-size hidden-feats " +
		"num-hidden n-hidden nhid hid hid-dim dim embed-dim num-units"},
	{"heads", "is the number of heads", "num-heads n-heads nheads nhead num-attention-heads"},
	{"output-heads", "is the number of heads of the last layer", "num-out-heads n-out-heads out-heads"},
	{"epochs", "is the number of epochs", "num-epochs n-epochs nepochs max-epochs num-epoch steps " +
		"iterations"},
	{"lr", "is the learning rate", "learning-rate rate eta"},
	{"weight-decay", "is the weight decay", "wd l2 l2norm l2-norm l2-penalty decay"},
	{"dropout", "is the dropout between layers", "drop drop-rate dropout-rate p-drop"},
	{"attention-dropout", "is the dropout on attention coefficients", "attn-drop attn-dropout att-dropout"},
	{"drop-edge", "leaves out edges in each epoch", "dropedge edge-dropout edge-drop dropout-edge"},
	{"label-input", "has labels of training vertices as input", "use-labels use-label label-reuse " +
		"labels-as-input mask-rate label-rate"},
	{"input-dropout", "is the dropout on the input features", "in-drop feat-drop input-drop"},
	{"patience", "is the number of epochs without improvement before it stops", "early-stop early-stopping " +
		"es-patience"},
	{"bases", "is the number of bases of R-GCN", "num-bases n-bases"},
	{"optimizer", "is the optimizer", "optim opt"},
	{"activation", "is the activation", "act nonlinearity"},
	{"residual", "adds each layer's input to its output", "skip skip-connections residual-connections " +
		"use-residual"},
	{"norm", "batch, layer, graph or pair normalises after each hidden layer", "batch-norm batchnorm " +
		"use-bn bn layer-norm layernorm graph-norm graphnorm pair-norm pairnorm"},
	{"model", "gives the model", "arch conv conv-type gnn gnn-type aggregator-type aggr"},
	{"", "the first argument is the graph: weft train DATASET|STORE", "dataset data graph graph-name " +
		"dataset-name root data-dir data-path"},
	{"seed", "is the seed", "random-seed rng-seed manual-seed"},
	{"eval-every", "is the number of epochs between two evaluations", "eval-steps log-steps eval-freq " +
		"log-every"},
	{"out", "is the directory of the run", "output output-dir save-dir log-dir logdir checkpoint-dir save " +
		"save-path model-path"},
	{"checkpoint-every", "is the number of epochs, or the time, between two checkpoints", "checkpoint ckpt " +
		"checkpoint-freq checkpoint-interval save-every save-freq save-interval save-steps"},
	{"resume", "RUN continues a run", "resume-from resume-from-checkpoint load-checkpoint ckpt-path restore"},
	{"link-split", "gives the shares of training, validation and test edges", "val-ratio test-ratio"},
	{"negatives", "is the number of negative edges for each training edge", "num-negs neg-ratio " +
		"negative-sampling-ratio neg-sampling-ratio num-neg"},
	{"threads", "is the number of threads of each worker", "num-threads n-threads nthreads num-cores"},
	{"precision", "bf16 stores and sends the values of vertices in half the bytes", "fp16 float16 amp " +
		"half bf16 bfloat16 mixed-precision mixed dtype use-amp"},
	{"parallel", "AXIS=N is the number of workers, as in graph=4", "workers num-workers n-workers " +
		"num-partitions num-parts num-trainers world-size nproc nproc-per-node num-procs"},
	{"device", "cuda computes on a card, and cpu, the default, does not", "gpu gpus cuda no-cuda use-gpu " +
		"num-gpus cpu accelerator"},
	{"", "training is full-batch: each epoch is one step over the whole graph", "batch-size batch " +
		"num-batches mini-batch test-batch-size eval-batch-size"},
	{"", "there is no sampling: each layer aggregates all neighbours of all vertices", "fanout fan-out " +
		"fanouts num-neighbors num-neighbours sampler sample-size neighbors walk-length"},
	{"", "the late halo was removed, and a layer reads rows of its own epoch; leave it out, and for a slow " +
		"link take --wire int8 or --halo cover", "halo-delay halo-smoothing"},
	{"", "stop was removed, and decoupled attention has its whole gradient; leave it " +
		"out", "attention-gradient"},
	{"", "add it to the loss in a loop of your own, by weft.compile; docs/loop.md has one", "regularization"},
})

// meaning is what weft has in place of another program's flag: a setting or a flag, and what it does. If name
// is empty, is is a sentence.
type meaning struct{ name, is string }

// meant makes the map by flag from a table, whose rows have what weft has and the flags.
func meant(table [][3]string) map[string]meaning {
	by := map[string]meaning{}
	for _, row := range table {
		for flag := range strings.FieldsSeq(row[2]) {
			by[flag] = meaning{row[0], row[1]}
		}
	}
	return by
}

// Elsewhere explains a flag of training scripts of DGL, PyG and OGB, or of an earlier version, as in "lr is
// the learning rate". name is the setting or flag in its place. Both are "" for any other word.
func Elsewhere(flag string) (explanation, name string) {
	m := elsewhere[strings.ReplaceAll(flag, "_", "-")]
	if m.name == "" {
		return m.is, ""
	}
	return "--" + m.name + " " + m.is, m.name
}

// FlagsElsewhere are the flags that Elsewhere explains, ascending.
func FlagsElsewhere() []string { return slices.Sorted(maps.Keys(elsewhere)) }

// Unknown is the advice for a word that is no setting: the setting that was meant, or similar names, or where
// all are listed.
func Unknown(word string) string {
	names := settingNames()
	if now, _ := Elsewhere(word); now != "" {
		return now
	}
	if near := suggest.Nearest(word, names); near != "" {
		return suggest.OneOf(word, names)
	}
	if like := suggest.Like(word, names); like != nil {
		return "it may be " + strings.Join(like, ", ")
	}
	return "weft train --help-all lists all settings"
}
